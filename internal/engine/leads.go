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

// scale is a layout by what is read in it.
type scale layout

func scaleOf(e *Engine) *scale { return (*scale)(&e.layout) }

// where returns which doorkeepers those of a generation are, by its age.
func (w *scale) where(age int) known {
	if age > 0 && age == w.Ring.Buffers()-1 {
		return oldestKnown
	}
	return nowKnown
}

// first returns the kind of the lowest grade for keys that are known.
func (l *scale) first(k known) int {
	if l.guarded {
		return int(k-1) * guardedGrades
	}
	return 0
}

// deniedGrade returns the kind of strangers that would be denied.
func (l *scale) deniedGrade(k known) int {
	if l.guarded {
		return l.first(k) + guardedGrades - 1
	}
	return grades - 1
}

// whole returns the parts of a quota.
func (l *scale) whole() int64 { return l.limit }

// parts returns those of n units.
func (l *scale) parts(n int64) int64 { return n }

// steps returns the highest grade. Where there are few units, each has a grade of its own.
func (l *scale) steps() int64 {
	if l.guarded {
		return min(l.limit, guardedGrades-2)
	}
	return min(l.limit, grades-2)
}

// gradeOf returns the grade of so many parts. Between two grades it is one of both, by a draw, so that it is right on
// average.
func (l *scale) gradeOf(parts int64, draw uint64) int {
	steps, whole := l.steps(), l.whole()
	at := min(max(parts, 0), whole) * steps
	grade := at / whole
	if float64(at%whole) > float64(draw>>11)*0x1p-53*float64(whole) {
		grade++
	}
	return int(grade)
}

// partsOf is the inverse of gradeOf.
func (l *scale) partsOf(grade int) int64 {
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
	others  float64           // requests of innocent keys without an entry for which these stand
	entries float64           // weight of keys with an entry
	wronged float64           // and of their requests that were denied
}

// mix returns what requests have been like that were taken down under a layout.
func (r *recent) mix(l *scale) (m mix) {
	m.entries, m.wronged = r.read[byEntry]+r.low[byEntry], r.wronged
	passes := r.passes()
	newcomers := (r.read[newcomer] + r.low[newcomer]) / max(passes[0], leastPassed)
	cost := min(l.parts(r.mean()), l.whole())
	m.add(cost, newcomers)
	for k := nowKnown; k <= allKnown; k++ {
		m.of[k] = m.n
		if l.guarded || k == allKnown {
			m.addKnown(r, l, k, cost, newcomers*passes[k])
		}
	}
	m.of[allKnown+1] = m.n
	m.others = max(m.sum, r.requests-m.entries)
	if m.others+m.entries+m.wronged == 0 {
		m.others = 1
	}
	if m.sum == 0 {
		m.weights[0], m.sum = 1, 1
	}
	return m
}

