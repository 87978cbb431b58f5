package engine

import "math"

// What a key reads is counted in grades, 0 … all of a quota, by parts of the quota: units, and of a bucket ticks. Where
// doorkeepers guard, what a key reads hangs on which of them know it, and there are as many grades for each case.
const (
	grades        = 62
	guardedGrades = grades / 3
)

// known tells which doorkeepers know a key. Where they do not guard, all do.
type known uint8

const (
	nowKnown    known = 1 << iota // that of the current generation, or others that count in full
	oldestKnown                   // that of the one that is weighted
	allKnown    = nowKnown | oldestKnown
)

// where returns which doorkeepers those of a generation are, by its age.
func (w *Rule) where(age int) known {
	if age > 0 && age == w.generations-1 {
		return oldestKnown
	}
	return nowKnown
}

// first returns the kind of the lowest grade for keys that are known.
func (l *layout) first(k known) int {
	if l.guarded {
		return int(k-1) * guardedGrades
	}
	return 0
}

// deniedGrade returns the kind of strangers that would be denied.
func (l *layout) deniedGrade(k known) int {
	if l.guarded {
		return l.first(k) + guardedGrades - 1
	}
	return grades - 1
}

// whole returns the parts of a quota.
func (l *layout) whole() int64 {
	if l.bucket.burst > 0 {
		return l.bucket.burst * l.bucket.unit
	}
	return l.limit
}

// parts returns those of n units.
func (l *layout) parts(n int64) int64 {
	if l.bucket.burst > 0 {
		return n * l.bucket.unit
	}
	return n
}

// steps returns the highest grade. Where there are few units, each has a grade of its own.
func (l *layout) steps() int64 {
	switch {
	case l.bucket.burst > 0:
		return grades - 2
	case l.guarded:
		return min(l.limit, guardedGrades-2)
	}
	return min(l.limit, grades-2)
}

// gradeOf returns the grade of so many parts. Between two grades it is one of both, by a draw, so that it is right on
// average.
func (l *layout) gradeOf(parts int64, draw uint64) int {
	steps, whole := l.steps(), l.whole()
	at := min(max(parts, 0), whole) * steps
	grade := at / whole
	if float64(at%whole) > float64(draw>>11)*0x1p-53*float64(whole) {
		grade++
	}
	return int(grade)
}

// partsOf is the inverse of gradeOf.
func (l *layout) partsOf(grade int) int64 {
	steps := l.steps()
	return (int64(grade)*l.whole() + steps/2) / steps
}

// mix is what requests of innocent keys are like. Of their keys it tells the lead: what they have used and now ask for, in
// parts, as far as it adds to what others have left in their cells.
type mix struct {
	leads   [kinds]int64
	weights [kinds]float64
	n       int
	sum     float64           // of weights
	of      [allKnown + 2]int // of keys that are known it is leads[of[k]:of[k+1]]; the first is that of newcomers
	entries float64           // weight of keys with an entry
	wronged float64           // and of their requests that were denied
}

// mix returns what requests have been like that were taken down under a layout.
func (r *recent) mix(l *layout) (m mix) {
	m.entries, m.wronged = r.read[byEntry]+r.low[byEntry], r.wronged
	passes := r.passes()
	fresh := (r.read[newcomer] + r.low[newcomer]) / passes[0]
	cost := min(l.parts(int64(math.Ceil(r.cost))), l.whole())
	m.add(cost, fresh)
	for k := nowKnown; k <= allKnown; k++ {
		m.of[k] = m.n
		if l.guarded || k == allKnown {
			m.addKnown(r, l, k, cost, fresh*passes[k])
		}
	}
	m.of[allKnown+1] = m.n
	if m.sum+m.entries+m.wronged == 0 {
		m.weights[0], m.sum = 1, 1
	}
	return m
}

// addKnown adds keys that some doorkeepers know, less newcomers that they take for such keys.
func (m *mix) addKnown(r *recent, l *layout, k known, cost int64, newcomers float64) {
	first, n := l.first(k), int(l.steps())+1
	least := int(l.parts(1) * l.steps() / l.whole()) // all requests are for a unit or more
	strangers, denied := r.fresh[first:][:n], r.fresh[l.deniedGrade(k)]
	all, low := unfold(r.read[first:][:n], strangers, denied, least), unfold(r.low[first:][:n], strangers, denied, least)
	for grade := range n {
		weight, lead := low[grade], l.partsOf(grade)
		if innocent(lead-cost, l.whole()) {
			weight += all[grade]
		}
		m.add(lead, max(0, weight-newcomers))
		newcomers = max(0, newcomers-weight)
	}
}

func (m *mix) add(lead int64, weight float64) {
	if m.n == 0 || weight > 0 {
		m.leads[m.n], m.weights[m.n] = lead, weight
		m.sum += weight
		m.n++
	}
}

// passes returns the chances that a key passes just the doorkeepers of each case, none of which knows it.
func (r *recent) passes() (chances [allKnown + 1]float64) {
	sum := 0.0
	for kind := range kinds {
		sum += r.read[kind] + r.low[kind]
	}
	sum = max(1, sum-r.read[byEntry]-r.low[byEntry])
	now, oldest := min(r.fresh[passesNow]/sum, 0.99), min(r.fresh[passesOldest]/sum, 0.99)
	return [...]float64{(1 - now) * (1 - oldest), now * (1 - oldest), (1 - now) * oldest, now * oldest}
}

// rate returns the share of requests that are denied, by the chances of keys with each lead.
func (m *mix) rate(chances *[kinds]float64) float64 {
	denied := m.wronged
	for i, weight := range m.weights[:m.n] {
		denied += weight * chances[i]
	}
	return denied / (m.sum + m.entries + m.wronged)
}

const (
	// rounds are those of unfold, which begins with leads that fall by a power of e with each usualLead of the quota, to
	// leastLead. More rounds, or a flatter start, take for leads what is luck of a thousand looks.
	rounds    = 20
	usualLead = 1. / 60
	leastLead = 2e-4
	leastSeen = 0.02 // share of requests with a lead that is taken to be admitted
)

// unfold returns how many requests there were by their keys' lead, by grade and denied ones included, if admitted ones read
// what is counted in read, and strangers what is counted in fresh, or would be denied. What a key reads is its lead and what
// a stranger reads, so the leads are found under which that is most likely (expectation and maximisation; Richardson,
// Lucy). None is below the least.
func unfold(read, fresh []float64, denied float64, least int) (leads [grades]float64) {
	var seen [grades]float64 // chance that requests with a lead are admitted
	strangers, requests := 0.0, 0.0
	for i := range read {
		strangers += fresh[i]
		seen[len(read)-1-i] = strangers
		requests += read[i]
	}
	if requests == 0 || strangers == 0 {
		copy(leads[:], read)
		return leads
	}
	for i := range read {
		seen[i] = max(seen[i]/strangers, leastSeen)
		if i >= least {
			leads[i] = math.Exp(-float64(i-least)/float64(len(read))/usualLead) + leastLead
		}
	}
	for range rounds {
		var next [grades]float64
		for i, n := range read {
			if n == 0 {
				continue
			}
			sum := 0.0
			for lead := range i + 1 {
				sum += leads[lead] * fresh[i-lead]
			}
			if sum > 0 {
				for lead := range i + 1 {
					next[lead] += n / sum * leads[lead] * fresh[i-lead]
				}
			}
		}
		for i := range read {
			leads[i] = next[i] / seen[i]
		}
	}
	admitted := max(1-denied/strangers, leastSeen)
	for i := range read {
		leads[i] /= admitted
	}
	return leads
}
