package whatif

import (
	"math"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit/cms"
)

// window counts the units that keys ask for in one window, and what each limit refuses
// of them.
//
// Until a limit refuses a key something, the key's units are the same for all limits.
// So one table holds what keys ask for, and a table for each limit only what it has
// refused. A request that fits beside all that its key has asked for is admitted by the
// limit, and needs no look at the limit's table.
//
// Where the table of keys is full, light keys are drawn, as in tally. Then a sketch of
// everybody's units tells when a key that is not followed grows heavy, and what it has
// asked for by then.
type window struct {
	length  int64 // ns
	start   int64 // of the current generation
	turn    uint32
	keys    table
	tallies []tally // by rising limit
	tight   bool    // some table is full

	memory int // bytes for the tables
	zeros  int
	heavy  uint64
	sketch [2]*cms.Sketch // of the generations of even and odd turns; nil as long as every key is followed
	cells  int            // bytes for a sketch
	excess excess

	units, peakUnits          uint64  // of all keys in this generation; in the fullest one
	most                      uint64  // of a key that is followed
	present, peak, keyWindows float64 // keys in this generation; in the fullest one; in all together
}

func newWindow(length time.Duration, o *Options, memory int) *window {
	w := &window{length: int64(length), turn: longAgo + 2, keys: newTable(leastPlaces), cells: memory / 8}
	w.memory = memory - 2*w.cells
	for _, l := range o.Limits {
		w.tallies = append(w.tallies, newTally(l, o.Exact))
	}
	return w
}

// request is a Request by the hash of its key.
type request struct {
	at   int64
	hash uint64
	step int
	cost uint32
	rank rank
}

// rank is what a key is in the whole log. Such as send much of it are followed, even if
// they are light in each window.
type rank uint8

const (
	light    rank = iota
	promoted      // with this request
	followed
)

// asked is what a key has asked for when a request comes.
type asked struct {
	current, previous uint64 // before the request
	turn              uint32
	denied            bool   // all limits have refused the key a request in this generation
	unknown           bool   // the key was not followed before
	sketched          bool   // the key is not drawn: when it was followed first, the sketch told what it had asked for
	entered           uint32 // the turn of that
	inflated          bool   // which is still in current or previous
	slack             uint32 // the units that the sketch may have had too much
	units             uint64 // in both generations, with the request
	elapsed, length   int64
}

func (w *window) add(r *request) {
	if w.tight {
		w.makeRoom()
	}
	k := asked{length: w.length, elapsed: w.enter(r.at), turn: w.turn}
	w.units += uint64(r.cost)
	if r.cost == 0 || uint64(r.cost) > w.tallies[len(w.tallies)-1].limit {
		w.refuseAll(r)
		return
	}
	var e *entry
	if w.zeros == 0 {
		e = w.follow(r.hash)
	} else if e = w.draw(r, &k); e == nil {
		return
	}
	k.current, k.previous = e.asked()
	e.ask(k.current + uint64(r.cost))
	if w.zeros == 0 {
		k.units = k.current + k.previous + uint64(r.cost)
	}
	k.denied = ends(r.hash, w.zeros) && e.entered == w.turn
	if !k.inflated {
		w.most = max(w.most, k.current+uint64(r.cost))
	}
	use := k.current + uint64(r.cost) + weighted(k.previous, k.elapsed, k.length)
	for i := range w.tallies {
		t := &w.tallies[i]
		if t.limit >= use {
			return
		}
		t.judge(r, &k)
		w.tight = w.tight || t.table.full()
	}
}

// refuseAll counts a request that no limit admits, whatever its key has used. Its units
// are not among those that the key has asked for: no limit has to tell them from what
// it has admitted. But the key is one of the window's.
func (w *window) refuseAll(r *request) {
	first := false
	if ends(r.hash, w.zeros) {
		e := w.follow(r.hash)
		first = e.entered != w.turn
		e.entered = w.turn
	}
	for i := range w.tallies {
		t := &w.tallies[i]
		t.count(r, 1)
		t.keys.add(r.hash)
		t.top.add(r.hash, nil, 1)
		if e := t.table.find(r.hash); first && (e == nil || e.turn != w.turn || e.current == 0) {
			t.keyWindows += math.Ldexp(1, w.zeros)
		}
	}
}

// follow returns the entry of a key in this turn.
func (w *window) follow(h uint64) *entry {
	e := w.keys.put(h)
	if e.follow(w.turn) && ends(h, w.zeros) {
		w.present += float64(uint64(1) << w.zeros)
	}
	w.tight = w.tight || w.keys.full()
	return e
}

// draw returns the entry of a key if it is followed, where not all are.
func (w *window) draw(r *request, k *asked) *entry {
	current, counted := w.generation(0).AddBounded(r.hash, r.cost, math.MaxUint32)
	if counted {
		current -= r.cost
	}
	previous := w.generation(1).Estimate(r.hash)
	k.units = uint64(current) + uint64(previous) + uint64(r.cost)
	grew := k.units-uint64(r.cost) < w.heavy
	if ends(r.hash, w.zeros) {
		e := w.follow(r.hash)
		current, previous := e.asked()
		excess := max(0, float64(k.units)-float64(current)-float64(previous)-float64(r.cost))
		w.excess.worst = max(w.excess.worst, excess)
		if grew && k.units >= w.heavy {
			w.excess.cross(excess, math.Ldexp(1, w.zeros))
		}
		return e
	}
	if k.units < w.heavy && r.rank == light {
		return nil
	}
	e := w.keys.find(r.hash)
	k.unknown = e == nil || r.rank == promoted
	if r.rank == light && !k.unknown { // it may have been light for a while
		k.unknown = grew || w.turn-e.turn > 1 || e.turn != w.turn && current > 0
	}
	e = w.follow(r.hash)
	if k.unknown {
		e.ask(uint64(current))
		e.previous, e.light, e.entered = previous, 0, w.turn
		if !grew || k.units < w.heavy {
			w.excess.late++
		}
	}
	k.sketched, k.entered, k.inflated = true, e.entered, w.turn-e.entered <= 1
	k.slack = inCell(uint64(w.excess.worst) + 1)
	return e
}

// enter turns to the generation of a time. An earlier one counts as the first instant
// of the current generation.
func (w *window) enter(at int64) (elapsed int64) {
	if elapsed = max(at-w.start, 0); elapsed < w.length {
		return elapsed
	}
	skipped := elapsed >= 2*w.length
	w.endGeneration()
	w.start = floorDiv(at, w.length) * w.length
	w.turn++
	if skipped {
		w.turn++
	}
	if w.zeros > 0 {
		w.generation(0).Clear()
		if skipped {
			w.generation(1).Clear()
		}
	}
	return at - w.start
}

func (w *window) endGeneration() {
	w.peakUnits, w.peak = max(w.peakUnits, w.units), max(w.peak, w.present)
	w.keyWindows += w.present
	w.units, w.present = 0, 0
}

// generation returns the sketch of the current generation, or of so many before.
func (w *window) generation(before uint32) *cms.Sketch { return w.sketch[(w.turn-before)&1] }

// weighted returns ⌈units × (1 − elapsed/length)⌉.
func weighted(units uint64, elapsed, length int64) uint64 {
	if units == 0 {
		return 0
	}
	hi, lo := bits.Mul64(units, uint64(length-elapsed))
	q, rest := bits.Div64(hi, lo, uint64(length))
	if rest > 0 {
		q++
	}
	return q
}
