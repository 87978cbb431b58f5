package main

import (
	"context"
	"log"
	"strconv"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/tune"
)

const (
	// A replay goes on until so many keys have been wronged in windows that are
	// counted, all but the first.
	enough                     = 300
	fewestWindows, mostWindows = 4, 10
)

// measured is what was counted in a replay.
type measured struct {
	innocent, denied int // requests of light keys, and those of them that were denied wrongly
	units, admitted  int // that the exact algorithm admits, and the limiter
}

func source(t tune.Traffic, limit, windows int) accuracy.Source {
	return must(must(accuracy.WorkloadOf(t, limit, windows)).Source())
}

// accuracyWindow is one window of the traffic, another one for each number.
func accuracyWindow(t tune.Traffic, limit, number int) (accuracy.Source, error) {
	w, err := accuracy.WorkloadOf(t, limit, 1)
	if err != nil {
		return nil, err
	}
	w.Seed += uint64(number)
	return w.Source()
}

// replay sends the traffic through a limiter of the plan.
func replay(t tune.Traffic, g tune.Goal, p sketchlimit.Plan) measured {
	c := sketchlimit.Config{Limit: g.Limit, Window: window, Algorithm: g.Algorithm, Plan: &p, Seed: 1}
	if g.Algorithm == sketchlimit.SlidingWindow {
		return newReplay(t, c).run()
	}
	r := must(accuracy.Replay(context.Background(), source(t, g.Limit, 1+fewestWindows), c, accuracy.Options{WarmUp: 1}))
	return measured{int(r.LightRequests), int(r.LightFalseDenials), int(r.OracleAdmittedUnits), int(r.AdmittedUnits)}
}

// counts are a key's units in the current window and in the one before.
type counts struct{ current, previous int32 }

// used returns what counts in a sliding window of which so much is left, rounded up.
func (c *counts) used(left time.Duration) int {
	return int(c.current) + int((int64(c.previous)*int64(left)+int64(window)-1)/int64(window))
}

// slidingReplay is a limiter beside two exact sliding windows of every key: of what the
// limiter has admitted, which tells whether a denial is false, and of what the exact
// algorithm admits on its own. It does what accuracy.Replay does in a fifth of the
// time, because the keys' names are numbers, so it needs no map of them, and for as
// long as there is little to count.
type slidingReplay struct {
	measured
	limiter  *sketchlimit.Limiter
	source   accuracy.Source
	limit    int
	light    int // keys that are no abusers
	judged   []counts
	alone    []counts
	deniedIn []int8 // the window in which a key was wronged last
	now      time.Time
	window   int8
	keys     int // that were wronged in a window
}

func newReplay(t tune.Traffic, c sketchlimit.Config) *slidingReplay {
	w := must(accuracy.WorkloadOf(t, c.Limit, 1))
	r := &slidingReplay{source: source(t, c.Limit, 1+mostWindows), limit: c.Limit, light: w.Keys,
		judged: make([]counts, t.Keys+1), alone: make([]counts, t.Keys+1), deniedIn: make([]int8, t.Keys+1)}
	for first := range r.source.Requests() {
		r.now = first.Time
		break
	}
	c.Clock = func() time.Time { return r.now }
	r.limiter = must(sketchlimit.New(c))
	return r
}

func (r *slidingReplay) run() measured {
	for request := range r.source.Requests() {
		if begin := request.Time.Truncate(window); begin.After(r.now) {
			if r.window >= fewestWindows && r.keys >= enough {
				break
			}
			r.turn()
		}
		r.send(request)
	}
	return r.measured
}

func (r *slidingReplay) send(request accuracy.Request) {
	r.now = request.Time
	left := window - request.Time.Sub(request.Time.Truncate(window))
	key := r.number(request.Key)
	judged, alone := &r.judged[key], &r.alone[key]
	used, own := judged.used(left), alone.used(left)
	allowed := r.limiter.TakeAt(request.Time, request.Key, 1).Allowed
	exact := own < r.limit
	if allowed && used >= r.limit {
		log.Fatalf("%s: admitted with %d of %d units used", request.Key, used, r.limit)
	}
	if allowed {
		judged.current++
	}
	if exact {
		alone.current++
	}
	if r.window > 0 {
		r.count(key, 2*own < r.limit, allowed, exact)
	}
	if key == len(r.judged)-1 {
		*judged, *alone, r.deniedIn[key] = counts{}, counts{}, 0
	}
}

// turn begins a window.
func (r *slidingReplay) turn() {
	r.window++
	for i := range r.judged {
		r.judged[i] = counts{0, r.judged[i].current}
		r.alone[i] = counts{0, r.alone[i].current}
	}
}

func (r *slidingReplay) count(key int, innocent, allowed, exact bool) {
	if innocent {
		r.innocent++
		if !allowed {
			r.denied++
			if r.deniedIn[key] != r.window {
				r.deniedIn[key] = r.window
				r.keys++
			}
		}
	}
	if allowed {
		r.admitted++
	}
	if exact {
		r.units++
	}
}

// number returns a key's place by its name, a letter and a number. Those of a scan come
// once, and all have the last.
func (r *slidingReplay) number(key string) int {
	i, err := strconv.ParseUint(key[1:], 16, 32)
	switch {
	case err != nil || key[0] == 'o':
		return len(r.judged) - 1
	case key[0] == 'a':
		i += uint64(r.light)
	}
	return int(i)
}
