package main

import (
	"bytes"
	"maps"
	"math"
	"math/big"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// shown is a clock that somebody else moves, and all that it has shown.
type shown struct {
	mu    sync.Mutex
	times []int64
	last  atomic.Int64 // index of the latest
	now   atomic.Int64
}

func (s *shown) show(t int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, t)
	s.last.Store(int64(len(s.times))) // from now on it may be read
	s.now.Store(t)
}

// spell is what a goroutine was granted while the clock showed some of its times: from
// the from-th to the to-th.
type spell struct {
	key, n   int
	from, to int64
	floor    int64 // a generation that had been seen before
}

// playClock moves a clock while goroutines ask: it stands still, jumps ahead, to edges
// and back. What a goroutine was granted counts at some time that the clock showed
// meanwhile, or in a later generation that it had shown before.
func playClock(t *trial) {
	c := drawConfig(t.Rand, anyAlgorithm(t.Rand))
	for c.Window > 1<<50 || c.Limit > 1<<20 || c.Limit < 2 {
		c = drawConfig(t.Rand, anyAlgorithm(t.Rand))
	}
	var clock shown
	c.Clock = func() time.Time { return at(clock.now.Load()) }
	t.made = "  " + describe(c)
	o := newOracle(c, nil)
	now := 1_700_000_000_000_000_000 + t.Int64N(1<<50)
	clock.show(now)
	l, err := t.b.make.limiter(c)
	if err != nil {
		t.fail("setup", "%v", err)
		return
	}
	defer l.Close()
	var crew crew
	var done atomic.Bool
	var asked, floor atomic.Int64
	floor.Store(math.MinInt64)
	var spells []spell
	keys := 1 + t.IntN(3)
	for range t.b.workers {
		r := newRand(t.Uint64())
		crew.start(func() {
			var got []spell
			for !done.Load() {
				s := spell{key: r.IntN(keys), n: 1 + r.IntN(1+c.Limit/10), from: clock.last.Load() - 1, floor: floor.Load()}
				var admitted bool
				switch r.IntN(8) {
				case 0:
					s.n = 1
					admitted = l.Allow(name(s.key))
				case 1:
					admitted = l.AllowN(name(s.key), s.n)
				case 2:
					admitted = l.Do(sketchlimit.Request{Bytes: []byte(name(s.key)), N: s.n}).Allowed
				case 3:
					l.Peek(name(s.key))
					continue
				default:
					admitted = l.Take(name(s.key), s.n).Allowed
				}
				s.to = clock.last.Load() - 1
				asked.Add(1)
				if s.from == s.to || s.from+1 == s.to { // its generation, or a later one, has been seen
					clock.mu.Lock()
					lowest := slices.Min(clock.times[max(0, s.from-1) : s.to+1])
					clock.mu.Unlock()
					for g, seen := o.generation(lowest), floor.Load(); seen < g && !floor.CompareAndSwap(seen, g); seen = floor.Load() {
					}
				}
				if admitted {
					got = append(got, s)
				}
			}
			crew.mu.Lock()
			defer crew.mu.Unlock()
			spells = append(spells, got...)
		})
	}
	crew.start(func() {
		for i := 0; !done.Load(); i++ {
			l.Stats()
			if i%4 == 0 {
				var b bytes.Buffer
				l.WriteTo(&b)
			}
			runtime.Gosched()
		}
	})
	for range 10 + t.IntN(40) {
		for until := asked.Load() + t.Int64N(400); asked.Load() < until; {
			runtime.Gosched()
		}
		begins := now - int64(modulo64(now, o.turn))
		switch t.IntN(9) {
		case 0:
			now = begins + o.turn - 1
		case 1, 2, 3:
			now = begins + o.turn
		case 4:
			now += t.Int64N(1 + o.turn/50)
		case 5:
			now += t.Int64N(3 * o.turn)
		case 6:
			now -= t.Int64N(1 + o.turn/4)
		case 7:
			now -= t.Int64N(2 * o.turn)
		case 8:
			now++
		}
		clock.show(now)
	}
	done.Store(true)
	crew.Wait()
	for _, p := range crew.panics {
		t.fail("panic", "%v", p)
	}
	t.steps += int(asked.Load())
	for key := range keys {
		var mine []spell
		for _, s := range spells {
			if s.from = max(0, s.from-1); s.key == key { // a time may have been counted before it was shown
				mine = append(mine, s)
			}
		}
		if o.scale != nil {
			t.judgeBucket(o, &clock, mine)
		} else {
			t.judgeWindows(o, &clock, mine)
		}
	}
}

// generation returns the generation of a time, whatever was seen before.
func (o *oracle) generation(t int64) int64 { return (t - int64(modulo64(t, o.length))) / o.length }

