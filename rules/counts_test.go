package rules_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// The figures are those of envoyproxy/ratelimit for its own tests: limits, hits and
// what was in use before.
func TestCountsOfRules(t *testing.T) {
	for _, c := range []struct {
		limit, used, hits int
		want              rules.Counts
	}{
		{15, 10, 1, rules.Counts{Total: 1, Within: 1}},
		{15, 12, 1, rules.Counts{Total: 1, Within: 1, Near: 1}},
		{20, 2, 3, rules.Counts{Total: 3, Within: 3}},
		{20, 15, 3, rules.Counts{Total: 3, Within: 3, Near: 2}},
		{20, 16, 3, rules.Counts{Total: 3, Within: 3, Near: 3}},
		{20, 19, 3, rules.Counts{Total: 3, Over: 2, Near: 1}},
		{20, 14, 9, rules.Counts{Total: 9, Over: 3, Near: 4}},
		{20, 20, 2, rules.Counts{Total: 2, Over: 2}},
		{8, 5, 2, rules.Counts{Total: 2, Within: 2, Near: 1}},
		{10, 0, 20, rules.Counts{Total: 20, Over: 10, Near: 2}},
		{0, 0, 3, rules.Counts{Total: 3, Over: 3}},
	} {
		for _, shadow := range []bool{false, true} {
			for _, countRefused := range []bool{false, true} {
				l := loadWith(t, rules.Options{CountRefused: countRefused}, fmt.Sprintf(
					"domain: api\ndescriptors: [{key: user, shadow_mode: %t, rate_limit: {unit: hour, requests_per_unit: %d}}]", shadow, c.limit))
				rule := l.All()[0]
				if c.used > 0 {
					require.True(t, l.Do("api", ask(c.used, "user=ann")).Admitted)
				}
				before := rule.Counts()
				a := l.Do("api", ask(c.hits, "user=ann"), ask(0, "user=ann"))
				want := c.want
				if shadow {
					want.Shadow = want.Over
				}
				require.Equal(t, want, a.Statuses[0].Counts, c)
				require.Zero(t, a.Statuses[1].Counts)
				after := rule.Counts()
				require.Equal(t, want, rules.Counts{
					Total: after.Total - before.Total, Within: after.Within - before.Within, Near: after.Near - before.Near,
					Over: after.Over - before.Over, Shadow: after.Shadow - before.Shadow,
				})
			}
		}
	}
}

// Counts go on over a reload, whatever becomes of the limiter; requests that another
// rule refuses are within.
func TestCountsGoOn(t *testing.T) {
	const text = `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 1}}
`
	l := loadWith(t, rules.Options{NearLimitRatio: 0.1}, text)
	for range 3 {
		l.Do("api", ask(2, "user=ann"), ask(1, "path=/"))
	}
	require.Equal(t, rules.Counts{Total: 6, Within: 6, Near: 5}, l.All()[0].Counts())
	require.Equal(t, rules.Counts{Total: 3, Within: 1, Over: 2, Near: 1}, l.All()[1].Counts())
	l.Do("api", ask(3, "user=eve"), ask(4, "user=eve"), ask(-1, "user=bob"))
	require.Equal(t, rules.Counts{Total: 13, Within: 13, Near: 11}, l.All()[0].Counts())
	l.write(t, text[:len(text)-4]+"5}}")
	require.NoError(t, l.Reload())
	require.Equal(t, rules.Counts{Total: 3, Within: 1, Over: 2, Near: 1}, l.All()[1].Counts())

	checked, err := rules.Check(l.file)
	require.NoError(t, err)
	require.Zero(t, checked[0].Counts())
}

// With CountRefused answers are those of counters that are always incremented, each by
// itself.
func TestCountRefused(t *testing.T) {
	const text = `
domain: api
descriptors:
  - {key: a, rate_limit: {unit: day, requests_per_unit: 20}}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 7}}
  - {key: c, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: q, value: "1", quota_mode: true, rate_limit: {unit: day, requests_per_unit: 12}}
  - {key: q, value: "2", quota_mode: true, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: z, rate_limit: {unit: day, requests_per_unit: 0}}
`
	limits := map[string]int{"a=1": 20, "a=2": 20, "b=1": 7, "c=1": 9, "q=1": 12, "q=2": 4, "z=1": 0, "n=1": -1}
	names := []string{"a=1", "a=2", "b=1", "c=1", "q=1", "q=2", "n=1", "z=1"}
	for seed := range uint64(80) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := loadWith(t, rules.Options{CountRefused: true, Quota: seed%4 == 3}, text)
		used := map[string]int{}
		for range 20 {
			var asks []rules.Ask
			refused, quotas, quotasOver := false, 0, 0
			var want []rules.Status
			for range 1 + random.IntN(4) {
				name, n := names[random.IntN(len(names)-random.IntN(2))], 1+random.IntN(6)
				asks = append(asks, ask(n, name))
				limit, s := limits[name], rules.Status{}
				if limit < 0 {
					s.Allowed = true
				} else {
					used[name] += n
					s.Allowed, s.Remaining, s.Limit = used[name] <= limit, max(limit-used[name], 0), limit
				}
				want = append(want, s)
				over := !s.Allowed && name != "c=1"
				if name[0] == 'q' || seed%4 == 3 {
					quotas++
					if over {
						quotasOver++
					}
				} else {
					refused = refused || over
				}
			}
			a := l.Do("api", asks...)
			require.Equal(t, !refused && (quotas == 0 || quotasOver < quotas), a.Admitted, "seed %d: %v", seed, asks)
			for i, s := range a.Statuses {
				require.Equal(t, want[i].Decision, sketchlimit.Decision{Allowed: s.Allowed, Limit: s.Limit, Remaining: s.Remaining}, "seed %d: %v", seed, asks)
			}
		}
	}
}

// What is refused lengthens the wait that is told.
func TestRefusedUnitsOfBuckets(t *testing.T) {
	l := loadWith(t, rules.Options{CountRefused: true},
		"domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 6, algorithm: token_bucket, keys: 100}}]")
	require.True(t, l.Do("api", ask(4, "user=ann")).Admitted)
	s := l.Do("api", ask(3, "user=ann")).Statuses[0]
	require.Equal(t, sketchlimit.Decision{Limit: 6, RetryAfter: 30 * time.Minute, ResetAfter: time.Hour}, s.Decision)
	l.clock.now = l.clock.now.Add(30 * time.Minute)
	require.True(t, l.Do("api", ask(3, "user=ann")).Admitted)
	require.Equal(t, s.Rule.Stats().Denied, uint64(3))
}
