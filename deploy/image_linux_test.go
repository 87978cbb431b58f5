package deploy

import "syscall"

// inImage lets a process see nothing but a folder, as nobody.
func inImage(folder string) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Chroot: folder, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
}
