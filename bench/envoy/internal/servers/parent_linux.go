package servers

import (
	"os/exec"
	"syscall"
)

// endWithParent lets the system end the process if this one ends without having stopped
// it, as a test does that panics.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
