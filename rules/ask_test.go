package rules_test

import (
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// loadWith is load with other options.
func loadWith(t *testing.T, o rules.Options, text string) *loaded {
	t.Helper()
	l := &loaded{clock: &clock{time.Unix(0, 0)}, file: filepath.Join(t.TempDir(), "rules.yaml")}
	l.write(t, text)
	if o.MaxMemoryBytes == 0 {
		o.MaxMemoryBytes = 64 << 20
	}
	o.Hash, o.Clock = sketchlimit.MapHash(), l.clock.read
	var err error
	l.Rules, err = o.Load(l.file)
	require.NoError(t, err)
	return l
}

// asks returns an Ask of n units for each descriptor.
func ask(n int, text string) rules.Ask { return rules.Ask{Descriptor: descriptor(text), N: n} }

func TestUnitsOfEachDescriptor(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 5}}
`)
	a := l.Do("api", ask(7, "user=ann"), ask(2, "path=/"), ask(3, "shadow=x"))
	require.True(t, a.Admitted)
	require.True(t, a.Known)
	require.Equal(t, []int{3, 3, 2}, []int{a.Statuses[0].Remaining, a.Statuses[1].Remaining, a.Statuses[2].Remaining})

	// Who only looks takes nothing, and refuses if there is nothing.
	for range 3 {
		a = l.Do("api", ask(0, "user=ann"), ask(1, "path=/"), ask(0, "shadow=x"))
		require.Equal(t, 3, a.Statuses[0].Remaining)
		require.Equal(t, 2, a.Statuses[2].Remaining)
	}
	require.True(t, a.Admitted)
	require.Equal(t, 0, a.Statuses[1].Remaining)
	a = l.Do("api", ask(3, "user=ann"), ask(0, "path=/"))
	require.False(t, a.Admitted)
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 10, Remaining: 3, ResetAfter: time.Hour}, a.Statuses[0].Decision)
	require.False(t, a.Statuses[1].Allowed)

	// One counter is asked for the sum: no part of it is charged if that does not fit.
	a = l.Do("api", ask(2, "user=bob"), ask(8, "user=bob"), ask(0, "user=bob"))
	require.True(t, a.Admitted)
	require.Equal(t, []int{0, 0, 10}, []int{a.Statuses[0].Remaining, a.Statuses[1].Remaining, a.Statuses[2].Remaining})
	for _, c := range [][2]int{{2, 9}, {1, math.MaxInt}, {math.MaxInt, math.MaxInt}, {-1, 1}, {1, -1}, {-1, -1}} {
		a = l.Do("api", ask(c[0], "user=eve"), ask(c[1], "user=eve"))
		require.False(t, a.Admitted, c)
		require.Equal(t, []bool{false, false}, []bool{a.Statuses[0].Allowed, a.Statuses[1].Allowed})
		require.Equal(t, 10, l.Do("api", ask(0, "user=eve")).Statuses[0].Remaining)
	}
}

func TestUnknownDomain(t *testing.T) {
	l := load(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]")
	a := l.Do("apo", rules.Ask{Descriptor: descriptor("user=ann"), N: 1, Override: &rules.Override{Limit: 0, Window: time.Hour}})
	require.True(t, a.Admitted)
	require.False(t, a.Known)
	require.Nil(t, a.Statuses[0].Rule)
	require.True(t, l.Do("api", ask(1, "nobody=knows")).Known)
	require.True(t, l.Do("api").Known)
}

func TestOverrides(t *testing.T) {
	l := loadWith(t, rules.Options{OverrideBytes: 64 << 10}, `
domain: api
descriptors:
  - {key: user, shadow_mode: true, rate_limit: {name: general, unit: hour, requests_per_unit: 3}}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 3, replaces: [{name: general}]}}