// addKnown adds keys that some doorkeepers know, less newcomers that they take for such keys. Of covered leads only the
// request itself adds to what strangers read. In crowded cells those above half of the limit are innocent keys' as well.
func (m *mix) addKnown(r *recent, l *scale, k known, cost int64, newcomers float64) {
	first, n := l.first(k), int(l.steps())+1
	least := int(l.parts(1) * l.steps() / l.whole()) // all requests are for a unit or more
	fresh := r.fresh[first:][:n]
	asking, full := l.asking(fresh, cost), l.full(cost)
	s := seen{fresh: fresh, asking: asking[:n], full: full[:n], denied: r.fresh[l.deniedGrade(k)], least: least,
		covered: usuallyCovered, usual: l.usual(), pinned: usuallyPinned * l.enough()}
	if l.Ring.Buffers() <= 2 { // the units of more of them add up
		s.crowded = crowded(fresh)
	}
	all, low := s.unfold(r.read[first:][:n]), s.unfold(r.low[first:][:n])
	covered := 0.0
	for grade := range n {
		weight, lead := low.added[grade], l.partsOf(grade)
		covered += low.covered[grade]
		if innocent(lead-cost, l.whole()) {
			weight += all.added[grade]
			covered += all.covered[grade]
		} else {
			covered += s.crowded * all.covered[grade]
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
	denied := 0.0
	for i, weight := range m.weights[:m.n] {
		denied += weight * chances[i]
	}
	return (denied/m.sum*m.others + m.wronged) / (m.others + m.entries + m.wronged)
}

const (
	// rounds are those of unfold, which begins with leads that fall by a power of e with each unit or usualLead of the
	// quota, to leastLead, with so many covered ones beside each added one. In crowded cells there are more of them, at what strangers read. More rounds, or a flatter
	// start, take for leads what is luck of a thousand looks.
	rounds         = 20
	usualLead      = 1. / 50
	leastLead      = 2e-4
	usuallyCovered = 1.
	crowdedPower   = 8    // of the mean share of the quota that strangers read: 0.9 is half crowded, 0.5 not at all
	usuallyPinned  = 0.03 // requests of keys that ask for more than they get, of so many units or more
	manyUnits      = 20   // of a quota: fewer are a few
	leastSeen      = 0.1  // share of requests with a lead that is taken to be admitted
	leastPassed    = 0.1  // chance that newcomers are seen as such: where few are, they are denied as known keys are
)

// leads are how many requests there were by their keys' lead, by grade, denied ones included.
//
// An added lead is that of a key which comes in a burst: what others have left by then adds to it. A covered one is that of
// a key which has come all along: conservative update has let its own units and those of others run up side by side, and
// it reads the greater of the two. In crowded cells, which are nearly full, that is so for nearly all keys: what a key has
// used is in those of its cells that others had left lower, so keys read alike, at or a little above what strangers do.
//
// A pinned key asks for more than it gets, and takes whatever comes free: it always reads all of the quota, whatever part of
// that others have left, and no innocent one does.
type leads struct {
	added, covered [grades]float64
	pinned         float64 // requests that were admitted
}

// seen is what unfold goes by, by grade.
type seen struct {
	fresh           []float64 // strangers who read so much
	asking          []float64 // and with their request
	full            []float64 // share of pinned keys' requests that read so much
	denied          float64   // strangers who would be denied
	least           int       // grade of the least lead
	usual           float64   // share of the quota in which leads fall by a power of e, see rounds
	covered, pinned float64   // what else is usual
	crowded         float64   // how crowded cells are, 0 … 1
}

// enough tells whether a quota is many units, 1, or a few, down to 0. Of a few innocent keys often read all, and what is read
// tells little of leads.
func (l *scale) enough() float64 {
	part := min(float64(l.whole())/float64(l.parts(1))/manyUnits, 1)
	return part * part
}

// usual returns the share of the quota in which leads usually fall by a power of e: a unit, where that is more than
// usualLead.
func (l *scale) usual() float64 {
	return max(usualLead, l.enough()*float64(l.parts(1))/float64(l.whole()))
}

// full returns what a pinned key reads with its requests: the quota less what comes free until it asks again. At random times
// that is half a request on average, where it asks for twice what it gets, and less where it asks for more.
func (l *scale) full(cost int64) (shares [grades]float64) {
	const parts = 64
	for i := range parts {
		free := -math.Log((float64(i)+0.5)/parts) / float64(int(2)<<(i%3))
		shares[l.gradeOf(l.whole()-int64(free*float64(cost)), uint64(i)*golden)] += 1. / parts
	}
	return shares
}

// asking returns what strangers read with their request. Where a quota is a few units, so that a grade is one of them,
// covered leads would then explain nearly all that is read, and the request is left out.
func (l *scale) asking(fresh []float64, cost int64) (asking [grades]float64) {
	if l.whole() < manyUnits*l.parts(1) {
		cost = 0
	}
	whole, part := math.Modf(float64(cost) * float64(l.steps()) / float64(l.whole()))
	last := len(fresh) - 1
	for i, n := range fresh {
		asking[min(i+int(whole), last)] += n * (1 - part)
		asking[min(i+int(whole)+1, last)] += n * part
	}
	return asking
}

// crowded returns how crowded cells are: 1 where all strangers read the whole quota.
func crowded(fresh []float64) float64 {
	sum, strangers := 0.0, 0.0
	for i, n := range fresh {
		sum += n * float64(i)
		strangers += n
	}
	return math.Pow(sum/max(strangers, 1)/float64(len(fresh)-1), crowdedPower)
}

// unfold returns the leads under which it is most likely that admitted requests read what is counted in read (expectation
// and maximisation; Richardson, Lucy).
func (s *seen) unfold(read []float64) (l leads) {
	var upTo, askedUpTo [grades]float64 // strangers who read so much or less, and with their request
	strangers, asking, requests := 0.0, 0.0, 0.0
	for i := range read {
		strangers += s.fresh[i]
		asking += s.asking[i]
		upTo[i], askedUpTo[i] = strangers, asking
		requests += read[i]
	}
	if requests == 0 || strangers == 0 {
		copy(l.added[:], read)
		return l
	}
	for i := s.least; i < len(read); i++ {
		l.added[i] = math.Exp(-float64(i-s.least)/float64(len(read))/s.usual) + leastLead
		l.covered[i] = l.added[i]*s.covered + s.crowded*s.asking[i]/strangers
	}
	l.pinned = s.pinned
	for range rounds {
		s.improve(&l, read, upTo[:len(read)], askedUpTo[:len(read)])
	}
	admitted := max(1-s.denied/strangers, leastSeen)
	for i := range read {
		l.added[i] /= admitted
		l.covered[i] /= admitted
	}
	return l
}

// improve is a round of unfold.
func (s *seen) improve(l *leads, read, upTo, askedUpTo []float64) {
	var added, parts [grades]float64
	below, pinned := 0.0, 0.0 // covered leads below a reading, and pinned ones
	last := len(read) - 1
	for i, n := range read {
		full := l.pinned * s.full[i] * upTo[last]
		sum := l.covered[i]*askedUpTo[i] + below*s.asking[i] + full
		for lead := range i + 1 {
			sum += l.added[lead] * s.fresh[i-lead]
		}
		below += l.covered[i]
		if n == 0 || sum == 0 {
			continue
		}
		parts[i] = n / sum
		pinned += parts[i] * full
		for lead := range i + 1 {
			added[lead] += parts[i] * l.added[lead] * s.fresh[i-lead]
		}
	}
	above := 0.0
	for i := last; i >= 0; i-- {
		l.covered[i] *= parts[i]*askedUpTo[i] + above
		above += parts[i] * s.asking[i]
		l.added[i] = added[i] / max(upTo[last-i]/upTo[last], leastSeen)
	}
	l.pinned = pinned
}
