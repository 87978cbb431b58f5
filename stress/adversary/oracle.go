package main

import (
	"math"
	"math/big"
	"math/bits"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// oracle is the exact algorithm for one limiter, in whole numbers of any size: it keeps
// what each key was granted, and divides nothing that it could compare crosswise. It is
// written from the documented rules alone and shares no code with the limiter.
type oracle struct {
	algorithm sketchlimit.Algorithm
	limit     int64
	burst     int64
	window    int64 // ns
	length    int64 // of a generation, ns; 1 of a bucket
	turn      int64 // what loads take for one, ns
	kept      int   // generations
	latest    int64 // generation seen; before the first one math.MinInt64, and then any time will do
	keys      []use
	scale     *big.Int // a bucket's time is in this part of a nanosecond: a multiple of all limits

	// others returns what a key was granted elsewhere in a generation, by its number.
	others func(key int, generation int64) int64
}

// use is what one key was granted.
type use struct {
	counts []count // one for each generation kept; index: its number modulo their number

	// When the bucket is full, in 1/scale ns; nil: it always was. A bucket's
	// generations are its own affair, and so is how far a time that has stepped back is
	// taken ahead: to the latest time seen at most. full is the earliest that may be,
	// and last the latest. They are the same once times have gone on for as long as the
	// bucket takes to fill.
	full, last *big.Int
}

type count struct {
	generation int64
	n          int64
}

// newOracle returns the oracle of a limiter that has seen no time. Limits are those of
// the requests' own that may come.
func newOracle(c sketchlimit.Config, limits []int) *oracle {
	o := &oracle{algorithm: c.Algorithm, limit: int64(c.Limit), burst: int64(c.Burst), window: int64(c.Window), kept: 1, latest: math.MinInt64}
	if o.burst == 0 {
		o.burst = o.limit
	}
	switch c.Algorithm {
	case sketchlimit.SlidingWindow:
		sub := max(1, c.SubWindows)
		o.length, o.kept = int64(c.Window)/int64(sub), sub+1
	case sketchlimit.FixedWindow:
		o.length = int64(c.Window)
	default:
		o.length = 1
		o.scale = big.NewInt(o.limit)
		for _, limit := range limits {
			if limit > 0 && int64(limit) < o.limit { // the least common multiple
				x := big.NewInt(int64(limit))
				common := new(big.Int).GCD(nil, nil, o.scale, x)
				o.scale.Mul(o.scale, x.Div(x, common))
			}
		}
	}
	o.turn = o.length
	if o.scale != nil {
		fills, _ := new(big.Float).SetInt(product(o.window, big.NewInt(o.burst/o.limit+1))).Int64()
		o.turn = max(1<<30, fills>>1)
	}
	return o
}

// lastTime is where time ends, in whole seconds.
const lastTime = (1 << 62) / 1_000_000_000 * 1_000_000_000

// position returns the generation of a time and the ns since it began. A time before the
// latest generation counts as its first instant.
//
// Times after 2116 are its last moment that there is, and those before 1823 the first.
func (o *oracle) position(t int64) (generation, elapsed int64) {
	t = known(t)
	generation, elapsed = t/o.length, t%o.length
	if elapsed < 0 {
		generation, elapsed = generation-1, elapsed+o.length
	}
	if generation < o.latest {
		return o.latest, 0
	}
	return generation, elapsed
}

// known returns a time as far as times are told apart.
func known(t int64) int64 {
	switch {
	case t >= lastTime:
		return 1<<62 - 1
	case t < -lastTime+1e9:
		return 1 - 1<<62
	}
	return t
}

// passed reports whether a time is before the latest generation.
func (o *oracle) passed(t int64) bool {
	generation, elapsed := o.position(t)
	return generation*o.length+elapsed != t
}

// see makes the oracle take note of the time of a request.
func (o *oracle) see(t int64) { o.latest, _ = o.position(t) }

// most returns the units of a limit's whole quota.
func (o *oracle) most(limit int64) int64 {
	limit = max(0, min(limit, o.limit))
	switch {
	case o.scale == nil:
		return limit
	case limit == o.limit:
		return o.burst
	case limit == 0:
		return 0
	}
	hi, lo := bits.Mul64(uint64(o.burst), uint64(limit))
	q, _ := bits.Div64(hi, lo, uint64(o.limit))
	return max(1, int64(q))
}

// free returns the whole units that the key may have at a time, below 0 if it has had
// more than the limit. It changes nothing.
func (o *oracle) free(t int64, key int, limit int64) int64 {
	limit = max(0, min(limit, o.limit))
	generation, elapsed := o.position(t)
	if o.scale != nil {
		return o.freeBucket(generation*o.length+elapsed, key, limit)
	}
	free := limit
	for age := range int64(o.kept) {
		n := o.granted(key, generation-age)
		if age > 0 && age == int64(o.kept)-1 {
			// n × (length - elapsed) / length, rounded up: for whole numbers of units
			// that is the exact comparison.
			var a, b big.Int
			a.Mul(a.SetInt64(n), b.SetInt64(o.length-elapsed))
			n = ceil(&a, b.SetInt64(o.length))
		}
		free -= n
	}
	return free
}

// granted returns what the key was granted in a generation, here and elsewhere.
func (o *oracle) granted(key int, generation int64) (n int64) {
	if o.others != nil {
		n = o.others(key, generation)
	}
	return n + o.own(key, generation)
}

// own returns what the key was granted here in a generation.
func (o *oracle) own(key int, generation int64) int64 {
	if key >= len(o.keys) || o.keys[key].counts == nil {
		return 0
	}
	if c := o.keys[key].counts[modulo(generation, o.kept)]; c.generation == generation {
		return c.n
	}
	return 0
}

func (o *oracle) freeBucket(now int64, key int, limit int64) int64 {
	most := o.most(limit)
	if key >= len(o.keys) || o.keys[key].full == nil || limit == 0 {
		return most
	}
	var ahead, x big.Int
	ahead.Sub(o.keys[key].full, x.Mul(x.SetInt64(now), o.scale))
	if ahead.Sign() <= 0 {
		return most
	}
	// A bucket holds most - ahead × limit / window units.
	ahead.Mul(&ahead, big.NewInt(limit))
	return most - ceil(&ahead, x.Mul(x.SetInt64(o.window), o.scale))
}

// charge grants the key units at a time. A limit of 0 has no units that could be.
func (o *oracle) charge(t int64, key int, n, limit int64) {
	limit = min(limit, o.limit)
	if o.see(t); limit == 0 {
		return
	}
	generation, _ := o.position(t)
	for key >= len(o.keys) {
		o.keys = append(o.keys, use{})
	}
	u := &o.keys[key]
	if o.scale != nil {
		if u.full == nil {
			u.full, u.last = product(known(t), o.scale), product(generation, o.scale)
		}
		// n × window / limit; the scale is a multiple of the limit.
		x := new(big.Int).Mul(big.NewInt(n), big.NewInt(o.window))
		x.Mul(x, new(big.Int).Div(o.scale, big.NewInt(limit)))
		for full, now := range map[*big.Int]int64{u.full: known(t), u.last: generation} {
			if now := product(now, o.scale); full.Cmp(now) < 0 {
				full.Set(now)
			}
			full.Add(full, x)
		}
		return
	}
	if u.counts == nil {
		u.counts = make([]count, o.kept)
		for i := range u.counts {
			u.counts[i].generation = math.MinInt64
		}
	}
	c := &u.counts[modulo(generation, o.kept)]
	if c.generation != generation {
		*c = count{generation: generation}
	}
	c.n += n
}

// earlier is free for a bucket, at a time that is taken as it is.
func (o *oracle) earlier(t int64, key int, limit int64) int64 { return o.freeBucket(t, key, limit) }

// sure reports whether the key's bucket is full at one time for sure, and the time that
// counts is t.
func (o *oracle) sure(t int64, key int) bool {
	if o.passed(t) || key >= len(o.keys) || o.keys[key].full == nil {
		return !o.passed(t)
	}
	u := &o.keys[key]
	return u.full.Cmp(u.last) == 0 || u.last.Cmp(product(t, o.scale)) <= 0
}

// fullAt returns the time at which the key's bucket is full, ns rounded up, or the
// earliest there is.
func (o *oracle) fullAt(key int) int64 {
	if key >= len(o.keys) || o.keys[key].full == nil {
		return math.MinInt64
	}
	return ceil(new(big.Int).Set(o.keys[key].full), o.scale)
}

// clone returns a copy that goes its own way.
func (o *oracle) clone() *oracle {
	c := *o
	c.keys = slices.Clone(o.keys)
	for i := range c.keys {
		c.keys[i].counts = slices.Clone(c.keys[i].counts)
		if k := &c.keys[i]; k.full != nil {
			k.full, k.last = new(big.Int).Set(k.full), new(big.Int).Set(k.last)
		}
	}
	return &c
}

// ceil returns a / b rounded up, for a at least 0 and b above 0, and changes a.
func ceil(a, b *big.Int) int64 {
	var r big.Int
	a.QuoRem(a, b, &r)
	if r.Sign() > 0 {
		a.Add(a, big.NewInt(1))
	}
	if !a.IsInt64() {
		return math.MaxInt64 / 4
	}
	return a.Int64()
}

func product(a int64, b *big.Int) *big.Int {
	p := big.NewInt(a)
	return p.Mul(p, b)
}

func modulo(n int64, m int) int {
	if n %= int64(m); n < 0 {
		n += int64(m)
	}
	return int(n)
}

func at(t int64) time.Time { return time.Unix(0, t) }
