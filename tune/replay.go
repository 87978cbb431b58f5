package tune

import (
	"math"
	"runtime"
	"sync"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/rotating"
	"github.com/sketchlimit/sketchlimit/tune/internal/poisson"
)

// replays sends a trace through limiters, and holds them against the exact algorithm.
type replays struct {
	*judged
	trace        *Trace
	denied, lost float64 // that the goal allows
	load         float64 // times the trace that is stated
	runs         int     // with as many seeds, that decide
}

// newReplays returns those of a judged trace that stands for so many times its traffic.
func newReplays(t *Trace, j *judged, denied, lost, load float64) *replays {
	return &replays{j, t, denied, lost, load, replayCount(len(t.requests), 4, 4_000_000)}
}

// replayCount returns how many replays there are of a trace: few of a long one, and
// many of a short one, where a single denial may be too much.
func replayCount(requests, fewest, all int) int { return min(max(all/requests, fewest), 100) }

const (
	sampledRequests = 250_000
	leastSampled    = 1 << 10 // bytes of a limiter for a sample; smaller ones are no good likeness
)

// sample returns replays of so many requests, all those of some keys, through a limiter
// that is as much smaller. It is the replays themselves if these are no more.
func (r *replays) sample() *replays {
	parts := uint64(len(r.fates) / sampledRequests)
	if parts < 2 {
		return r
	}
	some := *r
	some.trace = &Trace{window: r.trace.window, whole: r.trace}
	some.judged = &judged{rule: r.rule, lowest: r.lowest, hashes: r.hashes}
	chosen := func(key uint32) bool { return (r.hashes[key]>>20)%parts == 0 }
	for i, q := range r.trace.requests {
		if chosen(q.Key) {
			some.trace.requests = append(some.trace.requests, q)
			some.fates = append(some.fates, r.fates[i])
		}
	}
	keys := 0.
	for i := range r.hashes {
		if chosen(uint32(i)) {
			keys++
		}
	}
	some.load *= float64(len(r.hashes)) / max(1, keys)
	some.sum(some.trace.requests)
	return &some
}

// replayed is what a limiter did to a trace.
type replayed struct {
	denied   float64 // requests of light keys that the exact algorithm admits
	admitted float64 // units
}

// run sends the trace through a limiter.
func (r *replays) run(d spec.Dimensions, seed uint64) (out replayed) {
	e, err := engine.New(r.rule, d, seed, new(striped.Counter))
	if err != nil {
		panic(err) // the dimensions have been chosen for this rule
	}
	limit, latest := r.rule.Limit, rotating.Position{Generation: math.MinInt64}
	for i, q := range r.trace.requests {
		at := r.rule.Timeline.Position(q.NS)
		if at.Generation < latest.Generation {
			at = rotating.Position{Generation: latest.Generation}
		}
		latest = at
		h, word, f := keyhash.Mix(r.hashes[q.Key], seed), r.rule.Timeline.Pack(at), r.fates[i]
		passed := true
		if r.lowest < limit {
			passed = e.Peek(at, h, int(q.Units), r.lowest).Allowed
		}
		if e.Take(word, h, int(q.Units), limit, engine.Brief).Allowed {
			out.admitted += float64(q.Units)
		} else {
			passed = false
		}
		if !passed && f&calm == calm {
			out.denied++
		}
	}
	r.trace.done(len(r.trace.requests))
	return out
}

// all runs one replay with each of the seeds from the first on, until one is not kept.
func (r *replays) all(d spec.Dimensions, first uint64, n int, keep func(replayed) bool) (out []replayed, kept bool) {
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

// The first seeds of replays: of those by which a size is chosen, and of those that
// tell what to expect of it.
const (
	searchSeed   = 0x5ea7c4 << 20
	forecastSeed = 0xf07ec5 << 20
	loadedSeeds  = 2 // for multiples of the traffic
)

// instead puts what replays show in the place of what a simulation of one window
// predicts.
func (r *replays) instead(e Expected, d spec.Dimensions, load float64) Expected {
	n := replayCount(len(r.fates), 4, minRangeSeeds*1_000_000)
	if load != 1 {
		n = loadedSeeds
	}
	denied, lost := r.rates(d, load, n)
	e.FalseDenialRate, e.LostShare = meanAndDeviation(denied), meanAndDeviation(lost)
	if n >= minRangeSeeds {
		e.FalseDenialRange, e.LostRange = rangeOf(denied), rangeOf(lost)
	}
	e.Replayed, e.ReplayedUnits = uint64(n)*uint64(r.lightRequests), uint64(n)*uint64(r.units)
	return e
}

// denies reports whether load times the traffic lies beyond the breaking point.
func (r *replays) denies(d spec.Dimensions, load float64) bool {
	return r.run(scaleDimensions(d, 1/(r.load*load)), forecastSeed).denied > breakingRate*r.lightRequests
}

// expected returns what replays under so many times the traffic deny and withhold:
// their mean, and a standard deviation between seeds more.
func (r *replays) expected(d spec.Dimensions, load float64, seeds int) (denied, lost float64) {
	rates, shares := r.rates(d, load, seeds)
	return meanAndDeviation(rates), meanAndDeviation(shares)
}

// rates returns both of each replay.
func (r *replays) rates(d spec.Dimensions, load float64, seeds int) (denied, lost []float64) {
	runs, _ := r.all(scaleDimensions(d, 1/(r.load*load)), forecastSeed, seeds, func(replayed) bool { return true })
	for _, one := range runs {
		denied = append(denied, ratio(one.denied, r.lightRequests))
		lost = append(lost, max(0, ratio(r.units-one.admitted, r.units)))
	}
	return denied, lost
}

// reaches reports whether a replay keeps to the goal: by the bound that one in twenty
// would exceed if three or more wrong decisions are allowed, otherwise by its own count.
func (r *replays) reaches(one replayed) bool {
	within := func(lost, all, goal float64) bool {
		if all*goal >= 3 {
			lost = poisson.UpperBound(lost)
		}
		return lost <= all*goal
	}
	return within(one.denied, r.lightRequests, r.denied) && within(max(0, r.units-one.admitted), r.units, r.lost)
}

// scaleDimensions returns dimensions for so many times the traffic, in proportion as
// far as cells and lines allow.
func scaleDimensions(d spec.Dimensions, by float64) spec.Dimensions {
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
	d.HeavyEntries = step(d.HeavyEntries, heavyhitter.BucketEntries)
	if d.BloomProbes > 1 || d.Width == 0 {
		d.BloomBytes = step(d.BloomBytes, lineBytes)
	}
	return d
}

const lineBytes = 64
