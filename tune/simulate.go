package tune

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
	"github.com/sketchlimit/sketchlimit/tune/internal/poisson"
)

// simulation is a few shards of a plan, real ones, under their share of the traffic.
// What a key meets depends on the keys and cells of its own shard only, so a handful of
// shards show what all of them do. Beside them it keeps exact counts of every key:
// what the limiter admitted, and what the exact algorithm admits on its own.
//
// It runs through a window to fill the generations that the limiter keeps, and counts
// in the next one, or the first part of it if that is in sub-windows; the states of
// requests are those of its last generation.
type simulation struct {
	window
	lowest      int64 // limit that requests are judged by
	limiter     *shards
	share       float64 // of the traffic that it gets
	keys        []simulatedKey
	sampled     bool    // keys send what they are said to, not that on average
	oneHit      float64 // keys that come once, a generation
	eventsOfKey int     // at most in a generation
	parts       int     // generations in a window
	roles       []role  // of the keys, which change from window to window unless heavy keys are steady
	steady      bool
	settles     bool    // it runs through another window before it counts
	bursts      bool    // each key sends a window's requests at once, early in its first generation
	admitted    *counts // by the limiter
	exact       *counts // by the exact algorithm on its own
	random      *rand.Rand

	generation int64
	counted    bool   // the generation is one of the last window
	last       bool   // it is the last one, and curves are wanted
	quiet      bool   // nothing comes in it
	once       uint64 // keys that came once so far
	stride     int    // one in so many requests of light keys is remembered
	requests   int    // of light keys in the last generation
	buffer     [8]byte

	curves      *curves // nil: only what can be counted is wanted
	lightStates tally   // requests of light keys, some of them, by what they met
	measurement
}

type simulatedKey struct {
	role
	phase    float64 // of sampled ones, where they do not divide by the generations of a window
	requests int     // in this one
	sent     int     // of them so far, where there are more than eventsOfKey

	full          bool  // the exact algorithm has denied it in a generation before
	whole         bool  // it was in the table of heavy keys when the last generation began
	falselyDenied bool  // it was denied while light
	lost          int64 // units that the exact algorithm admitted and the limiter did not
	closest       state // to its limit, by the exact algorithm
}

// measurement is what was counted.
type measurement struct {
	total, lightRequests float64 // requests
	denied               float64 // of light keys
	falselyDeniedKeys    int
	units                float64 // that the exact algorithm admits
	lostUnits            float64 // of them the limiter
	losingKeys           int
	excessUnits          float64 // held against the key beyond what it has used, over all requests

	// In the last generation alone.
	distinct          float64 // keys
	lastOnce          float64 // keys that came once
	lastLightRequests float64
	lastUnits         float64
}

// add adds what another simulation of the same has counted.
func (m *measurement) add(other *measurement) {
	m.lightRequests += other.lightRequests
	m.denied += other.denied
	m.falselyDeniedKeys += other.falselyDeniedKeys
	m.units += other.units
	m.lostUnits += other.lostUnits
	m.losingKeys += other.losingKeys
}

// state is what decides whether a request is denied, but for the cells it meets.
type state struct {
	slot    int8
	left    uint8 // of the generation, in lefts; where the slack was there before, when it first was
	full    bool  // the key has met its limit in the generation before
	whole   bool  // it is in the table of heavy keys since then, where nothing is read too much
	light   bool  // the key stays light in all generations that are kept
	slack   int64 // units left after the request
	current int64 // units in the current generation
	earlier
}

// leftParts are the parts of a generation by which the weight of the oldest one is told
// apart. Few units change at once with it, so it needs more of them than what fills the
// cells.
const leftParts = 64

// tally counts requests by state, and keeps the order in which states came first,
// because sums of many small numbers depend on it.
type tally struct {
	index  map[state]int
	states []state
	counts []float64
}

func (t *tally) add(s state, n float64) {
	i, ok := t.index[s]
	if !ok {
		if t.index == nil {
			t.index = make(map[state]int)
		}
		i = len(t.states)
		t.index[s] = i
		t.states, t.counts = append(t.states, s), append(t.counts, 0)
	}
	t.counts[i] += n
}

