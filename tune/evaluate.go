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
)

// evaluator predicts what plans do for traffic and a goal.
type evaluator struct {
	traffic Traffic
	goal    Goal
	need    *sizing.Need
	audit   int        // bytes of the memory that the goal leaves to an audit
	rates   []float64  // requests in a window of keys that stand for all
	known   stated     // of the plan that was predicted last
	replays *replays   // nil without a trace
	sample  *replays   // of some of its keys, or the same
	calm    *evaluator // of the same traffic, even and steady; nil if it is

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
	searchEvents     = 30_000
	breakingEvents   = 12_000     // where only a tenth of all matters
	forecastEvents   = 120_000    // of the stated traffic
	loadedEvents     = 40_000     // of multiples of it
	countedEvents    = 1_500_000  // of the stated traffic, where each is a request; more if
	countedKeys      = 100_000    // take them, so that there are shards with more heavy keys than others,
	maxCountedEvents = 12_000_000 // but no more than this
)

func newEvaluator(t Traffic, g Goal) (*evaluator, error) {
	if rule := g.rule(); rule.IsBucket() && g.LowestLimit > 0 { // its cells are times, whatever the limit
		g.Limit, g.Burst, g.LowestLimit = g.LowestLimit, int(rule.BurstAt(int64(g.LowestLimit))), 0
	}
	t.Sample = slices.Sorted(slices.Values(t.Sample))
	audit := 0
	if rule := g.rule(); g.MemoryBytes > 0 {
		audit = sizing.AuditBytes(sizing.NewAudit(&rule, g.MemoryBytes, 0))
		g.MemoryBytes -= audit
	}
	v := &evaluator{goal: g, need: g.need(), audit: audit, loads: new(bucketLoads)}
	if t.Trace != nil {
		t.Sample = t.Trace.fullest()
		keys := len(t.Sample)
		t.Keys = cmp.Or(t.Keys, keys)
		t.Even, t.Steady = true, true // replays know better
		judged, err := t.Trace.judge(&v.goal)
		if err != nil {
			return nil, err
		}
		denied, lost := v.goal.rates(t.Even && t.Steady)
		v.replays = newReplays(t.Trace, judged, denied, lost, float64(t.Keys)/float64(keys))
		v.sample = v.replays.sample()
	}
	v.traffic = t
	if g.Limit > 1 { // at 1 there is nothing but Bloom filters, as large as the goal asks for
		v.need.Keys = t.Keys
	}
	if err := v.bounded(); err != nil {
		return nil, err
	}
	v.rates, _ = t.rates(g.Limit, 1000, rand.New(rand.NewPCG(tuneSeed, 0)))
	if !t.Even || !t.Steady {
		calm := *v
		calm.traffic.Even, calm.traffic.Steady, calm.loads = true, true, new(bucketLoads)
		v.calm = &calm
	}
	return v, nil
}

// keysOfByte bounds the keys that share a byte of a generation. A simulation sends its
// smallest part of a limiter their share of the traffic: with more keys to a byte it
// would never end, and hardly a limit could be held in so little.
const keysOfByte = 16

// smallest returns the least memory that is planned and predicted.
func (v *evaluator) smallest() int {
	bytes := v.traffic.distinct(v.goal.Limit) * float64(v.need.Rule.Generations()) / keysOfByte
	return max(v.need.Smallest(), int(min(bytes, spec.MaxMemory+1)))
}

// bounded refuses a goal of less memory than that.
func (v *evaluator) bounded() error {
	if given := v.goal.MemoryBytes; given > 0 && given < v.smallest() {
		return fmt.Errorf("tune: Goal.MemoryBytes %d, %w", given+v.audit, v.tooSmall())
	}
	return nil
}

func (v *evaluator) tooSmall() error {
	return fmt.Errorf("must be at least %d for %.0f keys in a window", v.smallest(), v.traffic.distinct(v.goal.Limit))
}

// events returns what a simulation takes for one key and window on average. A key that
// hardly ever comes takes time and memory as well, about as much as a request does.
// Keys that come once are events all of them.
func (v *evaluator) events(d detail) (mean float64) {
	most := d.most(&v.goal) * max(v.goal.SubWindows, 1)
	for _, rate := range v.rates {
		mean += math.Min(rate, float64(most))
	}
	once := v.traffic.OneHit * v.traffic.requests(v.goal.Limit) / float64(v.traffic.Keys)
	return max(1, mean/float64(len(v.rates))) + once
}

