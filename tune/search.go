package tune

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
)

// search looks for the plan that reaches a goal.
type search struct {
	traffic Traffic
	goal    Goal
	need    *sizing.Need
	audit   int       // bytes of the memory that the goal leaves to an audit
	rates   []float64 // requests in a window of keys that stand for all
	known   stated    // the last of them
	replays *replays  // nil without a trace
	sample  *replays  // of some of its keys, or the same
	calm    *search   // of the same traffic, even and steady; nil if it is

	loads    *bucketLoads // of a token bucket
	counting bool         // rates are counted as well, which takes seconds
}

// bucketLoads are those that were simulated, by the load.
type bucketLoads struct {
	mu sync.Mutex
	of map[float64]*bucketLoad
}

// stated is what is expected of a plan under the traffic as stated.
type stated struct {
	dims     spec.Dimensions
	expected Expected
	keys     float64 // in a generation
}

const (
	// These are the events that a simulation sends in a window, if
	// the shards that take them are not more than there are.
	searchEvents   = 30_000
	cliffEvents    = 12_000     // where only a tenth of all matters
	forecastEvents = 120_000    // of the stated traffic
	loadedEvents   = 40_000     // of multiples of it
	countedEvents  = 1_500_000  // of the stated traffic, where each is a request; more if
	countedKeys    = 100_000    // take them, so that there are shards with more heavy keys than others,
	mostEvents     = 12_000_000 // but no more than this
	rounds         = 2          // of improvements
	// unasked is what a plan may do of what nobody has set a goal for. Heavy keys that are new or come in bursts lose what
	// others have left in their cells: to withhold less of theirs takes up to three times the memory.
	unasked      = 1e-3
	unaskedOfNew = 3e-2
)

func newSearch(t Traffic, g Goal) (*search, error) {
	if rule := g.rule(); rule.IsBucket() && g.LowestLimit > 0 { // its cells are times, whatever the limit
		g.Limit, g.Burst, g.LowestLimit = g.LowestLimit, int(rule.BurstAt(int64(g.LowestLimit))), 0
	}
	t.Sample = slices.Sorted(slices.Values(t.Sample))
	audit := 0
	if rule := g.rule(); g.MemoryBytes > 0 {
		audit = sizing.AuditBytes(sizing.NewAudit(&rule, g.MemoryBytes, 0))
		g.MemoryBytes -= audit
	}
	s := &search{goal: g, need: g.need(), audit: audit, loads: new(bucketLoads)}
	if t.Trace != nil {
		t.Sample = t.Trace.fullest()
		keys := len(t.Sample)
		t.Keys = cmp.Or(t.Keys, keys)
		t.Even, t.Steady = true, true // replays know better
		judged, err := t.Trace.judge(&s.goal)
		if err != nil {
			return nil, err
		}
		denied, withheld := s.goal.rates(&t)
		s.replays = newReplays(t.Trace, judged, denied, withheld, float64(t.Keys)/float64(keys))
		s.sample = s.replays.sample()
	}
	s.traffic = t
	if g.Limit > 1 { // at 1 there is nothing but doorkeepers, as large as the goal asks for
		s.need.Keys = t.Keys
	}
	if err := s.bounded(); err != nil {
		return nil, err
	}
	s.rates, _ = t.rates(g.Limit, 1000, rand.New(rand.NewPCG(tuneSeed, 0)))
	if !t.Even || !t.Steady {
		calm := *s
		calm.traffic.Even, calm.traffic.Steady, calm.loads = true, true, new(bucketLoads)
		s.calm = &calm
	}
	return s, nil
}

// events returns what a simulation takes for one key and window on average. A key that hardly ever comes takes time and
// memory as well, about as much as a request does. Keys that come once are events all of them.
func (s *search) events(d detail) (mean float64) {
	most := d.most(&s.goal) * max(s.goal.SubWindows, 1)
	for _, rate := range s.rates {
		mean += math.Min(rate, float64(most))
	}
	once := s.traffic.OneHit * s.traffic.requests(s.goal.Limit) / float64(s.traffic.Keys)
	return max(1, mean/float64(len(s.rates))) + once
}

