package whatif

import "math"

// tally is what one limit has refused in one window.
//
// Its table holds the units that the limit has refused in the current generation and in the one before, of each key of which
// it has refused any. Where the table is full, light keys are drawn: only those whose hash ends in so many zeros
// are followed, and each stands for as many as there are to one of them. A key that asks for heavy units or more in two
// generations is followed in any case from then on, and stands for itself.
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
	lights, lightRequests  float64 // drawn keys that were refused as light ones, and these requests of theirs
	assumed                float64 // keys of which nobody knew what was refused when they grew heavy
	inflated               float64 // refused keys whose units a sketch has given
}

const (
	topKeys     = 256
	refusedKeys = 4096
	leastHeavy  = 16
)

func newTally(limit int, exact bool) tally {
	t := tally{limit: uint64(limit), table: newTable(leastPlaces), keys: drawn{most: refusedKeys}, top: heavy{most: topKeys}}
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
	if k.units < t.heavy {
		if !drawn {
			return
		}
		weight = 1 << t.zeros
	}
	e := t.table.find(r.hash)
	if !drawn && (e == nil || k.turn-e.turn > 1 || k.units-uint64(r.cost) < t.heavy) {
		e = t.assume(r, k)
	}
	if e != nil {
		e.at(k.turn)
		use := uint64(k.current-min(e.current, k.current)) + uint64(r.cost) +
			weighted(uint64(k.previous-min(e.previous, k.previous)), k.elapsed, k.length)
		if use <= t.limit && k.counted {
			return
		}
	}
	t.refuse(r, k, e, weight)
}

// assume returns the entry of a key that grew heavy unfollowed: as if it had used all that the limit leaves.
func (t *tally) assume(r *request, k *asked) *entry {
	previous := min(uint64(k.previous), t.limit)
	left := t.limit - min(weighted(previous, k.elapsed, k.length), t.limit)
	current := min(uint64(k.current), left)
	e := t.table.put(r.hash)
	e.turn, e.current, e.previous = k.turn, k.current-uint32(current), k.previous-uint32(previous)
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
	}
	t.count(r, weight)
	if e.current == 0 { // the first one in this generation
		t.keyWindows += float64(weight)
		if weight > 1 {
			t.keys.narrow(t.zeros)
		}
		t.keys.add(r.hash)
		if k.inflated {
			t.inflated++
		}
	}
	if weight > 1 {
		t.stray(e, r.cost, weight)
	}
	e.refused++
	if k.counted {
		e.current += r.cost
	}
}

// stray keeps what the error of a drawn key's request needs. If each key is drawn with chance p and stands for 1/p keys, the
// sum over drawn keys of x²(1-p)/p² is the variance (Horvitz and Thompson). A key's x grows by 1, or by the cost.
func (t *tally) stray(e *entry, cost uint32, weight uint64) {
	x, w, c := float64(e.light), float64(weight), float64(cost)
	t.variance += (2*x + 1) * w * (w - 1)
	t.unitVariance += (2*x + 1) * c * c * w * (w - 1)
	if e.light == 0 {
		t.lights++
	}
	t.lightRequests++
	e.light++
}

// errors returns the errors of requests and units. inflation is how many units too many a sketch gives a key.
func (t *tally) errors(inflation float64) (requests, units float64) {
	beside := 2*float64(t.limit)*t.assumed + inflation*t.inflated // units; a request has one at least
	requests, units = beside, beside
	if t.limit < t.heavy {
		missed := math.Ldexp(fewest, t.zeros) * max(1, t.lightRequests/max(1, t.lights))
		requests += deviations*math.Sqrt(t.variance) + missed
		cost := float64(max(t.units, 1)) / float64(max(t.requests, 1))
		units += deviations*math.Sqrt(t.unitVariance) + missed*max(1, cost)
	}
	return requests, units
}
