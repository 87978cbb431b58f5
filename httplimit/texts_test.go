package httplimit_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// told is a Decider that says what it is told to.
type told []httplimit.Policy

func (t *told) Decide(a *httplimit.Answer, _ *http.Request, _ int) {
	a.Policies = append(a.Policies, *t...)
}

// What fields tell is kept for the next requests. A middleware that has told much tells
// of any policies what one tells that has told nothing yet.
func TestFieldsAreOfTheRequest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	of := func(list ...int) int { return list[rng.IntN(len(list))] }
	duration := func(list ...time.Duration) time.Duration { return list[rng.IntN(len(list))] }
	var policies told
	answer := func(fresh func(http.Handler) http.Handler) http.Header {
		return get(fresh(http.NotFoundHandler()), httptest.NewRequest("GET", "/", nil)).Header()
	}
	build := func() func(http.Handler) http.Handler {
		limit, err := httplimit.NewPolicies(&policies, httplimit.Headers(all))
		require.NoError(t, err)
		return limit
	}
	kept := build()
	different := map[string]bool{}
	for range 1000 {
		policies = policies[:0]
		for range rng.IntN(4) {
			policies = append(policies, httplimit.Policy{
				Name: []string{"", "a", "b"}[rng.IntN(3)], Window: duration(1, time.Second, time.Minute), Shadow: rng.IntN(4) == 0,
				Decision: sketchlimit.Decision{
					Allowed: rng.IntN(2) == 0, Limit: of(0, 1, 99), Remaining: of(0, 1, 65, 129),
					RetryAfter: duration(0, 1, time.Second, time.Second+1, sketchlimit.Never), ResetAfter: duration(0, 1, 1e9),
				},
			})
		}
		header := answer(build())
		require.Equal(t, header, answer(kept), "%+v", policies)
		different[sent(header)] = true
	}
	require.Greater(t, len(different), 400)
}

// Whoever comes after the middleware may do with the fields of a response as he likes:
// no other response has them.
func TestFieldsAreOfTheResponse(t *testing.T) {
	policies := told{{Name: "a", Window: time.Minute, Decision: sketchlimit.Decision{Allowed: true, Limit: 9, Remaining: 8}}}
	limit, err := httplimit.NewPolicies(&policies)
	require.NoError(t, err)
	want := http.Header{"Ratelimit": {`"a";r=8;t=0`}, "Ratelimit-Policy": {`"a";q=9;w=60`}}
	meddle := false
	h := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.Equal(t, want, w.Header())
		for name, values := range w.Header() {
			require.Equal(t, 1, cap(values))
			if meddle {
				values[0] = "changed"
				w.Header().Add(name, "added")
			}
		}
	}))
	kept := get(h, httptest.NewRequest("GET", "/", nil)).Header()
	meddle = true
	for range 100 {
		get(h, httptest.NewRequest("GET", "/", nil))
	}
	require.Equal(t, want, kept)
}

// What a Decider leaves in an Answer is its own, and it finds it there again.
func TestAnswerMemory(t *testing.T) {
	if poolForgets {
		t.Skip("under the race detector pools forget")
	}
	seen := 0
	limit, err := httplimit.NewPolicies(deciderFunc(func(a *httplimit.Answer, _ *http.Request, _ int) {
		if n, ok := a.Memory.(*int); ok {
			seen = *n
			*n++
		} else {
			require.Nil(t, a.Memory)
			a.Memory = new(int)
		}
		require.Empty(t, a.Policies)
		require.Empty(t, a.Keys)
		a.Keys = append(a.Keys, "key"...)
		a.Policies = append(a.Policies, httplimit.Policy{Name: "a", Key: a.Keys, Decision: sketchlimit.Decision{Allowed: true}})
	}))
	require.NoError(t, err)
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 100 {
		get(h, httptest.NewRequest("GET", "/", nil))
	}
	require.Positive(t, seen)
}

type deciderFunc func(*httplimit.Answer, *http.Request, int)

func (f deciderFunc) Decide(a *httplimit.Answer, r *http.Request, cost int) { f(a, r, cost) }
