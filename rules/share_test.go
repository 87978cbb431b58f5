package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rules"
)

const sharing = `
domain: api
descriptors:
  - {key: busy, rate_limit: {unit: minute, requests_per_unit: 100}}
  - {key: idle, rate_limit: {unit: minute, requests_per_unit: 100}}
  - {key: slow, rate_limit: {unit: minute, requests_per_unit: 1000, algorithm: sliding_window}}
  - {key: stated, rate_limit: {unit: minute, requests_per_unit: 100, keys: 1000}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: token_bucket}}
  - {key: one, value: counter, rate_limit: {unit: minute, requests_per_unit: 100}}
`

// shared returns the bytes of the rules that share.
func (l *loaded) shared() (bytes int) {
	for _, rule := range l.All() {
		if rule.Shared {
			bytes += rule.MemoryBytes()
		}
	}
	return bytes
}

func TestSharesOfMemory(t *testing.T) {
	const budget = 1 << 20
	l := loadWith(t, rules.Options{SharedBytes: budget}, sharing)
	all := l.All()
	var shared []bool
	for _, rule := range all {
		shared = append(shared, rule.Shared)
	}
	require.Equal(t, []bool{true, true, true, false, true, false}, shared)
	require.InDelta(t, 0.75*budget, l.shared(), 0.05*budget, "the rest is for moves")
	require.Equal(t, all[0].MemoryBytes(), all[1].MemoryBytes())
	require.InDelta(t, 4, float64(all[2].MemoryBytes())/float64(all[0].MemoryBytes()), 2, "as much as it takes for as many keys")
	checked, err := rules.Options{SharedBytes: budget}.Check(l.file)
	require.NoError(t, err)
	for i, rule := range checked {
		require.Equal(t, all[i].MemoryBytes(), rule.MemoryBytes())
	}

	// Another rule comes, and takes what is free; those that were there stay as they are.
	before := l.MemoryBytes()
	l.Take("api", 1, descriptor("busy=ann"))
	l.write(t, sharing+"  - {key: new, rate_limit: {unit: minute, requests_per_unit: 100}}\n")
	require.NoError(t, l.Reload())
	require.Equal(t, "admitted 98", l.take("api", "busy=ann"))
	last := l.All()[6]
	require.Greater(t, last.MemoryBytes(), 0)
	require.Less(t, last.MemoryBytes(), 64<<10)
	require.Equal(t, before+last.MemoryBytes(), l.MemoryBytes())

	for _, c := range []struct {
		o    rules.Options
		want string
	}{
		{rules.Options{MaxMemoryBytes: 1 << 20, SharedBytes: 1<<20 + 1}, "rules: SharedBytes 1048577, must be 0 … MaxMemoryBytes 1048576"},
		{rules.Options{MaxMemoryBytes: 1 << 20, SharedBytes: -1}, "rules: SharedBytes -1, must be 0 … MaxMemoryBytes 1048576"},
		{rules.Options{MaxMemoryBytes: 1 << 20, SharedBytes: 1000}, "rules: SharedBytes 1000, must be at least "},
	} {
		_, err := c.o.Load(l.file)
		require.ErrorContains(t, err, c.want)
	}
}

// A rule that meets more keys than its share is for gets the memory of one that meets
// few; all counts go on.
func TestMemoryMoves(t *testing.T) {
	if raced {
		t.Skip("one goroutine and much to compute: without the race detector")
	}
	const budget, keys = 384 << 10, 150_000
	l := loadWith(t, rules.Options{SharedBytes: budget}, `
domain: api
descriptors:
  - {key: busy, rate_limit: {unit: minute, requests_per_unit: 100}}
  - {key: idle, rate_limit: {unit: minute, requests_per_unit: 100}}
`)
	first := l.All()[0].MemoryBytes()
	require.True(t, l.Do("api", ask(100, "idle=ann")).Admitted)
	window := func() {
		require.True(t, l.Do("api", ask(100, "busy=ann")).Admitted)
		for i := range keys {
			l.clock.now = l.clock.now.Add(time.Minute / (keys + 1))
			l.Do("api", ask(10, fmt.Sprint("busy=", i)))
			if i%(keys/3) == keys/4 {
				require.NoError(t, l.Adapt())
				require.LessOrEqual(t, l.MemoryBytes(), budget)
				require.Equal(t, 0, l.Do("api", ask(0, "busy=ann")).Statuses[0].Remaining)
			}
		}
		require.NoError(t, l.Adapt())
		l.clock.now = l.clock.now.Truncate(time.Minute).Add(time.Minute)
	}
	window()
	require.True(t, l.All()[0].MemoryBytes() == first, "there is not enough as long as the other's former counts matter")
	for range 3 {
		window()
	}
	require.Greater(t, l.All()[0].MemoryBytes(), first/4*5)
	require.Less(t, l.All()[1].MemoryBytes(), first/4)
	window()
	require.Less(t, l.All()[0].Stats().FalseDenialRate, 1e-5)
	require.LessOrEqual(t, l.shared(), budget)

	// A reload does not undo it.
	moved := l.All()[0].MemoryBytes()
	require.NoError(t, l.Reload())
	require.Equal(t, moved, l.All()[0].MemoryBytes())

	// The load goes over to the other rule.
	back := strings.NewReplacer("busy", "idle")
	for range 9 {
		for i := range keys {
			l.clock.now = l.clock.now.Add(time.Minute / (keys + 1))
			l.Do("api", ask(10, back.Replace(fmt.Sprint("busy=", i))))
		}
		require.NoError(t, l.Adapt())
		require.LessOrEqual(t, l.MemoryBytes(), budget)
		l.clock.now = l.clock.now.Truncate(time.Minute).Add(time.Minute)
	}
	require.Greater(t, l.All()[1].MemoryBytes(), first)
}