// judgeWindows holds what one key was granted against what is sure: units whose
// generation is known.
func (t *trial) judgeWindows(o *oracle, clock *shown, mine []spell) {
	most, sum := map[int64]int64{}, map[int64]int64{} // of generations that were shown: the latest time in it, units
	for _, at := range clock.times {
		g := o.generation(at)
		most[g] = max(most[g], at-g*o.length)
	}
	shown := slices.Sorted(maps.Keys(most))
	type span struct{ low, high, n int64 }
	var spans []span
	for _, s := range mine {
		low := max(s.floor, o.generation(slices.Min(clock.times[s.from:s.to+1])))
		high := o.generation(slices.Max(clock.times[:s.to+1]))
		spans = append(spans, span{low, high, int64(s.n)})
		if low == high {
			sum[low] += int64(s.n)
		}
	}
	for i, from := range shown {
		for j := i; j < len(shown); j++ {
			var units int64
			for _, s := range spans {
				if s.low >= from && s.high <= shown[j] {
					units += s.n
				}
			}
			if limit := o.limit * int64(j-i+1); units > limit {
				t.fail("over-admission", "%d units admitted in generations %d … %d, %d of which were shown", units, from, shown[j], j-i+1)
			}
		}
	}
	for g, units := range sum {
		// When the last of them was admitted, earlier generations weighed at least what
		// they do at the latest time shown.
		weighed := product(units, big.NewInt(o.length))
		for age := int64(1); age < int64(o.kept); age++ {
			weight := o.length
			if age == int64(o.kept)-1 {
				weight -= most[g]
			}
			weighed.Add(weighed, product(sum[g-age], big.NewInt(weight)))
		}
		if weighed.Cmp(product(o.limit, big.NewInt(o.length))) > 0 {
			t.fail("over-admission", "generation %d: %d units admitted up to %d ns, before it %d", g, units, most[g], sum[g-1])
		}
	}
}

// judgeBucket holds what one key was granted against what a full bucket gives in the
// time between.
func (t *trial) judgeBucket(o *oracle, clock *shown, mine []spell) {
	for a := range clock.times {
		latest, least := slices.Max(clock.times[:a+1]), clock.times[a]
		for b := a; b < len(clock.times); b++ {
			latest, least = max(latest, clock.times[b]), min(least, clock.times[b])
			var units int64
			for _, s := range mine {
				if s.from >= int64(a) && s.to <= int64(b) {
					units += int64(s.n)
				}
			}
			if product(units-o.burst, big.NewInt(o.window)).Cmp(product(latest-least, big.NewInt(o.limit))) > 0 {
				t.fail("over-admission", "%d units admitted in %d ns", units, latest-least)
			}
		}
	}
}

// playWall asks limiters by the default clock, some of which are made and closed
// meanwhile: no key gets more than the limit for each generation that has begun, and
// what was used up comes back.
func playWall(t *trial) {
	window := time.Duration(20+t.IntN(60)) * time.Millisecond
	c := sketchlimit.Config{Limit: 1 + t.IntN(50), Window: window, Algorithm: anyWindow(t.Rand), MemoryBytes: 16 << 10, Seed: 1}
	t.made = "  " + describe(c)
	began := time.Now()
	wall := func() int64 { return max(began.Add(time.Since(began)).UnixNano(), time.Now().Round(0).UnixNano()) }
	generation := func(t int64) int64 { return t / int64(window) }
	var crew crew
	for range min(t.b.workers, 8) {
		r := newRand(t.Uint64())
		crew.start(func() {
			first := generation(wall())
			l, err := t.b.make.limiter(c)
			if err != nil {
				panic(err)
			}
			defer l.Close()
			var sum int64
			idle, denied := r.IntN(2) == 0, time.Time{}
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) || !denied.IsZero(); {
				if n := 1 + r.IntN(3); c.Limit >= n && l.Take("key", n).Allowed {
					sum += int64(n)
					denied = time.Time{}
				} else if denied.IsZero() {
					denied = time.Now()
				}
				if begun := generation(wall()) - first + 1; sum > begun*int64(c.Limit) {
					crew.mu.Lock()
					t.fail("over-admission", "%d units admitted in %d generations of the wall clock", sum, begun)
					crew.mu.Unlock()
					return
				}
				if !denied.IsZero() && time.Since(denied) > 20*time.Second {
					crew.mu.Lock()
					t.fail("stuck", "denied for 20 s")
					crew.mu.Unlock()
					return
				}
				if idle && r.IntN(10) == 0 {
					time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
				} else {
					time.Sleep(100 * time.Microsecond)
				}
				if r.IntN(100) == 0 { // others come and go
					if other, err := t.b.make.limiter(c); err == nil {
						other.Take("key", 1)
						other.Close()
					}
				}
			}
		})
	}
	crew.Wait()
	for _, p := range crew.panics {
		t.fail("panic", "%v", p)
	}
	t.steps += min(t.b.workers, 8)
}
