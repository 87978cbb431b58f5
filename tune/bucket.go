package tune

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/gcra"
)

// bucketSimulation is [simulation] for [sketchlimit.TokenBucket]: real shards under their share of the
// traffic, exact times beside them. Nothing of it depends on where in a window it is, so the
// cells are read at a few moments of the last window, of which the mean is what any request
// may have met.
//
// Keys that send more than their limit begin with an empty bucket, as they would have it
// before long.
type bucketSimulation struct {
	simulation
	span   int64 // a window, ns
	fills  int64 // a bucket, ns
	users  []bucketUser
	fast   []float64 // requests a window of the keys above the limit, sorted
	passed []passage // nil if only what can be counted is wanted
	others wait

	followed bool // what passes is noted
}

// bucketUser is a key's times at which its bucket is full again, ns.
type bucketUser struct {
	admitted int64 // by what the limiter has admitted
	exact    int64 // by what the exact algorithm admits on its own
	lost     int64 // units in the last window
}

// passage is some requests of a key at one time.
type passage struct {
	key     int32
	counted bool
	at      int64 // ns
	n       int64 // units that were asked for
	admits  int64 // those that the exact algorithm admits
	ahead   int64 // how much later the bucket was full again before, ns
}

const looks = 8

// simulateBucket is simulate for sketchlimit.TokenBucket.
func (s *search) simulateBucket(plan engine.Dimensions, load, events float64, curves bool) *bucketSimulation {
	l, share := s.part(plan, load, events, coarse, tuneSeed)
	return newBucketSimulation(l, &s.traffic, share, s.goal, curves)
}

func newBucketSimulation(l *part, t *Traffic, share float64, g Goal, curves bool) *bucketSimulation {
	random := rand.New(rand.NewPCG(tuneSeed, 0))
	n := max(1, int(math.Round(float64(t.Keys)*share)))
	s := &bucketSimulation{
		simulation: simulation{
			window: l.window, limiter: l, share: share, random: random,
			keys:        make([]simulatedKey, n),
			sampled:     len(t.Sample) > 0,
			eventsOfKey: coarse.most(&g),
			parts:       1,
			steady:      t.Steady,
			bursts:      !t.Even,
		},
		span:  int64(l.window.Span()),
		fills: l.Fills(),
		users: make([]bucketUser, n),
	}
	s.cast(t, g.Limit, share)
	if curves {
		s.passed = make([]passage, 0, n)
		s.others = newWait(s.fills, float64(s.span)/float64(s.limit))
	}
	s.run()
	return s
}

// settling is how many windows it takes until cells are no longer ahead than in any window before. Near the cliff, where
// they get ahead faster than time goes by, a bucket of twenty units or more takes them: after one of them its cliff came
// out a quarter too high.
const settling = 5

// run sends windows of traffic until cells have settled, and one that counts.
func (s *bucketSimulation) run() {
	for i := range s.keys {
		if s.keys[i].rate > float64(s.limit) {
			if s.steady && !s.bursts {
				s.send(i, s.Burst(), 0)
			}
			s.fast = append(s.fast, s.keys[i].rate)
		}
	}
	slices.Sort(s.fast)
	last := settling + 8/s.limit
	for s.generation = 0; s.generation <= last; s.generation++ {
		s.counted, s.followed = s.generation == last, s.passed != nil && s.generation >= last-1-8/s.limit
		s.recast(int(s.generation))
		look := 0
		for _, e := range s.events() {
			if s.counted && s.passed != nil && e.moment() >= (float64(look)+0.5)/looks {
				s.look(e.moment())
				look++
			}
			s.come(e)
		}
		for i := range s.keys {
			if s.counted && s.keys[i].requests > 0 {
				s.distinct++
			}
		}
	}
	for i := range s.users {
		s.withheld += float64(s.users[i].lost)
	}
}

