package redislimit

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

var _ httplimit.Limiter = (*Leased)(nil)

const (
	leasedMachines = 4
	leasedLimit    = 40
	leasedWindow   = 2 * time.Second
)

func newLeased(addr string) (*Leased, error) {
	return NewLeased(newClient(addr), sketchlimit.Config{Limit: leasedLimit, Window: leasedWindow, Keys: 1000, Seed: 3, Algorithm: sketchlimit.FixedWindow},
		LeasedOptions{Machines: leasedMachines + 2, Lease: time.Second, Wait: 50 * time.Millisecond, Timeout: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
}

// leasedChild asks for one hot key, without a pause to speak of, and prints when it began
// and ended each request that was admitted, in ms.
func leasedChild(addr string) error {
	l, err := newLeased(addr)
	if err != nil {
		return err
	}
	for {
		begin := time.Now()
		if l.Allow("hot") {
			fmt.Println(begin.UnixMilli(), time.Now().UnixMilli())
			continue
		}
		time.Sleep(time.Millisecond)
	}
}

// process is a machine of its own.
type process struct {
	cmd   *exec.Cmd
	proxy *redistest.Proxy
}

// admissions are those of all processes, by the window in which they began and ended;
// under -1 those that began in one window and ended in the next.
type admissions struct {
	mu    sync.Mutex
	units map[int64]int
	sum   int
}

func (a *admissions) start(t testing.TB, proxy *redistest.Proxy) *process {
	p := &process{exec.Command(os.Args[0]), proxy}
	p.cmd.Env = append(os.Environ(), "REDISLIMIT_TEST_LEASED="+proxy.Addr)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var begin, end int64
			if _, err := fmt.Sscan(lines.Text(), &begin, &end); err != nil {
				continue
			}
			g := begin / leasedWindow.Milliseconds()
			if end/leasedWindow.Milliseconds() != g {
				g = -1
			}
			a.mu.Lock()
			a.units[g]++
			a.sum++
			a.mu.Unlock()
		}
	}()
	return p
}

func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
}

func (a *admissions) total() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sum
}

// TestLeasedProcesses: four processes share a limit while one is killed, one is paused,
// one is cut off and the server is killed, with all that it has.
func TestLeasedProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a := &admissions{units: map[int64]int{}}
	var all []*process
	for range leasedMachines {
		all = append(all, a.start(t, redistest.NewProxy(t, server.Addr)))
	}
	first := time.Now().UnixMilli() / leasedWindow.Milliseconds()
	goesOn := func(what string, windows int64) {
		end := time.Now().UnixMilli()/leasedWindow.Milliseconds() + windows
		redistest.Eventually(t, what, func() bool { return time.Now().UnixMilli()/leasedWindow.Milliseconds() >= end })
	}
	goesOn("that claims are granted", 3)
	all[0].kill()
	all[0] = a.start(t, all[0].proxy)
	goesOn("a killed process", 1)
	require.NoError(t, syscall.Kill(all[1].cmd.Process.Pid, syscall.SIGSTOP))
	all[2].proxy.Refuse(true)
	goesOn("a paused process and one that is cut off", 2)
	require.NoError(t, syscall.Kill(all[1].cmd.Process.Pid, syscall.SIGCONT))
	all[2].proxy.Refuse(false)
	goesOn("a whole group", 1)
	server.Kill()
	goesOn("no server", 1)
	require.NoError(t, server.Restart())
	before := a.total()
	goesOn("an empty server", 4)
	require.Greater(t, a.total(), before, "shares, and then claims")
	for _, p := range all {
		p.kill()
	}
	last := time.Now().UnixMilli() / leasedWindow.Milliseconds()
	a.mu.Lock()
	defer a.mu.Unlock()
	t.Logf("%d windows, %d units, by window %v", last-first+1, a.sum, a.units)
	for g, n := range a.units {
		if g >= 0 {
			require.LessOrEqual(t, n, leasedLimit, "window %d", g)
		}
	}
	require.LessOrEqual(t, a.sum, leasedLimit*int(last-first+1))
	require.Greater(t, a.sum, 3*leasedLimit)
}

func TestLeasedRefuses(t *testing.T) {
	c := sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 100, Seed: 1}
	for text, change := range map[string]func(*sketchlimit.Config, *LeasedOptions){
		"redislimit: Machines 0, must be 1 … 1024":                           func(_ *sketchlimit.Config, o *LeasedOptions) { o.Machines = 0 },
		"redislimit: Lease 1ns, must be 1s … 8784h0m0s":                      func(_ *sketchlimit.Config, o *LeasedOptions) { o.Lease = 1 },
		"redislimit: Entries -1, must be 0 … 16777216":                       func(_ *sketchlimit.Config, o *LeasedOptions) { o.Entries = -1 },
		"redislimit: Failure 1, must be FailShare, FailOpen or FailClosed":   func(_ *sketchlimit.Config, o *LeasedOptions) { o.Failure = FailLocal },
		"redislimit: Prefix \"a{b\", must be without braces":                 func(_ *sketchlimit.Config, o *LeasedOptions) { o.Prefix = "a{b" },
		"redislimit: Seed 0, must be the same secret number on all machines": func(c *sketchlimit.Config, _ *LeasedOptions) { c.Seed = 0 },
		"redislimit: Algorithm bucket, must be a window: unsupported operation": func(c *sketchlimit.Config, _ *LeasedOptions) {
			c.Algorithm = sketchlimit.TokenBucket
		},
		"redislimit: sketchlimit: Limit 0, must be 1 … 2147483647": func(c *sketchlimit.Config, _ *LeasedOptions) { c.Limit = 0 },
	} {
		c, o := c, LeasedOptions{Machines: 2}
		change(&c, &o)
		_, err := NewLeased(newClient("127.0.0.1:1"), c, o)
		require.EqualError(t, err, text)
	}
	_, err := NewLeased(nil, c, LeasedOptions{Machines: 2})
	require.ErrorIs(t, err, errNoClient)
}
