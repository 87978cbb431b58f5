package whatif

import "math"

// doubt is how far a key may be from what a tally takes it to have used, in the current
// generation and in the one before: the sketch that told what the key had asked for may
// have had units too many. As long as that decides about a request, it counts as a
// doubtful one. The truth is followed between the two ways that such a request may have
// gone.
type doubt struct {
	entered, turn uint32
	below, above  [2]uint32 // that the key may have used less, or more
	settled       bool      // it has been refused in any case
	doubtful
}

// doubtful are requests of which it is not known whether they were refused.
type doubtful struct{ requests, units float64 }

func (d *doubtful) add(o doubtful, times float64) {
	d.requests += times * o.requests
	d.units += times * o.units
}

// doubts are those of a tally.
type doubts struct {
	of      map[uint64]doubt
	swept   uint32   // the turn
	open    doubtful // of keys that may not have been refused at all: the excess may be why they are here
	settled doubtful // of the others, among which an excess is no more frequent than elsewhere
	most    doubtful // of one of these
	dearest uint32   // the highest cost of all of them
}

const (
	leastDoubts = 1024
	doubtBytes  = 64 // about, in a map
)

// begin returns the doubt of a key; not ok if the sketch has told nothing of what
// counts now.
func (s *doubts) begin(h uint64, k *asked, assumed bool) (d doubt, ok bool) {
	d, ok = s.of[h]
	if ok && d.entered == k.entered && k.turn-d.turn <= 1 {
		d.at(k.turn)
		return d, true
	}
	d = doubt{entered: k.entered, turn: k.turn}
	if assumed || !k.inflated { // what is assumed has an error of its own
		return d, k.inflated
	}
	if k.entered == k.turn {
		d.below[0] = k.slack
	}
	if k.previous > 0 {
		d.below[1] = k.slack
	}
	return d, true
}

// at brings the doubt to a turn that is not later than the next one.
func (d *doubt) at(turn uint32) {
	if d.turn == turn {
		return
	}
	d.turn = turn
	d.below, d.above = [2]uint32{0, d.below[0]}, [2]uint32{0, d.above[0]}
}

// keep keeps a doubt, as long as there is room. One that is not kept begins again with
// the next request, at its worst.
func (s *doubts) keep(h uint64, d *doubt, room int) {
	if _, ok := s.of[h]; !ok && len(s.of) >= max(room, leastDoubts) {
		if s.swept == d.turn {
			return
		}
		s.swept = d.turn
		for h, old := range s.of {
			if d.turn-old.turn > 1 {
				delete(s.of, h)
			}
		}
	}
	if s.of == nil {
		s.of = make(map[uint64]doubt)
	}
	s.of[h] = *d
}

// weigh reports whether a request may have been decided otherwise than the tally has it.
// use is the use of the key, that request included, as the tally has it.
func (t *tally) weigh(r *request, k *asked, use uint64, assumed bool) (unsure bool) {
	d, ok := t.doubts.begin(r.hash, k, assumed)
	if !ok {
		return false
	}
	below, above := weighted(uint64(d.below[1]), k.elapsed, k.length), weighted(uint64(d.above[1]), k.elapsed, k.length)
	least := use - min(uint64(d.below[0])+below, use-uint64(r.cost))
	switch {
	case least > t.limit:
		t.doubts.settle(&d)
	case use+uint64(d.above[0])+above > t.limit:
		unsure = true
		d.part(int64(t.limit)-int64(use), int64(below), int64(above), int64(r.cost))
		t.doubts.count(&d, r.cost)
	}
	t.doubts.keep(r.hash, &d, len(t.table.places)/8)
	return unsure
}

// part follows a key beyond a request that was either admitted or refused. left is what
// the tally sees free after it.
func (d *doubt) part(left, below, above, cost int64) {
	tally := int64(0) // what it takes the key to use with this request
	if left >= 0 {
		tally = cost
	}
	least, most := -int64(d.below[0]), int64(d.above[0]) // from what it was before
	least = min(max(least, left+1-above), least+cost)
	most = max(most, min(most+cost, left+cost+below))
	d.below[0], d.above[0] = inCell(uint64(max(tally-least, 0))), inCell(uint64(max(most-tally, 0)))
}

// count counts a doubtful request.
func (s *doubts) count(d *doubt, cost uint32) {
	one := doubtful{1, float64(cost)}
	d.add(one, 1)
	s.dearest = max(s.dearest, cost)
	if !d.settled {
		s.open.add(one, 1)
		return
	}
	s.settled.add(one, 1)
	s.most = doubtful{max(s.most.requests, d.requests), max(s.most.units, d.units)}
}

// settle says that a key is refused whatever the sketch had too much for it.
func (s *doubts) settle(d *doubt) {
	if d.settled {
		return
	}
	d.settled = true
	s.open.add(d.doubtful, -1)
	s.settled.add(d.doubtful, 1)
	s.most = doubtful{max(s.most.requests, d.requests), max(s.most.units, d.units)}
}

// excess is what the sketch of a window has had too much for keys that are followed
// since they grew heavy.
type excess struct {
	worst float64 // of any drawn key that it was asked for
	// Of drawn keys that grew heavy: how many, and how many of them with an excess.
	crossed, hit float64
	// For the others: the sum of their excess, the number of those that have one, and
	// the variances of both.
	sum, sumVariance, hits, hitsVariance float64
	late                                 float64 // others that are followed for another reason
}

// cross counts a drawn key that grew heavy, one of so many.
func (x *excess) cross(units, keys float64) {
	x.crossed++
	if units <= 0 {
		return
	}
	x.hit++
	x.sum += units * (keys - 1)
	x.sumVariance += units * units * (keys - 1) * keys
	x.hits += keys - 1
	x.hitsVariance += (keys - 1) * keys
}

// error returns how many requests and units a tally may have refused too many, or too
// few, for what a sketch has had too much.
func (x *excess) error(s *doubts, zeros int) (e doubtful) {
	missed := math.Ldexp(fewest, zeros)
	keys := x.hits + deviations*math.Sqrt(x.hitsVariance) + missed + x.late
	units := x.sum + deviations*math.Sqrt(x.sumVariance) + missed + x.late*(x.worst+1) + keys*float64(s.dearest)
	e.requests, e.units = min(s.open.requests, units), min(s.open.units, units)
	chance := 1.0
	if x.crossed > 0 {
		chance = min(1, (3*x.hit+fewest)/x.crossed)
	}
	e.requests += min(s.settled.requests, chance*s.settled.requests+fewest*s.most.requests)
	e.units += min(s.settled.units, chance*s.settled.units+fewest*s.most.units)
	return e
}
