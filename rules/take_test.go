package rules_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/rules"
)

// Requests that race for the last unit of a rule are charged by all rules or by none.
func TestRacingRequestsAreChargedByAllOrNone(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: all, value: requests, rate_limit: {unit: hour, requests_per_unit: 1000000}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1000000}}
`)
	var next, admitted atomic.Uint64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10_000 {
				user := strconv.FormatUint(next.Add(1)/4, 10) // four requests of each, about at the same time
				ok, _ := l.Take("api", 1, descriptor("user="+user), descriptor("all=requests"),
					descriptor("path="+user[:1]), descriptor("quota="+user))
				if ok {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Greater(t, admitted.Load(), uint64(5000))
	require.Less(t, admitted.Load(), uint64(10_000), "one a user, 1000 a path")
	for _, rule := range l.All() {
		require.Equal(t, admitted.Load(), rule.Stats().Admitted, rule.Path)
	}
}

// A quota that refuses is left out while another one admits; the others are charged in
// one step.
func TestQuotasBesideOthers(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: quota, value: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, value: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: quota, value: c, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: quota, value: free, quota_mode: true, rate_limit: {unlimited: true}}
  - {key: quota, value: blocked, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: blocked, rate_limit: {unit: hour, requests_per_unit: 0}}
`)
	all := []string{"plain=1", "quota=a", "quota=b", "quota=c"}
	require.Equal(t, "refused 4 1 !0", l.take("api", "plain=1", "quota=a", "blocked=1"), "nothing is charged")
	require.Equal(t, "admitted 3 0 1 3", l.take("api", all...))
	require.Equal(t, "admitted 2 !0 0 2", l.take("api", all...))
	require.Equal(t, "admitted 1 !0 !0 1", l.take("api", all...))
	require.Equal(t, "refused 1 !0 !0", l.take("api", all[:3]...))
	require.Equal(t, "refused 1 !0 !0", l.take("api", "plain=1", "quota=a", "quota=blocked"))
	require.Equal(t, "refused !0 !0", l.take("api", "quota=blocked", "quota=b"))
	require.Equal(t, "admitted 0 !0 -", l.take("api", "plain=1", "quota=a", "quota=free"))
	require.Equal(t, "refused !0 !0 !0 1", l.take("api", all...))
	require.EqualValues(t, 1, l.All()[0].Stats().Denied)
	require.EqualValues(t, 6, l.All()[1].Stats().Denied)
}

// More rules than one decision has on its stack.
func TestManyRulesOfOneRequest(t *testing.T) {
	text := "domain: api\ndescriptors:\n"
	var all []string
	want := "refused"
	for i := range 20 {
		text += "  - {key: k" + strconv.Itoa(i) + ", rate_limit: {unit: hour, requests_per_unit: " + strconv.Itoa(50-i) + "}}\n"
		all = append(all, "k"+strconv.Itoa(i)+"=x")
		left := strconv.Itoa(19 - i)
		if i == 19 {
			left = "!0"
		}
		want += " " + left
	}
	l := load(t, text)
	for range 31 {
		require.Regexp(t, "^admitted", l.take("api", all...))
	}
	require.Equal(t, want, l.take("api", all...))
}

// A request of thousands of descriptors is one as any other: all or none, and one
// counter is asked once.
func TestThousandsOfDescriptors(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 4, keys: 100000}}
  - {key: group, rate_limit: {unit: hour, requests_per_unit: 7, keys: 100000}}
`)
	const counters = 3000
	var asks []rules.Ask
	for i := range 2 * counters {
		asks = append(asks, ask(1, fmt.Sprint("user=", i%counters)), ask(1, fmt.Sprint("group=", i%counters)))
	}
	require.True(t, l.Do("api", asks...).Admitted)
	a := l.Do("api", asks...)
	require.True(t, a.Admitted)
	for i, s := range a.Statuses {
		require.Equal(t, 3*(i%2), s.Remaining)
	}
	a = l.Do("api", append(asks, ask(1, "group=other"))...)
	require.False(t, a.Admitted)
	for i, s := range a.Statuses[:4*counters] {
		require.Equal(t, i%2 == 1, s.Allowed)
		require.Equal(t, 3*(i%2), s.Remaining)
	}
	require.Equal(t, 7, l.Do("api", ask(0, "group=other")).Statuses[0].Remaining)
}
