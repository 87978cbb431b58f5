package whatif

import "math"

// tally is what one limit has refused in one window.
//
// Its table holds the units that the limit has refused in the current generation and in
// the one before, of each key of which it has refused any. Where the table is full,
// light keys are drawn: only those whose hash ends in so many zeros are followed, and
// each stands for as many as there are to one of them. A key that asks for heavy units
// or more in two generations is followed in any case from then on, and stands for
// itself; and so is one that sends much of the whole log.
type tally struct {
	limit uint64
	table table
	zeros int
	heavy uint64

	requests, units uint64 // refused
	steps           []Refused
	keys            drawn   // that were refused at least once
	top             heavy   // what entries had that were dropped
	keyWindows      float64 // pairs of a key and a window in which it was refused

	// What the error rests on.
	variance, unitVariance float64 // of what drawn keys stand for
	lights                 float64 // drawn keys that were refused as light ones
	lightRequests          float64 // these requests of theirs
	lightUnits             float64
	dearest                uint64  // the highest cost that was refused
	assumed                float64 // keys of which nobody knew what was refused when they grew heavy
	inflated               float64 // keys that may have been refused only because a sketch had units too many for them
	doubts                 doubts
}

const (
	topKeys     = 512
	mostRefused = 4096
	leastHeavy  = 16
)

func newTally(limit int, exact bool) tally {
	t := tally{limit: uint64(limit), table: newTable(leastPlaces), keys: drawn{most: mostRefused}, top: heavy{most: topKeys}}
	if exact {
		t.keys.most, t.top.most = math.MaxInt, math.MaxInt
	}
	return t
}

// count counts a refused request, for as many keys as it stands for.
func (t *tally) count(r *request, weight uint64) {
	requests, units := weight, weight*uint64(r.cost)
	t.requests += requests
	t.units += units
	s := stepOf(&t.steps, r.step)
	s.Requests += requests
	s.Units += units
}

// judge decides about a request that does not fit beside all that its key has asked for.
func (t *tally) judge(r *request, k *asked) {
	weight := uint64(1)
	drawn := ends(r.hash, t.zeros)
	if k.units < t.heavy && r.rank == light {
		if !drawn {
			return
		}
		weight = 1 << t.zeros
	}
	e := t.table.find(r.hash)
	assumed := false
	if !drawn {
		assumed = e == nil || k.unknown || r.rank == promoted
		if r.rank == light && !assumed { // it may have been light for a while
			assumed = k.turn-e.turn > 1 || k.units-uint64(r.cost) < t.heavy
		}
		if assumed {
			e = t.assume(r, k)
		}
	}
	unsure := false
	if e != nil {
		e.at(k.turn)
		use := admitted(k.current, e.current) + uint64(r.cost) + weighted(admitted(k.previous, e.previous), k.elapsed, k.length)
		if k.sketched {
			guessed := assumed && (e.current > 0 || e.previous > 0)
			unsure = t.weigh(r, k, use, guessed) || guessed
		}
		if use <= t.limit {
			return
		}
	}
	if unsure && e.current == 0 {
		t.inflated++
	}
	t.refuse(r, k, e, weight)
	if assumed || e == nil || e.current == r.cost { // the first one in this generation that is known
		t.keys.add(r.hash)
	}
}

// admitted returns what a limit has admitted of what a key has asked for, of which it
// knows what it has refused modulo 2³². No limit is as high as 2³¹. So what looks
// higher is below 0: the sketch knows less of the key than the limit has refused.
func admitted(asked uint64, refused uint32) uint64 {
	return uint64(max(int32(uint32(asked)-refused), 0))
}

// assume returns the entry of a key that grew heavy unfollowed: as if it had used all
// that the limit leaves.
func (t *tally) assume(r *request, k *asked) *entry {
	previous := min(k.previous, t.limit)
	left := t.limit - min(weighted(previous, k.elapsed, k.length), t.limit)
	current := min(k.current, left)
	e := t.table.put(r.hash)
	e.turn, e.current, e.previous = k.turn, uint32(k.current-current), uint32(k.previous-previous)
	if e.current > 0 || e.previous > 0 {
		t.assumed++
	}
	return e
}

