package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Two limits of different windows and keys, one of them by the client's plan. All count
// a request, or none.
func TestAll(t *testing.T) {
	clock, plan := newClock(), 4
	second := build(t, sketchlimit.Config{Limit: 2, Window: time.Second, Algorithm: sketchlimit.FixedWindow}, clock)
	hour := build(t, sketchlimit.Config{Limit: 9, LowestLimit: 3, Window: time.Hour, Algorithm: sketchlimit.FixedWindow}, clock)
	var refused []string
	h := allOf(t, []httplimit.Quota{
		{Name: "burst", Limiter: second, Key: &httplimit.Clients{}},
		{Name: "plan", Limiter: hour, Key: byUser, Limit: func(*http.Request) int { return plan }},
	}, httplimit.Headers(all), httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		refused = append(refused, fmt.Sprintf("%s %q %v %v", p.Name, p.Key, p.Window, p.RetryAfter))
	}))
	const address = "\xc0\x00\x02\x01"
	for i, c := range []struct {
		at      int // seconds
		user    string
		plan    int
		want    string // without RateLimit-Policy
		refused []string
	}{
		{0, "ann", 4, `"burst";r=1;t=1 | - | 2 | 1 | 1 | -`, nil},
		{0, "bob", 4, `"burst";r=0;t=1 | - | 2 | 0 | 1 | -`, nil},
		{0, "bob", 4, `"burst";r=0;t=1 | 1 | 2 | 0 | 1 | 1`, []string{fmt.Sprintf("burst %q 1s 1s", address)}},
		{1, "ann", 3, `"plan";r=1;t=3599 | - | 3 | 1 | 3599 | -`, nil},
		{1, "ann", 3, `"plan";r=0;t=3599 | - | 3 | 0 | 3599 | -`, nil},
		{1, "ann", 3, `"plan";r=0;t=3599 | 3599 | 3 | 0 | 3599 | 3599`,
			[]string{fmt.Sprintf("burst %q 1s 1s", address), `plan "ann" 1h0m0s 59m59s`}},
		{2, "ann", 3, `"plan";r=0;t=3598 | 3598 | 3 | 0 | 3598 | 3598`, []string{`plan "ann" 1h0m0s 59m58s`}},
		{2, "ann", 9, `"burst";r=1;t=1 | - | 2 | 1 | 1 | -`, nil},
		{3, "eve", 0, `"plan";r=0 | - | 0 | 0 | 0 | -`, []string{`plan "eve" 1h0m0s 2562047h47m16.854775807s`}},
	} {
		clock.now, plan, refused = time.Unix(int64(c.at), 0), c.plan, nil
		w := get(h, user(c.user))
		policies, state, _ := strings.Cut(sent(w.Header()), " | ")
		limit := c.plan
		require.Equal(t, fmt.Sprintf(`"burst";q=2;w=1, "plan";q=%d;w=3600`, limit), policies)
		require.Equal(t, c.want, state, "request %d", i)
		require.Equal(t, c.refused, refused, "request %d", i)
		require.Equal(t, c.refused != nil, w.Code == http.StatusTooManyRequests)
	}
	require.EqualValues(t, 5, second.Stats().Admitted, "no request was counted by one of them alone")
	require.EqualValues(t, 5, hour.Stats().Admitted)
}

// Whoever has used the last unit and waits as long as t says passes, and not a second
// earlier: with limits of the request's own, over random histories, of New and of
// NewAll alike.
func TestNextIsHonouredWithOwnLimits(t *testing.T) {
	testkit.Computes(t)
	for name, config := range map[string]sketchlimit.Config{
		"fixed":   {Algorithm: sketchlimit.FixedWindow},
		"sliding": {},
		"slots":   {SubWindows: 6},
		"bucket":  {Algorithm: sketchlimit.TokenBucket},
		"burst":   {Algorithm: sketchlimit.TokenBucket, Burst: 5},
	} {
		for _, several := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", several), func(t *testing.T) {
				clock, tier := newClock(), 0
				config.Limit, config.LowestLimit, config.Window = 20, 2, time.Minute
				l := build(t, config, clock)
				own := func(*http.Request) int { return tier }
				h := front(t, l, byUser, httplimit.Limit(own))
				if several {
					hour := build(t, sketchlimit.Config{Limit: 1 << 20, Window: time.Hour}, clock)
					h = allOf(t, []httplimit.Quota{{Name: "default", Limiter: l, Key: byUser, Limit: own}, {Name: "hour", Limiter: hour, Key: byUser}})
				}
				rng := rand.New(rand.NewPCG(1, 2))
				waited := 0
				for range 6000 {
					clock.advance(time.Duration(rng.ExpFloat64() * float64(2*time.Second)))
					tier = []int{2, 3, 7, 20}[rng.IntN(4)]
					w := get(h, user("ann"))
					state := w.Header().Get("RateLimit")
					if w.Code != http.StatusOK || !strings.HasPrefix(state, `"default";r=0;t=`) {
						continue
					}
					waited++
					clock.advance(seconds(t, strings.TrimPrefix(state, `"default";r=0;t=`)) - time.Second)
					q := sketchlimit.Request{Key: "ann", Limit: tier, Peek: true}
					require.False(t, l.Do(q).Allowed, "a second earlier, by %s", state)
					clock.advance(time.Second)
					require.Equal(t, http.StatusOK, get(h, user("ann")).Code, "after %s", state)
				}
				require.Greater(t, waited, 50)
			})
		}
	}
}

