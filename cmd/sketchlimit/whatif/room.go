package whatif

import (
	"math"

	"github.com/sketchlimit/sketchlimit/cms"
)

// makeRoom makes room in the tables that are full: entries that have nothing to tell
// any more go first; then a table doubles, if memory allows it; then fewer light keys
// are followed.
func (w *window) makeRoom() {
	w.tight = false
	if w.keys.full() {
		w.keys.sweep(w.recent)
		if w.keys.isCrowded() && !w.double(&w.keys) {
			w.drawKeys()
		}
	}
	for i := range w.tallies {
		t := &w.tallies[i]
		if t.table.full() {
			t.sweep(w.recent)
			if t.table.isCrowded() && !w.double(&t.table) {
				w.drawRefused(t)
			}
		}
	}
}

func (w *window) recent(e *entry) bool { return w.turn-e.turn <= 1 }

// freePlaces are so few that every table may have them. Below, drawn keys would be too
// few to tell of others.
const freePlaces = 1024

// double doubles a table, if memory allows it. Half of it is for the table of keys, and
// in the other half each limit may have its share of a half.
func (w *window) double(t *table) bool {
	if len(t.places) < freePlaces {
		t.double()
		return true
	}
	if t == &w.keys {
		if 2*t.bytes() > w.memory/2 {
			return false
		}
	} else {
		share, all := w.memory/4/len(w.tallies), t.bytes()
		for i := range w.tallies {
			all += max(w.tallies[i].table.bytes(), share)
		}
		if 2*t.bytes() > share && all > w.memory/2 {
			return false
		}
	}
	t.double()
	return true
}

// drawKeys follows half as many light keys, until there is room.
func (w *window) drawKeys() {
	if w.zeros == 0 {
		w.beginSketch()
		w.heavy = leastHeavy
	}
	for w.keys.isCrowded() {
		w.zeros++
		heavies := func(e *entry) bool { return !ends(e.hash, w.zeros) && w.asks(e) >= w.heavy }
		for 8*w.keys.count(heavies) > len(w.keys.places) {
			w.heavy *= 2
		}
		w.keys.sweep(func(e *entry) bool { return ends(e.hash, w.zeros) || heavies(e) })
	}
	for i := range w.tallies {
		t := &w.tallies[i]
		t.zeros, t.heavy = max(t.zeros, w.zeros), max(t.heavy, w.heavy)
		t.sweep(func(e *entry) bool { return w.follows(t, e.hash) })
	}
}

// drawRefused follows half as many light keys at a limit, until there is room.
func (w *window) drawRefused(t *tally) {
	t.heavy = max(t.heavy, leastHeavy)
	for t.table.isCrowded() {
		t.zeros++
		heavies := func(e *entry) bool { return !ends(e.hash, t.zeros) && w.follows(t, e.hash) }
		for 8*t.table.count(heavies) > len(t.table.places) {
			t.heavy *= 2
		}
		t.sweep(func(e *entry) bool { return w.follows(t, e.hash) })
	}
}

// follows reports whether the counts of a limit belong to a key.
func (w *window) follows(t *tally, h uint64) bool {
	if ends(h, t.zeros) {
		return true
	}
	e := w.keys.find(h)
	return e != nil && w.asks(e) >= t.heavy
}

// asks returns what a key has asked for in the current generation and the one before.
func (w *window) asks(e *entry) uint64 {
	switch w.turn - e.turn {
	case 0:
		current, previous := e.asked()
		return current + previous
	case 1:
		current, _ := e.asked()
		return current
	}
	return 0
}

// beginSketch makes the sketches, and counts in them what the table of keys has.
func (w *window) beginSketch() {
	const depth, cellBits = 4, 16
	width := min(max(w.cells*8/cellBits/depth, 4), 1<<26) &^ 3
	for i := range w.sketch {
		s, err := cms.New(depth, width, cellBits)
		if err != nil {
			panic(err) // width is a multiple of 4, and below the most by maxMemory
		}
		w.sketch[i] = s
	}
	for i := range w.keys.places {
		e := &w.keys.places[i]
		switch {
		case e.turn == 0:
		case e.turn == w.turn:
			current, previous := e.asked()
			w.generation(0).Raise(e.hash, inCell(current))
			w.generation(1).Raise(e.hash, inCell(previous))
		case e.turn == w.turn-1:
			current, _ := e.asked()
			w.generation(1).Raise(e.hash, inCell(current))
		}
	}
	w.tryKeys()
}

// tryKeys asks the sketch for all keys that are known, so that its worst excess is
// known before the first one grows heavy.
func (w *window) tryKeys() {
	for i := range w.keys.places {
		if e := &w.keys.places[i]; e.turn != 0 {
			estimate := float64(w.generation(0).Estimate(e.hash)) + float64(w.generation(1).Estimate(e.hash))
			w.excess.worst = max(w.excess.worst, estimate-float64(w.asks(e)))
		}
	}
}

// inCell is a count as the sketch takes it, which keeps less than that anyway.
func inCell(units uint64) uint32 { return uint32(min(units, math.MaxUint32)) }

// sweep drops entries of a limit, and keeps what they have refused.
func (t *tally) sweep(keep func(*entry) bool) {
	t.table.sweep(func(e *entry) bool {
		kept := keep(e)
		if !kept && e.refused > 0 {
			t.top.add(e.hash, nil, uint64(e.refused)).light = e.light
		}
		return kept
	})
}

// count returns how many entries are so.
func (t *table) count(so func(*entry) bool) (n int) {
	for i := range t.places {
		if e := &t.places[i]; e.turn != 0 && so(e) {
			n++
		}
	}
	return n
}

func (w *window) bytes() int {
	n := w.keys.bytes()
	for i := range w.tallies {
		n += w.tallies[i].table.bytes() + doubtBytes*len(w.tallies[i].doubts.of)
	}
	if w.sketch[0] != nil {
		n += w.sketch[0].MemoryBytes() + w.sketch[1].MemoryBytes()
	}
	return n
}