// refuse counts a request of a key with or without an entry.
func (t *tally) refuse(r *request, k *asked, e *entry, weight uint64) {
	if e == nil {
		e = t.table.put(r.hash)
		e.at(k.turn)
		if s := t.top.find(r.hash); s != nil {
			e.light = s.light
		}
	}
	t.count(r, weight)
	t.dearest = max(t.dearest, uint64(r.cost))
	if e.current == 0 { // the first one in this generation
		if !k.denied {
			t.keyWindows += float64(weight)
		}
		if weight > 1 {
			t.keys.narrow(t.zeros)
		}
	}
	if weight > 1 {
		t.stray(e, r.cost, weight)
	}
	e.refused++
	e.current += r.cost
}

// stray keeps what the error of a drawn key's request needs. If each key is drawn with
// chance p and stands for 1/p keys, the sum over drawn keys of x²(1-p)/p² is the
// variance (Horvitz and Thompson). A key's x grows by 1, or by the cost.
func (t *tally) stray(e *entry, cost uint32, weight uint64) {
	x, w, c := float64(e.light), float64(weight), float64(cost)
	t.variance += (2*x + 1) * w * (w - 1)
	t.unitVariance += (2*x + 1) * c * c * w * (w - 1)
	if e.light == 0 {
		t.lights++
	}
	t.lightRequests++
	t.lightUnits += c
	e.light++
}

// refusedKeys returns how many keys were refused.
func (t *tally) refusedKeys() Estimate {
	e := t.keys.estimate()
	e.Error += min(t.inflated, e.Value)
	if t.limit < t.heavy && t.keys.zeros < t.zeros { // no light key was refused of those that are drawn
		e.Error += math.Ldexp(fewest, t.zeros)
	}
	return e
}

// basis is what the errors rest on beside what the tally knows.
type basis struct {
	excess   *excess // of the window
	zeros    int     // of the window
	requests float64 // of the log
	squares  float64 // of the requests of each of the heaviest keys that are not followed in any case, summed
}

// errors returns the errors of requests and units.
func (t *tally) errors(b *basis) (requests, units float64) {
	// In units; a request has one at least. What was assumed is wrong by the limit in
	// two generations at most, and after that another request may fit there than would
	// have: by as much as one costs.
	margin := 2 * float64(t.limit+min(t.dearest, t.limit)) * t.assumed
	doubtful := b.excess.error(&t.doubts, b.zeros)
	requests, units = margin+doubtful.requests, margin+doubtful.units
	if t.limit < t.heavy {
		one := float64(t.heavy - t.limit + t.dearest) // what a light key is refused in a window, where none is known to tell
		missed := math.Ldexp(fewest, t.zeros) / (t.lights + fewest/2)
		variance, unitVariance := t.spread(b)
		requests += deviations*math.Sqrt(variance) + missed*(t.lightRequests+fewest/2*one)
		units += deviations*math.Sqrt(unitVariance) + missed*(t.lightUnits+fewest/2*one)
	}
	return requests, units
}

// spread returns the variances. Drawn keys do not tell them where a few heavy ones
// would, and none of these was drawn. So they are what they would be if twice as many
// requests of the heaviest keys were refused as of all, if that is more.
func (t *tally) spread(b *basis) (requests, units float64) {
	if t.lightRequests == 0 {
		return t.variance, t.unitVariance
	}
	keys := math.Ldexp(1, t.zeros)
	part := min(1, 2*t.lightRequests*keys/b.requests)
	least := part * part * b.squares * (keys - 1)
	cost := t.lightUnits / t.lightRequests
	return max(t.variance, least), max(t.unitVariance, least*cost*cost)
}
