package tune

import (
	"math"
	"math/bits"

	"github.com/sketchlimit/sketchlimit/tune/internal/tail"
)

// predictor turns the curves of a simulation into rates too small to be counted in it:
// what a key reads beyond its own count is drawn from the whole distribution of cells.
type predictor struct {
	*simulation
	current map[[2]int64]tail.Distribution // by slot and own units
	before  map[int64]tail.Distribution    // by own units
	between map[busyKey]tail.Distribution
	full    map[fullKey]tail.Distribution
}

// busyKey are generations that have units of a key, about so many each.
type busyKey struct {
	generations int32
	each        int64
}

func (e *earlier) busyWith() busyKey {
	return busyKey{e.busy, roughly(e.middle / max(1, int64(e.busy)))}
}

// fullKey is what excess depends on in all generations but the oldest.
type fullKey struct {
	slot    int8
	current int64
	between busyKey
}

func newPredictor(s *simulation) *predictor {
	return &predictor{s, map[[2]int64]tail.Distribution{}, map[int64]tail.Distribution{}, map[busyKey]tail.Distribution{}, map[fullKey]tail.Distribution{}}
}

// threshold returns the units up to which a key's lie in cells, at a slot of a
// generation.
func (p *predictor) threshold(slot int) int64 {
	if p.limiter.dims.HeavyEntries == 0 {
		return math.MaxInt64
	}
	return int64(math.Round(p.curves.current[slot].threshold))
}

func memo[K comparable](m map[K]tail.Distribution, k K, make func() tail.Distribution) tail.Distribution {
	t, ok := m[k]
	if !ok {
		t = make()
		m[k] = t
	}
	return t
}

// excess returns the distribution of what a key in this state reads too much in the
// current generation.
func (p *predictor) excess(s state) tail.Distribution {
	if s.whole {
		return tail.Distribution{1}
	}
	own := roughly(s.current)
	return memo(p.current, [2]int64{int64(s.slot), own}, func() tail.Distribution {
		return p.curves.excess(p.curves.current[s.slot], instant(int(s.slot)), own, p.threshold(int(s.slot)))
	})
}

// roughly rounds units down, many of them to a quarter of a power of two at most: it
// hardly matters to what is read beyond them.
func roughly(units int64) int64 {
	if units < 64 {
		return units
	}
	drop := bits.Len64(uint64(units)) - 3
	return units >> drop << drop
}

// excessBefore is excess in an earlier generation, in which the key had so many units.
func (p *predictor) excessBefore(own int64) tail.Distribution {
	own = roughly(own)
	return memo(p.before, own, func() tail.Distribution { return p.curves.excess(p.curves.past, 1, own, p.threshold(slots)) })
}

// excessBetween is excess in all generations between the current and the oldest one.
func (p *predictor) excessBetween(s state) tail.Distribution {
	idle := p.generations - 2 - int(s.busy)
	if idle+int(s.busy) <= 0 {
		return tail.Distribution{1}
	}
	return memo(p.between, s.busyWith(), func() tail.Distribution {
		busy := p.excessBefore(s.busyWith().each).Times(int(s.busy))
		return busy.Plus(p.excessBefore(0).Times(idle))
	})
}

// excessInFull is excess in all generations but the oldest.
func (p *predictor) excessInFull(s state) tail.Distribution {
	now := p.excess(s)
	if p.generations <= 2 {
		return now
	}
	return memo(p.full, fullKey{s.slot, roughly(s.current), s.busyWith()}, func() tail.Distribution { return now.Plus(p.excessBetween(s)) })
}

// far reports whether an estimate that is too high by units has a negligible chance: it
// has if a third of them has, in each part.
func (p *predictor) far(s state, units int64) bool {
	third := units / 3
	chance := p.excess(s).AtLeast(third) + p.excessBetween(s).AtLeast(third)
	if p.generations > 1 {
		chance += p.excessBefore(s.oldest).AtLeast(p.needs(s)(third))
	}
	return chance < tail.Negligible
}

// denial returns the chance that a request is denied which the exact algorithm admits.
func (p *predictor) denial(s state) (chance float64) {
	if p.far(s, s.slack+1) {
		return 0
	}
	full := p.excessInFull(s)
	if p.generations == 1 {
		return full.AtLeast(s.slack + 1)
	}
	oldest, needs := p.excessBefore(s.oldest), p.needs(s)
	for i := range full {
		if p := full.InBin(i); p > 0 {
			chance += p * oldest.AtLeast(needs(s.slack+1-tail.Middle(i)))
		}
	}
	return chance
}

