// Package machine knows how much memory a process may have.
package machine

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Memory returns the bytes that this process may have at most, and whose limit that is:
// the machine's memory, or a lower limit of its cgroup or of one above that. It is not
// ok where neither can be read, such as outside of Linux.
func Memory() (bytes uint64, of string, ok bool) { return memory(os.DirFS("/")) }

func memory(root fs.FS) (bytes uint64, of string, ok bool) {
	lower := func(limit uint64, valid bool, what string) {
		if valid && (!ok || limit < bytes) {
			bytes, of, ok = limit, what, true
		}
	}
	total, valid := memTotal(root)
	lower(total, valid, "the memory of this machine")
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) { // NUMBER:CONTROLLERS:PATH
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		folder, file := "sys/fs/cgroup", "memory.max"
		switch {
		case fields[1] == "": // version 2
		case strings.Contains(","+fields[1]+",", ",memory,"):
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, _ := fs.ReadFile(root, path.Join(folder, group, file))
			limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // not "max"
			lower(limit, err == nil, "the memory limit of this process's cgroup")
			if group == "/" {
				break
			}
		}
	}
	return bytes, of, ok
}

// memTotal returns the machine's memory.
func memTotal(root fs.FS) (bytes uint64, ok bool) {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			kib, err := strconv.ParseUint(fields[1], 10, 53)
			return kib << 10, err == nil
		}
	}
	return 0, false
}
