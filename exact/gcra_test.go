package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// The table that throttled (rate_test.go) and redis-cell share: 1 a second, 5 at once.
// Their retry of -1 is 0 for an admitted request, Never for one above the burst. Row
// 12 is a peek: they ask for 0 units.
func TestGCRAThrottledAndRedisCell(t *testing.T) {
	const never = sketchlimit.Never
	g := must(NewGCRA(5, 5*time.Second, 5))
	take(t, g, noon,
		step{0, 6, no(5, never, 0)},
		step{0, 1, yes(4, 1000*ms)},
		step{0, 1, yes(3, 2000*ms)},
		step{0, 1, yes(2, 3000*ms)},
		step{0, 1, yes(1, 4000*ms)},
		step{0, 1, yes(0, 5000*ms)},
		step{0, 1, no(0, 1000*ms, 5000*ms)},
		step{3000 * ms, 1, yes(2, 3000*ms)},
		step{3100 * ms, 1, yes(1, 3900*ms)},
		step{4000 * ms, 1, yes(1, 4000*ms)},
		step{8000 * ms, 1, yes(4, 1000*ms)},
		step{9500 * ms, 1, yes(4, 1000*ms)},
	)
	peek := g.PeekAt(noon.Add(9500*ms), "key", 1)
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 5, Remaining: 4, ResetAfter: 1000 * ms}, peek)
	take(t, g, noon,
		step{9500 * ms, 2, yes(2, 3000*ms)},
		step{9500 * ms, 5, no(2, 3000*ms, 3000*ms)},
		step{15000 * ms, 6, no(5, never, 0)},
	)
}

// redis-cell's rates: what an evenly sent unit waits for. 0 of anything is an error.
func TestGCRAEmissionInterval(t *testing.T) {
	for _, c := range []struct {
		limit            int
		window, interval time.Duration
	}{
		{24, 24 * time.Hour, time.Hour}, {6, time.Hour, 10 * time.Minute}, {6, time.Minute, 10 * time.Second},
		{6, 2 * time.Minute, 20 * time.Second}, {5, time.Second, 200 * ms},
	} {
		take(t, must(NewGCRA(c.limit, c.window, 1)), noon,
			step{0, 1, yes(0, c.interval)}, step{0, 1, no(0, c.interval, c.interval)})
	}
	_, err := NewGCRA(0, time.Second, 1)
	require.Error(t, err)
}

// go-redis/redis_rate at one instant, 10 a second. Its n = 1000 is told to wait 99s; here
// no wait makes room for more than the burst. Its "at most n" rows, which admit a
// part of a request, do not apply.
func TestGCRARedisRate(t *testing.T) {
	g := must(NewGCRA(10, time.Second, 10))
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 10, Remaining: 10}, g.PeekAt(noon, "key", 1))
	take(t, g, noon,
		step{0, 1, yes(9, 100*ms)},
		step{0, 2, yes(7, 300*ms)},
		step{0, 7, yes(0, 1000*ms)},
		step{0, 1000, no(0, sketchlimit.Never, 1000*ms)},
		step{0, 1, no(0, 100*ms, 1000*ms)},
	)
}

// governor (direct.rs): so many a second, with a burst of the same.
func TestGCRAGovernor(t *testing.T) {
	type call struct {
		at, n int // ms, units
		ok    bool
	}
	for perSecond, calls := range map[int][]call{
		2:  {{0, 1, true}, {1, 1, true}, {2, 1, false}, {1002, 1, true}, {1003, 1, true}, {1004, 1, false}},
		4:  {{0, 2, true}, {0, 2, true}, {1, 2, false}, {1001, 2, true}, {1002, 2, true}, {1003, 2, false}},
		5:  {{0, 15, false}, {0, 7, false}, {0, 6, false}, {0, 5, true}, {0, 1, false}, {2000, 5, true}, {2000, 1, false}},
		20: {{0, 20, true}, {2, 1, false}, {1000, 1, true}},
	} {
		g := must(NewGCRA(perSecond, time.Second, perSecond))
		for i, c := range calls {
			d := g.TakeAt(noon.Add(time.Duration(c.at)*ms), "key", c.n)
			require.Equal(t, c.ok, d.Allowed, "%d/s, call %d", perSecond, i)
			require.Equal(t, c.n > perSecond, d.RetryAfter == sketchlimit.Never, "%d/s, call %d", perSecond, i)
		}
	}
	take(t, must(NewGCRA(1, time.Second, 1)), noon,
		step{0, 1, yes(0, time.Second)}, step{0, 1, no(0, time.Second, time.Second)})
}

