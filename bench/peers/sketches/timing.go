package main

import (
	"fmt"
	"slices"
	"time"
)

// measure times the decisions of all players: in one goroutine, in the second window of
// the first load. The players of an arena take turns, and the median of the rounds
// counts.
func (t *tournament) measure(arenas [][]*player) error {
	s, err := t.loads[0].stream(2, t.divisor, t.seeds[0])
	if err != nil {
		return err
	}
	for _, players := range arenas {
		fmt.Fprintf(t.progress, "times: %v\n", players[0].arena)
		if err := t.compete(s, players); err != nil {
			return err
		}
	}
	return nil
}

// compete times the players of an arena.
func (t *tournament) compete(s *stream, players []*player) error {
	limiters := make([]limiter, len(players))
	times := make([][]float64, len(players))
	for i, p := range players {
		var err error
		if limiters[i], err = p.limiter(); err != nil {
			return err
		}
		s.decide(limiters[i], 0, s.perWindow)
	}
	n := s.perWindow / t.rounds
	for round := range t.rounds {
		for i, l := range limiters {
			first := s.perWindow + round*n
			start := time.Now()
			s.decide(l, first, first+n)
			times[i] = append(times[i], float64(time.Since(start))/float64(n))
		}
	}
	for i, p := range players {
		slices.Sort(times[i])
		p.ns = times[i][t.rounds/2]
	}
	return nil
}

// decide sends some requests of one window through a limiter.
func (s *stream) decide(l limiter, from, to int) {
	step := window / int64(s.perWindow)
	for i, r := range s.requests[from:to] {
		l.take(keyHash(r, s.seed), moment{from / s.perWindow, int64(from%s.perWindow+i) * step})
	}
}
