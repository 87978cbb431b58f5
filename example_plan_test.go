//go:build !race

// The race detector has nothing to find in the tuner, which is one goroutine, and takes
// minutes for it.

package sketchlimit_test

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// Dimensions for known traffic: a million keys, of which one in a hundred sends three
// times the limit, the same ones in every window, and nobody in bursts.
func Example_plan() {
	plan, forecast, err := tune.Plan(tune.Traffic{Keys: 1_000_000, Abusers: 0.01, Even: true, Steady: true}, tune.Goal{Limit: 100, FalseDenialRate: 1e-6})
	check(err)
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Plan: &plan, Clock: noon})
	check(err)
	fmt.Println(limiter.MemoryBytes() == forecast.MemoryBytes, forecast.MemoryBytes < 1<<20, forecast.Stated().FalseDenialRate <= 1e-6)
	// Output: true true true
}
