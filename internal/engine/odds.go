package engine

import (
	"cmp"
	"slices"
)

// odds is the distribution of a number of units, by rising number.
type odds []chance

type chance struct {
	units int64
	p     float64
}

// orMore returns, for each number, the chance of that or more.
func (o odds) orMore() odds {
	all, p := slices.Clone(o), 0.0
	for i, c := range slices.Backward(o) {
		p += c.p
		all[i].p = p
	}
	return all
}

// atLeast returns the chance of so many units or more, by the chances of orMore.
func (o odds) atLeast(units int64) float64 {
	first, _ := slices.BinarySearchFunc(o, units, func(c chance, units int64) int { return cmp.Compare(c.units, units) })
	if first == len(o) {
		return 0
	}
	return o[first].p
}

// fresh returns what a key that a generation has never seen reads in it: nothing unless it passes the
// doorkeeper, or is known to that, and then the least of its cells.
func (g *Generation) fresh(known bool) odds {
	if g.missing() {
		return odds{{0, 1}}
	}
	passes := g.Passes()
	if known {
		passes = 1
	}
	o := odds{{0, 1 - passes}}
	for _, r := range g.Readings() {
		o = append(o, chance{int64(r.Count), passes * r.Chance})
	}
	return o
}

// mostOdds bounds the numbers that a sum tells apart: beyond that they are rounded up.
const mostOdds = 4096

// plus returns the distribution of the sum of two independent numbers, of which those above most count as most.
func (o odds) plus(other odds, most int64) (sum odds) {
	if len(o) == 1 && o[0].units == 0 {
		return other
	}
	if len(other) == 1 && other[0].units == 0 {
		return o
	}
	step := (most + mostOdds - 1) / mostOdds
	all := make([]float64, min(most, mostOdds)+1)
	for _, a := range o {
		for _, b := range other {
			all[(min(a.units+b.units, most)+step-1)/step] += a.p * b.p
		}
	}
	for i, p := range all {
		if p > 0 {
			sum = append(sum, chance{int64(i) * step, p})
		}
	}
	return sum
}

// denied returns the chance that a new key is denied n units at a limit which the exact algorithm admits.
func (s *piece) denied(n, limit int64) float64 {
	if s.spares {
		return 0
	}
	if s.bucket.burst > 0 {
		return s.bucket.falseDenialRate(s.at, &s.ages[0].Cells, n, limit, s.limit)
	}
	rate := []float64{0}
	s.addDenied([]int64{n}, limit, rate, acquaintance{1, make([]bool, s.generations)})
	return rate[0]
}

// acquaintance is which generations have met keys, by age, and a share of keys.
type acquaintance struct {
	share float64
	met   []bool
}

// addDenied adds that chance to rates, for each of some leads, times the share of keys; for a key that some generations have
// met, the chance that it is denied because of others' units.
//
// A key's readings in the generations are independent, because their seeds are. A generation of a predecessor
// counts together with the limiter's own. So do the cells of those that share the limit, which are the same for
// all generations: what a key reads there is gone through case by case.
func (s *piece) addDenied(leads []int64, limit int64, rates []float64, keys acquaintance) {
	if s.spares || len(leads) == 0 {
		return
	}
	if s.bucket.burst > 0 {
		for i, lead := range leads {
			rates[i] += keys.share * s.bucket.tail(s.at, &s.ages[0].Cells, s.whole()-lead)
		}
		return
	}
	recent, oldest := odds{{0, 1}}, odds{{0, 1}} // units that count in full, and those that are weighted
	for age := range s.ages {
		known := keys.met[age]
		if s.where(age) == oldestKnown {
			oldest = s.ages[age].fresh(known).plus(s.former[age].fresh(known), 2*s.limit)
		} else {
			recent = recent.plus(s.ages[age].fresh(known).plus(s.former[age].fresh(known), limit), limit)
		}
	}
	recent = recent.orMore()
	others := func(yield func([2]int64, float64) bool) { yield([2]int64{}, 1) }
	if s.others != nil {
		others = s.share.Load().fresh(s.others, limit)
	}
	sum := make([]float64, len(leads))
	for units, p := range others {
		for i, lead := range leads {
			sum[i] += p * s.beside(recent, oldest, limit-lead+1-units[0], units[1])
		}
	}
	for i, lead := range leads {
		if lead >= 1 && lead <= limit {
			rates[i] += keys.share * min(1, sum[i]+s.mistaken(limit-lead+1))
		}
	}
}

// beside returns the chance of so many units or more, with a part of the oldest generation's that is certain. Of recent
// it takes the chances of so many or more.
func (s *piece) beside(recent, oldest odds, over, part int64) (p float64) {
	for _, c := range oldest {
		p += c.p * recent.atLeast(over-s.Weighted(c.units+part, s.generations-1, s.at.Elapsed))
	}
	return p
}

// mistaken returns the chance that a new key is taken for a heavy one which has so many units.
func (s *piece) mistaken(over int64) float64 {
	n := 0
	for _, e := range s.table {
		if e != 0 && s.heavy.count(e, 0)+s.Weighted(s.heavy.count(e, 1), 1, s.at.Elapsed) >= over {
			n++
		}
	}
	if n == 0 { // or there is no table
		return 0
	}
	return float64(n) * s.heavy.collides()
}
