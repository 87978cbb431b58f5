package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
)

// steady is a load of the full-size accuracy table, as a busy service has it, and the
// memory each limiter gets.
type steady struct {
	workload  string
	limit     int
	memory    int
	algorithm sketchlimit.Algorithm
}

// steadyState is the table.
func steadyState() (all []steady) {
	for _, memory := range []int{256 << 10, 384 << 10, 512 << 10, 1 << 20} {
		for _, workload := range []string{
			"zipf:0.8,keys=1e6,requests=25e6,windows=5",
			"zipf:1.1,keys=1e6,requests=25e6,windows=5",
			"uniform,keys=1e6,requests=25e6,windows=5",
			"attack:3,keys=1e6,abusers=1e4,limit=100,requests=30e6,windows=5",
			"scan:0.375,exponent=0.8,keys=1e6,requests=40e6,windows=5", // in a window three million keys that come once
		} {
			all = append(all, steady{workload, 100, memory, sketchlimit.SlidingWindow})
		}
	}
	return append(all,
		steady{"uniform,keys=2e5,requests=24e5,windows=6", 5, 2 << 20, sketchlimit.SlidingWindow},
		steady{"uniform,keys=1e6,requests=6e6,windows=6", 1, 4 << 20, sketchlimit.SlidingWindow},
		steady{"zipf:0.8,keys=1e6,requests=12e6,windows=4", 100, 4 << 20, sketchlimit.TokenBucket},
		steady{"uniform,keys=1e6,requests=12e6,windows=4", 100, 4 << 20, sketchlimit.TokenBucket},
		steady{"attack:2,keys=1e6,abusers=1e4,limit=100,requests=12e6,windows=4", 100, 4 << 20, sketchlimit.TokenBucket},
	)
}

// BenchmarkSteadyState replays each workload against the exact algorithm and reports
// what the limiter got wrong: false denials over requests of light keys, lost
// units over those the exact algorithm admits, and over-admissions, all from the
// first window on.
func BenchmarkSteadyState(b *testing.B) {
	for _, s := range steadyState() {
		b.Run(fmt.Sprintf("algorithm=%v/limit=%d/memory=%dKiB/%s", s.algorithm, s.limit, s.memory>>10, s.workload), func(b *testing.B) {
			w, err := accuracy.ParseWorkload(s.workload, accuracy.Workload{Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			if testing.Short() {
				if w.Requests > 5e6 {
					b.Skip("half a minute of replay")
				}
				w.Keys, w.Requests = w.Keys/16, w.Requests/16
			}
			src, err := w.Source()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r, err := accuracy.Replay(context.Background(), src, sketchlimit.Config{
					Limit: s.limit, Window: time.Minute, Algorithm: s.algorithm, MemoryBytes: s.memory, Seed: 1,
				}, accuracy.Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(1e6*r.FalseDenialRate, "false-denials/M")
				b.ReportMetric(1e6*r.LostShare, "lost/M")
				b.ReportMetric(float64(r.OverAdmissions), "over-admissions")
				b.ReportMetric(r.EstimateError.Mean(), "error-units")
				b.ReportMetric(1e6*r.LiveFalseDenialRateLast, "live/M")
				b.ReportMetric(float64(r.Memory.Stated)/float64(r.PeakKeys), "B/key")
				b.ReportMetric(r.Memory.OraclePerPeakKey, "exact-B/key")
				b.ReportMetric(0, "ns/op") // the replay's time is no figure of the limiter
			}
		})
	}
}
