package krakendlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/contrib/krakendlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// These are KrakenD's, of package github.com/krakend/krakend-ratelimit/v3.
type (
	Limiter      interface{ Allow() bool }
	LimiterStore func(string) Limiter
)

// limited is what KrakenD's routers do with a store.
func limited(store LimiterStore, key func(*http.Request) string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !store(key(r)).Allow() {
			http.Error(w, "rate limit exceeded", http.StatusTooManyRequests)
			return
		}
		next(w, r)
	}
}

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 2, Window: time.Hour, Algorithm: sketchlimit.TokenBucket, Keys: 1000,
	})
	if err != nil {
		panic(err)
	}
	store, err := krakendlimit.New(limiter)
	if err != nil {
		panic(err)
	}
	perClient := func(key string) Limiter { return store.Key(key) } // a LimiterStore
	clients := &httplimit.Clients{}
	h := limited(perClient, clients.Text, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	for range 3 {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// A key's limiter is the same whether it is kept or asked for again, also that of the
// empty key.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := sketchlimit.New(sketchlimit.Config{
			Limit: 2, Window: time.Second, Algorithm: sketchlimit.TokenBucket, Keys: 1000, Clock: time.Now,
		})
		require.NoError(t, err)
		store, err := krakendlimit.New(limiter)
		require.NoError(t, err)
		for _, key := range []string{"ann", ""} {
			kept := store.Key(key)
			require.True(t, kept.Allow())
			require.True(t, store.Key(key).Allow())
			require.False(t, kept.Allow())
			require.False(t, store.Key(key).Allow())
		}
		time.Sleep(501 * time.Millisecond)
		require.True(t, store.Key("ann").Allow())
		require.False(t, store.Key("ann").Allow())
	})
}

// Of a key that is asked for anew at each request, the interface is the only allocation.
func TestAllocations(t *testing.T) {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: time.Hour, Keys: 1000})
	require.NoError(t, err)
	store, err := krakendlimit.New(limiter)
	require.NoError(t, err)
	perClient := LimiterStore(func(key string) Limiter { return store.Key(key) })
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { perClient("ann").Allow() }), 1.0)
}

func TestLimiterNil(t *testing.T) {
	for _, limiter := range []httplimit.Limiter{nil, (*sketchlimit.Limiter)(nil)} {
		_, err := krakendlimit.New(limiter)
		require.EqualError(t, err, "krakendlimit: limiter nil, must be one")
	}
}