// tuneSeed is the seed of the first simulation of anything.
const tuneSeed = 1

// warmPerCounted is how many of a window's generations are filled for each that is
// counted.
const warmPerCounted = 4

// detail is the events of one key in a window that stand for all its requests, if those
// are more.
type detail int

const (
	coarseDetail detail = 32
	fineDetail   detail = 4096 // every request, but of keys far above the usual limits
)

// most returns the events of one key in a generation.
func (d detail) most(g *Goal) int { return max(4, int(d)/max(g.SubWindows, 1)) }

// newSimulation sends the limiter a share of the traffic, and measures.
func newSimulation(l *shards, t *Traffic, share float64, g Goal, d detail, curves *curves) *simulation {
	random := rand.New(rand.NewPCG(l.hasher.Seed, 0))
	n := max(1, int(math.Round(float64(t.Keys)*share)))
	s := &simulation{
		window: l.window, lowest: int64(cmp.Or(g.LowestLimit, g.Limit)), limiter: l, share: share, random: random, curves: curves,
		keys:        make([]simulatedKey, n),
		sampled:     len(t.Sample) > 0,
		eventsOfKey: d.most(&g),
		parts:       max(g.SubWindows, 1),
		steady:      t.Steady,
		settles:     d == fineDetail,
		bursts:      !t.Even,
		admitted:    newCounts(l.generations, n), exact: newCounts(l.generations, n),
	}
	s.cast(t, g.Limit, share)
	s.run()
	return s
}

func (s *simulation) run() {
	warm := s.generations - 1
	if s.settles && warm > 0 { // what keys near their limit got in the first window rules the second
		warm += s.parts
	}
	total := warm + (warm+warmPerCounted)/warmPerCounted
	if s.bursts && warm > 0 { // a window in which keys get little, after one in which they get much, and another of those
		total = warm + 1 + s.parts
	}
	for g := range total {
		s.generation, s.counted, s.last = int64(g), g >= warm, g == total-1 && s.curves != nil
		s.quiet = s.bursts && g%s.parts != 0
		if g%s.parts == 0 {
			s.recast(g / s.parts)
		}
		if g > 0 {
			s.admitted.turn()
			s.exact.turn()
			s.findHeavy()
		}
		s.send(s.events())
		for i := range s.keys {
			if s.counted {
				s.keys[i].lost += s.exact.byAge[0][i] - s.admitted.byAge[0][i]
			}
		}
	}
	for i := range s.keys {
		k := &s.keys[i]
		s.lostUnits += float64(k.lost)
		if k.lost > 0 {
			s.losingKeys++
		}
		if k.requests > 0 {
			s.distinct++
		}
	}
}

// findHeavy looks which keys begin the generation in the table of heavy keys.
func (s *simulation) findHeavy() {
	l := s.limiter
	for i := range s.keys {
		if s.last && s.admitted.byAge[1][i] > 0 {
			s.keys[i].whole = l.engine.HasEntry(l.hasher.Bytes(s.name(uint64(i))))
		}
	}
}

// event is a moment of a generation, in 2^32ths of it, above the key that comes then. The
// keys past the last one come once.
type event uint64

func newEvent(moment float64, key int) event {
	return event(uint64(moment*(1<<32))<<32 | uint64(uint32(key)))
}

func (e event) moment() float64 { return float64(e>>32) / (1 << 32) }
func (e event) key() int        { return int(uint32(e)) }

// events returns one generation's events in their order. A key of few requests sends each
// at a moment drawn at random. One of many comes eventsOfKey times, the more often the
// earlier, because it is its first units that others' cells lie under, and sends what
// has gathered since. In bursts each key comes once.
func (s *simulation) events() []event {
	if s.quiet {
		return nil
	}
	var events []event
	for i := range s.keys {
		k := &s.keys[i]
		k.sent, k.requests = 0, s.draw(k)
		if k.late && !s.counted {
			k.requests = 0
		}
		if s.bursts {
			if k.requests > 0 {
				events = append(events, newEvent(s.moment(k, s.random.Float64()), i))
			}
			continue
		}
		if k.requests <= s.eventsOfKey {
			for range k.requests {
				events = append(events, newEvent(s.moment(k, s.random.Float64()), i))
			}
			continue
		}
		phase := s.random.Float64()
		for j := range s.eventsOfKey {
			root := (float64(j) + phase) / float64(s.eventsOfKey)
			events = append(events, newEvent(s.moment(k, root*root), i))
		}
	}
	for range poisson.Draw(s.random, s.oneHit) {
		events = append(events, newEvent(s.random.Float64(), len(s.keys)))
	}
	return sortEvents(events)
}

