package sketchlimit

import "math"

// predictor turns the curves of a simulation into rates too small to be counted in it: what
// a key reads beyond its own count is drawn from the whole distribution of cells.
type predictor struct {
	*simulation
	threshold int64
	current   map[[2]int64]tail // by slot and own units
	past      map[[2]int64]tail // by age and own units
}

func newPredictor(s *simulation) *predictor {
	p := &predictor{s, math.MaxInt64, map[[2]int64]tail{}, map[[2]int64]tail{}}
	if s.limiter.plan.HeavyEntries > 0 {
		p.threshold = int64(s.limiter.plan.HeavyThreshold)
	}
	return p
}

func memo(m map[[2]int64]tail, a, b int64, make func() tail) tail {
	t, ok := m[[2]int64{a, b}]
	if !ok {
		t = make()
		m[[2]int64{a, b}] = t
	}
	return t
}

// excess returns the distributions of what a key in this state reads too much, by age.
func (p *predictor) excess(s state) []tail {
	tails := make([]tail, p.generations)
	tails[0] = memo(p.current, int64(s.slot), s.current, func() tail {
		moment, now := instant(int(s.slot)), p.curves.current[s.slot]
		return p.curves.excess(now, moment, s.current, p.threshold)
	})
	if s.whole {
		tails[0] = tail{1}
	}
	for age := 1; age < len(tails); age++ {
		own := (s.past + int64(age-1)) / int64(len(tails)-1)
		tails[age] = memo(p.past, int64(age), own, func() tail {
			return p.curves.excess(p.curves.past[age-1], 1, own, p.threshold)
		})
	}
	return tails
}

// weight returns the weight of an age at the middle of a slot.
func (p *predictor) weight(age int, slot int8) float64 {
	if age > 0 && age == p.generations-1 {
		return 1 - instant(int(slot))
	}
	return 1
}

// denial returns the chance that a request is denied which the exact algorithm admits.
func (p *predictor) denial(s state) float64 {
	tails := p.excess(s)
	sum := tails[0]
	for age := 1; age < len(tails); age++ {
		w := p.weight(age, s.slot)
		next := make(tail, 0, len(sum))
		// only the chance to pass the slack is asked of the last sum
		if age == len(tails)-1 {
			return above(sum, tails[age], w, s.slack+1)
		}
		for i := 0; ; i++ {
			c := above(sum, tails[age], w, binFloor(i))
			if c == 0 {
				break
			}
			next = append(next, c)
		}
		sum = next
	}
	return sum.of(s.slack + 1)
}

// above returns the chance that the sum of two counts, the second one weighted, is at least
// so many.
func above(a, b tail, weight float64, count int64) (chance float64) {
	for i, p := range a {
		if i+1 < len(a) {
			p -= a[i+1]
		}
		if p <= 0 {
			continue
		}
		need := count - binFloor(i)
		switch {
		case need <= 0:
			chance += p
		case weight > 0:
			chance += p * b.of(int64(math.Ceil(float64(need)/weight-1e-9)))
		}
	}
	return chance
}

// loss returns the mean of the units that are withheld from a key in a generation, of
// which this state is where it came closest to its limit.
func (p *predictor) loss(s state) (units float64) {
	for age, t := range p.excess(s) {
		w := p.weight(age, s.first)
		if w == 0 || age > 0 && s.full {
			continue // a full generation reads the limit, too much or not
		}
		units += w * t.beyond(int64(math.Ceil(float64(s.slack)/w)))
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
		lost += p.lastOnce * share * p.denial(state{slot: slot, slack: p.limit - 1})
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
