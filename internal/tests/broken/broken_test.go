// Package broken compares limiters with the exact algorithms step by step, and shows
// that the comparison notices limiters that are broken in one way each. Others stand
// beside the checks that notice them: races in concurrency_test.go, updates of a sketch
// in accuracy_test.go, rows in cms, filters in bloom, and answers, snapshots, groups
// and shares in stress/adversary.
package broken

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

const (
	limit  = 7
	window = 10*time.Second + 7 // no weight and no unit of a bucket is a whole number of nanoseconds
)

type taker interface {
	TakeAt(now time.Time, key string, n int) sketchlimit.Decision
}

// compare plays random steps, and returns the first difference from the oracle. Times
// end generations, jump over several and, where stepsBack, return to the generation
// before: exact.GCRA treats that otherwise. They meet the moment at which a denied
// request passes, and the nanosecond before it.
func compare(l, oracle taker, stepsBack bool) error {
	r := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1_700_000_000, 0)
	key, n, again := "", 0, false
	for step := range 5_000 {
		if !again {
			key, n = fmt.Sprint(r.IntN(2)), r.IntN(4)
			switch r.IntN(30) {
			case 0:
				now = now.Add(time.Duration(r.Int64N(int64(3 * window))))
			case 1:
				if !stepsBack {
					break
				}
				now = now.Add(-window)
				l.TakeAt(now, key, 1)
				oracle.TakeAt(now, key, 1)
				now = now.Add(window)
			default:
				now = now.Add(time.Duration(r.Int64N(int64(window / 20))))
			}
		}
		want, got := oracle.TakeAt(now, key, n), l.TakeAt(now, key, n)
		if got.Allowed != want.Allowed {
			return fmt.Errorf("step %d: %d units of key %s at %d: allowed %v, want %v", step, n, key, now.UnixNano(), got.Allowed, want.Allowed)
		}
		if again = !want.Allowed && n > 0 && r.IntN(2) == 0; again {
			now = now.Add(want.RetryAfter - time.Duration(r.IntN(2)))
		}
	}
	return nil
}

// sliding is a sliding window of two generations that is sound unless it has a bug.
type sliding struct {
	bug               string
	generation        int64
	current, previous map[string]int64
}

func (v *sliding) TakeAt(now time.Time, key string, units int) sketchlimit.Decision {
	const w = int64(window)
	generation, elapsed, n := now.UnixNano()/w, now.UnixNano()%w, int64(units)
	if generation < v.generation && v.bug != "a clock that steps back opens the window before" {
		generation, elapsed = v.generation, 0
	}
	if generation != v.generation {
		v.rotate(generation)
	}
	current, previous, most := v.current[key]*w, v.previous[key]*(w-elapsed), limit*w
	switch v.bug {
	case "the limit is one unit higher":
		most += w
	case "the limit is one unit lower":
		most -= w
	case "the weights are swapped":
		current, previous = v.current[key]*(w-elapsed), v.previous[key]*w
	case "the previous generation gains weight":
		previous = v.previous[key] * elapsed
	case "the weighted count is rounded down":
		previous -= previous % w
	}
	allowed := n >= 1 && current+previous+n*w <= most
	switch v.bug {
	case "a cost of 0 passes":
		allowed = allowed || n == 0
	case "denied units count":
		v.current[key] += n
		return sketchlimit.Decision{Allowed: allowed}
	}
	if allowed {
		v.current[key] += n
	}
	return sketchlimit.Decision{Allowed: allowed}
}

func (v *sliding) rotate(to int64) {
	next := map[string]int64{}
	switch {
	case v.bug == "rotation clears nothing":
		next = v.current
	case to != v.generation+1 && v.bug != "a jump keeps the latest generation as the previous one",
		v.bug == "rotation forgets the previous generation":
		v.current = map[string]int64{}
	}
	v.generation, v.previous, v.current = to, v.current, next
}

// bucket is GCRA in fractions 1/limit of a nanosecond, sound unless it has a bug.
type bucket struct {
	bug  string
	full map[string]int64 // 1/limit ns since the first step
}