// governor: whoever waits as long as told, conforms.
func TestGCRAGovernorConforms(t *testing.T) {
	g, now := must(NewGCRA(5, time.Second, 5)), noon
	for i := range 20 {
		now = now.Add(ms)
		if d := g.TakeAt(now, "key", 1); !d.Allowed {
			now = now.Add(d.RetryAfter)
			require.True(t, g.TakeAt(now, "key", 1).Allowed, "call %d", i)
		}
	}
}

// nginx's guide to limit_req: 10 a second and burst=20, which does not count the
// request on its way. Of 22 at once the first goes on, 20 wait for each other, one is
// refused.
func TestGCRAReserveNginx(t *testing.T) {
	g := must(NewGCRA(10, time.Second, 21))
	for i := range 21 {
		wait, ok := g.ReserveAt(noon, "key", 1)
		require.True(t, ok, "request %d", i)
		require.Equal(t, time.Duration(i)*100*ms, wait, "request %d", i)
	}
	for i, c := range []struct {
		at, wait time.Duration
		n        int
		ok       bool
	}{
		{0, 0, 1, false}, {99 * ms, 0, 1, false}, {100 * ms, 2000 * ms, 1, true}, {100 * ms, 0, 1, false},
		{1100 * ms, 1100 * ms, 5, true}, {1100 * ms, 1600 * ms, 5, true}, {1100 * ms, 0, 1, false},
		{1000 * ms, 0, 1, false}, // a clock that steps back has not emptied it
		{3199 * ms, 1 * ms, 20, true}, {9000 * ms, 0, 21, true}, {9000 * ms, 0, 0, false}, {99 * time.Second, 0, 22, false},
	} {
		wait, ok := g.ReserveAt(noon.Add(c.at), "key", c.n)
		require.Equal(t, c.ok, ok, "step %d", i)
		require.Equal(t, c.wait, wait, "step %d", i)
	}
}

// By the book: a turn comes at the first instant at which what was there before has gone,
// whether that was reserved or taken.
func TestGCRAReserveWaitsForWhatWasBefore(t *testing.T) {
	testkit.OneGoroutine(t)
	for seed := range 100 {
		c := contestants(random(seed))["GCRA"]
		g := c.Limiter.(*GCRA)
		c.history = map[string][]event{}
		for i, o := range schedule(random(seed), 100, c.window, c.limit, false) {
			h := c.history[o.key]
			at := c.taken(o.at, o.key, true)
			if i%3 == 0 {
				d := g.TakeAt(time.Unix(0, o.at), o.key, o.n)
				if c.check(t, d, h, o.at, at, int64(o.n), d.Allowed); d.Allowed {
					c.history[o.key] = append(h, event{at, int64(o.n)})
				}
				continue
			}
			wait, ok := g.ReserveAt(time.Unix(0, o.at), o.key, o.n)
			require.Equal(t, o.n >= 1 && c.admits(h, at, int64(o.n)), ok)
			if !ok {
				require.Zero(t, wait)
				continue
			}
			require.Zero(t, c.load(h, max(at, o.at+int64(wait))).Sign(), "too early")
			if wait > 0 {
				require.Positive(t, c.load(h, o.at+int64(wait)-1).Sign(), "too late")
			}
			c.history[o.key] = append(h, event{at, int64(o.n)})
		}
	}
}

func TestGCRAReserveIsEnqueue(t *testing.T) {
	for seed := range 100 {
		r := random(seed)
		capacity, interval := 1+r.IntN(20), time.Duration(1+r.Int64N(1<<r.IntN(40)))
		g, q := must(NewGCRA(1, interval, capacity)), must(NewLeakyQueue(capacity, interval))
		for i, o := range schedule(r, 200, int64(interval), 1, false) {
			now := time.Unix(0, o.at)
			wait, ok := g.ReserveAt(now, o.key, o.n)
			delay, fits := q.EnqueueAt(now, o.key, o.n)
			require.Equal(t, fits, ok, "op %d: %v", i, o)
			if ok {
				require.Equal(t, delay, wait+time.Duration(o.n)*interval, "op %d: %v", i, o)
			}
		}
	}
}