// A limit on all requests together, whose units nobody loses whom another quota refuses.
func TestAllRequestsTogether(t *testing.T) {
	clock := newClock()
	l, total := build(t, sketchlimit.Config{Limit: 2}, clock), build(t, sketchlimit.Config{Limit: 3}, clock)
	h := allOf(t, []httplimit.Quota{{Name: "client", Limiter: l, Key: byUser}, {Name: "service", Limiter: total, Key: httplimit.AllRequests{}}})
	require.Equal(t, []int{200, 200, 429, 429}, statuses(h, 4, user("ann")))
	require.Equal(t, []int{200, 429}, statuses(h, 2, user("bob")))
	require.Equal(t, []int{429}, statuses(h, 1, user("cid")))
	require.EqualValues(t, 3, l.Stats().Admitted)
	require.Zero(t, total.Peek("").Remaining)
}

func TestBadQuotasAreNamed(t *testing.T) {
	clock := newClock()
	l, other := build(t, sketchlimit.Config{Limit: 1}, clock), build(t, sketchlimit.Config{Limit: 1}, clock)
	grows, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 100, MaxMemoryBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, grows.Close()) })
	in := concurrency(t, 1)
	type list = []httplimit.Quota
	one := httplimit.Quota{Name: "a", Limiter: l, Key: byUser}
	for _, c := range []struct {
		quotas list
		want   string
	}{
		{nil, "0 quotas, must be 1 … 8"},
		{make(list, 9), "9 quotas, must be 1 … 8"},
		{list{one, {Name: "b", Key: byUser}}, "quota 1: Limiter and InFlight nil, one of them must be set"},
		{list{{Name: "b", Key: byUser, Limiter: l, InFlight: in}}, "quota 0: Limiter and InFlight, only one of them must be set"},
		{list{{Name: "b", Key: byUser, InFlight: in, Limit: func(*http.Request) int { return 1 }}},
			"quota 0: Limit, goes with Limiter only: InFlight has one limit"},
		{list{{Name: "b", Key: byUser, Limiter: l, Limit: func(*http.Request) int { return 1 }}},
			"quota 0: Limit with a limiter that has no LowestLimit, must have one: the lowest limit above 0 that the function returns"},
		{list{{Limiter: l, Key: byUser}}, `quota 0: Name "", must not be empty`},
		{list{{Name: "ä", Limiter: l, Key: byUser}}, `quota 0: Name "ä", must be ASCII without control characters`},
		{list{{Name: "a", Limiter: l}}, "quota 0: key nil, must be one"},
		{list{{Name: "a", Limiter: l, Key: (*httplimit.Clients)(nil)}}, "quota 0: Clients nil, must be one"},
		{list{one, {Name: "a", Limiter: other, Key: byUser}}, `quota 1: Name "a" is that of quota 0, must be another one`},
		{list{one, {Name: "b", InFlight: in, Key: byUser}, {Name: "c", Limiter: l, Key: byUser}},
			"quota 2: Limiter is that of quota 0, must be another one"},
		{httplimit.Ladder(nil, l, other, l), "quota 0: Clients nil, must be one"},
		{httplimit.Ladder(&httplimit.Clients{}, l, nil, other), "quota 1: Limiter and InFlight nil, one of them must be set"},
	} {
		limit, err := httplimit.NewAll(c.quotas)
		require.EqualError(t, err, "httplimit: "+c.want)
		require.Nil(t, limit)
	}
	_, err = httplimit.NewAll(list{one}, httplimit.Name("x"))
	require.EqualError(t, err, `httplimit: Name "x", goes with New only: other policies have names`)
	_, err = httplimit.NewAll(list{one}, httplimit.Limit(func(*http.Request) int { return 1 }))
	require.EqualError(t, err, "httplimit: Limit, goes with New only: other policies have limits")
	_, err = httplimit.NewAll(list{one}, httplimit.Shadow(), nil)
	require.EqualError(t, err, "httplimit: option 1 nil, must be one")

	h := allOf(t, list{one, {Name: "grows", Limiter: grows, Key: byUser}, {Name: "in flight", InFlight: in, Key: byUser}})
	require.Equal(t, []int{200, 429}, statuses(h, 2, user("ann")), "one that grows goes with others, and those in flight")
}

