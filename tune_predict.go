package sketchlimit

import (
	"math"
	"math/bits"
)

// predictor turns the curves of a simulation into rates too small to be counted in it: what
// a key reads beyond its own count is drawn from the whole distribution of cells.
type predictor struct {
	*simulation
	threshold int64
	current   map[[2]int64]tail // by slot and own units
	before    map[int64]tail    // by own units
	between   map[busy]tail
	full      map[full]tail
}

// busy are generations that have units of a key, about so many each.
type busy struct {
	generations int32
	each        int64
}

func (e *earlier) busyWith() busy { return busy{e.busy, roughly(e.middle / max(1, int64(e.busy)))} }

// full is what excess depends on in all generations but the oldest.
type full struct {
	slot    int8
	current int64
	between busy
}

func newPredictor(s *simulation) *predictor {
	p := &predictor{s, math.MaxInt64, map[[2]int64]tail{}, map[int64]tail{}, map[busy]tail{}, map[full]tail{}}
	if s.limiter.plan.HeavyEntries > 0 {
		p.threshold = int64(s.limiter.plan.HeavyThreshold)
	}
	return p
}

func memo[K comparable](m map[K]tail, k K, make func() tail) tail {
	t, ok := m[k]
	if !ok {
		t = make()
		m[k] = t
	}
	return t
}

// excess returns the distribution of what a key in this state reads too much in the current
// generation.
func (p *predictor) excess(s state) tail {
	if s.whole {
		return tail{1}
	}
	own := roughly(s.current)
	return memo(p.current, [2]int64{int64(s.slot), own}, func() tail {
		return p.curves.excess(p.curves.current[s.slot], instant(int(s.slot)), own, p.threshold)
	})
}

// roughly rounds units down, many of them to a quarter of a power of two at most: it hardly matters to what is
// read beyond them.
func roughly(units int64) int64 {
	if units < 64 {
		return units
	}
	drop := bits.Len64(uint64(units)) - 3
	return units >> drop << drop
}

// excessBefore is excess in an earlier generation, in which the key had so many units.
func (p *predictor) excessBefore(own int64) tail {
	own = roughly(own)
	return memo(p.before, own, func() tail { return p.curves.excess(p.curves.past, 1, own, p.threshold) })
}

// excessBetween is excess in all generations between the current and the oldest one.
func (p *predictor) excessBetween(s state) tail {
	idle := p.generations - 2 - int(s.busy)
	if idle+int(s.busy) <= 0 {
		return tail{1}
	}
	return memo(p.between, s.busyWith(), func() tail {
		busy := p.excessBefore(s.busyWith().each).times(int(s.busy))
		return busy.plus(p.excessBefore(0).times(idle))
	})
}

// excessInFull is excess in all generations but the oldest.
func (p *predictor) excessInFull(s state) tail {
	now := p.excess(s)
	if p.generations <= 2 {
		return now
	}
	return memo(p.full, full{s.slot, roughly(s.current), s.busyWith()}, func() tail { return now.plus(p.excessBetween(s)) })
}

// far tells whether to read so many units too much has a negligible chance: a third of them in any
// of the parts has.
func (p *predictor) far(s state, units int64) bool {
	third := units / 3
	chance := p.excess(s).of(third) + p.excessBetween(s).of(third)
	if p.generations > 1 {
		chance += p.excessBefore(s.oldest).of(p.needs(s)(third))
	}
	return chance < negligible
}

// denial returns the chance that a request is denied which the exact algorithm admits.
func (p *predictor) denial(s state) (chance float64) {
	if p.far(s, s.slack+1) {
		return 0
	}
	full := p.excessInFull(s)
	if p.generations == 1 {
		return full.of(s.slack + 1)
	}
	oldest, needs := p.excessBefore(s.oldest), p.needs(s)
	for i := range full {
		if p := full.only(i); p > 0 {
			chance += p * oldest.of(needs(s.slack+1-binMiddle(i)))
		}
	}
	return chance
}

// needs returns how much the oldest generation must read too much for the key to have so many
// units less. It weighs by what is left of it, and the sum is rounded up.
func (p *predictor) needs(s state) func(units int64) int64 {
	own, weight := float64(s.oldest), (float64(s.left)+0.5)/lefts
	used := math.Ceil(own * weight)
	return func(units int64) int64 {
		return int64(math.Floor((used+float64(units)-1)/weight) - own + 1)
	}
}

// loss returns the mean of the units that are withheld from a key in a generation, of
// which this state is where it came closest to its limit.
func (p *predictor) loss(s state) (units float64) {
	if p.far(s, s.slack+1) {
		return 0
	}
	units = p.excessInFull(s).beyond(s.slack)
	if p.generations > 2 || p.generations == 2 && !s.full { // a full generation reads the limit, too much or not
		oldest, needs := p.excessBefore(s.oldest), p.needs(s)
		for i := 1; ; i++ {
			p := oldest.of(needs(s.slack + binFloor(i)))
			if p == 0 {
				break
			}
			units += p * float64(binFloor(i+1)-binFloor(i))
		}
	}
	return math.Min(units, float64(p.limit))
}

// falseDenialRate returns the rate by the curves. A key that is denied while innocent stays
// so: what it would have sent later, above half of its limit, is denied as well.
func (p *predictor) falseDenialRate() float64 {
	denied, all := p.denials(&p.met)
	rate := ratio(denied, all)
	denied, _ = p.denials(&p.stuck)
	return rate + ratio(denied, p.lastInnocent)
}

// denials returns how many of the requests are denied, and how many there are.
func (p *predictor) denials(t *tally) (denied, all float64) {
	for i, s := range t.states {
		denied += t.counts[i] * p.denial(s)
		all += t.counts[i]
	}
	return denied, all
}

// withheldShare returns the share by the curves.
func (p *predictor) withheldShare() float64 {
	lost := 0.0
	for i := range p.keys {
		if c := p.keys[i].closest; c.slack <= p.limit {
			lost += p.loss(c)
		}
	}
	for slot := range int8(slots + 1) {
		share := (instant(min(int(slot)+1, slots)) - instant(max(int(slot)-1, 0))) / 2
		left := uint8(min(lefts-1, lefts*(1-instant(int(slot)))))
		lost += p.lastOnce * share * p.denial(state{slot: slot, left: left, slack: p.limit - 1})
	}
	return ratio(lost, p.lastUnits)
}

// enough is the keys that must have been wronged for their number to tell more than the
// curves do.
const enough = 30

// expected returns the rates: as counted where there was enough to count, otherwise by the
// curves, as far as that does not contradict what was counted.
func (p *predictor) expected() Expected {
	e := Expected{EstimateError: ratio(p.excessUnits, p.total)}
	if e.FalseDenialRate = ratio(p.denied, p.innocent); p.wrongedKeys < enough {
		e.FalseDenialRate = min(p.falseDenialRate(), atMost(p.denied, p.wrongedKeys, p.innocent))
	}
	if e.WithheldShare = ratio(p.withheld, p.units); p.robbedKeys < enough {
		e.WithheldShare = min(p.withheldShare(), atMost(p.withheld, p.robbedKeys, p.units))
	}
	return e
}

// atMost returns the share that can hardly have been exceeded if so much of a whole was counted
// in so many keys: twice as many keys as that and four more, losing at least three each.
func atMost(counted float64, keys int, of float64) float64 {
	each := max(3, ratio(counted, float64(keys)))
	return ratio(float64(2*keys+4)*each, of)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
