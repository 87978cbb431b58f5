// Package servers starts what the rate limit service is held against, and the service
// itself, as processes on free ports of the loopback, and stops them by their process
// ids.
package servers

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a server that runs.
type Process struct {
	name   string
	cmd    *exec.Cmd
	log    tail
	exited chan struct{} // closed when it has ended
}

var errExited = errors.New("the server has ended")

// start runs a command until it is stopped or this process ends. It returns when ready
// returns no error, which it tries for half a minute.
func start(name string, cmd *exec.Cmd, ready func() error) (*Process, error) {
	p := &Process{name: name, cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	endWithParent(cmd)
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	err := Eventually(30*time.Second, func() error {
		select {
		case <-p.exited:
			return stop{errExited}
		default:
			return ready()
		}
	})
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w: %s", name, err, p.Log())
	}
	return p, nil
}

// run starts the process and waits for its end. Linux takes the end of the thread that
// has started a process for that of its parent, so that thread must stay.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.cmd.Wait()
		close(p.exited)
	}
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stop asks the process to end (SIGTERM), and ends it if it has not after ten seconds,
// which is an error.
func (p *Process) Stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return nil
	case <-time.After(10 * time.Second):
		p.Kill()
		return fmt.Errorf("%s: runs ten seconds after SIGTERM: %s", p.name, p.Log())
	}
}

// Kill ends the process at once. It does nothing to one that has ended.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

// Log returns the end of what the process has printed.
func (p *Process) Log() string { return p.log.String() }

// tail keeps the last bytes that were written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	t.buf.Next(max(0, t.buf.Len()-tailBytes))
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// stop is an error after which [Eventually] does not try again.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// Eventually tries until there is no error any more, or for so long, and returns the
// last one.
func Eventually(atMost time.Duration, try func() error) error {
	for deadline := time.Now().Add(atMost); ; time.Sleep(5 * time.Millisecond) {
		err := try()
		if err == nil || errors.As(err, new(stop)) || time.Now().After(deadline) {
			return err
		}
	}
}

// tries is how often a server may end at its start, mostly because of a port that
// somebody else has taken meanwhile.
const tries = 3

// freePorts returns addresses of the loopback that nobody listens at.
func freePorts(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are chosen, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}