// draw returns how many requests the key sends in this generation. Those of a sample
// come in every window again, evenly over its generations.
func (s *simulation) draw(k *simulatedKey) int {
	if !s.sampled {
		return poisson.Draw(s.random, k.rate)
	}
	g := float64(s.generation)
	return int((g+1)*k.rate+k.phase) - int(g*k.rate+k.phase)
}

// sortEvents sorts by the first bits, as many as tell most events apart, in one pass:
// nothing depends on the order within so short a time.
func sortEvents(events []event) []event {
	shift := 64 - min(max(12, bits.Len(uint(len(events)))), 16)
	begin := make([]int32, 1<<(64-shift)+1)
	for _, e := range events {
		begin[e>>shift+1]++
	}
	for i := range begin[1:] {
		begin[i+1] += begin[i]
	}
	in := make([]event, len(events))
	for _, e := range events {
		in[begin[e>>shift]] = e
		begin[e>>shift]++
	}
	return in
}

// send sends the events, and looks at the cells in between.
func (s *simulation) send(events []event) {
	s.stride = 1 + len(events)/rememberedRequests
	slot := 0
	for _, e := range events {
		for s.last && e.moment() >= instant(slot) {
			s.look(slot)
			slot++
		}
		elapsed := s.elapsed(e.moment())
		near := slot // the instant that is nearest
		if slot > 0 && e.moment() < (instant(slot-1)+instant(slot))/2 {
			near--
		}
		if e.key() == len(s.keys) {
			s.sendOnce(elapsed, near)
			continue
		}
		s.sendSome(e.key(), int64(s.gathered(e)), elapsed, near)
	}
	for ; s.last && slot <= slots; slot++ {
		s.look(slot)
	}
}

func (s *simulation) look(slot int) {
	if s.curves != nil {
		elapsed := min(s.elapsed(instant(slot)), time.Duration(s.length-1))
		s.curves.look(s.limiter, slot, rotating.Position{Generation: s.generation, Elapsed: elapsed})
	}
}

// take sends n requests, and tells whether the lowest limit would have admitted them.
func (s *simulation) take(id uint64, elapsed time.Duration, n int64) (d spec.Verdict, lowestAllows bool) {
	now, key := s.generation*s.length+int64(elapsed), s.name(id)
	if s.lowest == s.limit {
		d = s.limiter.take(now, key, n)
		return d, d.Allowed
	}
	lowestAllows = s.limiter.peek(now, key, n, s.lowest).Allowed
	return s.limiter.take(now, key, n), lowestAllows
}

// name returns the key of an id, until the next call.
func (s *simulation) name(id uint64) []byte {
	binary.LittleEndian.PutUint64(s.buffer[:], id)
	return s.buffer[:]
}

// sendOnce sends the only request of a key.
func (s *simulation) sendOnce(elapsed time.Duration, slot int) {
	s.once++
	d, lowestAllows := s.take(1<<40+s.once, elapsed, 1)
	if !s.counted {
		return
	}
	s.total++
	s.lightRequests++
	s.units++
	if d.Allowed {
		s.excessUnits += float64(s.limit - 1 - int64(d.Remaining))
	} else {
		s.excessUnits += float64(s.limit)
		s.lostUnits++
		s.losingKeys++
	}
	if !lowestAllows {
		s.denied++
		s.falselyDeniedKeys++
	}
	if s.last {
		s.distinct++
		s.lastOnce++
		s.lastLightRequests++
		s.lastUnits++
		s.remember(state{slot: int8(slot), left: s.left(elapsed), light: true, slack: s.lowest - 1}, 1)
	}
}

