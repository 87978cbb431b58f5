package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// BenchmarkSnapshot writes snapshots of 256 MiB while every processor decides without a
// pause, and tells the longest that a decision took, from before to after. To nothing it
// waits as long as a snapshot takes, to have something to compare with.
func BenchmarkSnapshot(b *testing.B) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 60_000, Window: 10 * time.Second, MemoryBytes: 256 << 20, Seed: 1})
	require.NoError(b, err)
	defer l.Close()
	path := filepath.Join(b.TempDir(), "limiter")
	for _, to := range []struct {
		name string
		save func() error
	}{
		{"nothing", func() error { time.Sleep(5 * time.Second); return nil }},
		{"discard", func() error { _, err := l.WriteTo(io.Discard); return err }},
		{"file", func() error { return l.Save(path) }},
	} {
		b.Run("to="+to.name, func(b *testing.B) {
			stop := make(chan struct{})
			waits := make([]waits, runtime.GOMAXPROCS(0))
			var wg sync.WaitGroup
			for i := range waits {
				wg.Go(func() { waits[i].decide(l, uint64(i), stop) })
			}
			time.Sleep(time.Second)
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
			b.ReportMetric(float64(all.long), "over-1ms")
			b.ReportMetric(float64(all.decisions), "decisions")
		})
	}
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
