package tune_test

import (
	"testing"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// BenchmarkTune runs what takes long: high limits, few units, sub-windows, goals that
// are hard to see in a simulation, few keys and many.
func BenchmarkTune(b *testing.B) {
	million := tune.Traffic{Keys: 1_000_000, Requests: 5_000_000}
	abusers := tune.Traffic{Keys: 1_000_000, Abusers: 0.01}
	for i, c := range []struct {
		name    string
		traffic tune.Traffic
		goal    tune.Goal
	}{
		{"limit=1", million, tune.Goal{Limit: 1, FalseDenialRate: 1e-6}},
		{"limit=5", abusers, tune.Goal{Limit: 5, FalseDenialRate: 1e-5}},
		{"limit=10", abusers, tune.Goal{Limit: 10, FalseDenialRate: 1e-5}},
		{"limit=100", million, tune.Goal{Limit: 100, FalseDenialRate: 1e-5}},
		{"limit=100/abusers", abusers, tune.Goal{Limit: 100, FalseDenialRate: 1e-5}},
		{"limit=100/fixed", abusers, tune.Goal{Limit: 100, Algorithm: sketchlimit.FixedWindow, FalseDenialRate: 1e-5}},
		{"limit=1000", abusers, tune.Goal{Limit: 1000, FalseDenialRate: 1e-5}},
		{"limit=10000", abusers, tune.Goal{Limit: 10_000, FalseDenialRate: 1e-5}},
		{"limit=2147483647", abusers, tune.Goal{Limit: 1<<31 - 1, FalseDenialRate: 1e-5}},
		{"zipf", tune.Traffic{Keys: 1_000_000, Exponent: 1}, tune.Goal{Limit: 100, FalseDenialRate: 1e-6}},
		{"scan", tune.Traffic{Keys: 1_000_000, Exponent: 1, OneHit: 0.9}, tune.Goal{Limit: 100, FalseDenialRate: 1e-6}},
		{"rate=1e-12", abusers, tune.Goal{Limit: 100, FalseDenialRate: 1e-12}},
		{"rate=1e-12/limit=5", abusers, tune.Goal{Limit: 5, FalseDenialRate: 1e-12}},
		{"lost=1e-9", abusers, tune.Goal{Limit: 100, LostShare: 1e-9}},
		{"subwindows=10", abusers, tune.Goal{Limit: 100, SubWindows: 10, FalseDenialRate: 1e-5}},
		{"subwindows=60", abusers, tune.Goal{Limit: 1000, SubWindows: 60, FalseDenialRate: 1e-5}},
		{"bucket/limit=5", abusers, tune.Goal{Limit: 5, Algorithm: sketchlimit.TokenBucket, FalseDenialRate: 1e-5}},
		{"bucket/limit=100", abusers, tune.Goal{Limit: 100, Algorithm: sketchlimit.TokenBucket, FalseDenialRate: 1e-5}},
		{"bucket/limit=10000", abusers, tune.Goal{Limit: 10_000, Burst: 100, Algorithm: sketchlimit.TokenBucket, FalseDenialRate: 1e-5}},
		{"memory=1MiB", abusers, tune.Goal{Limit: 100, MemoryBytes: 1 << 20}},
		{"memory=1GiB", abusers, tune.Goal{Limit: 1000, MemoryBytes: 1 << 30}},
		{"keys=100", tune.Traffic{Keys: 100}, tune.Goal{Limit: 100, FalseDenialRate: 1e-5}},
		{"keys=1e9", tune.Traffic{Keys: 1_000_000_000, Abusers: 0.01}, tune.Goal{Limit: 100, FalseDenialRate: 1e-5}},
	} {
		if testing.Short() && i%4 > 0 { // enough to see that all works
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			var f tune.Forecast
			for b.Loop() {
				var err error
				if _, f, err = tune.Plan(c.traffic, c.goal); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(f.MemoryBytes)/float64(c.traffic.Keys), "B/key")
			b.ReportMetric(f.Stated().FalseDenialRate, "false-denials")
			b.ReportMetric(f.Stated().LostShare, "lost")
			b.ReportMetric(f.BreakingPoint, "breaking-point")
		})
	}
}
