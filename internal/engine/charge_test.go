package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/stretchr/testify/require"
)

// charge is Charge for a key that holds nothing, at the face's time.
func (f *face) charge(t testing.TB, key string, n int64) (over int64) {
	h := f.hasher.String(key)
	looked := f.Over(f.position(), h, n, 0, f.Limit)
	over = f.Charge(f.word(), h, n, n, 0, f.Limit)
	require.Equal(t, looked, over, "a look tells what the charge does")
	return over
}

// Keys that are charged in a shard over capacity are certified as those that ask, and denied as often.
func TestChargesCertify(t *testing.T) {
	for _, rule := range []spec.Rule{sliding(100, time.Second), fixed(100, time.Second)} {
		var denied [2]int
		for charges := range denied {
			f := sparingFace(t, rule, oneShard(rule.Limit))
			require.True(t, f.crowd(100_000, 10, rand.New(rand.NewPCG(1, 2))))
			for i := range 20_000 {
				key := fmt.Sprint("abuser ", i%8)
				if !f.peek(key, 1).Allowed {
					denied[charges]++
				} else if charges == 1 {
					require.Zero(t, f.charge(t, key, 1))
				} else {
					f.take(key, 1)
				}
				if i%8 == 0 {
					f.now = f.now.Add(200 * time.Microsecond)
				}
			}
			require.True(t, f.at(0).isOverCapacity())
		}
		require.NotZero(t, denied[0])
		require.Equal(t, denied[0], denied[1])
	}
}

// A charge may be of any size: entries count it as the limit, also where the shard is over capacity.
func TestChargesOfAnySize(t *testing.T) {
	for _, overCapacity := range []bool{false, true} {
		for _, n := range []int64{100, 101, 1 << 32, math.MaxInt64} {
			f := sparingFace(t, sliding(100, time.Second), oneShard(100))
			f.take("key of the generation before", 1)
			f.now = f.now.Add(time.Second)
			f.take("another", 1)
			if overCapacity {
				begun(f.at(0))
			}
			require.Zero(t, f.charge(t, "key", 1))
			require.Zero(t, f.charge(t, "key", 20))
			over := f.charge(t, "key", n)
			require.GreaterOrEqual(t, over, n-80)
			require.LessOrEqual(t, over, n-79)
			require.Equal(t, n, f.charge(t, "key", n))
			require.Zero(t, f.peek("key", 1).Remaining)
			f.now = f.now.Add(1500 * time.Millisecond)
			require.Equal(t, 50, f.peek("key", 1).Remaining)
			require.Zero(t, f.charge(t, "new", 20))
		}
	}
}

// What a key has used of a predecessor is remembered there: both together remember the limit, and no more.
func TestChargesOfAGrownEngine(t *testing.T) {
	l := small(t)
	require.EqualValues(t, 5, l.charge(t, "key", 25))
	l.Engine = l.larger(t, 4)
	require.EqualValues(t, 20, l.charge(t, "key", 20))
	require.Zero(t, l.charge(t, "other", 15))
	require.EqualValues(t, 1, l.charge(t, "other", 6))
	l.now = l.now.Add(1500 * time.Millisecond)
	require.Equal(t, 10, l.peek("key", 1).Remaining)
	require.Equal(t, 10, l.peek("other", 1).Remaining)
}
