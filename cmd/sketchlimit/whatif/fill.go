package whatif

import (
	"maps"
	"slices"
	"time"
)

const (
	toldKeys = 100 // of Report.Heaviest
	toldTop  = 20  // of Limit.Top
)

// Report returns what has been counted so far. Counting may go on.
func (a *Analysis) Report() *Report {
	if a.early != nil {
		return a.early.report()
	}
	r := &Report{
		Exact: a.exact, Requests: a.requests, Units: a.units, Backward: a.backward, Costless: a.costless,
		Keys:  drawnFrom(len(a.sample.users), a.sample.zeros),
		First: time.Unix(0, a.first).UTC(), Last: time.Unix(0, a.newest).UTC(),
		StepLength: time.Duration(a.calendar.length), SampledKeys: len(a.sample.users),
	}
	a.boundKeys(&r.Keys)
	if a.requests == 0 {
		r.First, r.Last = time.Time{}, time.Time{}
	}
	names, squares := make(map[uint64]string), 0.0
	for _, s := range a.heavy.ranked() {
		if !s.seen {
			squares += float64(s.count-s.error) * float64(s.count-s.error)
		}
		names[s.hash] = string(s.key)
		if len(r.Heaviest) < toldKeys {
			r.Heaviest = append(r.Heaviest, HeavyKey{string(s.key), s.count, s.error})
		}
	}
	for i, s := range a.steps {
		s.Start = a.calendar.start(i)
		s.Keys = min(a.keys[i].estimate(), float64(s.Requests))
		r.Steps = append(r.Steps, s)
	}
	uses := a.sample.histograms()
	for i, w := range a.windows {
		r.Windows = append(r.Windows, w.report(r, uses[i], names, squares))
		r.MemoryBytes += w.bytes()
	}
	r.Suggestion = suggest(r)
	return r
}

// boundKeys makes the number of keys at most that of requests, and at least that of the
// fullest window, which may be estimated from more keys.
func (a *Analysis) boundKeys(keys *Estimate) {
	keys.Value = min(keys.Value, float64(a.requests))
	for _, w := range a.windows {
		if more := min(max(w.peak, w.present), float64(a.requests)) - keys.Value; more > 0 && keys.Error > 0 {
			*keys = Estimate{keys.Value + more, keys.Error + more}
		}
	}
}

// histograms returns the distributions with what users have used up to now.
func (s *sample) histograms() [][]histogram {
	now := sample{zeros: s.zeros, exact: s.exact, uses: make([][]histogram, len(s.uses))}
	for w, steps := range s.uses {
		for _, h := range steps {
			h.bins, h.exact = slices.Clone(h.bins), maps.Clone(h.exact)
			now.uses[w] = append(now.uses[w], h)
		}
	}
	for _, u := range s.users {
		for w, p := range u.uses {
			now.record(w, p)
		}
	}
	return now.uses
}

func (w *window) report(r *Report, uses []histogram, names map[uint64]string, squares float64) Window {
	out := Window{
		Window: time.Duration(w.length), Longer: r.Last.Sub(r.First) < time.Duration(w.length),
		Sampled:  1 / float64(uint64(1)<<w.zeros),
		PeakKeys: min(max(w.peak, w.present), r.Keys.Value), PeakUnits: max(w.peakUnits, w.units),
		UseBySteps: make([]Use, len(r.Steps)),
	}
	var all histogram
	for i, h := range uses {
		all.merge(h)
		out.UseBySteps[i] = h.use()
	}
	out.Use = all.use()
	out.Use.Max = max(out.Use.Max, w.most)
	if r.Costless == 0 {
		out.PeakKeys = min(out.PeakKeys, float64(out.PeakUnits))
	}
	b := basis{excess: &w.excess, zeros: w.zeros, requests: float64(r.Requests), squares: squares}
	var top []slot // one array for all limits: the lowest has most keys
	for i := range w.tallies {
		t := &w.tallies[i]
		top = t.heaviest(top[:0])
		out.Limits = append(out.Limits, w.limit(t, top, r, names, &b))
	}
	out.Knee = knee(out.Limits)
	return out
}

func (w *window) limit(t *tally, top []slot, r *Report, names map[uint64]string, b *basis) Limit {
	requests, units := t.errors(b)
	l := Limit{
		Limit:    int(t.limit),
		Requests: Estimate{float64(min(t.requests, r.Requests)), requests}, Units: Estimate{float64(min(t.units, r.Units)), units},
		Keys:    t.refusedKeys(),
		BySteps: append(slices.Clone(t.steps), make([]Refused, len(r.Steps)-len(t.steps))...),
	}
	l.Keys.Value = min(l.Keys.Value, r.Keys.Value+r.Keys.Error)
	for i := range l.BySteps { // where some keys stand for others, they may stand for too many
		b, s := &l.BySteps[i], &r.Steps[i]
		b.Requests, b.Units = min(b.Requests, s.Requests), min(b.Units, s.Units)
	}
	l.RequestShare = share(l.Requests.Value, float64(r.Requests))
	l.KeyShare = share(l.Keys.Value, r.Keys.Value)
	if t.keyWindows > 0 {
		l.Abusers = min(1, t.keyWindows/max(t.keyWindows, w.keyWindows+w.present))
		l.Excess = 1 + l.Units.Value/t.keyWindows/float64(t.limit)
	}
	l.Keys90, l.Keys96 = holding(top, 0.90*l.Requests.Value), holding(top, 0.96*l.Requests.Value)
	for _, s := range top[:min(len(top), toldTop)] {
		l.Top = append(l.Top, HeavyKey{names[s.hash], s.count, s.error})
	}
	return l
}

// share is a part of a whole, 0 … 1; of nothing it is 0.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, part/whole)
}

// heaviest appends the keys with refused requests to slots, those with the most first.
func (t *tally) heaviest(slots []slot) []slot {
	slots, before := append(slots, t.top.slots...), t.top.least()
	for i := range t.table.places {
		e := &t.table.places[i]
		if e.turn == 0 || e.refused == 0 {
			continue
		}
		if known := t.top.index.find(e.hash); known != nil {
			slots[known.current].count += uint64(e.refused)
		} else {
			slots = append(slots, slot{hash: e.hash, count: uint64(e.refused) + before, error: before})
		}
	}
	return sorted(slots)
}

// holding returns how many of the heaviest keys have so many requests; 0 if all
// together have not.
func holding(top []slot, requests float64) int {
	sum := 0.0
	for i, s := range top {
		sum += float64(s.count - s.error)
		if sum >= requests {
			return i + 1
		}
	}
	return 0
}
