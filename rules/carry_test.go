package rules_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// Whatever limits and sizes follow each other, a key has what is left of the present
// limit, in every window.
func TestChangedLimitsOfWindows(t *testing.T) {
	testkit.OneGoroutine(t)
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		text := func(limit int) string {
			return fmt.Sprintf("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: %d, keys: %d}}]", limit, 20_000+random.IntN(3))
		}
		limit := 10
		l := load(t, text(limit))
		used, window := map[string]int{}, int64(0)
		for range 300 {
			if random.IntN(8) == 0 {
				limit = []int{0, 5, 10, 20, 300}[random.IntN(5)]
				l.write(t, text(limit))
				require.NoError(t, l.Reload())
			}
			l.clock.now = l.clock.now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			if now := l.clock.now.Unix() / 60; now != window {
				clear(used)
				window = now
			}
			user, n := fmt.Sprint("user=", random.IntN(3)), random.IntN(4)
			a := l.Do("api", ask(n, user))
			want := used[user]+max(n, 1) <= limit
			require.Equal(t, want, a.Admitted, "seed %d: %d of %d, and %d", seed, used[user], limit, n)
			if want {
				used[user] += n
			}
			require.Equal(t, max(limit-used[user], 0), a.Statuses[0].Remaining)
		}
	}
}

// changing calls decide with requests of one key, now and then with another limit and
// size, after it has called change for that.
func changing(t *testing.T, seed uint64, algorithm string, change func(limit int, now time.Time), decide func(l *loaded, n int)) {
	random := rand.New(rand.NewPCG(seed, 3))
	keys := 100
	text := func(limit int) string {
		if keys += random.IntN(2); algorithm == "token_bucket" {
			keys++ // of the same size, it would go on at another rate
		}
		return fmt.Sprintf("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: %s, keys: %d}}]",
			limit, algorithm, keys)
	}
	l := load(t, text(10))
	change(10, l.clock.now)
	for range 400 {
		if random.IntN(50) == 0 {
			limit := []int{5, 10, 20, 100}[random.IntN(4)]
			l.write(t, text(limit))
			require.NoError(t, l.Reload())
			change(limit, l.clock.now)
		}
		l.clock.now = l.clock.now.Add(time.Duration(random.IntN(8000)) * time.Millisecond)
		decide(l, 1+random.IntN(3))
	}
}

// A sliding window never admits what the present limit would not, by all that was
// admitted; and exactly that once two windows have passed.
func TestChangedLimitsOfSlidingWindows(t *testing.T) {
	for seed := range uint64(40) {
		var current, previous, window, limit, changed int64
		changing(t, seed, "sliding_window", func(l int, now time.Time) { limit, changed = int64(l), now.Unix()/60 }, func(l *loaded, n int) {
			switch now := l.clock.now.Unix() / 60; now - window {
			case 0:
			case 1:
				current, previous, window = 0, current, now
			default:
				current, previous, window = 0, 0, now
			}
			left := int64(time.Minute) - l.clock.now.UnixNano()%int64(time.Minute)
			free := (limit-current-int64(n))*int64(time.Minute) - previous*left
			a := l.Do("api", ask(n, "user=ann"))
			if a.Admitted {
				require.GreaterOrEqual(t, free, int64(0), "seed %d", seed)
				current += int64(n)
			} else if window > changed+2 {
				require.Negative(t, free, "seed %d", seed)
			}
		})
	}
}

// What a key has used of a bucket flows back at the rate of back then, until the key
// comes again.
func TestChangedLimitsOfBuckets(t *testing.T) {
	type level struct {
		units, rate float64 // of a limit, in seconds
		at          time.Time
	}
	for seed := range uint64(40) {
		var levels []level // the present one is the last
		limit, admitted := 0.0, 0
		changing(t, seed, "token_bucket", func(l int, now time.Time) {
			limit = float64(l)
			levels = append(levels, level{0, limit / 60, now})
		}, func(l *loaded, n int) {
			before := 0.0
			for i := range levels {
				v := &levels[i]
				v.units, v.at = max(0, v.units-v.rate*l.clock.now.Sub(v.at).Seconds()), l.clock.now
				before = max(before, v.units)
			}
			present := &levels[len(levels)-1] // is charged with whole units, as far as it has them
			present.units = max(present.units, min(before, limit-1))
			used := present.units
			a := l.Do("api", ask(n, "user=ann"))
			require.LessOrEqual(t, float64(a.Statuses[0].Remaining), limit-used+1e-5, "seed %d", seed)
			if a.Admitted {
				require.LessOrEqual(t, used+float64(n), limit+1e-5, "seed %d", seed)
				present.units = used + float64(n)
				admitted++
			} else {
				require.Greater(t, used+float64(n), limit-1-float64(len(levels)), "seed %d: a unit at most a change is lost in rounding", seed)
			}
		})
		require.Greater(t, admitted, 50)
	}
}

