package engine

import (
	"iter"
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
	s.addDenied([]int64{n}, limit, rate, acquaintance{1, make([]bool, s.Ring.Buffers())})
	return rate[0]
}

// acquaintance is which generations have met keys, by age, and a share of keys.
type acquaintance struct {
	share float64
	met   []bool
}

// addDenied adds that chance to rates, for each of some leads, times the share of keys; for a key that some generations have
// met, the chance that it is denied because of others' units.
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
	read := s.reads(limit, keys.met)
	sum, weighted := make([]float64, len(leads)), make(odds, len(read.oldest))
	for units, p := range read.others {
		for i, c := range read.oldest {
			weighted[i] = chance{s.Weighted(c.units+units[1], s.Ring.Buffers()-1, s.at.Elapsed), c.p}
		}
		for i, lead := range leads {
			sum[i] += p * read.recent.beside(weighted, limit-lead+1-units[0])
		}
	}
	for i, lead := range leads {
		if lead >= 1 && lead <= limit {
			rates[i] += keys.share * min(1, sum[i]+s.mistaken(limit-lead+1))
		}
	}
}

// strange is what keys read of others' units under a limit that some generations have met.
type strange struct {
	limit  int64
	met    []bool
	recent odds                         // units that count in full, by orMore
	oldest odds                         // and those that are weighted
	others iter.Seq2[[2]int64, float64] // and those of limiters that share the limit
}

// reads returns what such keys read. It keeps it until it is asked for others: a limiter whose doorkeepers do not guard is
// asked for the same thrice.
//
// A key's readings in the generations are independent, because their seeds are. A generation of a predecessor
// counts together with the limiter's own. So do the cells of those that share the limit, which are the same for
// all generations: what a key reads there is gone through case by case.
func (s *piece) reads(limit int64, met []bool) *strange {
	if s.read.limit == limit && (!s.guarded || slices.Equal(s.read.met, met)) {
		return &s.read
	}
	recent, oldest := odds{{0, 1}}, odds{{0, 1}}
	for age := range s.ages {
		if s.where(age) == oldestKnown {
			oldest = s.ages[age].fresh(met[age]).plus(s.former[age].fresh(met[age]), 2*s.limit)
		} else {
			recent = recent.plus(s.ages[age].fresh(met[age]).plus(s.former[age].fresh(met[age]), limit), limit)
		}
	}
	others := func(yield func([2]int64, float64) bool) { yield([2]int64{}, 1) }
	if s.others != nil {
		others = s.share.Load().fresh(s.others, limit)
	}
	s.read = strange{limit, met, recent.orMore(), oldest, others}
	return &s.read
}

// beside returns the chance of so many units or more together with others, by the chances of orMore.
func (o odds) beside(others odds, units int64) (p float64) {
	first := len(o) // of those that are enough: the more others have, the fewer
	for _, c := range others {
		for first > 0 && o[first-1].units >= units-c.units {
			first--
		}
		if first < len(o) {
			p += c.p * o[first].p
		}
	}
	return p
}

// mistaken returns the chance that a new key is taken for a heavy one which has so many units.
func (s *piece) mistaken(over int64) float64 {
	n := 0
	for _, e := range s.table {
		if e != 0 && s.heavy.Count(e, 0)+s.Weighted(s.heavy.Count(e, 1), 1, s.at.Elapsed) >= over {
			n++
		}
	}
	if n == 0 { // or there is no table
		return 0
	}
	return float64(n) * s.heavy.CollisionRate()
}
