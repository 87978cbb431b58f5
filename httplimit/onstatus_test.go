package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// failures returns a Budget of two units a day.
func failures() *budget.Budget {
	b, err := budget.New(budget.Config{
		Limits:   []sketchlimit.Config{{Limit: 2, Window: 24 * time.Hour, Keys: 10_000}},
		InFlight: 1000,
		HoldFor:  time.Minute, // longer than a log-in takes
	})
	if err != nil {
		panic(err)
	}
	return b
}

func ExampleOnStatus() {
	limit, err := httplimit.NewBudget(httplimit.Spending{
		Budget: failures(), // two a day
		Key:    &httplimit.Clients{},
	}, httplimit.OnStatus(http.StatusUnauthorized, http.StatusForbidden))
	if err != nil {
		panic(err)
	}
	logIn := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"secret", "secret", "secret", "?", "secret", "?", "secret"} {
		w := httptest.NewRecorder()
		logIn.ServeHTTP(w, httptest.NewRequest("POST", "/?password="+password, nil))
		fmt.Print(w.Code, " ")
	}
	// Output:
	// 200 200 200 401 200 401 429
}

// Requests under way hold their units: failures at the same time cannot pass the limit.
func TestOnStatus_AtTheSameTime(t *testing.T) {
	b := failures()
	limit, err := httplimit.NewBudget(httplimit.Spending{Budget: b, Key: httplimit.AllRequests{}}, httplimit.OnStatus(401))
	require.NoError(t, err)
	var depth int
	var codes []int
	var h http.Handler
	h = limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if depth++; depth < 4 { // another one comes while this one is handled
			inner := httptest.NewRecorder()
			h.ServeHTTP(inner, httptest.NewRequest("GET", "/", nil))
			codes = append(codes, inner.Code)
		}
		w.WriteHeader(401)
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	require.Equal(t, []int{429, 401}, codes)
	require.EqualValues(t, 2, b.Stats().Settled)
	require.Zero(t, b.Stats().Held)
}

// A request settles all that it holds, or nothing; a panic settles.
func TestOnStatus_Units(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		settled int
	}{
		{"not one of them", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, 0},
		{"says nothing", func(http.ResponseWriter, *http.Request) {}, 0},
		{"one of them", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, 2},
		{"the first status counts", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(100)
			w.WriteHeader(403)
			w.WriteHeader(200)
		}, 2},
		{"panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := failures()
			two := func(*http.Request) int { return 2 }
			limit, err := httplimit.NewBudget(httplimit.Spending{Budget: b, Key: httplimit.AllRequests{}, AtMost: two},
				httplimit.OnStatus(401, 403))
			require.NoError(t, err)
			func() {
				defer func() { recover() }()
				limit(c.handler).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}()
			require.EqualValues(t, c.settled, b.Stats().Settled)
			require.Zero(t, b.Stats().Held)
		})
	}
}

func TestOnStatus_Errors(t *testing.T) {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: time.Minute, Keys: 10})
	require.NoError(t, err)
	_, err = httplimit.New(limiter, httplimit.AllRequests{}, httplimit.OnStatus(401))
	require.EqualError(t, err, "httplimit: OnStatus, goes with NewBudget only")
	s := httplimit.Spending{Budget: failures(), Key: httplimit.AllRequests{}}
	_, err = httplimit.NewBudget(s, httplimit.OnStatus())
	require.EqualError(t, err, "httplimit: OnStatus without a status, must have one, such as 401")
	for _, status := range []int{-1, 0, 199, 600} {
		_, err = httplimit.NewBudget(s, httplimit.OnStatus(401, status))
		require.EqualError(t, err, fmt.Sprintf("httplimit: OnStatus %d, must be 200 … 599", status))
	}
	s.Used = httplimit.BytesWritten
	_, err = httplimit.NewBudget(s, httplimit.OnStatus(401))
	require.EqualError(t, err, "httplimit: OnStatus, goes not with Used or Field")
	s.Used, s.Field = nil, "X-Used"
	_, err = httplimit.NewBudget(s, httplimit.OnStatus(401))
	require.EqualError(t, err, "httplimit: OnStatus, goes not with Used or Field")
}