`)
	l.write(t, "domain: other\ndescriptors: []")
	own := func(domain string, n int, limit int64, window time.Duration, d ...string) rules.Answer {
		var asks []rules.Ask
		for _, text := range d {
			asks = append(asks, rules.Ask{Descriptor: descriptor(text), N: n, Override: &rules.Override{Limit: limit, Window: window}})
		}
		return l.Do(domain, asks...)
	}
	a := own("api", 4, 5, time.Minute, "user=ann")
	require.True(t, a.Admitted)
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 5, Remaining: 1, ResetAfter: time.Minute}, a.Statuses[0].Decision)
	require.True(t, a.Statuses[0].Rule.Override)
	require.Equal(t, time.Minute, a.Statuses[0].Rule.Window)
	a = own("api", 0, 6, time.Minute, "user=ann")
	require.Equal(t, 2, a.Statuses[0].Remaining, "limits of one window share what is counted")
	a = own("api", 2, 5, time.Minute, "user=ann")
	require.False(t, a.Admitted, "no shadow")
	require.Equal(t, 1, a.Statuses[0].Remaining)
	require.Equal(t, time.Minute, a.Statuses[0].RetryAfter)
	require.Equal(t, "admitted 2", l.take("api", "user=ann"), "the file's rule has counters of its own")

	// Other windows, entries and domains are other counters; the file does not need to
	// know the entries.
	require.Equal(t, 4, own("api", 1, 5, time.Hour, "user=ann").Statuses[0].Remaining)
	require.Equal(t, 4, own("api", 1, 5, time.Minute, "userann=").Statuses[0].Remaining)
	require.Equal(t, 4, own("api", 1, 5, time.Minute, "user=ann x=y").Statuses[0].Remaining)
	require.NoError(t, l.Reload())
	require.Equal(t, 4, own("other", 1, 5, time.Minute, "user=ann").Statuses[0].Remaining)
	l.write(t, "domain: api\ndescriptors: []")
	require.NoError(t, l.Reload())
	require.Equal(t, 1, own("api", 0, 5, time.Minute, "user=ann").Statuses[0].Remaining, "reloads do not touch them")

	// All or none, in one step.
	require.False(t, own("api", 2, 5, time.Minute, "user=ann", "user=bob").Admitted)
	require.Equal(t, 5, own("api", 0, 5, time.Minute, "user=bob").Statuses[0].Remaining)

	// One counter under two limits: the lower one holds for the sum.
	a = l.Do("api", rules.Ask{Descriptor: descriptor("user=joe"), N: 3, Override: &rules.Override{Limit: 5, Window: time.Hour}},
		rules.Ask{Descriptor: descriptor("user=joe"), N: 3, Override: &rules.Override{Limit: 9, Window: time.Hour}})
	require.False(t, a.Admitted)

	for _, c := range []struct {
		limit  int64
		window time.Duration
		want   sketchlimit.Decision
	}{
		{0, time.Second, sketchlimit.Decision{RetryAfter: sketchlimit.Never}},
		{-1, time.Second, sketchlimit.Decision{RetryAfter: sketchlimit.Never}},
		{9, 2 * time.Second, sketchlimit.Decision{RetryAfter: sketchlimit.Never}},
		{9, 0, sketchlimit.Decision{RetryAfter: sketchlimit.Never}},
		{math.MaxInt64, 24 * time.Hour, sketchlimit.Decision{Allowed: true, Limit: math.MaxInt32, Remaining: math.MaxInt32 - 1, ResetAfter: 24 * time.Hour}},
	} {
		a := own("api", 1, c.limit, c.window, "user=eve")
		require.Equal(t, c.want, a.Statuses[0].Decision)
		require.Equal(t, c.want.Allowed, a.Admitted)
	}
	names := map[string]bool{}
	for name, rule := range l.Counting() {
		require.False(t, names[name])
		names[name] = true
		require.Equal(t, rule.String(), name)
		require.LessOrEqual(t, rule.MemoryBytes(), 64<<10)
	}
	require.Len(t, names, 7)

	without := load(t, "domain: api\ndescriptors: []")
	require.False(t, without.Do("api", rules.Ask{N: 1, Override: &rules.Override{Limit: 5, Window: time.Hour}}).Admitted)
}

// However requests race, a limit of their own admits no more than that.
func TestRacingOverrides(t *testing.T) {
	l := loadWith(t, rules.Options{OverrideBytes: 64 << 10}, "domain: api\ndescriptors: []")
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				o := &rules.Override{Limit: int64(500 + 500*((g+i)%2)), Window: time.Hour}
				if l.Do("api", rules.Ask{Descriptor: descriptor("user=ann"), N: 1, Override: o}).Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1000, admitted.Load())
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    rules.Options
		want string
	}{
		{rules.Options{}, "rules: MaxMemoryBytes 0, must be at least 1"},
		{rules.Options{MaxMemoryBytes: 1, OverrideBytes: -1}, "rules: OverrideBytes -1, must be at least 0"},
		{rules.Options{MaxMemoryBytes: 1 << 20, OverrideBytes: 1}, "rules: OverrideBytes 1: sketchlimit: MemoryBytes 1, must be at least"},
		{rules.Options{MaxMemoryBytes: 1 << 20, OverrideBytes: 1 << 20}, "must be at most 1048576"},
	} {
		_, err := c.o.New()
		require.ErrorContains(t, err, c.want)
		_, err = c.o.Load(t.TempDir())
		require.ErrorContains(t, err, "rules: ")
	}
	r, err := rules.Options{MaxMemoryBytes: 1 << 20}.New()
	require.NoError(t, err)
	require.False(t, r.Do("api", ask(1, "user=ann")).Known)
	file := rules.File{Name: "of xDS", Data: []byte("domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]")}
	require.NoError(t, r.Replace(file))
	require.True(t, r.Do("api", ask(1, "user=ann")).Admitted)
	require.False(t, r.Do("api", ask(1, "user=ann")).Admitted)
	require.EqualError(t, r.Replace(file, file), "of xDS: duplicate domain 'api' in config file")
	require.False(t, r.Do("api", ask(1, "user=ann")).Admitted)
	require.NoError(t, r.Replace())
	require.Empty(t, r.All())
}
