package budget_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

var raceFor = flag.Duration("for", time.Second, "how long each concurrent test goes on")

const (
	racers    = 32
	raceKeys  = 600
	hotKeys   = 3
	raceLimit = 50
	raceRoom  = 150 // holds: racers leave more open
)

// record is a hold in the books of many goroutines.
type record struct {
	budget.Hold
	key, units int
	cost       int // what it is settled with
	mu         sync.Mutex
	freed      bool         // what is above the cost counts no more
	settled    atomic.Int32 // calls that settled it
}

// race is a budget that many goroutines use at once, and what they know of it.
type race struct {
	*testing.T
	b     *budget.Budget
	clock atomic.Int64
	ahead time.Duration          // by which goroutines move the clock; 0 if nobody does
	used  [raceKeys]atomic.Int64 // settled in this window, and held: never more than the budget's own
	all   [racers][]*record      // by the goroutine that made them
	over  atomic.Int64           // keys beyond the limit
	told  struct{ denied, noRoom atomic.Int64 }
	again chan *record // to be settled by others as well
}

func newRace(t *testing.T, holdFor time.Duration, limits ...sketchlimit.Config) *race {
	r := &race{T: t, again: make(chan *record, 64)}
	r.clock.Store(start.UnixNano())
	for i := range limits {
		// In 128 KiB about one key of a million reads too much; in 1 MiB none of 3.6
		// million did.
		limits[i].MemoryBytes, limits[i].Clock = 1<<20, func() time.Time { return time.Unix(0, r.clock.Load()) }
	}
	var err error
	r.b, err = budget.New(budget.Config{Limits: limits, InFlight: raceRoom, HoldFor: holdFor})
	require.NoError(t, err)
	t.Cleanup(func() { r.b.Close() })
	return r
}

func keyOf(key int) string { return fmt.Sprint("key ", key) }

// run lets the goroutines make a number of calls each.
func (r *race) run(calls int, seed uint64) {
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(g)))
			for range calls {
				r.step(g, random)
			}
		})
	}
	wg.Wait()
}

func (r *race) step(g int, random *rand.Rand) {
	if r.ahead > 0 && random.IntN(200) == 0 {
		r.clock.Add(random.Int64N(int64(r.ahead)) - int64(r.ahead)/4)
	}
	key := random.IntN(hotKeys)
	if random.IntN(4) == 0 {
		key = random.IntN(raceKeys)
	}
	switch random.IntN(8) {
	case 0, 1, 2:
		r.hold(g, key, 1+random.IntN(6), random)
	case 3, 4, 5:
		if mine := r.all[g]; len(mine) > 0 {
			one := mine[random.IntN(len(mine))]
			select {
			case r.again <- one:
			default:
			}
			if one.key%7 > 0 { // a few keys' holds are never settled
				r.settle(one)
			}
		}
	case 6:
		select {
		case one := <-r.again:
			if one.key%7 > 0 {
				r.settle(one)
			}
		default:
		}
	case 7:
		r.look(key, random)
	}
}

func (r *race) hold(g, key, n int, random *rand.Rand) {
	hold, d := r.b.Hold(keyOf(key), n)
	if !d.Allowed {
		if r.told.denied.Add(int64(n)); d.Remaining >= n {
			r.told.noRoom.Add(int64(n))
		}
		return
	}
	r.add(key, n)
	if more := random.IntN(4); more > 0 && random.IntN(4) == 0 {
		if d := hold.Extend(more); d.Allowed {
			r.add(key, more)
			n += more
		} else if d.Limit > 0 { // or else it has expired, which denies nothing
			r.told.denied.Add(int64(more))
		}
	}
	r.all[g] = append(r.all[g], &record{Hold: hold, key: key, units: n, cost: random.IntN(n + 1)})
}

// add counts units after they are held. While the clock moves, windows pass that this
// does not know of.
func (r *race) add(key, n int) {
	if r.used[key].Add(int64(n)) > raceLimit && r.ahead == 0 {
		r.over.Add(1)
	}
}

// settle counts what a hold frees before it is settled. One that has expired has freed
// nothing.
func (r *race) settle(one *record) {
	one.mu.Lock()
	if !one.freed {
		r.used[one.key].Add(int64(one.cost - one.units))
		one.freed = true
	}
	one.mu.Unlock()
	if one.Settle(one.cost) {
		one.settled.Add(1)
	}
}

// look changes nothing.
func (r *race) look(key int, random *rand.Rand) {
	if random.IntN(500) == 0 {
		r.b.Stats()
	}
	r.b.Held(keyOf(key))
	r.b.Do(sketchlimit.Request{Key: keyOf(key), N: 1 + random.IntN(6), Peek: true})
}

// sums are what the records come to.
type raceSums struct {
	open, held, settled, expired int
	heldOf, settledOf            [raceKeys]int
}

