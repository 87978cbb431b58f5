package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// childFlag begins the arguments of a process that serves the kind process.
const childFlag = "adversary-child"

// playProcess lets a process of its own stand still, as a suspended machine or a paused
// container does, and has it judge its first decisions after that; another one has
// thousands of limiters that nobody asks, and must be idle.
func playProcess(t *trial) {
	args := t.b.make.child
	if args == nil {
		args = []string{os.Args[0], childFlag}
	}
	t.steps++
	what := []string{"freeze", "idle"}[t.IntN(2)]
	cmd := exec.Command(args[0], append(args[1:], what)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.fail("setup", "%v", err)
		return
	}
	defer cmd.Wait()
	for lines := bufio.NewScanner(out); lines.Scan(); t.steps++ {
		rule, text, wrong := strings.Cut(lines.Text(), ": ")
		switch {
		case wrong:
			t.fail(rule, "%s", text)
		case lines.Text() == "stop me":
			cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(300 * time.Millisecond)
			cmd.Process.Signal(syscall.SIGCONT)
		}
	}
}

// child is the process. It writes what is wrong, or that it wants to be stopped.
func child(what string, m maker) {
	switch what {
	case "freeze":
		childFreeze(m)
	case "idle":
		childIdle(m)
	}
}

// childFreeze uses up a window, is idle and then stopped. The first decision after that
// is one in a new window.
func childFreeze(m maker) {
	const window = 100 * time.Millisecond
	generation := func(t time.Time) int64 { return t.UnixNano() / int64(window) }
	for range 3 {
		l, err := m.limiter(sketchlimit.Config{Limit: 3, Window: window, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 16 << 10})
		if err != nil {
			fmt.Println("setup:", err)
			return
		}
		for l.Allow("key") {
		}
		used := time.Now()
		time.Sleep(25 * time.Millisecond) // idle before it is stopped
		fmt.Println("stop me")
		for {
			time.Sleep(25 * time.Millisecond)
			now := time.Now()
			begun := now.UnixNano() % int64(window)
			if generation(now) == generation(used) || begun < int64(5*time.Millisecond) || now.Sub(used) < 2*window {
				continue
			}
			if d := l.Take("key", 1); !d.Allowed && generation(time.Now()) == generation(now) {
				fmt.Printf("frozen: denied %v after the quota was used up, %v after the window began: %+v\n",
					now.Sub(used), time.Duration(begun), d)
			}
			break
		}
		l.Close()
	}
}

// childIdle has limiters that are not asked any more.
func childIdle(m maker) {
	all := make([]subject, 2000)
	for i := range all {
		var err error
		if all[i], err = m.limiter(sketchlimit.Config{Limit: 3, Window: time.Minute, MemoryBytes: 8 << 10, Seed: 1}); err != nil {
			fmt.Println("setup:", err)
			return
		}
		all[i].Allow("key")
	}
	used := func() time.Duration {
		var u syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	time.Sleep(100 * time.Millisecond)
	before := used()
	time.Sleep(500 * time.Millisecond)
	if took := used() - before; took > 50*time.Millisecond { // a tenth of a core
		fmt.Printf("busy: %d limiters that nobody asks took %v of 500ms\n", len(all), took)
	}
	for _, l := range all {
		l.Close()
	}
}
