package whatif

import (
	"testing"
)

// BenchmarkAdd counts a million requests of a day with the default windows and limits.
// It reports ns and bytes a request.
func BenchmarkAdd(b *testing.B) {
	for _, spec := range []string{
		"zipf:1.0,keys=200000,requests=1000000,windows=24,window=6m",
		"attack:3,keys=100000,abusers=1000,limit=100,window=10m,windows=2,requests=1000000",
		"scan:0.9,keys=10000,requests=1000000,windows=24,window=6m",
	} {
		log := workload(b, spec)
		b.Run("log="+spec, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a, err := New(Options{Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				a.Add(log)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(log)), "ns/request")
		})
	}
}
