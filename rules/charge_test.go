package rules_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

const charging = `
domain: api
descriptors:
  - {key: tokens, rate_limit: {unit: minute, requests_per_unit: 100, charge: true}}
  - {key: requests, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 10, charge: true}}
  - {key: flow, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token_bucket, charge: true}}
  - {key: blocked, rate_limit: {unit: minute, requests_per_unit: 0, charge: true}}
`

// What was spent counts in full, whatever else refuses, and nobody is admitted after
// that until the window ends.
func TestCharge(t *testing.T) {
	for _, countRefused := range []bool{false, true} {
		l := loadWith(t, rules.Options{CountRefused: countRefused}, charging)
		require.True(t, l.Do("api", ask(0, "tokens=ann"), ask(1, "requests=ann")).Admitted)
		a := l.Do("api", ask(70, "tokens=ann"), ask(0, "blocked=x"))
		require.False(t, a.Admitted, "another rule refuses")
		require.Equal(t, rules.Status{
			Rule: a.Statuses[0].Rule, Charged: true, Counts: rules.Counts{Total: 70, Within: 70},
			Decision: sketchlimit.Decision{Allowed: true, Limit: 100, Remaining: 30, ResetAfter: time.Minute},
		}, a.Statuses[0])
		require.True(t, l.Do("api", ask(0, "tokens=ann")).Admitted)

		a = l.Do("api", ask(70, "tokens=ann"))
		require.True(t, a.Admitted)
		require.Equal(t, rules.Status{
			Rule: a.Statuses[0].Rule, Charged: true, Counts: rules.Counts{Total: 70, Near: 20, Over: 40},
			Decision: sketchlimit.Decision{Limit: 100, RetryAfter: time.Minute, ResetAfter: time.Minute},
		}, a.Statuses[0])
		require.EqualValues(t, 40, a.Statuses[0].Rule.Stats().Overdraft)
		require.False(t, l.Do("api", ask(0, "tokens=ann")).Admitted)
		require.True(t, l.Do("api", ask(1, "tokens=ann")).Admitted, "what is told afterwards is never refused")
		require.False(t, l.Do("api", ask(-1, "tokens=ann")).Admitted)

		a = l.Do("api", ask(60, "tokens=bob"), ask(60, "tokens=bob"))
		require.True(t, a.Admitted)
		require.Equal(t, []bool{true, false}, []bool{a.Statuses[0].Allowed, a.Statuses[1].Allowed}, "one after the other")

		a = l.Do("api", ask(25, "trial=x"), ask(0, "trial=x"))
		require.True(t, a.Admitted)
		require.Equal(t, rules.Counts{Total: 25, Near: 2, Over: 15, Shadow: 15}, a.Statuses[0].Counts)
		require.True(t, l.Do("api", ask(0, "trial=x")).Admitted)

		require.True(t, l.Do("api", ask(90, "flow=x")).Admitted)
		require.False(t, l.Do("api", ask(0, "flow=x")).Admitted, "30 units of debt")
		l.clock.now = l.clock.now.Add(30 * time.Second)
		require.False(t, l.Do("api", ask(0, "flow=x")).Admitted)
		l.clock.now = l.clock.now.Add(time.Second)
		require.True(t, l.Do("api", ask(0, "flow=x")).Admitted)

		require.False(t, l.Do("api", ask(1, "blocked=x")).Admitted)
		l.clock.now = l.clock.now.Add(29 * time.Second)
		require.True(t, l.Do("api", ask(0, "tokens=ann")).Admitted, "the next minute")
	}
}

// Random requests, beside exact books: asks for 0 units are refused when nothing is
// left, all others are counted.
func TestChargeBesideExactBooks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := load(t, charging)
	spent, requests, window := map[string]int{}, map[string]int{}, int64(0)
	for range 20_000 {
		l.clock.now = l.clock.now.Add(time.Duration(random.IntN(300)) * time.Millisecond)
		if now := l.clock.now.Unix() / 60; now != window {
			clear(spent)
			clear(requests)
			window = now
		}
		user, n := strconv.Itoa(random.IntN(20)), random.IntN(40)*random.IntN(2)
		a := l.Do("api", ask(n, "tokens="+user), ask(1, "requests="+user))
		admitted := requests[user] < 5 && (n > 0 || spent[user] < 100)
		require.Equal(t, admitted, a.Admitted)
		require.Equal(t, n > 0, a.Statuses[0].Charged)
		if admitted {
			requests[user]++
		}
		spent[user] += n
		require.Equal(t, max(100-spent[user], 0), a.Statuses[0].Remaining)
		require.Equal(t, spent[user] <= 100 && (n > 0 || spent[user] < 100), a.Statuses[0].Allowed)
	}
}

// In front of handlers such a rule looks, and what a request did cost is charged behind
// them.
func TestChargeBehindHandlers(t *testing.T) {
	l := load(t, charging)
	decider, err := l.HTTP("api", func(d *rules.Descriptors, r *http.Request) {
		d.Add(rules.Entry{Key: "tokens", Value: r.Header.Get("X-User")})
	})
	require.NoError(t, err)
	limit, err := httplimit.NewPolicies(decider)
	require.NoError(t, err)
	h := limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		l.Do("api", ask(45, "tokens="+r.Header.Get("X-User")))
	}))
	var codes []int
	var fields []string
	for range 4 {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		codes, fields = append(codes, w.Code), append(fields, w.Header().Get("RateLimit"))
	}
	require.Equal(t, []int{200, 200, 200, 429}, codes)
	require.Equal(t, []string{
		`"api.tokens";r=100;t=0`, `"api.tokens";r=55;t=60`, `"api.tokens";r=10;t=60`, `"api.tokens";r=0;t=60`,
	}, fields)
}

// A debt is one under another limit or size as well, until it has flowed back.
func TestDebtsAreCarriedOn(t *testing.T) {
	text := func(limit, keys int) string {
		return fmt.Sprintf("domain: api\ndescriptors: [{key: flow, rate_limit: "+
			"{unit: minute, requests_per_unit: %d, keys: %d, algorithm: token_bucket, charge: true}}]", limit, keys)
	}
	for _, next := range []string{text(61, 10_000), text(60, 20_000)} {
		l := load(t, text(60, 10_000))
		l.Do("api", ask(120, "flow=ann"))
		l.Do("api", ask(100, "flow=bob"))
		l.write(t, next)
		require.NoError(t, l.Reload())
		l.Do("api", ask(15, "flow=bob"))
		looks := func(after time.Duration, user string, want bool) {
			l.clock.now = time.Unix(0, 0).Add(after)
			require.Equal(t, want, l.Do("api", ask(0, "flow="+user)).Admitted, "%v %s", after, user)
		}
		looks(53*time.Second, "bob", false) // 55 units of debt
		looks(58*time.Second, "bob", true)
		looks(58*time.Second, "ann", false) // 60
		looks(62*time.Second, "ann", true)
		require.InDelta(t, 3, l.Do("api", ask(0, "flow=ann")).Statuses[0].Remaining, 2)
	}
}
