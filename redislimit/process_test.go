package redislimit

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

const (
	processes   = 8
	processKeys = 50
)

// processConfigs are what processes share. No test may outlast a window.
var processConfigs = []Config{
	{Limit: 100, Window: time.Hour, Algorithm: sketchlimit.SlidingWindow, MemoryBytes: 1 << 20, Failure: FailClosed},
	{Limit: 100, Window: time.Hour, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 1 << 20, Failure: FailClosed},
	{Limit: 100, Window: time.Hour, Algorithm: sketchlimit.TokenBucket, MemoryBytes: 1 << 20, Failure: FailClosed},
}

// TestMain is also what the processes of TestProcesses and TestLeasedProcesses run.
func TestMain(m *testing.M) {
	if addr := os.Getenv("REDISLIMIT_TEST_ADDR"); addr != "" {
		if err := child(addr); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	if addr := os.Getenv("REDISLIMIT_TEST_LEASED"); addr != "" {
		fmt.Println("error:", leasedChild(addr))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child takes units at the times that it reads, each line one, 40 times the one hot key and
// each other key twice, and answers how many were admitted: hot, others.
func child(addr string) error {
	var limiters []*Strict
	for _, c := range processConfigs {
		c.Timeout = 10 * time.Minute
		l, err := NewStrict(newClient(addr), c)
		if err != nil {
			return err
		}
		limiters = append(limiters, l)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var which int
		var at int64
		if _, err := fmt.Sscan(in.Text(), &which, &at); err != nil {
			return err
		}
		var hot, others, failed atomic.Int64
		take := func(key string, admitted *atomic.Int64) {
			d, err := limiters[which].TakeAt(context.Background(), time.UnixMicro(at), key, 1)
			if err != nil || limiters[which].Health().Err != nil {
				failed.Add(1)
			}
			if d.Allowed {
				admitted.Add(1)
			}
		}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				take("hot", &hot)
				take("hot", &hot)
				for k := i; k < 2*processKeys; k += 20 {
					take(fmt.Sprint("key", k%processKeys), &others)
				}
			})
		}
		all.Wait()
		fmt.Println(hot.Load(), others.Load(), failed.Load())
	}
	return in.Err()
}

// TestProcesses lets processes race for one hot key and for keys that stay below the limit,
// while windows turn between their races and, for the last one, during it. Of the hot key
// exactly that is admitted in all which the exact algorithm admits.
func TestProcesses(t *testing.T) {
	addr := redistest.New(t).Addr
	var ask []func(which int, at time.Time) (hot, others int)
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "REDISLIMIT_TEST_ADDR="+addr)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { in.Close(); cmd.Wait() })
		lines := bufio.NewReader(out)
		ask = append(ask, func(which int, at time.Time) (hot, others int) {
			var failed int
			fmt.Fprintln(in, which, at.UnixMicro())
			line, err := lines.ReadString('\n')
			if _, scanned := fmt.Sscan(line, &hot, &others, &failed); err != nil || scanned != nil || failed > 0 {
				t.Errorf("process: %q, %v", strings.TrimSpace(line), err)
			}
			return hot, others
		})
	}
	// race lets all processes take at once, every other one later.
	race := func(which int, at time.Time, later time.Duration) (hot, others int) {
		var h, o atomic.Int64
		var all sync.WaitGroup
		for i, one := range ask {
			all.Go(func() {
				hot, others := one(which, at.Add(time.Duration(i%2)*later))
				h.Add(int64(hot))
				o.Add(int64(others))
			})
		}
		all.Wait()
		return int(h.Load()), int(o.Load())
	}
	for which, c := range processConfigs {
		t.Run(c.Algorithm.String(), func(t *testing.T) {
			want := oracle(t, c)
			start := time.UnixMicro(int64(500_000) * c.Window.Microseconds())
			for _, elapsed := range []float64{0, 0.5, 1, 1.1, 1.25, 2.75, 3.5, 6} {
				at := start.Add(time.Duration(elapsed * float64(c.Window)))
				free := want.PeekAt(at, "hot", 1).Remaining
				hot, _ := race(which, at, 0)
				require.Equal(t, free, hot, "at %v windows", elapsed)
				want.Charge(at, "hot", hot)
			}
			// From a whole quota: half of the processes are in the next window already.
			at := start.Add(10*c.Window - time.Microsecond)
			hot, others := race(which, at, 2*time.Microsecond)
			require.LessOrEqual(t, hot, 2*c.Limit)
			require.GreaterOrEqual(t, hot, c.Limit-1) // a bucket has not filled for those who are behind
			require.Equal(t, processes*2*processKeys, others)
		})
	}
}