// What is carried on of a bucket is rounded up to units, but not what only is no whole
// number of nanoseconds. A burst that was used flows back for longer than a window.
func TestChangedBuckets(t *testing.T) {
	for _, c := range []struct {
		limit, burst, used int
		after              time.Duration
		want               int
	}{
		{7, 7, 1, 0, 6},
		{7, 7, 3, 0, 4},
		{6, 6, 3, 5 * time.Second, 3},
		{6, 6, 3, 10 * time.Second, 4},
		{1, 10, 10, 5 * time.Minute, 5},
		{1, 10, 10, 10 * time.Minute, 10},
	} {
		text := func(keys int) string {
			return fmt.Sprintf("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: token_bucket, burst: %d, keys: %d}}]",
				c.limit, c.burst, keys)
		}
		l := load(t, text(100))
		require.True(t, l.Do("api", ask(c.used, "user=ann")).Admitted)
		l.write(t, text(1000))
		require.NoError(t, l.Reload())
		l.clock.now = l.clock.now.Add(c.after)
		require.Equal(t, c.want, l.Do("api", ask(0, "user=ann")).Statuses[0].Remaining, "%+v", c)
	}
}

// Former counts go when they do not matter any more, and their memory with them; as
// long as it is there it counts.
func TestFormerCountsGo(t *testing.T) {
	text := func(limit, keys int) string {
		return fmt.Sprintf("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: sliding_window, keys: %d}}]", limit, keys)
	}
	l := load(t, text(5, 1000))
	one := l.MemoryBytes()
	require.True(t, l.Do("api", ask(5, "user=ann")).Admitted)
	for _, limit := range []int{6, 5, 6, 5, 6} {
		l.write(t, text(limit, 995+limit))
		require.NoError(t, l.Reload())
		require.Less(t, l.MemoryBytes(), 3*one, "what was there before is taken up again")
	}
	require.Greater(t, l.MemoryBytes(), one)
	l.write(t, text(7, 50_000_000))
	require.ErrorContains(t, l.Reload(), "must be at most 67108864")
	require.True(t, l.Do("api", ask(1, "user=ann")).Admitted)
	require.False(t, l.Do("api", ask(1, "user=ann")).Admitted)
	l.clock.now = l.clock.now.Add(119 * time.Second)
	require.Equal(t, 5, l.Do("api", ask(0, "user=ann")).Statuses[0].Remaining, "a sixtieth of it matters")
	require.Greater(t, l.MemoryBytes(), one)
	l.clock.now = l.clock.now.Add(time.Second)
	require.Equal(t, 6, l.Do("api", ask(0, "user=ann")).Statuses[0].Remaining)
	require.Equal(t, l.All()[0].MemoryBytes(), l.MemoryBytes())

	l.write(t, text(5, 1000))
	require.NoError(t, l.Reload())
	l.clock.now = l.clock.now.Add(2 * time.Minute)
	require.Greater(t, l.MemoryBytes(), l.All()[0].MemoryBytes())
	require.NoError(t, l.Adapt())
	require.Equal(t, l.All()[0].MemoryBytes(), l.MemoryBytes(), "also of a rule that nobody asks")
}

// yielding is a hash in which others get the processor: between looking at a counter
// and charging it.
type yielding struct{ sketchlimit.Hash }

func (y yielding) Sum64(key []byte) uint64 {
	runtime.Gosched()
	return y.Hash.Sum64(key)
}

