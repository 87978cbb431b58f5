package sketchlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// noon is a fixed clock, so that the examples print the same at every time.
func noon() time.Time { return time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC) }

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A hundred requests a minute for each client address, in front of net/http. An IPv6 client is its /64: other
// addresses in it do not help.
func Example_addresses() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 1_000_000, Clock: noon})
	check(err)
	limit, err := httplimit.New(limiter, &httplimit.Clients{})
	check(err)
	handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	codes := map[int]int{}
	for i := range 120 {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:1234", i)
		handler.ServeHTTP(w, r)
		codes[w.Code]++
	}
	fmt.Println(codes)
	// Output: map[200:100 429:20]
}

// Ten a second and a thousand an hour, all or nothing. By is the index of the limiter that decided.
func Example_secondAndHour() {
	second, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Second, Keys: 100_000, Clock: noon})
	check(err)
	hour, err := sketchlimit.New(sketchlimit.Config{Limit: 1000, Window: time.Hour, Keys: 1_000_000, Clock: noon})
	check(err)
	limits, err := sketchlimit.NewGroup(second, hour)
	check(err)

	for range 10 {
		limits.Allow("user:42")
	}
	d := limits.Take("user:42", 1)
	fmt.Println(d.Allowed, "by", []string{"the second", "the hour"}[d.By], "- the hour has", hour.Peek("user:42").Remaining)
	// Output: false by the second - the hour has 990
}

// Ten a minute for free clients and a hundred for those who pay, by one limiter.
func Example_tiers() {
	limits := map[string]int{"free": 10, "paid": 100}
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, LowestLimit: 10, Window: time.Minute, Keys: 100_000, Clock: noon})
	check(err)

	for _, tier := range []string{"free", "paid"} {
		admitted := 0
		for range 150 {
			if limiter.Do(sketchlimit.Request{Key: "user of tier " + tier, Limit: limits[tier]}).Allowed {
				admitted++
			}
		}
		fmt.Println(tier, admitted)
	}
	// Output:
	// free 10
	// paid 100
}

// Yesterday's log, through a limiter that is made today.
func Example_replay() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 10_000})
	check(err)
	defer limiter.Close()
	yesterday := time.Now().AddDate(0, 0, -1).Truncate(time.Minute)

	refused := 0
	for i := range 150 { // of one client, in half a minute
		if !limiter.TakeAt(yesterday.Add(time.Duration(i)*200*time.Millisecond), "203.0.113.7", 1).Allowed {
			refused++
		}
	}
	fmt.Println(refused, "would have been refused")
	// Output: 50 would have been refused
}

// What clients have used outlives a restart.
func Example_saveAndLoad() {
	folder, err := os.MkdirTemp("", "")
	check(err)
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "limiter.snapshot")
	config := sketchlimit.Config{Limit: 100, Window: time.Hour, Keys: 100_000, Clock: noon}

	before, err := sketchlimit.New(config)
	check(err)
	before.Take("user:42", 60)
	check(before.Save(path))

	after, err := sketchlimit.New(config)
	check(err)
	check(after.Load(path))
	fmt.Println(after.Peek("user:42").Remaining, "left")
	// Output: 40 left
}