// sendSome sends requests of a key, so many at a time that the steps stay small against
// what it has, or against the limit where no table takes keys in on their way there.
func (s *simulation) sendSome(key int, left int64, elapsed time.Duration, slot int) {
	least := int64(1)
	if s.limiter.dims.HeavyEntries == 0 {
		least = max(1, s.lowest/128)
	}
	for left > 0 {
		n := min(left, max(least, s.admitted.byAge[0][key]/8))
		d, lowestAllows := s.take(uint64(key), elapsed, n)
		if !d.Allowed && d.Remaining > 0 {
			n = int64(d.Remaining)
			d, lowestAllows = s.take(uint64(key), elapsed, n)
		}
		if !d.Allowed {
			n = left // what follows at the same time is denied alike
		}
		left -= n
		s.count(key, n, elapsed, slot, d, lowestAllows)
	}
}

// count keeps the books of n requests that were decided alike.
func (s *simulation) count(key int, n int64, elapsed time.Duration, slot int, d spec.Verdict, lowestAllows bool) {
	used, exactly := s.admitted.used(&s.window, key, elapsed), s.exact.used(&s.window, key, elapsed)
	admits := min(n, max(0, s.limit-exactly))
	if s.counted {
		s.judge(key, n, used, exactly, elapsed, slot, d, lowestAllows)
		s.units += float64(admits)
	}
	if s.last {
		s.lastUnits += float64(admits)
		s.approach(key, s.limit-exactly-admits, elapsed, slot)
	} else if admits < n {
		s.keys[key].full = true
	}
	if d.Allowed {
		s.admitted.add(key, n)
	}
	s.exact.add(key, admits)
}

// judge counts n requests of a key that was admitted so much, and exactly so much by
// the exact algorithm on its own, by the limiter's decision, and by that of the lowest
// limit.
func (s *simulation) judge(key int, n, used, exactly int64, elapsed time.Duration, slot int, d spec.Verdict, lowestAllows bool) {
	k, weight := &s.keys[key], float64(n)
	s.total += weight
	held := s.limit - int64(d.Remaining)
	if d.Allowed {
		held -= n
	}
	s.excessUnits += weight * float64(held-min(used, s.limit))
	if 2*exactly >= s.lowest {
		return
	}
	weight = float64(min(n, (s.lowest+1)/2-exactly)) // the others come when it has used half
	s.lightRequests += weight
	if !lowestAllows {
		s.denied += weight
		if !k.falselyDenied {
			k.falselyDenied = true
			s.falselyDeniedKeys++
		}
	}
	if !s.last {
		return
	}
	s.lastLightRequests += weight
	st := s.state(key, elapsed, slot, s.lowest-used-1, s.admitted)
	st.light = s.light(key)
	s.remember(st, weight)
}

// approach notes that the exact algorithm has left a key so little.
func (s *simulation) approach(key int, slack int64, elapsed time.Duration, slot int) {
	c := &s.keys[key].closest
	if slack > c.slack {
		return
	}
	first, before := c.left, slack == c.slack
	*c = s.state(key, elapsed, slot, slack, s.exact)
	if before {
		c.left = first
	}
}

// state returns that of a key which would have so much left, by what was counted.
func (s *simulation) state(key int, elapsed time.Duration, slot int, slack int64, c *counts) state {
	k := &s.keys[key]
	return state{int8(slot), s.left(elapsed), k.full, k.whole, false, slack, c.byAge[0][key], c.earlier(key)}
}

// light reports whether the key stays light in all generations that are kept, by what it
// has sent and will send.
func (s *simulation) light(key int) bool {
	units := int64(s.keys[key].requests)
	for _, byKey := range s.admitted.byAge[1:] {
		units += byKey[key]
	}
	return 2*units < s.lowest
}

func (s *simulation) left(elapsed time.Duration) uint8 {
	return uint8(leftParts * (s.length - int64(elapsed) - 1) / s.length)
}

// rememberedRequests bounds the states of requests that are looked at one by one.
const rememberedRequests = 16 << 10

func (s *simulation) remember(st state, weight float64) {
	if s.requests++; s.requests%s.stride == 0 {
		s.lightStates.add(st, weight)
	}
}
