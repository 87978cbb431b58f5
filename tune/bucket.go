package tune

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
)

// bucketLoad is how many entries a part of the traffic has in the table of a token
// bucket, at some moments of a window, by the exact algorithm. The table errs where an
// unseen key finds no place in it, or shares an entry; both follow from how full it is,
// so the traffic is simulated once for all plans.
//
// Keys come at any moment of the window, in bursts all at once: the windows of a bucket
// have no edges. Keys that send more than their limit begin with an empty bucket, as
// they would have it before long.
type bucketLoad struct {
	simulation
	part    float64 // of the traffic
	span    int64   // a window, ns
	full    []int64 // when the bucket of each key is full, ns
	expires []int64 // the same of keys that came once, rising
	moments [loadSamples]occupancy
}

// loadSamples are the moments of a window at which entries are counted.
const loadSamples = 16

// occupancy is what comes in a part of a window, and the entries in the midst of it.
type occupancy struct {
	entries       float64
	used          float64 // entries of keys that have no unit left
	requests      float64
	all           float64 // of these, those of keys that have no entry
	lightRequests float64 // requests of light keys
	places        float64 // of these, those of keys that have no entry
	units         float64 // that the exact algorithm admits
	needy         float64 // of these, those of keys that have no entry
}

// bucketWarmUp are the windows until buckets are as empty as in any window before.
const bucketWarmUp = 2

// newBucketLoad simulates load times the traffic with a part of its keys, above 0 … 1.
func newBucketLoad(t *Traffic, g Goal, rule spec.Rule, load, part float64) *bucketLoad {
	n := max(1, int(math.Round(load*float64(t.Keys)*part)))
	b := &bucketLoad{
		simulation: simulation{
			window: newWindow(rule), random: rand.New(rand.NewPCG(tuneSeed, 0)), keys: make([]simulatedKey, n),
			sampled: len(t.Sample) > 0, eventsOfKey: coarseDetail.most(&g), parts: 1, steady: t.Steady, bursts: !t.Even,
		},
		part: part, span: int64(rule.Span()), full: make([]int64, n),
	}
	b.cast(t, g.Limit, part*load)
	b.run()
	return b
}

func (b *bucketLoad) run() {
	for i := range b.keys {
		if b.keys[i].rate > float64(b.limit) {
			b.full[i] = b.flows(b.Burst())
		}
	}
	windows := int64(bucketWarmUp + 8/b.limit)
	for b.generation = 0; b.generation <= windows; b.generation++ {
		b.counted = b.generation == windows
		b.recast(int(b.generation))
		look := 0
		for _, e := range b.events() {
			for b.counted && look < loadSamples && e.moment() >= (float64(look)+0.5)/loadSamples {
				b.look(look)
				look++
			}
			b.come(e)
		}
		for ; b.counted && look < loadSamples; look++ {
			b.look(look)
		}
	}
	for i := range b.keys {
		if b.keys[i].requests > 0 {
			b.distinct++
		}
	}
}

func (b *bucketLoad) time(moment float64) int64 {
	return int64((float64(b.generation) + moment) * float64(b.span))
}

// come takes what an event stands for to the exact algorithm.
func (b *bucketLoad) come(e event) {
	now, once := b.time(e.moment()), e.key() == len(b.keys)
	n, ahead := int64(1), int64(0)
	if once {
		b.expires = append(b.expires, now+b.flows(1))
	} else {
		n, ahead = int64(b.gathered(e)), max(0, b.full[e.key()]-now)
	}
	admits := min(n, max(0, b.Burst()-b.used(ahead)))
	if !once {
		b.full[e.key()] = now + ahead + b.flows(admits)
	}
	if !b.counted {
		return
	}
	if once {
		b.distinct++
	}
	m := &b.moments[int(e.moment()*loadSamples)]
	light := min(n, max(0, (b.Burst()+1)/2-b.used(ahead))) // the others come when it has used half
	m.requests += float64(n)
	m.lightRequests += float64(light)
	m.units += float64(admits)
	if ahead == 0 {
		m.all += float64(n)
		m.places += float64(light)
		m.needy += float64(admits)
	}
}

// flows returns the time in which n units flow. It is rounded down, so that used finds
// no more than n of them.
func (b *bucketLoad) flows(n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(b.span))
	ns, _ := bits.Div64(hi, lo, uint64(b.limit))
	return int64(ns)
}

// used returns how many units have not flowed yet, rounded up.
func (b *bucketLoad) used(ahead int64) int64 { return gcra.CeilDiv(ahead, b.limit, b.span) }

// look counts the entries in the midst of a part of the window.
func (b *bucketLoad) look(i int) {
	now, m := b.time((float64(i)+0.5)/loadSamples), &b.moments[i]
	last := now + b.flows(b.Burst()-1)
	for _, full := range b.full {
		if full > now {
			m.entries++
		}
		if full > last {
			m.used++
		}
	}
	for len(b.expires) > 0 && b.expires[0] <= now {
		b.expires = b.expires[1:]
	}
	m.entries += float64(len(b.expires))
	if b.Burst() == 1 {
		m.used += float64(len(b.expires))
	}
}

// expected returns the rates of a plan.
func (b *bucketLoad) expected(plan spec.Dimensions) Expected {
	lines := b.part * float64(plan.Shards) * float64(plan.Width)
	var requests, held, light, denied, units, lost float64
	for _, m := range b.moments {
		refused := timetable.RefusedAt(plan.Depth, m.entries/(lines*float64(plan.Depth)))
		shared := timetable.Shared(m.used, lines, plan.Depth)
		requests += m.requests
		held += m.all * refused * float64(b.Burst()) // of which such a key has none
		light += m.lightRequests
		denied += m.places*refused + m.lightRequests*shared
		units += m.units
		lost += m.needy*refused + m.units*shared
	}
	e := Expected{FalseDenialRate: min(1, ratio(denied, light)), LostShare: min(1, ratio(lost, units))}
	if held > 1e-6*requests { // less is nothing that could be counted
		e.EstimateError = held / requests
	}
	return e
}