// missed is miss without regard to more load than stated.
func (v *evaluator) missed(e Expected) float64 {
	denied, lost := v.goal.rates(v.traffic.Even && v.traffic.Steady)
	return max(e.FalseDenialRate/denied, e.LostShare/lost)
}

// expect simulates the plan under so many times the traffic.
func (v *evaluator) expect(plan spec.Dimensions, load float64, events float64) Expected {
	e, _ := v.predict(plan, load, events)
	return e
}

// predict is expect, and tells how many keys come in a generation.
func (v *evaluator) predict(plan spec.Dimensions, load float64, events float64) (e Expected, keys float64) {
	if v.goal.Algorithm == sketchlimit.TokenBucket {
		b := v.bucketLoad(load)
		return b.expected(plan), b.distinct / b.part
	}
	sim := v.simulate(plan, load, events, coarseDetail, &curves{bursts: !v.traffic.Even}, tuneSeed)
	return newPredictor(sim).expected(), sim.distinct / sim.share
}

// denied returns the false-denial rate as far as it can be counted.
func (v *evaluator) denied(plan spec.Dimensions, load float64) float64 {
	if v.goal.Algorithm == sketchlimit.TokenBucket {
		return v.bucketLoad(load).expected(plan).FalseDenialRate
	}
	sim := v.simulate(plan, load, breakingEvents, coarseDetail, nil, tuneSeed)
	return ratio(sim.measurement.denied, sim.lightRequests)
}

// simulate sends so many events in a window.
func (v *evaluator) simulate(plan spec.Dimensions, load, events float64, d detail, curves *curves, seed uint64) *simulation {
	l, share := v.part(plan, load, events, d, seed)
	return newSimulation(l, &v.traffic, share, v.goal, d, curves)
}

// bytesOfEvent bounds the memory that is simulated for an event: cells are looked at
// one by one.
const bytesOfEvent = 16

// manyGenerations are those from which a simulation sends less: each request reads them
// all.
const manyGenerations = 8

// part returns as many shards of the plan as so many events in a window are for, or a
// smaller one, and their share of the traffic. Where that is much memory, it is fewer.
func (v *evaluator) part(plan spec.Dimensions, load, events float64, d detail, seed uint64) (l *shards, share float64) {
	events *= math.Min(1, float64(manyGenerations)/float64(v.need.Rule.Generations()))
	perShard := load * float64(v.traffic.Keys) * v.events(d) / float64(plan.Shards)
	wanted := math.Min(events/perShard, events*bytesOfEvent/plan.ShardMemory(&v.need.Rule)) // shards
	share = 1 / float64(plan.Shards)                                                        // of the whole
	if wanted < 0.5 {
		share *= shrinkShard(&plan, wanted)
		plan.Shards = 1
	} else {
		plan.Shards = int(math.Min(math.Ceil(wanted), float64(plan.Shards)))
		share *= float64(plan.Shards)
	}
	return newShards(v.need.Rule, plan, seed), share * load
}

// bucketLoad returns that of so many times the traffic. It keeps what it has found.
func (v *evaluator) bucketLoad(load float64) *bucketLoad {
	v.loads.mu.Lock()
	defer v.loads.mu.Unlock()
	if l := v.loads.of[load]; l != nil {
		return l
	}
	l := newBucketLoad(&v.traffic, v.goal, v.need.Rule, load, math.Min(1, forecastEvents/(load*float64(v.traffic.Keys)*v.events(coarseDetail))))
	if v.loads.of == nil {
		v.loads.of = make(map[float64]*bucketLoad)
	}
	v.loads.of[load] = l
	return l
}

// likeness returns the sample of a trace, or all of it if a limiter for the sample
// would be too small.
func (v *evaluator) likeness(d spec.Dimensions) *replays {
	if bytes, _ := engine.BytesOf(&v.need.Rule, &d); float64(bytes)*v.replays.load < leastSampled*v.sample.load {
		return v.replays
	}
	return v.sample
}

// forecast returns what is expected of the plan at all loads, and where its breaking
// point is.
func (v *evaluator) forecast(plan spec.Dimensions) Forecast {
	var f Forecast
	bytes, _ := engine.BytesOf(&v.need.Rule, &plan) // the plan has been checked
	f.MemoryBytes = bytes + sizing.Overhead
	f.MemoryBytes += sizing.AuditBytes(sizing.NewAudit(&v.need.Rule, f.MemoryBytes, 0))
	var all sync.WaitGroup
	for i, load := range forecastLoads {
		all.Go(func() {
			f.At[i] = v.at(plan, load)
		})
	}
	all.Go(func() { f.BreakingPoint = v.breakingPoint(plan) })
	all.Wait()
	f.Keys = v.stated(plan).keys
	return f
}

