package servers

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used.
type Usage struct {
	CPU   time.Duration // since it started, in user and kernel mode
	RSS   int           // bytes of memory that it occupies
	Files int           // open file descriptors
}

const ticksPerSecond = 100 // USER_HZ, of /proc/PID/stat, on every architecture that Go runs on

// Usage reads /proc, so it needs Linux.
func (p *Process) Usage() (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", p.PID())
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, err
	}
	// The name, in parentheses, may have spaces. utime and stime are fields 14 and 15
	// of all.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return u, err
		}
		u.CPU += time.Duration(ticks) * time.Second / ticksPerSecond
	}
	statm, err := os.ReadFile(dir + "statm")
	if err != nil {
		return u, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		return u, err
	}
	u.RSS = pages * os.Getpagesize()
	files, err := os.ReadDir(dir + "fd")
	u.Files = len(files)
	return u, err
}
