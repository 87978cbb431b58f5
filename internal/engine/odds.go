package engine

import (
	"iter"
	"slices"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
)

// denied returns the chance that a new key is denied n units at a limit which the exact algorithm admits.
func (s *piece) denied(n, limit int64) float64 {
	if s.spares {
		return 0
	}
	if s.e.Evicts() {
		return bucketShares(bucket{s.copy}, s.at, n, limit)
	}
	if s.e.IsBucket() {
		return bucketDenies(bucket{s.copy}, s.at, n, limit)
	}
	rate := []float64{0}
	s.addDenied([]int64{n}, limit, rate, acquaintance{1, make([]bool, s.e.Ring.Buffers())})
	return rate[0]
}

// addDenied adds that chance to rates, for each of some leads, times the share of keys; for a key that some generations have
// met, the chance that it is denied because of others' units.
func (s *piece) addDenied(leads []int64, limit int64, rates []float64, keys acquaintance) {
	if s.spares || len(leads) == 0 {
		return
	}
	read := s.reads(limit, keys.met)
	sum, weighted := make([]float64, len(leads)), make(errorrate.Distribution, len(read.oldest))
	for units, p := range read.others {
		for i, c := range read.oldest {
			weighted[i] = errorrate.Chance{Units: s.e.Weighted(c.Units+units[1], s.e.Ring.Buffers()-1, s.at.Elapsed), P: c.P}
		}
		for i, lead := range leads {
			sum[i] += p * read.recent.Beside(weighted, limit-lead+1-units[0])
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
	recent errorrate.Tail               // units that count in full
	oldest errorrate.Distribution       // and those that are weighted
	others iter.Seq2[[2]int64, float64] // and those of limiters that share the limit
}

// reads returns what such keys read. It keeps it until it is asked for others: a limiter whose doorkeepers do not guard is
// asked for the same thrice.
//
// A key's readings in the generations are independent, because their seeds are. A generation of a predecessor
// counts together with the limiter's own. So do the cells of those that share the limit, which are the same for
// all generations: what a key reads there is gone through case by case.
func (s *piece) reads(limit int64, met []bool) *strange {
	if s.read.limit == limit && (!s.e.guarded || slices.Equal(s.read.met, met)) {
		return &s.read
	}
	recent, oldest := errorrate.None(), errorrate.None()
	for age := range s.ages {
		if scaleOf(s.e).where(age) == oldestKnown {
			oldest = s.ages[age].Noise(met[age]).Add(s.former[age].Noise(met[age]), 2*s.e.limit)
		} else {
			recent = recent.Add(s.ages[age].Noise(met[age]).Add(s.former[age].Noise(met[age]), limit), limit)
		}
	}
	others := func(yield func([2]int64, float64) bool) { yield([2]int64{}, 1) }
	if s.others != nil {
		share := s.e.shared()
		others = errorrate.FromShared(s.others, int(share.blocks), share.CellBits(), limit)
	}
	s.read = strange{limit, met, recent.OrMore(), oldest, others}
	return &s.read
}

// mistaken returns the chance that a new key is taken for a heavy one which has so many units.
func (s *piece) mistaken(over int64) float64 {
	n := 0
	for _, e := range s.table {
		if e != 0 && s.e.heavy.Count(e, 0)+s.e.Weighted(s.e.heavy.Count(e, 1), 1, s.at.Elapsed) >= over {
			n++
		}
	}
	if n == 0 { // or there is no table
		return 0
	}
	return float64(n) * s.e.heavy.CollisionRate()
}
