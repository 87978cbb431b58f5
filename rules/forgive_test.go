package rules_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/rules"
)

const forgiving = `domain: api
descriptors:
  - {key: client, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: slides, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding_window}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: token_bucket}}
  - {key: all, value: x, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: other, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: tokens, rate_limit: {unit: minute, requests_per_unit: 5, charge: true}}
`

func forgiver(t *testing.T, now *time.Time, o rules.Options) *rules.Rules {
	t.Helper()
	o.MaxMemoryBytes, o.Clock = 64<<20, func() time.Time { return *now }
	limits, err := o.New(rules.File{Name: "f", Data: []byte(forgiving)})
	require.NoError(t, err)
	return limits
}

func of(key, value string) rules.Descriptor { return rules.Descriptor{{Key: key, Value: value}} }

// passes returns how many of many requests for n units are admitted.
func passes(limits *rules.Rules, d rules.Descriptor, times, n int) (admitted int) {
	for range times {
		if ok, _ := limits.Take("api", n, d); ok {
			admitted++
		}
	}
	return admitted
}

// A key that is forgiven has its limit anew, others have not, and its next window is
// like any other.
func TestForgive(t *testing.T) {
	for _, d := range []rules.Descriptor{of("client", "ann"), of("slides", "ann"), of("bucket", "ann"), of("all", "x")} {
		now := time.Unix(1_800_000_000, 0)
		limits := forgiver(t, &now, rules.Options{})
		require.Equal(t, 5, passes(limits, d, 9, 1))
		passes(limits, of("client", "bob"), 9, 1)
		f, err := limits.Forgive("api", d)
		require.NoError(t, err)
		require.Equal(t, 5, f.Units)
		require.True(t, f.Until.After(now))
		keys, units := limits.Grants()
		require.Equal(t, []any{1, uint64(0)}, []any{keys, units})
		require.Equal(t, 5, passes(limits, d, 9, 1), d)
		require.Zero(t, passes(limits, of("client", "bob"), 3, 1))
		_, units = limits.Grants()
		require.EqualValues(t, 5, units)

		f, err = limits.Forgive("api", d) // again
		require.NoError(t, err)
		require.Equal(t, 5, f.Units)
		now = now.Add(2 * time.Minute)
		require.Equal(t, 5, passes(limits, d, 9, 1))
		keys, _ = limits.Grants()
		require.Zero(t, keys)
	}
}

// What the key has not used is not given, and costs above what is granted are refused.
func TestForgivePart(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limits := forgiver(t, &now, rules.Options{})
	f, err := limits.Forgive("api", of("client", "ann"))
	require.NoError(t, err)
	require.Zero(t, f.Units)
	require.Equal(t, 3, passes(limits, of("client", "ann"), 3, 1))
	f, err = limits.Forgive("api", of("client", "ann"))
	require.NoError(t, err)
	require.Equal(t, 3, f.Units)
	require.Equal(t, 2, passes(limits, of("client", "ann"), 9, 2), "two of the counter, two of the grant")
	require.Equal(t, 1, passes(limits, of("client", "ann"), 9, 1))
}

// A request that another rule refuses takes nothing of a grant, and grants are kept
// over a reload.
func TestForgiveWithOtherRules(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limits := forgiver(t, &now, rules.Options{})
	passes(limits, of("client", "ann"), 9, 1)
	_, err := limits.Forgive("api", of("client", "ann"))
	require.NoError(t, err)
	passes(limits, of("other", "ann"), 1, 1)
	for range 9 {
		ok, all := limits.Take("api", 1, of("client", "ann"), of("other", "ann"))
		require.False(t, ok)
		require.True(t, all[0].Allowed)
	}
	require.NoError(t, limits.Replace(rules.File{Name: "f", Data: []byte(forgiving + "  - {key: new}\n")}))
	ok, all := limits.Take("api", 1, of("client", "ann"), of("client", "ann")) // one sum of two units
	require.True(t, ok)
	require.Equal(t, 3, all[0].Remaining)
	require.Equal(t, 3, all[1].Remaining)
	require.Equal(t, 3, passes(limits, of("client", "ann"), 9, 1))
}

// Where refused requests count, too.
func TestForgiveWhereRefusedCount(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limits := forgiver(t, &now, rules.Options{CountRefused: true})
	require.Equal(t, 5, passes(limits, of("client", "ann"), 9, 1))
	_, err := limits.Forgive("api", of("client", "ann"))
	require.NoError(t, err)
	require.Equal(t, 5, passes(limits, of("client", "ann"), 9, 1))
}

func TestForgiveErrors(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limits := forgiver(t, &now, rules.Options{})
	for want, d := range map[string]rules.Descriptor{
		"no rule applies":          of("nobody", "ann"),
		"api.free counts nothing":  of("free", "ann"),
		"api.tokens charges":       of("tokens", "ann"),
		"no rule applies to the d": nil,
	} {
		_, err := limits.Forgive("api", d)
		require.ErrorContains(t, err, want)
	}
	_, err := limits.Forgive("nowhere", of("client", "ann"))
	require.ErrorContains(t, err, "no file has the domain 'nowhere'")
	for i := range 1001 {
		d := of("client", fmt.Sprint(i))
		passes(limits, d, 1, 1)
		_, err = limits.Forgive("api", d)
		require.Equal(t, i == 1000, err != nil)
	}
	require.ErrorContains(t, err, "1000 keys are forgiven, must be at most 1000")
	_, err = limits.Forgive("api", of("client", "7"))
	require.NoError(t, err, "it has a grant")
	now = now.Add(time.Minute)
	passes(limits, of("client", "new"), 1, 1)
	_, err = limits.Forgive("api", of("client", "new"))
	require.NoError(t, err)
}

// No unit of a grant is taken twice.
func TestForgiveAtOnce(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limits := forgiver(t, &now, rules.Options{})
	passes(limits, of("client", "ann"), 9, 1)
	_, err := limits.Forgive("api", of("client", "ann"))
	require.NoError(t, err)
	var all sync.WaitGroup
	var admitted atomic.Int64
	for range 8 {
		all.Go(func() { admitted.Add(int64(passes(limits, of("client", "ann"), 100, 1))) })
	}
	all.Wait()
	require.EqualValues(t, 5, admitted.Load())
}