// Requests that race for a key after a reload charge what it has used once.
func TestRacingRequestsCarryOnce(t *testing.T) {
	text := func(size int) rules.File {
		return rules.File{Name: "f", Data: fmt.Appendf(nil, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 100, keys: %d}}]", size)}
	}
	l, err := rules.Options{
		MaxMemoryBytes: 64 << 20, Hash: yielding{sketchlimit.MapHash()}, Clock: func() time.Time { return time.Unix(0, 0) },
	}.New(text(100_000))
	require.NoError(t, err)
	const keys, racers = 500, 4
	for i := range keys {
		require.True(t, l.Do("api", ask(40, fmt.Sprint("user=", i))).Admitted)
	}
	require.NoError(t, l.Replace(text(100_001)))
	for i := range keys {
		var wg sync.WaitGroup
		for range racers {
			wg.Go(func() { l.Do("api", ask(1, fmt.Sprint("user=", i))) })
		}
		wg.Wait()
	}
	for i := range keys {
		left := l.Do("api", ask(0, fmt.Sprint("user=", i))).Statuses[0].Remaining
		require.InDelta(t, 100-40-racers, left, 2, i) // it shares some cells with others
	}
}

// A request that the rules change under is decided by the new ones: nothing is counted
// in a former limiter that others have read already.
func TestRulesChangeInTheMidstOfARequest(t *testing.T) {
	const text = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: %d}}]"
	l := load(t, fmt.Sprintf(text, 3))
	times := 0
	decider, err := l.HTTP("api", func(d *rules.Descriptors, _ *http.Request) {
		if times++; times == 1 {
			l.write(t, fmt.Sprintf(text, 5))
			require.NoError(t, l.Reload())
			require.Equal(t, "admitted 4", l.take("api", "user=ann"))
		}
		d.Add(rules.Entry{Key: "user", Value: "ann"})
	})
	require.NoError(t, err)
	var a httplimit.Answer
	decider.Decide(&a, nil, 1)
	require.Equal(t, 2, times)
	require.Len(t, a.Policies, 1)
	require.Equal(t, 3, a.Policies[0].Remaining)
}

// A rule that stops counting for a while goes on where it stood.
func TestRulesThatDoNotCountForAWhile(t *testing.T) {
	const text = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5}}]"
	l := load(t, text)
	for _, meanwhile := range []string{"unit: hour, requests_per_unit: 0", "unlimited: true"} {
		require.True(t, l.Do("api", ask(2, "user=ann")).Admitted)
		l.write(t, strings.Replace(text, "unit: hour, requests_per_unit: 5", meanwhile, 1))
		require.NoError(t, l.Reload())
		l.Do("api", ask(2, "user=ann"))
		l.write(t, text)
		require.NoError(t, l.Reload())
	}
	require.Equal(t, 1, l.Do("api", ask(0, "user=ann")).Statuses[0].Remaining)
}

// A limit that changes by no more than a factor of two goes on in the same memory. The
// next change goes on there as well, whatever the factor, as far as cells reach: no key
// gets more than the highest of all limits, and nothing is let go.
func TestLimitsChangeAgainAndAgain(t *testing.T) {
	const text = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: %d, algorithm: %s}}]"
	for _, algorithm := range []string{"fixed_window", "sliding_window", "token_bucket"} {
		l := &loaded{clock: &clock{time.Unix(1e9, 0)}, file: filepath.Join(t.TempDir(), "rules.yaml")}
		l.write(t, fmt.Sprintf(text, 10, algorithm))
		var err error
		l.Rules, err = rules.Options{MaxMemoryBytes: 4 << 20, SharedBytes: 2 << 20, Clock: l.clock.read}.Load(l.file)
		require.NoError(t, err)
		one := l.MemoryBytes()
		require.True(t, l.Do("api", ask(5, "user=ann")).Admitted)
		for _, limit := range []int{20, 30} {
			l.write(t, fmt.Sprintf(text, limit, algorithm))
			require.NoError(t, l.Reload())
		}
		require.Equal(t, 25, l.Do("api", ask(0, "user=ann")).Statuses[0].Remaining, algorithm)
		require.Equal(t, one, l.MemoryBytes())

		random, highest, admitted := rand.New(rand.NewPCG(1, 4)), 30, 5
		folder := t.TempDir()
		for i := range 20 {
			limit := 16 + random.IntN(30)
			highest = max(highest, limit)
			l.write(t, fmt.Sprintf(text, limit, algorithm))
			require.NoError(t, l.Reload())
			if i%3 == 0 { // a restart, with another limit yet
				require.NoError(t, l.Save(folder))
				l.write(t, fmt.Sprintf(text, limit-1, algorithm))
				l.Rules, err = rules.Options{MaxMemoryBytes: 4 << 20, SharedBytes: 2 << 20, Clock: l.clock.read}.Load(l.file)
				require.NoError(t, err)
				require.NoError(t, l.Restore(folder))
			}
			for range random.IntN(4) {
				if l.Do("api", ask(1, "user=ann")).Admitted {
					admitted++
				}
			}
			require.LessOrEqual(t, l.MemoryBytes(), 4<<20)
		}
		require.LessOrEqual(t, admitted, highest, algorithm)
		require.Greater(t, admitted, 16)
		require.Zero(t, l.All()[0].Dropped())
	}
}

