package tune

import (
	"cmp"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
)

// replays sends a trace through limiters, and holds them against the exact algorithm.
type replays struct {
	*judged
	trace *Trace
	goal  *Goal
	load  float64 // times the trace that is stated
}

// judged is what the exact algorithm makes of a trace.
type judged struct {
	rule   engine.Rule
	lowest int64    // limit that requests are judged by
	hashes []uint64 // of the keys
	fates  []fate   // of the requests
	units  float64  // that are admitted
	calm   float64  // requests of innocent keys
}

// fate is what the exact algorithm does with a request.
type fate uint8

const (
	passes   fate = 1 << iota // at the limit that requests are judged by
	innocent                  // its key has used less than half of that
)

// judge sends the requests through the exact algorithm, unless that has just been done.
func (t *Trace) judge(g *Goal) (*judged, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rule, lowest := g.ruleOf(t.window), int64(cmp.Or(g.LowestLimit, g.Limit))
	if j := t.judged; j != nil && j.rule == rule && j.lowest == lowest && len(j.fates) == len(t.requests) {
		return j, nil
	}
	c := g.config()
	c.Window = t.window
	r := &judged{rule: rule, lowest: lowest}
	for _, name := range t.names {
		r.hashes = append(r.hashes, xxhash.Sum64String(name))
	}
	full, err := exact.Of(c)
	if err != nil {
		return nil, err
	}
	quota, held := r.lowest, int64(c.Limit)-r.lowest
	if r.rule.IsBucket() { // of which a search has no lower limits
		quota = r.rule.Burst()
	}
	r.fates = make([]fate, len(t.requests))
	for i, q := range t.requests {
		d := full.TakeAt(time.Unix(0, q.ns), t.names[q.key], int(q.units))
		free := int64(d.Remaining) - held
		if d.Allowed {
			free += int64(q.units)
			r.units += float64(q.units)
		}
		if free >= int64(q.units) {
			r.fates[i] = passes
		}
		if 2*(quota-free) < quota {
			r.fates[i] |= innocent
			r.calm++
		}
	}
	t.judged = r
	return r, nil
}

// replayed is what a limiter did to a trace.
type replayed struct {
	denied   float64 // requests of innocent keys that the exact algorithm admits
	admitted float64 // units
}

// run sends the trace through a limiter.
func (r *replays) run(d engine.Dimensions, seed uint64) (out replayed) {
	e, err := engine.New(r.rule, d, seed, new(engine.Counter))
	if err != nil {
		panic(err) // the dimensions have been chosen for this rule
	}
	limit, latest := r.rule.Limit(), engine.Position{Generation: math.MinInt64}
	for i, q := range r.trace.requests {
		at := r.rule.Split(q.ns)
		if at.Generation < latest.Generation {
			at = engine.Position{Generation: latest.Generation}
		}
		latest = at
		h, word, f := keyhash.Mix(r.hashes[q.key], seed), r.rule.Pack(at), r.fates[i]
		passed := true
		if r.lowest < limit {
			passed = e.Peek(at, h, int(q.units), r.lowest).Allowed
		}
		if e.Take(word, h, int(q.units), limit, engine.Brief).Allowed {
			out.admitted += float64(q.units)
		} else {
			passed = false
		}
		if !passed && f == passes|innocent {
			out.denied++
		}
	}
	return out
}

// all runs one replay with each of the seeds from the first on, until one is not kept.
func (r *replays) all(d engine.Dimensions, first uint64, n int, keep func(replayed) bool) (out []replayed, kept bool) {
	out, kept = make([]replayed, n), true
	workers := min(runtime.GOMAXPROCS(0), n)
	for begin := 0; begin < n && kept; begin += workers {
		group := out[begin:min(begin+workers, n)]
		var running sync.WaitGroup
		for i := range group {
			running.Go(func() { group[i] = r.run(d, first+uint64(begin+i)) })
		}
		running.Wait()
		for _, one := range group {
			kept = kept && keep(one)
		}
	}
	return out, kept
}

