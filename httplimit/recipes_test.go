package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Five failed log-ins of an address in 15 minutes; those that succeed do not count.
func Example_onlyFailures() {
	failures, err := budget.New(budget.Config{
		Limits:   []sketchlimit.Config{{Limit: 5, Window: 15 * time.Minute, Keys: 100_000}},
		InFlight: 1000,        // requests at the same time
		HoldFor:  time.Minute, // longer than a log-in takes
	})
	if err != nil {
		panic(err)
	}
	limit, err := httplimit.NewBudget(httplimit.Spending{Budget: failures, Key: &httplimit.Clients{}},
		httplimit.OnStatus(http.StatusUnauthorized, http.StatusForbidden))
	if err != nil {
		panic(err)
	}
	logIn := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for range 10 {
		logIn.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/?password=secret", nil))
	}
	fmt.Println(failures.Stats().Settled)
	logIn.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/?password=guess", nil))
	fmt.Println(failures.Stats().Settled)
	// Output:
	// 0
	// 1
}

// Browsers ask before they send (preflights), and let scripts see only exposed fields.
func Example_cors() {
	limit, err := httplimit.ByAddress(1, 24*time.Hour)
	if err != nil {
		panic(err)
	}
	limited := limit(http.NotFoundHandler())

	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
		w.Header().Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.WriteHeader(http.StatusNoContent) // a preflight, answered before the limit
			return
		}
		limited.ServeHTTP(w, r)
	})

	for _, method := range []string{"OPTIONS", "OPTIONS", "GET", "OPTIONS", "GET"} {
		r := httptest.NewRequest(method, "/", nil)
		if method == "OPTIONS" {
			r.Header.Set("Access-Control-Request-Method", "GET")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Access-Control-Allow-Origin"))
	}
	// Output:
	// 204 https://app.example
	// 204 https://app.example
	// 404 https://app.example
	// 204 https://app.example
	// 429 https://app.example
}

// Each API key has the limit of its plan; a key of no plan has no access.
func Example_plans() {
	plans := map[string]int{"free-key": 1, "paid-key": 3}
	limiter, err := exact.NewSlidingWindow(3, time.Minute, exact.Clock(func() time.Time { return time.Unix(0, 0) }))
	if err != nil {
		panic(err)
	}
	limit, err := httplimit.New(limiter, httplimit.Header("X-Api-Key"),
		httplimit.Limit(func(r *http.Request) int { return plans[r.Header.Get("X-Api-Key")] }),
		httplimit.RequireKey(httplimit.Header("X-Api-Key"), "ApiKey"))
	if err != nil {
		panic(err)
	}
	handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, key := range []string{"free-key", "paid-key", "unknown", ""} {
		fmt.Printf("%q:", key)
		for range 4 {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-Api-Key", key)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			fmt.Print(" ", w.Code)
		}
		fmt.Println()
	}
	// Output:
	// "free-key": 200 429 429 429
	// "paid-key": 200 200 200 429
	// "unknown": 429 429 429 429
	// "": 401 401 401 401
}

// Two requests of each client, and three of all together.
func Example_globalAndPerKey() {
	clock := exact.Clock(func() time.Time { return time.Unix(0, 0) })
	client, err := exact.NewSlidingWindow(2, time.Minute, clock)
	if err != nil {
		panic(err)
	}
	all, err := exact.NewSlidingWindow(3, time.Minute, clock)
	if err != nil {
		panic(err)
	}
	limit, err := httplimit.NewAll([]httplimit.Quota{
		{Name: "client", Key: &httplimit.Clients{}, Limiter: client},
		{Name: "all", Key: httplimit.AllRequests{}, Limiter: all},
	})
	if err != nil {
		panic(err)
	}
	handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, addr := range []string{"192.0.2.1:1", "192.0.2.1:1", "192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = addr
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(w.Code, " ")
	}
	// Output:
	// 200 200 429 200 429
}

// The code of docs/recipes.md is that of the examples, here or in package exact.
func TestDocsRecipesAreTheExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/recipes.md")
	require.NoError(t, err)
	examples, err := os.ReadFile("recipes_test.go")
	require.NoError(t, err)
	checked := 0
	for _, block := range strings.Split(string(page), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "httplimit.New") && !strings.Contains(block, "Access-Control") {
			continue
		}
		checked++
		for line := range strings.Lines(block) {
			if line != "...\n" {
				require.Contains(t, string(examples), strings.TrimSpace(line))
			}
		}
	}
	require.Equal(t, 4, checked)
}