func (v *bucket) TakeAt(now time.Time, key string, units int) sketchlimit.Decision {
	t := now.UnixNano() - 1_700_000_000e9
	n, unit, burst := int64(units), int64(window), int64(limit)
	switch v.bug {
	case "a unit is rounded down":
		unit -= unit % limit
	case "a unit is rounded up":
		unit += limit - unit%limit
	case "a bucket holds one more":
		burst++
	case "a bucket holds one less":
		burst--
	}
	full := max(v.full[key], t*limit) + n*unit
	if n < 1 || full > t*limit+burst*int64(window) {
		return sketchlimit.Decision{}
	}
	if v.bug == "a time is rounded down to microseconds" {
		full -= full % (1000 * limit)
	}
	v.full[key] = full
	return sketchlimit.Decision{Allowed: true}
}

// denials remembers denials in front of a sound limiter, wrongly.
type denials struct {
	taker
	bug   string
	until map[string]time.Time
}

func (v *denials) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	at := key
	if v.bug == "a denial is remembered for other keys" {
		at = ""
	}
	if n > 0 && now.Before(v.until[at]) {
		return sketchlimit.Decision{}
	}
	d := v.taker.TakeAt(now, key, n)
	if n > 0 && !d.Allowed {
		switch v.until[at] = now.Add(d.RetryAfter); v.bug {
		case "a denial is remembered a nanosecond too long":
			v.until[at] = v.until[at].Add(1)
		case "a denial is remembered for any cost", "a denial is remembered for other keys":
		default:
			delete(v.until, at)
		}
	}
	return d
}

func limiter(t *testing.T, a sketchlimit.Algorithm) taker {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: window, Algorithm: a, Keys: 50_000, Seed: 1})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestBrokenLimitersAreNoticed(t *testing.T) {
	oracle := func(a sketchlimit.Algorithm) (l taker, err error) {
		if a == sketchlimit.TokenBucket {
			return exact.NewGCRA(limit, window, limit)
		}
		return exact.NewSlidingWindow(limit, window)
	}
	for _, c := range []struct {
		algorithm sketchlimit.Algorithm
		stepsBack bool
		make      func(bug string) taker
		bugs      []string
	}{
		{sketchlimit.SlidingWindow, true, func(bug string) taker {
			return &sliding{bug: bug, current: map[string]int64{}, previous: map[string]int64{}}
		}, []string{
			"the limit is one unit higher", "the limit is one unit lower", "a cost of 0 passes", "denied units count",
			"the weights are swapped", "the previous generation gains weight",
			"the weighted count is rounded down", "rotation clears nothing", "rotation forgets the previous generation",
			"a jump keeps the latest generation as the previous one", "a clock that steps back opens the window before",
		}},
		{sketchlimit.TokenBucket, false, func(bug string) taker {
			return &bucket{bug: bug, full: map[string]int64{}}
		}, []string{
			"a unit is rounded down", "a unit is rounded up", "a bucket holds one more", "a bucket holds one less",
			"a time is rounded down to microseconds",
		}},
		{sketchlimit.SlidingWindow, true, func(bug string) taker {
			return &denials{limiter(t, sketchlimit.SlidingWindow), bug, map[string]time.Time{}}
		}, []string{
			"a denial is remembered a nanosecond too long", "a denial is remembered for any cost",
			"a denial is remembered for other keys",
		}},
	} {
		for _, bug := range append([]string{"limiter", ""}, c.bugs...) {
			o, err := oracle(c.algorithm)
			require.NoError(t, err)
			if bug == "limiter" {
				require.NoError(t, compare(limiter(t, c.algorithm), o, c.stepsBack), "%v", c.algorithm)
			} else if err := compare(c.make(bug), o, c.stepsBack); bug == "" {
				require.NoError(t, err, "%v without a bug", c.algorithm)
			} else {
				require.Error(t, err, bug)
			}
		}
	}
}
