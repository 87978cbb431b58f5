package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/internal/kinds"
)

// admits sends requests through a middleware until one is refused, and returns how many
// passed.
func admits(t *testing.T, limit func(http.Handler) http.Handler, err error) (n int) {
	t.Helper()
	require.NoError(t, err)
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for ; n < 100; n++ {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		require.NotEmpty(t, w.Header().Get("RateLimit"))
		if w.Code == http.StatusTooManyRequests {
			break
		}
	}
	return n
}

// Each kind of limiter goes into each middleware.
func TestEachKind(t *testing.T) {
	for name, k := range kinds.Each() {
		t.Run("New/"+name, func(t *testing.T) {
			limit, err := httplimit.New(k.Member, &httplimit.Clients{})
			require.Equal(t, k.Limit, admits(t, limit, err))
		})
	}
	for name, k := range kinds.Each() {
		t.Run("NewAll/"+name, func(t *testing.T) {
			limit, err := httplimit.NewAll([]httplimit.Quota{{Name: "a", Limiter: k.Member, Key: &httplimit.Clients{}}})
			require.Equal(t, k.Limit, admits(t, limit, err))
		})
		t.Run("NewAll of two/"+name, func(t *testing.T) {
			other, err := exact.NewGCRA(2, kinds.Window, 2)
			require.NoError(t, err)
			limit, err := httplimit.NewAll([]httplimit.Quota{
				{Name: "a", Limiter: other, Key: &httplimit.Clients{}}, {Name: "b", Limiter: k.Member, Key: &httplimit.Clients{}},
			})
			if k.Group {
				require.ErrorContains(t, err, "limiter 1 of the Group is a *sketchlimit.Group")
				return
			}
			require.NoError(t, err)
			// NewAll/ above has used k up; nothing is counted by the other one then.
			require.Zero(t, admits(t, limit, err))
			require.Equal(t, 2, other.Peek("192.0.2.1").Remaining)
		})
	}
}

// A limit of the request's own goes with the windows of package exact.
func TestExactHoldsOwnLimits(t *testing.T) {
	l, err := exact.NewSlidingWindow(10, kinds.Window)
	require.NoError(t, err)
	limit, err := httplimit.New(l, &httplimit.Clients{}, httplimit.Limit(func(*http.Request) int { return 4 }))
	require.Equal(t, 4, admits(t, limit, err))
	bucket, err := exact.NewGCRA(10, kinds.Window, 10)
	require.NoError(t, err)
	_, err = httplimit.New(bucket, &httplimit.Clients{}, httplimit.Limit(func(*http.Request) int { return 4 }))
	require.ErrorContains(t, err, "has no LowestLimit")
}

func Example_exact() {
	limiter, err := exact.NewSlidingWindow(2, kinds.Window)
	if err != nil {
		panic(err)
	}
	limit, err := httplimit.New(limiter, &httplimit.Clients{})
	if err != nil {
		panic(err)
	}
	h := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}