// run returns the plan, without forecast.
func (s *search) run() (spec.Dimensions, error) {
	if s.replays != nil {
		return s.runTrace()
	}
	if s.goal.FalseDenialRate == 0 && s.goal.WithheldShare == 0 {
		best, _ := s.improve(s.goal.MemoryBytes, s.need.Shape(s.goal.MemoryBytes))
		return s.need.Spend(s.goal.MemoryBytes, best)
	}
	memory, best, err := s.least()
	if err != nil {
		return spec.Dimensions{}, err
	}
	if most := s.goal.MemoryBytes; most > 0 && memory > most {
		best, _ = s.improve(most, best)
		plan, _ := s.need.Spend(most, best)
		e := s.stated(plan).expected
		return spec.Dimensions{}, fmt.Errorf("tune: Goal.MemoryBytes %d, must be at least %d for that goal; it gives FalseDenialRate %.1g and WithheldShare %.1g",
			most+s.audit, memory+s.audit, e.FalseDenialRate, e.WithheldShare)
	}
	return s.need.Spend(memory, best)
}

// secured adds memory, ever more, until a simulation as large as the forecast's reaches the goal: what is
// rare, such as a full bucket of heavy keys, may be missing from those of the search. Low limits may err more under even
// traffic than in bursts, so the goal is reached for that as well.
func (s *search) secured(memory int, how sizing.Shape) (int, error) {
	for factor := 1.05; ; factor *= factor {
		plan, err := s.need.Spend(memory, how)
		if err != nil {
			return 0, err
		}
		reached := s.missed(s.stated(plan).expected) <= 1
		if reached && s.calm != nil {
			reached = s.missed(s.calm.stated(plan).expected) <= 1
		}
		if reached {
			return memory, nil
		}
		if memory = int(min(float64(memory)*factor, spec.MaxMemory+1)); memory > spec.MaxMemory {
			return 0, s.unreachable()
		}
	}
}

func (s *search) unreachable() error {
	return fmt.Errorf("tune: Goal.FalseDenialRate %v and WithheldShare %v take more than %d bytes",
		s.goal.FalseDenialRate, s.goal.WithheldShare, spec.MaxMemory)
}

// least returns the least memory that reaches the goal, to 3 %, and how it is spent. What an improvement is worth
// small simulations tell with some luck: the usual shape is tried as well.
func (s *search) least() (memory int, best sizing.Shape, err error) {
	smallest := s.smallest()
	memory = max(smallest, int(float64(s.traffic.Keys)*float64(s.need.Rule.Generations())/2))
	best = s.need.Shape(memory)
	// Twice as much or half as much, until the goal lies in between; then what
	// suits there is taken to the edge.
	for down := s.reached(memory, best); ; {
		next := memory * 2
		if down {
			next = max(memory/2, smallest)
		}
		if next > spec.MaxMemory {
			return 0, sizing.Shape{}, s.unreachable()
		}
		if next == memory {
			memory, err = s.secured(memory, best)
			return memory, best, err
		}
		if reached := s.reached(next, best); reached != down {
			memory = max(memory, next)
			break
		}
		memory = next
	}
	usual := best
	best, _ = s.improve(int(float64(memory)/math.Sqrt2), best)
	least, err := s.secured(s.down(memory, best), best)
	if err != nil || usual == best {
		return least, best, err
	}
	if other, err := s.secured(s.down(memory, usual), usual); err == nil && other < least {
		return other, usual, nil
	}
	return least, best, nil
}

// down returns the least memory down to half of what is enough that reaches the goal, to 3 %.
func (s *search) down(enough int, how sizing.Shape) int {
	least := float64(enough)
	for step := least / 2; step > float64(enough)/40; step /= 2 {
		if next := max(int(least-step), s.smallest()); s.reached(next, how) {
			least = float64(next)
		}
	}
	return int(least)
}

// reached tells whether so much memory reaches the goal.
func (s *search) reached(memory int, how sizing.Shape) bool {
	return s.miss(memory, how, math.Nextafter(1, 2)) <= 1
}

// improve returns what comes closest to the goal with so much memory: each part in turn takes
// the value that does best, as long as that helps.
func (s *search) improve(memory int, best sizing.Shape) (sizing.Shape, float64) {
	miss := s.miss(memory, best, math.Inf(1))
	for range rounds {
		before := miss
		for _, variants := range s.variants(best) {
			misses := make([]float64, len(variants))
			var all sync.WaitGroup
			for i, v := range variants {
				all.Go(func() { misses[i] = s.miss(memory, v, miss) })
			}
			all.Wait()
			for i, m := range misses {
				if m < miss {
					best, miss = variants[i], m
				}
			}
		}
		if !(miss < before*0.8) { // also where both are infinite, or 0
			break
		}
	}
	return best, miss
}

