package exact

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

const minSweep = 1024 // keys below which no sweep is worth its time

// keyed makes a limiter of a rule.
type keyed[S any] struct {
	rule  exactmath.Rule[S]
	limit int64
	align int64 // length of the generations that the limiter's clock keeps to; 0 = none
	fresh S     // of a key never seen

	mu      sync.Mutex    // guards what follows
	floor   int64         // no time lies before: start of the latest generation
	states  map[string]*S // behind pointers: assigning to a map replaces the key too, by one that may pin a whole request
	sweepAt int           // number of keys that the next new key triggers a sweep at
}

func (k *keyed[S]) init(r exactmath.Rule[S], limit int, align time.Duration, fresh S) {
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
		_, elapsed := exactmath.Split(t, k.align)
		k.floor = t - elapsed
	}
	return t
}

// decide also returns how much later than t the time is that the durations are counted from.
func (k *keyed[S]) decide(t int64, key string, n int) (_ sketchlimit.Decision, lag int64) {
	s := k.state(key)
	d := sketchlimit.Decision{Limit: int(k.limit), RetryAfter: sketchlimit.Never}
	if n >= 1 && int64(n) <= k.limit {
		d.RetryAfter = k.rule.Wait(s, t, int64(n))
		d.Allowed = d.RetryAfter == 0
	}
	d.Remaining, d.ResetAfter = k.quota(s, t)
	return d, max(t, k.rule.Since(s)) - t
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
	units, reset := k.rule.Left(s, t)
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
	*s = k.rule.Spend(*s, t, int64(n))
	return *s
}

// sweep drops the keys that have nothing to remember. It copies the others into a
// new map, because a Go map never gives memory back; each key pays for at most two
// such copies, as the next sweep waits until the keys have doubled.
func (k *keyed[S]) sweep(t int64) {
	live := make(map[string]*S)
	for key, s := range k.states {
		if _, reset := k.rule.Left(*s, t); reset > 0 {
			live[key] = s
		}
	}
	k.states, k.sweepAt = live, max(minSweep, 2*len(live))
}

// unixNano is time.Time.UnixNano with far times drawn to ±exactmath.MaxTime.
func unixNano(t time.Time) int64 {
	const last = exactmath.MaxTime / int64(time.Second)
	switch s := t.Unix(); {
	case s >= last:
		return exactmath.MaxTime
	case s < -last:
		return -exactmath.MaxTime
	}
	return t.UnixNano()
}

func checkUnits(what string, n int) error {
	if n < 1 || n > exactmath.MaxUnits {
		return fmt.Errorf("exact: %s %d, must be 1 … %d", what, n, exactmath.MaxUnits)
	}
	return nil
}

func checkSpan(what string, d time.Duration) error {
	if d < 1 || d > exactmath.MaxSpan {
		return fmt.Errorf("exact: %s %v, must be 1ns … %v", what, d, time.Duration(exactmath.MaxSpan))
	}
	return nil
}

func checkWindow(limit int, window time.Duration) error {
	if err := checkUnits("limit", limit); err != nil {
		return err
	}
	return checkSpan("window", window)
}

func checkRate(limit int, window time.Duration, burst int) error {
	if err := checkWindow(limit, window); err != nil {
		return err
	}
	return checkUnits("burst", burst)
}
