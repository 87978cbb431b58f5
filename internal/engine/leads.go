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
	fresh := (r.read[newcomer] + r.low[newcomer]) / max(passes[0], leastPassed)
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

// addKnown adds keys that some doorkeepers know, less newcomers that they take for such keys. Of covered leads only the
// request itself adds to what strangers read.
func (m *mix) addKnown(r *recent, l *layout, k known, cost int64, newcomers float64) {
	first, n := l.first(k), int(l.steps())+1
	least := int(l.parts(1) * l.steps() / l.whole()) // all requests are for a unit or more
	strangers, denied := r.fresh[first:][:n], r.fresh[l.deniedGrade(k)]
	usual := usuallyCovered
	if l.bucket.burst > 0 {
		usual = usuallyCoveredTime
	}
	all := unfold(r.read[first:][:n], strangers, denied, least, usual)
	low := unfold(r.low[first:][:n], strangers, denied, least, usual)
	covered := 0.0
	for grade := range n {
		weight, lead := low.added[grade], l.partsOf(grade)
		covered += low.covered[grade]
		if innocent(lead-cost, l.whole()) {
			weight += all.added[grade]
			covered += all.covered[grade]
		}
		m.add(lead, max(0, weight-newcomers))
		newcomers = max(0, newcomers-weight)
	}
	m.add(cost, max(0, covered-newcomers))
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
	// leastLead, with so many covered ones beside each added one: few in buckets, where what others had left when a key came
	// stays with it. More rounds, or a flatter start, take for leads what is luck of a thousand looks.
	rounds             = 20
	usualLead          = 1. / 60
	leastLead          = 2e-4
	usuallyCovered     = 1.
	usuallyCoveredTime = 0.1
	leastSeen          = 0.02 // share of requests with a lead that is taken to be admitted
	leastPassed        = 0.1  // chance that newcomers are seen as such: where few are, they are denied as known keys are
)

// leads are how many requests there were by their keys' lead, by grade, denied ones included.
//
// An added lead is that of a key which comes in a burst: what others have left by then adds to it. A covered one is that of
// a key which has come all along: conservative update has let its own units and those of others run up side by side, and
// it reads the greater of the two.
type leads struct{ added, covered [grades]float64 }

// unfold returns the leads under which it is most likely that admitted requests read what is counted in read, if strangers
// read what is counted in fresh or would be denied (expectation and maximisation; Richardson, Lucy). None is below the
// least.
func unfold(read, fresh []float64, denied float64, least int, usual float64) (l leads) {
	var upTo [grades]float64 // strangers who read so much or less
	strangers, requests := 0.0, 0.0
	for i := range read {
		strangers += fresh[i]
		upTo[i] = strangers
		requests += read[i]
	}
	if requests == 0 || strangers == 0 {
		copy(l.added[:], read)
		return l
	}
	for i := least; i < len(read); i++ {
		l.added[i] = math.Exp(-float64(i-least)/float64(len(read))/usualLead) + leastLead
		l.covered[i] = l.added[i] * usual
	}
	for range rounds {
		l.improve(read, fresh, upTo[:len(read)])
	}
	admitted := max(1-denied/strangers, leastSeen)
	for i := range read {
		l.added[i] /= admitted
		l.covered[i] /= admitted
	}
	return l
}

// improve is a round of unfold.
func (l *leads) improve(read, fresh, upTo []float64) {
	var added, parts [grades]float64
	below := 0.0 // covered leads below a reading
	for i, n := range read {
		sum := l.covered[i]*upTo[i] + below*fresh[i]
		for lead := range i + 1 {
			sum += l.added[lead] * fresh[i-lead]
		}
		below += l.covered[i]
		if n == 0 || sum == 0 {
			continue
		}
		parts[i] = n / sum
		for lead := range i + 1 {
			added[lead] += parts[i] * l.added[lead] * fresh[i-lead]
		}
	}
	above, last := 0.0, len(read)-1
	for i := last; i >= 0; i-- {
		l.covered[i] *= parts[i]*upTo[i] + above
		above += parts[i] * fresh[i]
		l.added[i] = added[i] / max(upTo[last-i]/upTo[last], leastSeen)
	}
}
