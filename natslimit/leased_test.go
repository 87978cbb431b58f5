package natslimit

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

var _ httplimit.Limiter = (*Leased)(nil)

// TestLeased: four machines share a limit over a server that stops, and comes back with
// what it had, or without.
func TestLeased(t *testing.T) {
	const machines, limit, window = 4, 40, 2 * time.Second
	for _, empty := range []bool{false, true} {
		t.Run(fmt.Sprint("empty=", empty), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := startServer(t, server.Options{StoreDir: dir})
			port := s.Addr().(*net.TCPAddr).Port
			var all []*Leased
			for range machines {
				l, err := NewLeased(connect(t, s.ClientURL()), sketchlimit.Config{Limit: limit, Window: window, Keys: 1000, Seed: 3, Algorithm: sketchlimit.FixedWindow},
					LeasedOptions{Machines: machines, Lease: time.Second, Wait: 50 * time.Millisecond, Timeout: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}, 1)
				require.NoError(t, err)
				t.Cleanup(l.Leave)
				all = append(all, l)
			}
			var mu sync.Mutex
			units, sum := map[int64]int{}, 0 // by window; -1: begun in one and ended in the next
			var stop atomic.Bool
			var load sync.WaitGroup
			generation := func() int64 { return time.Now().UnixMilli() / window.Milliseconds() }
			first := generation()
			for _, l := range all {
				load.Go(func() {
					for !stop.Load() {
						g := generation()
						if !l.Allow("hot") {
							time.Sleep(time.Millisecond) // an attacker's pause
							continue
						}
						if generation() != g {
							g = -1
						}
						mu.Lock()
						units[g]++
						sum++
						mu.Unlock()
					}
				})
			}
			goesOn := func(windows int64) {
				end := generation() + windows
				eventually(t, "a window", func() bool { return generation() >= end })
			}
			goesOn(4)
			s.Shutdown()
			s.WaitForShutdown()
			goesOn(1)
			if empty {
				dir = t.TempDir()
			}
			startServer(t, server.Options{StoreDir: dir, Port: port})
			goesOn(4)
			stop.Store(true)
			load.Wait()
			windows := int(generation()-first) + 1
			t.Logf("%d windows, %d units, by window %v, %+v", windows, sum, units, all[0].Stats())
			for g, n := range units {
				if g >= 0 {
					require.LessOrEqual(t, n, limit)
				}
			}
			require.LessOrEqual(t, sum, windows*limit)
			require.Greater(t, sum, 4*limit)
			resets := all[0].Stats().Resets
			if empty {
				require.Greater(t, resets, uint64(1))
			}
			require.NoError(t, all[0].Close())
			require.False(t, all[0].Allow("other"), "after Close")
		})
	}
}