// variants returns the sizing.Shapes that differ from one in one part.
func (s *search) variants(from sizing.Shape) (groups [][]sizing.Shape) {
	vary := func(change func(*sizing.Shape) bool) []sizing.Shape {
		v := from
		if !change(&v) {
			return nil
		}
		return []sizing.Shape{v}
	}
	var depths, doors, probes, heavies, thresholds []sizing.Shape
	if s.goal.Algorithm == sketchlimit.TokenBucket {
		for _, entries := range timetable.Entries {
			depths = append(depths, vary(func(v *sizing.Shape) bool { v.Depth = entries; return from.Depth != entries })...)
		}
		return [][]sizing.Shape{depths}
	}
	for rows := 2; rows <= 6 && s.goal.Limit > 1; rows++ {
		depths = append(depths, vary(func(v *sizing.Shape) bool {
			different := v.Depth != rows
			v.Depth = rows
			return different
		})...)
	}
	switch {
	case s.goal.Limit == 1:
		for _, step := range []int{-1, 1, 3} {
			probes = append(probes, vary(func(v *sizing.Shape) bool { v.Probes += step; return v.Probes >= 1 && v.Probes <= 12 })...)
		}
	case from.Probes == 1:
		doors = append(doors, from.Guarded())
	default:
		doors = append(doors, vary(func(v *sizing.Shape) bool { v.Probes = 1; return true })...)
		for _, factor := range []float64{0.5, 0.75, 1.4, 2} {
			doors = append(doors, vary(func(v *sizing.Shape) bool { v.Door *= factor; return v.Door < 0.9 })...)
		}
		for _, step := range []int{-1, 1, 3} {
			probes = append(probes, vary(func(v *sizing.Shape) bool { v.Probes += step; return v.Probes >= 2 && v.Probes <= 12 })...)
		}
	}
	if s.need.HeavyTable() {
		for _, share := range []float64{0, 0.06, 0.12, 0.25, 0.4, 0.6} {
			heavies = append(heavies, vary(func(v *sizing.Shape) bool {
				different := v.Heavy != share
				v.Heavy = share
				return different
			})...)
		}
		for _, factor := range []float64{0.5, 2} {
			thresholds = append(thresholds, vary(func(v *sizing.Shape) bool {
				v.Threshold = int(float64(v.Threshold) * factor)
				return v.Threshold >= 4 && v.Threshold <= s.goal.Limit
			})...)
		}
	}
	return [][]sizing.Shape{heavies, depths, doors, probes, thresholds}
}

// miss returns how far a plan is from the goal: the greatest ratio of what is expected to what
// is wanted, 1 or less if the goal is reached. Where it is found to be at least enough, it may
// be more than what is returned.
func (s *search) miss(memory int, how sizing.Shape, enough float64) float64 {
	plan, err := s.need.Spend(memory, how)
	if err != nil {
		return math.Inf(1)
	}
	miss := s.denied(plan, cliffMargin) / cliffRate
	if miss >= enough {
		return miss
	}
	return max(miss, s.missed(s.expect(plan, 1, searchEvents)))
}

// missed is miss without regard to more load than stated.
func (s *search) missed(e Expected) float64 {
	denied, withheld := s.goal.rates(&s.traffic)
	return max(e.FalseDenialRate/denied, e.WithheldShare/withheld)
}

// expect simulates the plan under so many times the traffic.
func (s *search) expect(plan spec.Dimensions, load float64, events float64) Expected {
	e, _ := s.predict(plan, load, events)
	return e
}

// predict is expect, and tells how many keys come in a generation.
func (s *search) predict(plan spec.Dimensions, load float64, events float64) (e Expected, keys float64) {
	if s.goal.Algorithm == sketchlimit.TokenBucket {
		b := s.bucketLoad(load)
		return b.expected(plan), b.distinct / b.part
	}
	sim := s.simulate(plan, load, events, coarse, &curves{bursts: !s.traffic.Even}, tuneSeed)
	return newPredictor(sim).expected(), sim.distinct / sim.share
}

// denied returns the false-denial rate as far as it can be counted.
func (s *search) denied(plan spec.Dimensions, load float64) float64 {
	if s.goal.Algorithm == sketchlimit.TokenBucket {
		return s.bucketLoad(load).expected(plan).FalseDenialRate
	}
	sim := s.simulate(plan, load, cliffEvents, coarse, nil, tuneSeed)
	return ratio(sim.measurement.denied, sim.innocent)
}

