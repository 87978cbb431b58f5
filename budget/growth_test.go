package budget_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit/books"
)

// While its limiter grows and shrinks with the crowd, no key settles and holds more
// than the limit.
func TestWhileGrowing(t *testing.T) {
	for name, c := range map[string]sketchlimit.Config{"sliding": sliding(20, time.Second), "fixed": fixed(20, time.Second)} {
		t.Run(name, func(t *testing.T) {
			c.MemoryBytes, c.MaxMemoryBytes = 8<<10, 1<<20
			b := with(t, 1000, time.Hour, c)
			exact, held := books.New(c, c.Window), map[string]int{}
			random := rand.New(rand.NewPCG(1, 2))
			var open []*entry
			sizes := map[int]bool{}
			for step := range 60_000 {
				b.now = b.now.Add(time.Duration(random.Int64N(int64(time.Millisecond))))
				if step/10_000%2 == 0 { // a crowd that comes and goes
					h, _ := b.Hold(fmt.Sprint("crowd ", step), 20)
					h.Settle(20)
				}
				at := exact.See(b.now)
				if key := fmt.Sprint(random.IntN(30)); random.IntN(2) == 0 {
					n := 1 + random.IntN(6)
					if h, d := b.Hold(key, n); d.Allowed {
						require.LessOrEqual(t, int64(n+held[key]), exact.Free(at, key), "step %d", step)
						held[key] += n
						open = append(open, &entry{Hold: h, key: key, units: int64(n)})
					}
				} else if len(open) > 0 {
					i := random.IntN(len(open))
					e, n := open[i], random.Int64N(open[i].units+1)
					open[i] = open[len(open)-1]
					open = open[:len(open)-1]
					require.True(t, e.Settle(int(n)))
					exact.Charge(at, e.key, n)
					held[e.key] -= int(e.units)
				}
				sizes[b.MemoryBytes()] = true
			}
			require.Greater(t, len(sizes), 1, "it has not changed its size")
			require.Zero(t, b.Stats().Overdraft)
		})
	}
}