func (s *bucketSimulation) time(moment float64) int64 {
	if s.bursts {
		moment *= burstPart
	}
	return s.generation*s.span + int64(moment*float64(s.span))
}

// come sends what an event stands for.
func (s *bucketSimulation) come(e event) {
	if e.key() == len(s.keys) {
		s.comeOnce(s.time(e.moment()))
		return
	}
	if n := s.gathered(e); n > 0 {
		s.send(e.key(), int64(n), s.time(e.moment()))
	}
}

// comeOnce sends the only request of a key.
func (s *bucketSimulation) comeOnce(now int64) {
	s.once++
	d := s.takeAt(now, 1<<40+s.once, 1)
	if !s.counted {
		return
	}
	s.distinct++
	s.lastOnce++
	s.total++
	s.innocent++
	s.units++
	if d.Allowed {
		s.excessUnits += float64(s.Burst() - 1 - int64(d.Remaining))
		return
	}
	s.excessUnits += float64(s.Burst())
	s.denied++
	s.withheld++
}

// send sends n units of a key, as many as pass.
func (s *bucketSimulation) send(key int, n, now int64) {
	u := &s.users[key]
	ahead := max(0, u.exact-now)
	admits := min(n, max(0, s.Burst()-s.used(ahead)))
	u.exact = now + ahead + s.flows(admits)
	if s.followed {
		s.passed = append(s.passed, passage{int32(key), s.counted, now, n, admits, ahead})
	}

	d, some := s.takeAt(now, uint64(key), n), n
	if !d.Allowed {
		if some = int64(d.Remaining); some > 0 {
			s.takeAt(now, uint64(key), some)
		}
	}
	before := max(0, u.admitted-now)
	u.admitted = now + before + s.flows(some)
	if s.counted {
		u.lost += admits - some
		s.units += float64(admits)
		s.judge(n, n-some, s.used(before), s.used(ahead), d)
	}
}

// flows returns the time in which n units flow. It is rounded down, so that used finds no more
// than n of them.
func (s *bucketSimulation) flows(n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(s.span))
	ns, _ := bits.Div64(hi, lo, uint64(s.limit))
	return int64(ns)
}

// used returns how many units have not flowed yet, rounded up.
func (s *bucketSimulation) used(ahead int64) int64 { return gcra.CeilDiv(ahead, s.limit, s.span) }

func (s *bucketSimulation) takeAt(now int64, id uint64, n int64) engine.Verdict {
	return s.limiter.take(now, s.name(id), n)
}

// judge counts n requests of a key that had used so much, and exactly so much by the exact algorithm on its own, of
// which some were denied.
func (s *bucketSimulation) judge(n, denied, used, exactly int64, d engine.Verdict) {
	held := s.Burst() - int64(d.Remaining)
	if d.Allowed {
		held -= n
	}
	s.total += float64(n)
	s.excessUnits += float64(n) * float64(held-used)
	if 2*exactly >= s.Burst() {
		return
	}
	innocent := min(n, (s.Burst()+1)/2-exactly) // the others come when it has used half
	s.innocent += float64(innocent)
	s.denied += float64(max(0, innocent-(n-denied)))
}

// look reads the cells. What keys send that come in lumps is sent up to their last request
// before, so that cells are as full as they would be.
func (s *bucketSimulation) look(moment float64) {
	now := s.time(moment)
	for i := range s.keys {
		k := &s.keys[i]
		if k.requests > s.eventsOfKey && !s.bursts {
			at := max(0, moment-s.random.ExpFloat64()/k.rate)
			if n := int(at*float64(k.requests)) - k.sent; n > 0 {
				k.sent += n
				s.send(i, int64(n), s.time(at))
			}
		}
	}
	p := s.limiter.at(now)
	for _, ages := range s.limiter.Shards(p) {
		s.others.add(&s.window, p, &ages[0], 1/float64(looks*s.limiter.dims.Shards))
	}
}