// simulate sends so many events in a window.
func (s *search) simulate(plan spec.Dimensions, load, events float64, d detail, curves *curves, seed uint64) *simulation {
	l, share := s.part(plan, load, events, d, seed)
	return newSimulation(l, &s.traffic, share, s.goal, d, curves)
}

// bytesOfEvent bounds the memory that is simulated for an event: cells are looked at one by one.
const bytesOfEvent = 16

// manyGenerations are those from which a simulation sends less: each request reads them all.
const manyGenerations = 8

// part returns as many shards of the plan as so many events in a window are for, or a smaller
// one, and their share of the traffic. Where that is much memory, it is fewer.
func (s *search) part(plan spec.Dimensions, load, events float64, d detail, seed uint64) (l *part, share float64) {
	events *= math.Min(1, float64(manyGenerations)/float64(s.need.Rule.Generations()))
	perShard := load * float64(s.traffic.Keys) * s.events(d) / float64(plan.Shards)
	wanted := math.Min(events/perShard, events*bytesOfEvent/plan.ShardMemory(&s.need.Rule)) // shards
	share = 1 / float64(plan.Shards)                                                        // of the whole
	if wanted < 0.5 {
		share *= shrink(&plan, wanted)
		plan.Shards = 1
	} else {
		plan.Shards = int(math.Min(math.Ceil(wanted), float64(plan.Shards)))
		share *= float64(plan.Shards)
	}
	return newPart(s.need.Rule, plan, seed), share * load
}

// forecast returns what is expected of the plan at all loads, and where its cliff is.
func (s *search) forecast(plan spec.Dimensions) Forecast {
	var f Forecast
	bytes, _ := engine.BytesOf(&s.need.Rule, &plan) // the plan has been checked
	f.MemoryBytes = bytes + sizing.Overhead
	f.MemoryBytes += sizing.AuditBytes(sizing.NewAudit(&s.need.Rule, f.MemoryBytes, 0))
	var all sync.WaitGroup
	for i, load := range loads {
		all.Go(func() {
			f.At[i] = s.at(plan, load)
		})
	}
	all.Go(func() { f.Cliff = s.cliff(plan) })
	all.Wait()
	f.Keys = s.stated(plan).keys
	return f
}

// at is what a forecast says of so many times the traffic.
func (s *search) at(plan spec.Dimensions, load float64) Expected {
	var e Expected
	switch {
	case load != 1:
		e = s.expect(plan, load, loadedEvents)
	case s.replays == nil && (s.counting || s.fewRequests()):
		e = s.counted(plan, s.stated(plan).expected)
	default:
		e = s.stated(plan).expected
	}
	if s.replays != nil {
		r := s.replays
		if load != 1 {
			r = s.likeness(plan)
		}
		e = r.instead(e, plan, load)
	}
	e.Load = load
	return e
}

// counted takes what simulations of all requests count of the stated traffic in place of what is expected, or as
// a bound where that is little, and how far they differ. It is left out where nothing would be seen.
func (s *search) counted(plan spec.Dimensions, e Expected) Expected {
	if s.goal.Algorithm == sketchlimit.TokenBucket || max(e.FalseDenialRate, e.WithheldShare)*countedEvents < enough {
		return e
	}
	sims := s.replicas(plan)
	e.ranges(sims)
	if s.counting {
		all := sims[0]
		for _, other := range sims[1:] {
			all.measurement.add(&other.measurement)
		}
		e.FalseDenialRate = all.rate(e.FalseDenialRate, all.wrongedKeys, all.measurement.denied, all.innocent)
		e.WithheldShare = all.rate(e.WithheldShare, all.robbedKeys, all.withheld, all.units)
	}
	return e
}

// stated simulates the plan under the traffic as stated, unless it has just done so.
func (s *search) stated(plan spec.Dimensions) *stated {
	if s.known.dims != plan {
		e, keys := s.predict(plan, 1, forecastEvents)
		s.known = stated{plan, e, keys}
	}
	return &s.known
}

// cliff returns the load from which more than cliffRate is denied, to 3 %.
func (s *search) cliff(plan spec.Dimensions) float64 {
	denies := func(load float64) bool { return s.denied(plan, load) > cliffRate }
	if s.replays != nil {
		denies = func(load float64) bool { return s.likeness(plan).denies(plan, load) }
	}
	lo, hi := 1., 1.
	for lo > 1/farthest && denies(lo) {
		lo /= 2
	}
	for hi = 2 * lo; hi < farthest && !denies(hi); hi *= 2 {
		lo = hi
	}
	for hi/lo > 1.03 {
		if mid := math.Sqrt(lo * hi); denies(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}
