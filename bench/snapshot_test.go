package bench

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// BenchmarkSnapshot saves snapshots of 256 MiB while as many goroutines as there are cores
// decide without a pause, and tells how long decisions took at the most, from before to after;
// how many took more than 1 ms, for each second; and how long all of them together waited for a
// mutex. To nothing it saves nothing, to have something to compare with: what else the machine
// does makes decisions wait as well.
func BenchmarkSnapshot(b *testing.B) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 60_000, Window: 10 * time.Second, MemoryBytes: 256 << 20, Seed: 1})
	require.NoError(b, err)
	defer l.Close()
	for i := range 4_000_000 {
		l.Allow(fmt.Sprint(i)) // so that the system has handed out all memory
	}
	path := filepath.Join(b.TempDir(), "limiter")
	for _, to := range []struct {
		name string
		save func() error
	}{
		{"nothing", func() error { time.Sleep(5 * time.Second); return nil }},
		{"file", func() error { return l.Save(path) }},
	} {
		b.Run("to="+to.name, func(b *testing.B) {
			stop := make(chan struct{})
			waits := make([]waits, runtime.NumCPU())
			began, blocked := time.Now(), blockedSeconds()
			var wg sync.WaitGroup
			for i := range waits {
				wg.Go(func() { waits[i].decide(l, uint64(i), stop) })
			}
			for b.Loop() {
				require.NoError(b, to.save())
			}
			close(stop)
			wg.Wait()
			all := waits[0]
			for _, w := range waits[1:] {
				all.worst = max(all.worst, w.worst)
				all.long += w.long
				all.decisions += w.decisions
			}
			b.ReportMetric(float64(all.worst.Microseconds()), "worst-µs")
			b.ReportMetric(float64(all.long)/time.Since(began).Seconds(), "over-1ms/s")
			b.ReportMetric(1e6*(blockedSeconds()-blocked), "blocked-µs")
			b.ReportMetric(float64(all.decisions), "decisions")
		})
	}
}

// blockedSeconds returns for how long goroutines have waited for mutexes, all together.
func blockedSeconds() float64 {
	s := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64()
}

// waits is how long decisions took.
type waits struct {
	worst           time.Duration
	long, decisions int
}

// decide decides until it is to stop.
func (w *waits) decide(l *sketchlimit.Limiter, seed uint64, stop <-chan struct{}) {
	r := rand.New(rand.NewPCG(seed, 2))
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprint(r.Uint64())
	}
	before := time.Now()
	for ; ; w.decisions++ {
		select {
		case <-stop:
			return
		default:
		}
		l.Allow(keys[r.IntN(len(keys))])
		now := time.Now()
		took := now.Sub(before)
		before = now
		w.worst = max(w.worst, took)
		if took > time.Millisecond {
			w.long++
		}
	}
}
