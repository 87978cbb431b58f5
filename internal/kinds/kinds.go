// Package kinds has a limiter of each kind, for tests of what takes one.
package kinds

import (
	"iter"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// Limit is that of all the limiters but [exact.MinInterval], which admits one request.
const Limit = 3

// Window is that of the limiters, or they have a longer one: longer than any test.
const Window = 1000 * time.Hour

// Kind is a limiter of one kind.
type Kind struct {
	sketchlimit.Member
	Limit int
	Group bool // it is one: it has no limit of its own
}

// Each yields a new limiter of each kind that decides in the process, by its name.
func Each() iter.Seq2[string, Kind] {
	return func(yield func(string, Kind) bool) {
		group := must(sketchlimit.NewGroup(sketch(sketchlimit.SlidingWindow), must(exact.NewSlidingWindow(Limit, Window))))
		for _, k := range []struct {
			name string
			Kind
		}{
			{"Limiter, sliding", Kind{sketch(sketchlimit.SlidingWindow), Limit, false}},
			{"Limiter, bucket", Kind{sketch(sketchlimit.TokenBucket), Limit, false}},
			{"Global", Kind{sketchlimit.Global(sketch(sketchlimit.FixedWindow)), Limit, false}},
			{"Global, exact", Kind{sketchlimit.Global(must(exact.NewFixedWindow(Limit, Window))), Limit, false}},
			{"Group", Kind{group, Limit, true}},
			{"FixedWindow", Kind{must(exact.NewFixedWindow(Limit, Window)), Limit, false}},
			{"SlidingLog", Kind{must(exact.NewSlidingLog(Limit, Window)), Limit, false}},
			{"SlidingWindow", Kind{must(exact.NewSlidingWindow(Limit, Window)), Limit, false}},
			{"Slots", Kind{must(exact.NewSlots(Limit, Window, 4)), Limit, false}},
			{"TokenBucket", Kind{must(exact.NewTokenBucket(Limit, Window, Limit)), Limit, false}},
			{"DiscreteBucket", Kind{must(exact.NewDiscreteBucket(Limit, Window, 1)), Limit, false}},
			{"LeakyQueue", Kind{must(exact.NewLeakyQueue(Limit, Window)), Limit, false}},
			{"LeakyMeter", Kind{must(exact.NewLeakyMeter(Limit, Window, Limit)), Limit, false}},
			{"GCRA", Kind{must(exact.NewGCRA(Limit, Window, Limit)), Limit, false}},
			{"MinInterval", Kind{must(exact.NewMinInterval(Window)), 1, false}},
		} {
			if !yield(k.name, k.Kind) {
				return
			}
		}
	}
}

func sketch(a sketchlimit.Algorithm) *sketchlimit.Limiter {
	return must(sketchlimit.New(sketchlimit.Config{Limit: Limit, Window: Window, Algorithm: a, Keys: 1000}))
}

func must[L any](l L, err error) L {
	if err != nil {
		panic(err)
	}
	return l
}