// A bucket that is beyond its plan gets twice its memory, if there is as much.
func TestMemoryOfBuckets(t *testing.T) {
	if raced {
		t.Skip("one goroutine and much to compute: without the race detector")
	}
	l := loadWith(t, rules.Options{SharedBytes: 512 << 10}, `
domain: api
descriptors:
  - {key: busy, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: token_bucket}}
  - {key: idle, rate_limit: {unit: minute, requests_per_unit: 100000, algorithm: sliding_window}}
`)
	first := l.All()[0].MemoryBytes()
	for range 5 {
		for i := range 100_000 {
			l.clock.now = l.clock.now.Add(time.Minute / 100_000)
			l.Take("api", 30, descriptor(fmt.Sprint("busy=", i)))
		}
		require.NoError(t, l.Adapt())
		require.LessOrEqual(t, l.MemoryBytes(), 512<<10)
	}
	require.Greater(t, l.All()[0].MemoryBytes(), first/4*5)
}

// Without load, and without shares, nothing moves.
func TestNothingMoves(t *testing.T) {
	for _, bytes := range []int{0, 1 << 20} {
		l := loadWith(t, rules.Options{SharedBytes: bytes}, sharing)
		before := l.All()
		for range 3 {
			l.clock.now = l.clock.now.Add(time.Minute)
			l.Take("api", 1, descriptor("busy=ann"), descriptor("bucket=ann"))
			require.NoError(t, l.Adapt())
		}
		require.Equal(t, before, l.All())
	}
}

// A rule that is quiet for a window keeps its memory, though another one needs it; one
// that stays quiet does not.
func TestQuietRulesKeepTheirMemory(t *testing.T) {
	testkit.OneGoroutine(t)
	l := loadWith(t, rules.Options{SharedBytes: 384 << 10}, `
domain: api
descriptors:
  - {key: busy, rate_limit: {unit: minute, requests_per_unit: 100}}
  - {key: quiet, rate_limit: {unit: minute, requests_per_unit: 100}}
`)
	window := func(key string, keys int) {
		for i := range keys {
			l.Do("api", ask(1, fmt.Sprint(key, "=", i)))
		}
		require.NoError(t, l.Adapt())
		l.clock.now = l.clock.now.Add(time.Minute)
	}
	window("quiet", 90_000)
	before := l.All()[1].MemoryBytes()
	window("busy", 150_000)
	require.Equal(t, before, l.All()[1].MemoryBytes())
	for range 4 {
		window("busy", 150_000)
	}
	require.Less(t, l.All()[1].MemoryBytes(), before/2)
}

// small has many rules that share, the first of one algorithm and the others of the
// default: there is room for that one.
func small(t *testing.T, algorithm string) *loaded {
	t.Helper()
	text := "domain: api\ndescriptors:\n  - {key: k, rate_limit: {unit: hour, requests_per_unit: 100, algorithm: " + algorithm + "}}\n"
	for i := range 15 {
		text += fmt.Sprintf("  - {key: k%d, rate_limit: {unit: hour, requests_per_unit: 100}}\n", i)
	}
	return loadWith(t, rules.Options{SharedBytes: 768 << 10}, text)
}

// Memory moves to a rule only when the counts that it had before it last moved have
// left the window.
func TestMemoryMovesOnceAWindow(t *testing.T) {
	testkit.OneGoroutine(t)
	l := small(t, "fixed_window")
	adapt := func(keys int) int {
		for i := range keys {
			l.Do("api", ask(1, fmt.Sprint("k=", i)))
		}
		require.NoError(t, l.Adapt())
		return l.All()[0].MemoryBytes()
	}
	first := adapt(0)
	second := adapt(40_000)
	require.Greater(t, second, first)
	require.Equal(t, second, adapt(80_000))
	l.clock.now = l.clock.now.Add(time.Hour)
	require.Greater(t, adapt(80_000), second)
}

// A bucket gets more for what has come since it was looked at, not for what came before.
func TestMemoryOfQuietBuckets(t *testing.T) {
	testkit.OneGoroutine(t)
	l := small(t, "token_bucket")
	first := l.All()[0].MemoryBytes()
	for i := range 50_000 {
		l.Do("api", ask(30, fmt.Sprint("k=", i)))
	}
	require.NoError(t, l.Adapt())
	second := l.All()[0].MemoryBytes()
	require.Greater(t, second, first)
	for i := range 50_000 {
		l.Do("api", ask(30, fmt.Sprint("k=", i)))
	}
	require.NoError(t, l.Adapt())
	for range 3 {
		l.clock.now = l.clock.now.Add(time.Hour)
		require.NoError(t, l.Adapt())
		require.Equal(t, second, l.All()[0].MemoryBytes())
	}
}
