package budget_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// BenchmarkHold is Hold and Settle of a million keys, 100,000 of them in flight, beside
// Take of the same limiters.
func BenchmarkHold(b *testing.B) {
	const keys, open = 1_000_000, 100_000
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("user-", i)
	}
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		c := sketchlimit.Config{Limit: 1000, Window: time.Hour, Algorithm: a, Keys: keys, Seed: 1}
		b.Run(a.String()+"/take", func(b *testing.B) {
			l, err := sketchlimit.New(c)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportAllocs()
			for i := range b.N {
				l.Take(names[i*7919%keys], 1)
			}
		})
		b.Run(a.String()+"/hold and settle", func(b *testing.B) {
			t, err := budget.New(budget.Config{Limits: []sketchlimit.Config{c}, InFlight: open + 1, HoldFor: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			holds := make([]budget.Hold, open)
			for i := range holds {
				holds[i], _ = t.Hold(names[i*7919%keys], 2)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				n := i % open
				holds[n].Settle(1)
				holds[n], _ = t.Hold(names[(i+open)*7919%keys], 2)
			}
		})
	}
}
