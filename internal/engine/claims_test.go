//go:build invariants

package engine

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/stretchr/testify/require"
)

// requireBroken fails unless f panics because an invariant does not hold.
func requireBroken(t *testing.T, what string, f func()) {
	t.Helper()
	t.Cleanup(invariants.Forget) // a broken claim leaves its locks locked
	defer func() {
		t.Helper()
		text, _ := recover().(string)
		require.True(t, strings.HasPrefix(text, "invariants: ") && strings.Contains(text, what), "%q, must contain %q", text, what)
	}()
	f()
}

// A key has used its limit in the previous window. The bound that stands for that generation is broken, so that Consume
// finds units free which usage does not.
func TestClaimsOfConsume_BrokenBound(t *testing.T) {
	l := faceOf(t, sliding(20, time.Second), spec.Dimensions{Shards: 1, BloomBytes: 192, BloomProbes: 1, Depth: 2, Width: 64, CellBits: 8,
		HeavyEntries: heavyhitter.BucketEntries, PromoteAt: 20})
	for range 19 {
		require.True(t, l.allow("key", 1))
	}
	l.now = l.now.Add(time.Second)
	require.True(t, l.allow("other", 1))
	require.True(t, l.allow("key", 1), "one of 20 is free")
	l.shards[0].peaks.before = 0
	requireBroken(t, "and usage leaves", func() { l.allow("key", 1) })
}

// Each of the two claims by itself: 5 of 20 are used.
func TestClaimsOfConsume_EachAlone(t *testing.T) {
	l := faceOf(t, fixed(20, time.Second), spec.Dimensions{Shards: 1, BloomBytes: 192, BloomProbes: 1, Depth: 2, Width: 64, CellBits: 8,
		HeavyEntries: heavyhitter.BucketEntries, PromoteAt: 20})
	require.True(t, l.allow("key", 5))
	r, p := l.at(l.hasher.String("key")), l.position()
	window{r}.checkConsume(p, 20, 20, 15, 20)
	requireBroken(t, "free is 21", func() { window{r}.checkConsume(p, 21, 20, 15, 20) })
	requireBroken(t, "16 units are admitted", func() { window{r}.checkConsume(p, 20, 21, 16, 20) })
	requireBroken(t, "16 units are admitted", func() { checkAdmits(window{r}.left(p, 20, nil), 16) })
}

// Random traffic reaches every path of a decision, and breaks no claim.
func TestClaimsHoldInRandomTraffic(t *testing.T) {
	for _, rule := range []spec.Rule{sliding(20, time.Second), fixed(20, time.Second), spec.NewWindow(20, time.Second/4, 5)} {
		for _, probes := range []int{1, 3} {
			d := spec.Dimensions{Shards: 2, BloomBytes: 192, BloomProbes: probes, Depth: 2, Width: 128, CellBits: 8,
				HeavyEntries: heavyhitter.BucketEntries, PromoteAt: 6}
			if rule.Ring.Buffers() > 2 { // sub-windows have no table
				d.HeavyEntries, d.PromoteAt = 0, 0
			}
			for _, denyProven := range []bool{false, true} {
				l := faceOf(t, rule, d)
				if denyProven && rule.Ring.Buffers() <= 2 {
					l = sparingFace(t, rule, d)
				}
				l.Rank(1)
				random := rand.New(rand.NewPCG(1, 2))
				for range 2_000 {
					l.now = l.now.Add(time.Duration(random.ExpFloat64() * float64(2*time.Millisecond)))
					key, n := string(rune('a'+int(random.ExpFloat64()*40))), 1+int(random.ExpFloat64())
					limit, effort := int64(20-random.IntN(2)*random.IntN(15)), []Effort{Brief, Whole}[random.IntN(2)]
					l.Take(l.word(), l.hasher.String(key), n, limit, effort)
				}
			}
		}
	}
}

// Each lock that must not be waited for while another one is held.
func TestOrderOfLocks_BrokenOrder(t *testing.T) {
	first := small(t).Engine
	first.Rank(7)
	second := first.larger(t, 2)
	require.Len(t, second.shards, 2)
	other := sparingFace(t, sliding(20, time.Second), first.dims)
	other.Rank(8)

	holding := func(m *invariants.Mutex) func(func()) {
		return func(f func()) {
			m.Lock()
			defer m.Unlock()
			f()
		}
	}
	var growth invariants.Mutex // see package growth
	invariants.SetRank(&growth, invariants.Rank{Level: invariants.Growth})
	locks := []func(func()){
		holding(&growth), holding(&second.shards[0].mu), holding(&second.shards[1].mu), holding(&first.shards[0].mu),
		holding(&other.shards[0].mu), func(f func()) { other.OverCapacity.EndAll(0, f) },
	}
	for i, held := range locks {
		for j, next := range locks {
			held(func() {
				if i < j {
					next(func() {})
				} else {
					requireBroken(t, "is to be taken while", func() { next(func() {}) })
				}
			})
		}
	}
	requireBroken(t, "is not held", growth.Unlock)
}