// What there is no memory for is let go, and counted.
func TestDroppedCountsAreCounted(t *testing.T) {
	const text = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: %d, memory: 1MiB}}]"
	files := func(limit int) rules.File { return rules.File{Name: "f", Data: fmt.Appendf(nil, text, limit)} }
	l, err := rules.Options{MaxMemoryBytes: 5 << 19, Clock: func() time.Time { return time.Unix(0, 0) }}.New(files(10))
	require.NoError(t, err)
	require.NoError(t, l.Replace(files(1000)), "in wider cells, beside the former")
	require.Zero(t, l.All()[0].Dropped())
	require.NoError(t, l.Replace(files(100_000)))
	require.EqualValues(t, 1, l.All()[0].Dropped())
	require.NoError(t, l.Replace(rules.File{Name: "f", Data: fmt.Appendf(nil, strings.Replace(text, "day", "hour", 1), 10)}))
	require.EqualValues(t, 3, l.All()[0].Dropped(), "of another window, those of before and what is beside them")
}

// A limit that comes back goes on in its cells, of 4 bits here. The next one counts
// past them: it goes on in the cells of 8 bits that are beside, as there is no memory
// for a third limiter.
func TestLimitGoesOnInAFormerThatFits(t *testing.T) {
	const text = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: %d, algorithm: %s, memory: 1MiB}}]"
	for _, algorithm := range []string{"fixed_window", "sliding_window", "token_bucket"} {
		files := func(limit int) rules.File {
			return rules.File{Name: "f", Data: fmt.Appendf(nil, text, limit, algorithm)}
		}
		l, err := rules.Options{MaxMemoryBytes: 5 << 19, Clock: func() time.Time { return time.Unix(0, 0) }}.New(files(100))
		require.NoError(t, err)
		for _, edit := range []struct{ limit, left, used int }{{100, 100, 60}, {200, 140, 100}, {100, 0, 0}, {199, 39, 9}, {100, 0, 0}, {180, 11, 11}} {
			require.NoError(t, l.Replace(files(edit.limit)))
			require.Equal(t, edit.left, l.Do("api", ask(0, "user=ann")).Statuses[0].Remaining, "%s %d", algorithm, edit.limit)
			l.Do("api", ask(edit.used, "user=ann"))
		}
		require.Zero(t, l.All()[0].Dropped())
	}
}

// After two windows a limiter is made for the limit that it has. Its counts stay beside.
func TestShapeOfAFormerLimitGoes(t *testing.T) {
	const text = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: %d, keys: 100000}}]"
	l := load(t, fmt.Sprintf(text, 60))
	one := l.MemoryBytes()
	l.write(t, fmt.Sprintf(text, 120))
	require.NoError(t, l.Reload())
	l.clock.now = l.clock.now.Add(119 * time.Second)
	require.NoError(t, l.Adapt())
	require.Equal(t, one, l.MemoryBytes())
	require.True(t, l.Do("api", ask(100, "user=ann")).Admitted)
	l.clock.now = l.clock.now.Add(time.Second)
	require.True(t, l.Do("api", ask(50, "user=ann")).Admitted)
	require.NoError(t, l.Adapt())
	require.Greater(t, l.MemoryBytes(), one)
	require.Equal(t, 70, l.Do("api", ask(0, "user=ann")).Statuses[0].Remaining)
	require.Zero(t, l.All()[0].Dropped())
}
