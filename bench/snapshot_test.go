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

// BenchmarkSnapshot saves snapshots of 256 MiB while one goroutine decides without a
// pause, or as many as there are cores, and tells how long decisions took, from before
// to after: the longest, and how many took more than 1 ms and 5 ms for each second. Of
// that, how long all of them together waited for a mutex, and how often a goroutine was
// ready for more than 1 ms before it had a processor. To nothing it saves nothing, to
// have something to compare with: what else the machine does makes decisions wait as
// well.
func BenchmarkSnapshot(b *testing.B) {
	memory, keys, pause := 256<<20, 4_000_000, 5*time.Second
	if testing.Short() {
		memory, keys, pause = memory/64, keys/64, pause/64
	}
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 60_000, Window: 10 * time.Second, MemoryBytes: memory, Seed: 1})
	require.NoError(b, err)
	defer l.Close()
	for i := range keys {
		l.Allow(fmt.Sprint(i)) // so that the system has handed out all memory
	}
	path := filepath.Join(b.TempDir(), "limiter")
	for _, to := range []struct {
		name string
		save func() error
	}{
		{"nothing", func() error { time.Sleep(pause); return nil }},
		{"file", func() error { return l.Save(path) }},
	} {
		for deciding := 1; deciding <= runtime.NumCPU(); deciding++ {
			b.Run(fmt.Sprintf("to=%s/deciding=%d", to.name, deciding), func(b *testing.B) {
				stop := make(chan struct{})
				waits := make([]waits, deciding)
				began, blocked, queued := time.Now(), blockedSeconds(), queuedLong()
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
					all.over1 += w.over1
					all.over5 += w.over5
					all.decisions += w.decisions
				}
				seconds := time.Since(began).Seconds()
				b.ReportMetric(float64(all.worst.Microseconds()), "worst-µs")
				b.ReportMetric(float64(all.over1)/seconds, "over-1ms/s")
				b.ReportMetric(float64(all.over5)/seconds, "over-5ms/s")
				b.ReportMetric(1e6*(blockedSeconds()-blocked), "blocked-µs")
				b.ReportMetric((queuedLong()-queued)/seconds, "queued-over-1ms/s")
				b.ReportMetric(float64(all.decisions)/seconds, "decisions/s")
			})
		}
	}
}

// blockedSeconds returns for how long goroutines have waited for mutexes, all together.
func blockedSeconds() float64 {
	s := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64()
}

// queuedLong returns how often goroutines have been ready for more than 1 ms before
// they ran.
func queuedLong() (n float64) {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	for i, count := range h.Counts {
		if h.Buckets[i] > 1e-3 {
			n += float64(count)
		}
	}
	return n
}

// waits is how long decisions took.
type waits struct {
	worst                   time.Duration
	over1, over5, decisions int // ms
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
			w.over1++
		}
		if took > 5*time.Millisecond {
			w.over5++
		}
	}
}