// needs returns how much the oldest generation must read too much for the key to have
// so many units less. It weighs by what is left of it, and the sum is rounded up.
func (p *predictor) needs(s state) func(units int64) int64 {
	own, weight := float64(s.oldest), (float64(s.left)+0.5)/leftParts
	used := math.Ceil(own * weight)
	return func(units int64) int64 {
		return int64(math.Floor((used+float64(units)-1)/weight) - own + 1)
	}
}

// loss returns the mean of the units that are lost from a key in a generation, of
// which this state is where it came closest to its limit.
func (p *predictor) loss(s state) (units float64) {
	if p.far(s, s.slack+1) {
		return 0
	}
	units = p.excessInFull(s).MeanAbove(s.slack)
	if p.generations > 2 || p.generations == 2 && !s.full { // a full generation reads the limit, too much or not
		oldest, needs := p.excessBefore(s.oldest), p.needs(s)
		for i := 1; ; i++ {
			p := oldest.AtLeast(needs(s.slack + tail.Floor(i)))
			if p == 0 {
				break
			}
			units += p * float64(tail.Floor(i+1)-tail.Floor(i))
		}
	}
	return math.Min(units, float64(p.limit))
}

// rates returns both rates by the curves. A light key loses what it is denied.
func (p *predictor) rates() (falseDenials, lostShare float64) {
	denied := p.denials(&p.lightStates)
	lost := ratio(denied.light, denied.all) * p.lastLightRequests
	for i := range p.keys {
		if c := p.keys[i].closest; c.slack <= p.limit && !p.light(i) {
			lost += p.loss(c)
		}
	}
	return ratio(denied.denied, denied.all), ratio(lost, p.lastUnits)
}

// denials are how many of some requests are denied, how many of these come from light
// keys, and how many there are.
type denials struct{ denied, light, all float64 }

func (p *predictor) denials(t *tally) (d denials) {
	for i, s := range t.states {
		denied := t.counts[i] * p.denial(s)
		d.denied += denied
		if s.light {
			d.light += denied
		}
		d.all += t.counts[i]
	}
	return d
}

// minCounted is the keys that must have been wronged for their number to tell more than
// the curves do.
const minCounted = 30

// expected returns the rates: as counted where there was enough to count, otherwise by
// the curves. Of false denials these may tell more than what was counted allows, and
// then that is taken.
func (p *predictor) expected() Expected {
	e := Expected{
		FalseDenialRate: ratio(p.denied, p.lightRequests),
		LostShare:       ratio(p.lostUnits, p.units),
		EstimateError:   ratio(p.excessUnits, p.total),
	}
	if p.falselyDeniedKeys >= minCounted && p.losingKeys >= minCounted {
		return e
	}
	denied, lostShare := p.rates()
	if p.falselyDeniedKeys < minCounted {
		e.FalseDenialRate = min(denied, p.most(p.falselyDeniedKeys, p.denied, p.lightRequests))
	}
	if p.losingKeys < minCounted {
		e.LostShare = lostShare
	}
	return e
}

// minCountedOfAll is enough in a simulation that sends all requests, which errs by
// chance alone.
const minCountedOfAll = 10

// rate returns how much of all so many keys have lost or, if these are few, what is
// expected, as far as that can be.
func (s *simulation) rate(expected float64, keys int, lost, all float64) float64 {
	if keys >= minCountedOfAll {
		return ratio(lost, all)
	}
	return min(expected, s.most(keys, lost, all))
}

// most returns the rate that can hardly have been exceeded if so few keys were wronged
// and have lost so much of all: twice as many and four more, losing at least three
// requests each, or as many as a place in the sketch gets, because that is what is
// denied together.
func (s *simulation) most(keys int, lost, all float64) float64 {
	each := max(3, ratio(lost, float64(keys)), all/s.places())
	return ratio(float64(2*keys+4)*each, all)
}

// places returns how many sets of cells there are that a key may have, in all shards
// and lanes.
func (s *simulation) places() float64 {
	plan := &s.limiter.dims
	lanes := float64(64 / plan.CellBits)
	return float64(plan.Shards) * lanes * math.Pow(float64(plan.Width)/lanes, float64(plan.Depth))
}
