package whatif

import (
	"math"
	"runtime/debug"
	"sync"

	"github.com/sketchlimit/sketchlimit"
)

// Analysis counts. It is for one goroutine.
type Analysis struct {
	exact   bool
	hash    sketchlimit.Hash
	windows []*window
	heavy   heavy
	sample  sample
	steps   []Step
	keys    []distinct // of the steps

	requests, units, backward, costless uint64

	calendar      calendar
	first, newest int64
	generations   []int64   // of the windows, for the sample
	chunk         []request // of Add

	early *early // nil: there are too many requests for it
}

const (
	chunkLength = 4096
	heavyKeys   = 2048
)

// New returns an Analysis that has seen nothing. The error names the option, its value
// and what is allowed.
func New(o Options) (*Analysis, error) {
	asked := o
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	a := &Analysis{
		exact:       o.Exact,
		hash:        sketchlimit.KeyedHash(o.Seed),
		heavy:       heavy{most: heavyKeys},
		sample:      newSample(o.Sample, len(o.Windows)),
		generations: make([]int64, len(o.Windows)),
		chunk:       make([]request, 0, chunkLength),
	}
	if o.ExactBelow > 0 && !o.Exact {
		a.early = newEarly(asked)
	}
	if o.Exact {
		a.heavy.most, a.sample.exact = math.MaxInt, true
	}
	parts := len(o.Windows) * (len(o.Windows) + 1) / 2
	for i, length := range o.Windows { // a longer one has more keys
		a.windows = append(a.windows, newWindow(length, &o, o.Memory/parts*(i+1)))
	}
	return a, nil
}

// farthest bounds times, so that a window before or after any of them is an int64 too.
const farthest = math.MaxInt64 - int64(1<<61)

// Add counts requests in the order of the log. A time before the newest one so far
// counts as the limiter takes it: as the first instant of the newest generation, if
// that is later. How the log is split into batches makes no difference.
func (a *Analysis) Add(batch []Request) {
	if e := a.early; e != nil {
		if e.add(batch) {
			return
		}
		a.early = nil
		e.replay(a, false)
		debug.FreeOSMemory() // the tables that grow from now on would come on top of it
	}
	for len(batch) > 0 {
		n := min(len(batch), chunkLength)
		a.add(batch[:n])
		batch = batch[n:]
	}
}

func (a *Analysis) add(batch []Request) {
	a.chunk = a.chunk[:0]
	for i := range batch {
		r := &batch[i]
		at := min(max(r.At, -farthest), farthest)
		if a.requests == 0 {
			a.first, a.newest, a.calendar = at, at, newCalendar(at)
		}
		if at < a.newest {
			a.backward++
		}
		a.newest = max(a.newest, at)
		a.widen()
		q := request{at: at, hash: a.hash.Sum64(r.Key), step: a.calendar.step(a.newest), cost: r.Cost}
		a.count(r.Key, &q)
		a.chunk = append(a.chunk, q)
	}
	var others sync.WaitGroup
	others.Go(func() { a.countWindows(1) })
	a.countWindows(0)
	others.Wait()
}

// countWindows counts in every second window. One comes after the other, so that its
// tables stay in the processor's cache.
func (a *Analysis) countWindows(first int) {
	for w := first; w < len(a.windows); w += 2 {
		for i := range a.chunk {
			a.windows[w].add(&a.chunk[i])
		}
	}
}

// count counts what is not of a window.
func (a *Analysis) count(key []byte, r *request) {
	a.requests++
	a.units += uint64(r.cost)
	if r.cost == 0 {
		a.costless++
	}
	s := stepOf(&a.steps, r.step)
	s.Requests++
	s.Units += uint64(r.cost)
	keys := stepOf(&a.keys, r.step)
	if a.exact && keys.keys == nil {
		keys.keys = make(map[uint64]struct{})
	}
	keys.add(r.hash)
	r.rank = a.rank(a.heavy.add(r.hash, key, 1))
	if u := a.sample.user(r.hash); u != nil {
		for i, w := range a.windows {
			a.generations[i] = floorDiv(a.newest, w.length)
		}
		a.sample.add(u, a.generations, r.step, r.cost)
	}
}

// much is the part of all requests so far, 1/much, from which on a key is followed.
const much = 512

// rank returns the rank of a key by its slot.
func (a *Analysis) rank(s *slot) rank {
	switch {
	case s.seen:
		return followed
	case (s.count-s.error)*much < a.requests || a.requests < 16*much:
		return light
	}
	s.seen = true
	return promoted
}

// widen makes steps longer, until there are few enough up to the newest time.
func (a *Analysis) widen() {
	for a.calendar.full(a.newest) {
		moved := a.calendar.widen()
		a.steps = joined(a.steps, moved, (*Step).add)
		a.keys = joined(a.keys, moved, (*distinct).merge)
		a.sample.widen(moved)
		for i := range a.chunk {
			a.chunk[i].step = moved(a.chunk[i].step)
		}
		for _, w := range a.windows {
			for i := range w.tallies {
				t := &w.tallies[i]
				t.steps = joined(t.steps, moved, (*Refused).add)
			}
		}
	}
}

func (s *Step) add(other Step) {
	s.Requests += other.Requests
	s.Units += other.Units
}

func (r *Refused) add(other Refused) {
	r.Requests += other.Requests
	r.Units += other.Units
}
