package exact

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

const (
	maxUnits = math.MaxInt32 // of a limit, burst or capacity
	maxSpan  = 1 << 61       // of a window, ns: 73 years
	maxTime  = math.MaxInt64 - maxSpan
	minSweep = 1024 // keys below which no sweep is worth its time
)

// rule is what sets one algorithm apart: pure functions of a key's state S, a time
// in Unix ns and a number of units. Only spend may change what s refers to.
type rule[S any] interface {
	// wait returns how long after t the first instant comes at which n units,
	// 1 … limit, are admitted: 0 if they are at t.
	wait(s S, t, n int64) time.Duration
	// left returns the whole units free at t, below 0 if the key stands above its
	// limit, and how long after t the quota is whole: 0 exactly if s is then as
	// good as a new state.
	left(s S, t int64) (units int64, reset time.Duration)
	// spend returns the state after n more units at t, admitted or not.
	spend(s S, t, n int64) S
	// since returns the time that an earlier one is taken as.
	since(s S) int64
}

// keyed makes a limiter of a rule.
type keyed[S any] struct {
	rule  rule[S]
	limit int64
	align int64 // length of the generations that the limiter's clock keeps to; 0 = none
	fresh S     // of a key never seen

	mu      sync.Mutex    // guards what follows
	floor   int64         // no time lies before: start of the latest generation
	states  map[string]*S // behind pointers: assigning to a map replaces the key too, by one that may pin a whole request
	sweepAt int           // number of keys that the next new key triggers a sweep at
}

func (k *keyed[S]) init(r rule[S], limit int, align time.Duration, fresh S) {
	k.rule, k.limit, k.align, k.fresh = r, int64(limit), int64(align), fresh
	k.floor, k.states, k.sweepAt = math.MinInt64, make(map[string]*S), minSweep
}

// TakeAt implements [Limiter].
func (k *keyed[S]) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.advance(now)
	d, lag := k.decide(t, key, n)
	if d.Allowed {
		d.Remaining, d.ResetAfter = k.quota(k.put(t, key, n), t)
	}
	return told(d, t+lag, unixNano(now))
}

// PeekAt implements [Limiter].
func (k *keyed[S]) PeekAt(now time.Time, key string, n int) sketchlimit.Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := max(unixNano(now), k.floor)
	d, lag := k.decide(t, key, n)
	return told(d, t+lag, unixNano(now))
}

// Charge implements [Limiter].
func (k *keyed[S]) Charge(now time.Time, key string, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.advance(now); n > 0 {
		k.put(t, key, n)
	}
}

// Take is TakeAt the time of the wall clock.
func (k *keyed[S]) Take(key string, n int) sketchlimit.Decision {
	return k.TakeAt(time.Now(), key, n)
}

// Allow takes one unit and tells whether it was admitted.
func (k *keyed[S]) Allow(key string) bool { return k.Take(key, 1).Allowed }

// Keys implements [Limiter].
func (k *keyed[S]) Keys() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.states)
}

// advance returns the time that now is taken as, and moves the floor up to it.
func (k *keyed[S]) advance(now time.Time) int64 {
	t := max(unixNano(now), k.floor)
	if k.align > 0 {
		k.floor = t - mod(t, k.align)
	}
	return t
}

// decide also returns how much later than t the time is that the durations are counted from.
func (k *keyed[S]) decide(t int64, key string, n int) (_ sketchlimit.Decision, lag int64) {
	s := k.state(key)
	d := sketchlimit.Decision{Limit: int(k.limit), RetryAfter: sketchlimit.Never}
	if n >= 1 && int64(n) <= k.limit {
		d.RetryAfter = k.rule.wait(s, t, int64(n))
		d.Allowed = d.RetryAfter == 0
	}
	d.Remaining, d.ResetAfter = k.quota(s, t)
	return d, max(t, k.rule.since(s)) - t
}

// told returns a decision that counts from one time for a caller who counts from an earlier one.
func told(d sketchlimit.Decision, from, asked int64) sketchlimit.Decision {
	lag := time.Duration(min(uint64(from)-uint64(asked), uint64(sketchlimit.Never-1))) // it may not fit an int64
	if d.RetryAfter > 0 && d.RetryAfter != sketchlimit.Never {
		d.RetryAfter += min(lag, sketchlimit.Never-1-d.RetryAfter)
	}
	if d.ResetAfter > 0 {
		d.ResetAfter += min(lag, sketchlimit.Never-1-d.ResetAfter)
	}
	return d
}

func (k *keyed[S]) quota(s S, t int64) (remaining int, reset time.Duration) {
	units, reset := k.rule.left(s, t)
	return int(max(units, 0)), reset
}

func (k *keyed[S]) state(key string) S {
	if s, held := k.states[key]; held {
		return *s
	}
	return k.fresh
}

func (k *keyed[S]) put(t int64, key string, n int) S {
	s, held := k.states[key]
	if !held {
		if len(k.states) >= k.sweepAt {
			k.sweep(t)
		}
		s = new(S)
		*s = k.fresh
		k.states[strings.Clone(key)] = s
	}
	*s = k.rule.spend(*s, t, int64(n))
	return *s
}

// sweep drops the keys that have nothing to remember. It copies the others into a
// new map, because a Go map never gives memory back; each key pays for at most two
// such copies, as the next sweep waits until the keys have doubled.
func (k *keyed[S]) sweep(t int64) {
	live := make(map[string]*S)
	for key, s := range k.states {
		if _, reset := k.rule.left(*s, t); reset > 0 {
			live[key] = s
		}
	}
	k.states, k.sweepAt = live, max(minSweep, 2*len(live))
}

// unixNano is time.Time.UnixNano with far times drawn to ±maxTime, so that a window
// before or after any time still is an int64.
func unixNano(t time.Time) int64 {
	const last = maxTime / int64(time.Second)
	switch s := t.Unix(); {
	case s >= last:
		return maxTime
	case s < -last:
		return -maxTime
	}
	return t.UnixNano()
}

// mod is the remainder of the mathematical floor division, 0 … b-1.
func mod(a, b int64) int64 {
	if a %= b; a < 0 {
		a += b
	}
	return a
}

// split returns the generation of length l that t lies in, and how far into it.
func split(t, l int64) (generation, elapsed int64) {
	elapsed = mod(t, l)
	return t/l - btoi(t%l < 0), elapsed
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// ceilDiv is ⌈a/b⌉ for a ≥ 0, b > 0.
func ceilDiv(a, b int64) int64 { return a/b + btoi(a%b > 0) }

// mulCapped is min(a×b, most) for a, b ≥ 0.
func mulCapped(a, b uint64, most int64) int64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 && lo < uint64(most) {
		return int64(lo)
	}
	return most
}

func checkUnits(what string, n int) error {
	if n < 1 || n > maxUnits {
		return fmt.Errorf("exact: %s %d, must be 1 … %d", what, n, maxUnits)
	}
	return nil
}

func checkSpan(what string, d time.Duration) error {
	if d < 1 || d > maxSpan {
		return fmt.Errorf("exact: %s %v, must be 1ns … %v", what, d, time.Duration(maxSpan))
	}
	return nil
}

func checkWindow(limit int, window time.Duration) error {
	if err := checkUnits("limit", limit); err != nil {
		return err
	}
	return checkSpan("window", window)
}
