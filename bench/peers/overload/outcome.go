package main

import (
	"math"
	"slices"
	"time"
)

// outcome is what came of a limiter in one run.
type outcome struct {
	innocents [phases]uint64 // requests of innocent keys
	denied    [phases]uint64 // of those
	clients   [phases]uint64 // requests of those of them that never ask for more than their limit
	refused   [phases]uint64 // of those
	excess    excess
	memory    int
	sparing
	switched float64 // windows from the beginning of the overload until it was over capacity; NaN if it did not
	requests int     // of the overload until then
	lasting  bool    // it may admit too much still when the run ends
	keys     int     // abusers
}

// excess is the units that abusers were admitted in the overload, over those that the
// exact algorithm admits them.
type excess struct{ mean, p99, window float64 }

// outcomes returns those of all limiters, in their order.
func (j *judge) outcomes() (all []outcome) {
	for _, a := range j.accused {
		o := outcome{
			innocents: j.innocents, denied: a.denied, clients: j.clients, refused: a.refused, excess: a.abusers.over(&j.exact), memory: a.memory,
			sparing: a.sparing, switched: math.NaN(), keys: len(j.exact.units),
		}
		o.pending = nil
		o.lasting = spares(a.state, begin.Add(time.Duration(j.traffic.last())*slot))
		if !a.first.IsZero() {
			since := a.first.Sub(begin)
			o.switched = float64(since)/float64(window) - float64(j.traffic.begins())/slots
			slot := int(since/slot) - j.traffic.begins()
			o.requests = j.requests[min(max(slot, 0), len(j.requests)-1)]
		}
		all = append(all, o)
	}
	return all
}

// over compares with what the exact algorithm admits.
func (s *gains) over(exact *gains) (e excess) {
	var ratios []float64
	for i, units := range s.units {
		if exact.units[i] > 0 {
			ratios = append(ratios, float64(units)/float64(exact.units[i]))
			e.mean += ratios[len(ratios)-1]
		}
	}
	if len(ratios) == 0 {
		return e
	}
	e.mean /= float64(len(ratios))
	slices.Sort(ratios)
	e.p99 = ratios[(len(ratios)*99-1)/100]
	for i, units := range s.window {
		if exact.window[i] > 0 {
			e.window = max(e.window, float64(units)/float64(exact.window[i]))
		}
	}
	return e
}

// denials is the share of innocents' requests that were denied in a phase.
func denials(outcomes []outcome, p phase) float64 {
	var denied, all uint64
	for _, o := range outcomes {
		denied, all = denied+o.denied[p], all+o.innocents[p]
	}
	return share(denied, all)
}

// refusals is the share of clients' requests that were denied during the overload.
func refusals(outcomes []outcome) float64 {
	var refused, all uint64
	for _, o := range outcomes {
		refused, all = refused+o.refused[early]+o.refused[late], all+o.clients[early]+o.clients[late]
	}
	return share(refused, all)
}

func share(part, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// mean is the mean of a figure.
func mean(outcomes []outcome, figure func(*outcome) float64) (sum float64) {
	for i := range outcomes {
		sum += figure(&outcomes[i])
	}
	return sum / float64(len(outcomes))
}

// most is the highest of a figure; NaN if any is.
func most(outcomes []outcome, figure func(*outcome) float64) (highest float64) {
	highest = math.Inf(-1)
	for i := range outcomes {
		highest = max(highest, figure(&outcomes[i]))
	}
	return highest
}
