package sketchlimit_test

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Count failures only: a user who knows the password is never limited, one who guesses has five tries in ten minutes.
func ExampleLimiter_Charge() {
	failures, err := sketchlimit.New(sketchlimit.Config{Limit: 5, Window: 10 * time.Minute, Keys: 100_000})
	if err != nil {
		panic(err)
	}
	defer failures.Close()
	login := func(user, password string) string {
		if !failures.Peek(user).Allowed {
			return "try again later"
		}
		if password != "secret" {
			failures.Charge(user, 1)
			return "wrong password"
		}
		return "welcome"
	}
	for range 100 {
		login("ann", "secret")
	}
	fmt.Println(login("ann", "secret"))
	for range 5 {
		login("eve", "guess")
	}
	fmt.Println(login("eve", "secret"))
	// Output:
	// welcome
	// try again later
}