// The first seeds of replays: of those by which a size is chosen, and of those that tell what to expect of it.
const (
	searchSeed   = 0x5ea7c4 << 20
	forecastSeed = 0xf07ec5 << 20
	loadedSeeds  = 2 // for multiples of the traffic
)

// seeds returns how many replays decide: few of a long trace, and many of a short one, where a single denial may be too
// much.
func (r *replays) seeds() int { return min(max(4_000_000/len(r.fates), 4), 100) }

// instead puts what replays show in the place of what a simulation of one window predicts.
func (r *replays) instead(e Expected, d engine.Dimensions, load float64) Expected {
	seeds := max(8, r.seeds())
	if load != 1 {
		seeds = loadedSeeds
	}
	e.FalseDenialRate, e.WithheldShare = r.expected(d, load, seeds)
	e.Replayed, e.ReplayedUnits = uint64(seeds)*uint64(r.calm), uint64(seeds)*uint64(r.units)
	return e
}

// denies tells whether so many times the traffic are beyond the cliff.
func (r *replays) denies(d engine.Dimensions, load float64) bool {
	return r.run(scaled(d, 1/(r.load*load)), forecastSeed).denied > cliffRate*r.calm
}

// expected returns what replays under so many times the traffic deny and withhold: their mean, and a standard
// deviation between seeds more.
func (r *replays) expected(d engine.Dimensions, load float64, seeds int) (denied, withheld float64) {
	runs, _ := r.all(scaled(d, 1/(r.load*load)), forecastSeed, seeds, func(replayed) bool { return true })
	var rates, shares []float64
	for _, one := range runs {
		rates = append(rates, ratio(one.denied, r.calm))
		shares = append(shares, max(0, ratio(r.units-one.admitted, r.units)))
	}
	return careful(rates), careful(shares)
}

// careful returns the mean and a standard deviation.
func careful(x []float64) float64 {
	n, sum, squares := float64(len(x)), 0., 0.
	for _, v := range x {
		sum += v
	}
	for _, v := range x {
		squares += (v - sum/n) * (v - sum/n)
	}
	return sum/n + math.Sqrt(squares/n)
}

// reaches tells whether a replay keeps to the goal: by the bound that one in twenty would exceed where there is enough
// traffic to see it, and as counted where there is not.
func (r *replays) reaches(one replayed) bool {
	within := func(lost, all, goal float64) bool {
		if all*goal >= 3 {
			lost = upper(lost)
		}
		return lost <= all*goal
	}
	denied, withheld := r.goal.rates()
	return within(one.denied, r.calm, denied) && within(max(0, r.units-one.admitted), r.units, withheld)
}

// upper returns what a count of rare events stands for at most, but for one case in twenty (Wilson and Hilferty).
func upper(count float64) float64 {
	n := count + 1
	return n * math.Pow(1-1/(9*n)+1.645/(3*math.Sqrt(n)), 3)
}

// scaled returns dimensions for so many times the traffic, in proportion as far as cells and lines allow.
func scaled(d engine.Dimensions, by float64) engine.Dimensions {
	if by == 1 {
		return d
	}
	shards := max(1, math.Round(float64(d.Shards)*by))
	by *= float64(d.Shards) / shards
	d.Shards = int(shards)
	step := func(n, unit int) int {
		if n == 0 {
			return 0
		}
		return max(1, int(math.Round(by*float64(n)/float64(unit)))) * unit
	}
	d.Width = step(d.Width, 64/d.CellBits)
	d.HeavyEntries = step(d.HeavyEntries, engine.HeavyBucket)
	if d.BloomProbes > 1 || d.Width == 0 {
		d.BloomBytes = step(d.BloomBytes, lineBytes)
	}
	return d
}

const lineBytes = 64
