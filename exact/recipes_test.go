package exact_test

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

func must[L any](l L, err error) L {
	if err != nil {
		panic(err)
	}
	return l
}

// Five failures of a user, and twenty attempts from an address, within 15 minutes. An
// attempt counts before the password is looked at, or else many at once would all be
// let in; one that succeeds forgets the user's, and not the address's.
func Example_logIn() {
	users := must(exact.NewSlidingLog(5, 15*time.Minute, exact.MaxKeys(100_000, exact.DenyNew)))
	addresses := must(exact.NewSlidingLog(20, 15*time.Minute, exact.MaxKeys(100_000, exact.DropIdle)))
	group := must(sketchlimit.NewGroup(users, addresses))

	logIn := func(user, address, password string) string {
		asks := []sketchlimit.Ask{
			{Limiter: 0, Request: sketchlimit.Request{Key: user}}, {Limiter: 1, Request: sketchlimit.Request{Key: address}},
		}
		if !group.DoEach(asks).Allowed {
			return "too many attempts"
		}
		if password != "secret" {
			return "wrong password"
		}
		users.Reset(user)
		return "welcome"
	}

	for range 4 {
		logIn("ann", "192.0.2.1", "?")
	}
	fmt.Println(logIn("ann", "192.0.2.1", "secret"), users.Peek("ann").Remaining)
	for range 5 {
		logIn("bob", "192.0.2.2", "?")
	}
	fmt.Println(logIn("bob", "192.0.2.3", "secret"))
	// Output:
	// welcome 5
	// too many attempts
}

// Three refusals within a minute ban a key for exactly an hour; Reset lifts the ban.
func Example_ban() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	clock := exact.Clock(func() time.Time { return now })
	limiter := must(exact.NewSlidingWindow(2, time.Minute, clock))
	refusals := must(exact.NewSlidingLog(3, time.Minute, clock))
	bans := must(exact.NewMinInterval(time.Hour, clock))

	allow := func(key string) bool {
		if !bans.Peek(key).Allowed {
			return false
		}
		if limiter.Allow(key) {
			return true
		}
		if d := refusals.Take(key, 1); d.Remaining == 0 {
			bans.Allow(key) // the ban begins
		}
		return false
	}

	for range 5 {
		allow("key")
	}
	now = now.Add(time.Hour - 1)
	fmt.Println(allow("key"), bans.Peek("key").RetryAfter)
	now = now.Add(1)
	fmt.Println(allow("key"))
	for range 9 {
		allow("key")
	}
	fmt.Println(allow("key"), bans.Reset("key"), refusals.Reset("key"), limiter.Reset("key"), allow("key"))
	// Output:
	// false 1ns
	// true
	// false true true true true
}

// Ten messages a second on each connection, without a limiter for each.
func Example_connections() {
	messages := must(exact.NewGCRA(10, time.Second, 10))

	serve := func(connection string, n int) (passed int) {
		defer messages.Reset(connection) // when it closes
		for range n {
			if messages.Allow(connection) {
				passed++
			}
		}
		return passed
	}

	fmt.Println(serve("1", 8), serve("1", 8), messages.Keys())
	// Output:
	// 8 8 0
}

// The keys that have used the most.
func ExampleLimiter_all() {
	limiter := must(exact.NewFixedWindow(100, time.Hour, exact.Clock(func() time.Time { return time.Unix(0, 0) })))
	limiter.Take("ann", 90)
	limiter.Take("bob", 10)
	for key, d := range limiter.All() {
		if d.Remaining < 50 {
			fmt.Println(key, d.Limit-d.Remaining)
		}
	}
	// Output:
	// ann 90
}