// close is for goroutines that rest. It checks each hold, and forgets those that are
// over.
func (r *race) close() (s raceSums, stats budget.Stats) {
	for len(r.again) > 0 {
		<-r.again
	}
	stats = r.b.Stats() // settles what has expired
	for g := range r.all {
		var left []*record
		for _, one := range r.all[g] {
			n := one.settled.Load()
			require.LessOrEqual(r, n, int32(1), "settled twice")
			switch {
			case one.Units() > 0:
				require.Zero(r, n)
				require.False(r, one.freed)
				s.open++
				s.held += one.units
				s.heldOf[one.key] += one.units
				left = append(left, one)
			case n == 1:
				s.settled += one.cost
				s.settledOf[one.key] += one.cost
			default:
				s.expired++
				s.settled += one.units
				s.settledOf[one.key] += one.units
				if one.freed { // in vain
					r.add(one.key, one.units-one.cost)
				}
			}
		}
		r.all[g] = left
	}
	require.Zero(r, r.over.Load(), "keys beyond the limit")
	return s, stats
}

// checkStats holds the Stats against sums of all there was.
func (r *race) checkStats(s raceSums, settled, expired int, stats budget.Stats) {
	require.Equal(r, []int{s.open, s.held, settled, expired, 0, int(r.told.denied.Load()), int(r.told.noRoom.Load())},
		[]int{stats.Open, int(stats.Held), int(stats.Settled), int(stats.Expired), int(stats.Overdraft), int(stats.Denied), int(stats.NoRoom)})
	for key := range raceKeys {
		require.Equal(r, s.heldOf[key], r.b.Held(keyOf(key)))
	}
}

// Goroutines hold, extend, settle, settle again what others have settled, and leave
// holds open, while the clock stands; between such rounds it moves on, and windows
// turn. At each moment what a key holds and what it has settled is at most the limit;
// whenever all rest, the books tell each unit: no more is free than there should be,
// and no less.
func TestConcurrentFixedWindows(t *testing.T) {
	const window, holdFor = time.Minute, 40 * time.Second
	r := newRace(t, holdFor, fixed(raceLimit, window))
	settled, expired := 0, 0
	random := rand.New(rand.NewPCG(1, 1))
	for round, end := uint64(0), time.Now().Add(*raceFor); round < 8 || time.Now().Before(end); round++ {
		r.run(300, round)
		s, stats := r.close()
		settled, expired = settled+s.settled, expired+s.expired
		r.checkStats(s, settled, expired, stats)
		for key := range raceKeys {
			_, d := r.b.Do(sketchlimit.Request{Key: keyOf(key), Peek: true})
			require.EqualValues(t, raceLimit-r.used[key].Load(), d.Remaining, "round %d, key %d", round, key)
		}
		before := r.clock.Load()
		if after := r.clock.Add(random.Int64N(int64(25 * time.Second))); after/int64(window) > before/int64(window) {
			for key := range r.used {
				r.used[key].Store(int64(s.heldOf[key]))
			}
		}
	}
	t.Logf("%d units settled, %d holds expired, %d units denied, %d for want of room",
		settled, expired, r.told.denied.Load(), r.told.noRoom.Load())
	require.NotZero(t, expired)
	require.NotZero(t, r.told.noRoom.Load())
	require.Greater(t, r.told.denied.Load(), r.told.noRoom.Load())
}

// The clock moves all the time, back as well. When all rest, no key has settled more
// than the windows or the time that passed allow, and Stats are the sums of what
// callers were told.
func TestConcurrentMovingClocks(t *testing.T) {
	if testing.Short() {
		t.Skip("for seconds: without -short")
	}
	for name, limits := range map[string][]sketchlimit.Config{
		"sliding":           {sliding(raceLimit, time.Minute)},
		"bucket":            {bucket(raceLimit, time.Minute)},
		"sliding and fixed": {sliding(raceLimit, time.Minute), fixed(4*raceLimit, time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRace(t, 5*time.Second, limits...)
			r.ahead = time.Second
			settled, expired := 0, 0
			var total [raceKeys]int
			for round, end := uint64(0), time.Now().Add(*raceFor/3); round < 8 || time.Now().Before(end); round++ {
				r.run(300, round)
				s, stats := r.close()
				settled, expired = settled+s.settled, expired+s.expired
				r.checkStats(s, settled, expired, stats)
				passed := r.clock.Load() + int64(r.ahead)*racers - start.UnixNano() // or less
				for key := range total {
					total[key] += s.settledOf[key]
					for _, c := range limits {
						most := c.Limit * (2 + int(passed/int64(c.Window)))
						require.LessOrEqual(t, total[key]+s.heldOf[key], most, "round %d, key %d", round, key)
					}
				}
			}
			t.Logf("%d units settled, %d holds expired", settled, expired)
			require.NotZero(t, expired)
		})
	}
}