// What is nil, bare or inside an interface, is refused when a middleware is made.
func TestNilsAreRefused(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 1}, newClock())
	for _, nothing := range []httplimit.Limiter{nil, (*sketchlimit.Limiter)(nil), (*sketchlimit.Group)(nil)} {
		_, err := httplimit.New(nothing, byUser)
		require.EqualError(t, err, "httplimit: limiter nil, must be one")
	}
	for _, nothing := range []httplimit.Decider{nil, deciderFunc(nil), (*told)(nil)} {
		_, err := httplimit.NewPolicies(nothing)
		require.EqualError(t, err, "httplimit: decider nil, must be one")
	}
	for _, nothing := range []httplimit.Key{nil, (*httplimit.Pattern)(nil), (*httplimit.Join)(nil)} {
		_, err := httplimit.New(l, httplimit.Join{byUser, nothing})
		require.EqualError(t, err, "httplimit: key 1 of Join: key nil, must be one")
	}
	_, err := httplimit.New(l, byUser, nil)
	require.EqualError(t, err, "httplimit: option 0 nil, must be one")
}

// Each quota finds its clients in its own way, whatever the others do.
func TestAllFindsEachClient(t *testing.T) {
	named := &httplimit.Clients{Proxies: proxies, Header: "X-Real-IP"}
	var list []httplimit.Quota
	var keys []string
	for i, key := range []httplimit.Key{
		&httplimit.Clients{}, &httplimit.Clients{Proxies: proxies}, byUser, &httplimit.Clients{Proxies: proxies, IPv4Bits: 24},
		named, &httplimit.Clients{Proxies: proxies[1:]}, named, &httplimit.Clients{Proxies: proxies, Header: "Forwarded"},
	} {
		list = append(list, httplimit.Quota{Name: fmt.Sprint(i), Key: key, Limiter: build(t, sketchlimit.Config{Limit: 1}, newClock())})
	}
	r := from("10.0.0.1:1", "X-Forwarded-For", "203.0.113.9")
	r.Header.Set("X-Real-Ip", "203.0.113.8")
	r.Header.Set("Forwarded", "for=203.0.113.7")
	r.Header.Set("X-User", "ann")
	h := allOf(t, list, httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		keys = append(keys, new(httplimit.Clients).KeyText(p.Key))
	}))
	require.Equal(t, []int{200, 429}, statuses(h, 2, r))
	require.Equal(t, []string{"10.0.0.1", "203.0.113.9", `"ann"`, "203.0.113.0/24", "203.0.113.8", "10.0.0.1", "203.0.113.8", "203.0.113.7"}, keys)
}

func TestAllAllocatesNothing(t *testing.T) {
	if poolForgets {
		t.Skip("under the race detector pools forget")
	}
	clients := &httplimit.Clients{Proxies: proxies}
	quotas := append(ladder(t, clients, 1<<20, 1<<20, 1<<20), httplimit.Quota{Name: "in flight", InFlight: concurrency(t, 4), Key: clients})
	h := allOf(t, quotas, httplimit.Headers(0))
	r := from("10.0.0.1:1", "X-Forwarded-For", "2001:db8::1")
	w := &writer{http.Header{}}
	require.Zero(t, testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) }))
	require.EqualValues(t, 201, quotas[0].Limiter.(*sketchlimit.Limiter).Stats().Admitted)
	require.EqualValues(t, 201, quotas[3].InFlight.Stats().Admitted)
}