// at is what a forecast says of so many times the traffic.
func (v *evaluator) at(plan spec.Dimensions, load float64) Expected {
	var e Expected
	switch {
	case load != 1:
		e = v.expect(plan, load, loadedEvents)
	case v.replays == nil && (v.counting || v.fewRequests()):
		e = v.counted(plan, v.stated(plan).expected)
	default:
		e = v.stated(plan).expected
	}
	if v.replays != nil {
		r := v.replays
		if load != 1 {
			r = v.likeness(plan)
		}
		e = r.instead(e, plan, load)
	}
	e.Load = load
	return e
}

// counted takes what simulations of all requests count of the stated traffic in place
// of what is expected, or as a bound where that is little, and how far they differ. It
// is left out where nothing would be seen.
func (v *evaluator) counted(plan spec.Dimensions, e Expected) Expected {
	if v.goal.Algorithm == sketchlimit.TokenBucket || max(e.FalseDenialRate, e.LostShare)*countedEvents < minCounted {
		return e
	}
	sims := v.replicas(plan)
	e.ranges(sims)
	if v.counting {
		all := sims[0]
		for _, other := range sims[1:] {
			all.measurement.add(&other.measurement)
		}
		e.FalseDenialRate = all.rate(e.FalseDenialRate, all.falselyDeniedKeys, all.measurement.denied, all.lightRequests)
		e.LostShare = all.rate(e.LostShare, all.losingKeys, all.lostUnits, all.units)
	}
	return e
}

// stated simulates the plan under the traffic as stated, unless it has just done so.
func (v *evaluator) stated(plan spec.Dimensions) *stated {
	if v.known.dims != plan {
		e, keys := v.predict(plan, 1, forecastEvents)
		v.known = stated{plan, e, keys}
	}
	return &v.known
}

// maxLoad is the multiple of the traffic at which the search for a breaking point ends,
// and one by it that at which it begins.
const maxLoad = 64.0

// breaking point returns the load from which more than breakingRate is denied, to 3 %.
func (v *evaluator) breakingPoint(plan spec.Dimensions) float64 {
	denies := func(load float64) bool { return v.denied(plan, load) > breakingRate }
	if v.replays != nil {
		denies = func(load float64) bool { return v.likeness(plan).denies(plan, load) }
	}
	lo, hi := 1., 1.
	for lo > 1/maxLoad && denies(lo) {
		lo /= 2
	}
	for hi = 2 * lo; hi < maxLoad && !denies(hi); hi *= 2 {
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

// maxRangeSeeds bounds the simulations by which a range is found.
const maxRangeSeeds = 40

// replicas simulates the whole plan request by request under the traffic as stated,
// with as many seeds as there is time for. Of a large plan it is one, and a part.
func (v *evaluator) replicas(plan spec.Dimensions) []*simulation {
	events := min(max(countedEvents, countedKeys*v.events(fineDetail)), maxCountedEvents)
	n := int(min(maxRangeSeeds, events/(float64(v.traffic.Keys)*v.events(fineDetail))))
	sims := make([]*simulation, max(1, n))
	var all sync.WaitGroup
	for i := range sims {
		all.Go(func() { sims[i] = v.simulate(plan, 1, events, fineDetail, nil, tuneSeed+uint64(i)) })
	}
	all.Wait()
	return sims
}

// fewRequests reports whether there is time for minRangeSeeds simulations of all
// requests.
func (v *evaluator) fewRequests() bool {
	return float64(v.traffic.Keys)*v.events(fineDetail)*minRangeSeeds <= countedEvents
}

// ranges puts in where the rates of simulations with different seeds lie.
func (e *Expected) ranges(sims []*simulation) {
	if len(sims) < minRangeSeeds {
		return
	}
	var denied, lost []float64
	falselyDenied, losing := 0, 0
	for _, sim := range sims {
		denied = append(denied, ratio(sim.denied, sim.lightRequests))
		lost = append(lost, max(0, ratio(sim.lostUnits, sim.units)))
		falselyDenied, losing = falselyDenied+sim.falselyDeniedKeys, losing+sim.losingKeys
	}
	if falselyDenied >= minCountedOfAll {
		e.FalseDenialRange = rangeOf(denied)
	}
	if losing >= minCountedOfAll {
		e.LostRange = rangeOf(lost)
	}
}
