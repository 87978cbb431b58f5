package lease

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

// The model is a world of a few machines, one key, and a log that loses, repeats and
// delays records. The test visits every order of what can happen in it, up to a number
// of records, ticks and faults, and holds the units that all machines admitted against
// the exact algorithm.

const key = 7

// bounds are how far the model is explored.
type bounds struct {
	machines, limit int
	sliding         bool
	records         int    // in the log
	stops           []int8 // of each clock, in order
	crashes, faults int
	machineLease    int // ticks; 0: window
}

// maxStates bounds one exploration.
const maxStates = 3e6

// flaw is what a broken variant of the protocol gets wrong.
type flaw int

const (
	sound         flaw = iota
	noReserve          // a Claim overlooks what others hold by their shares
	othersClock        // a lease ends by the clock of the claimant, whatever the holder's own says
	noNumbers          // a late or repeated record is applied
	returnsFirst       // the Return is written before the holding is lowered
	timelessGrant      // a Claim is granted before the time of the Return that makes room for it
	noSettle           // a machine that is gone counts no more at once
)

// window is the window in ticks.
const window = 2

// machine is one of the model's.
type machine struct {
	node    uint64
	read    int // records of the log
	clock   int8
	time    int8 // of its latest record or decision
	number  uint8
	pending int8 // lowest Return that was written and not read, -1: none
	pendNum uint8
}

type unit struct {
	machine int8
	time    int8
}

type world struct {
	machines []machine
	log      []Record
	late     []Record // written, and not in the log yet
	admitted []unit
	crashes  int8
	faults   int8
	nodes    uint64
}

type explorer struct {
	bounds
	flaw
	rules  Rules
	seen   map[[2]uint64]struct{} // hashes of worlds
	path   []step
	states map[string]*State
	found  string
}

func (x *explorer) clone(w *world) *world {
	c := *w
	c.machines = slices.Clone(w.machines)
	c.log, c.late, c.admitted = slices.Clip(w.log), slices.Clone(w.late), slices.Clip(w.admitted)
	return &c
}

func appendRecord(b []byte, r *Record) []byte {
	b = append(b, byte(r.Node), byte(r.Number), byte(r.Time), byte(r.Until), byte(len(r.Ops)))
	for _, op := range r.Ops {
		b = append(b, byte(op.Kind), byte(op.N))
	}
	return b
}

func (w *world) id() []byte {
	b := make([]byte, 0, 256)
	for _, m := range w.machines {
		b = append(b, byte(m.node), byte(m.read), byte(m.clock), byte(m.time), m.number, byte(m.pending), m.pendNum)
	}
	for i := range w.log {
		b = appendRecord(b, &w.log[i])
	}
	b = append(b, 255)
	for i := range w.late {
		b = appendRecord(b, &w.late[i])
	}
	b = append(b, 254, byte(w.crashes), byte(w.faults))
	units := slices.Clone(w.admitted)
	slices.SortFunc(units, func(a, b unit) int { return (int(a.machine)-int(b.machine))*64 + int(a.time-b.time) })
	for _, u := range units {
		b = append(b, byte(u.machine), byte(u.time))
	}
	return b
}

// state returns what the first records of the log amount to.
func (x *explorer) state(log []Record) *State {
	b := make([]byte, 0, 256)
	for i := range log {
		b = appendRecord(b, &log[i])
	}
	if s := x.states[string(b)]; s != nil {
		return s
	}
	s, err := New(x.rules)
	if err != nil {
		panic(err)
	}
	for i := range log {
		r := log[i]
		switch x.flaw {
		case noNumbers:
			if m := s.find(r.Node); m >= 0 {
				s.members[m].number = 0
			}
		case othersClock: // nobody looks at what the holder said
			for m := range s.members {
				if s.members[m].node != r.Node {
					s.members[m].until = s.members[m].time - int64(window)
				}
			}
		case noSettle:
			s.rules.Settle = 0
		}
		s.Apply(&r, nil)
		if e, ok := s.index[key]; ok && x.flaw == noReserve && i > 0 {
			e := &s.entries[e]
			e.total = 0
			for m := range s.members { // what a machine has beyond its share
				e.total += max(0, int(s.holdings[int(s.index[key])*len(s.members)+m])-s.share(m))
			}
		}
		if e, ok := s.index[key]; ok && x.flaw == timelessGrant {
			s.entries[e].time = 0
		}
	}
	x.states[string(b)] = s
	return s
}

// used returns what a machine's units count at a time, in units / window.
func (x *explorer) used(w *world, machine int, now int8) int {
	sum := 0
	for _, u := range w.admitted {
		if machine >= 0 && int(u.machine) != machine || u.time > now {
			continue
		}
		switch now/window - u.time/window {
		case 0:
			sum += window
		case 1:
			if x.sliding {
				sum += window - int(now%window)
			}
		}
	}
	return sum
}

// over reports whether the machines have admitted too much, by their clocks.
func (x *explorer) over(w *world) bool {
	for _, u := range w.admitted {
		if x.used(w, -1, u.time) > x.limit*window {
			return true
		}
	}
	return false
}

func (x *explorer) bound(w *world, i int) int {
	m := &w.machines[i]
	s := x.state(w.log[:m.read])
	until, _, ok := s.Member(m.node)
	if !ok || int64(max(m.clock, m.time)) > until && x.flaw != othersClock {
		return 0
	}
	h := s.Holding(m.node, key).Units
	if m.pending >= 0 {
		h = min(h, int(m.pending))
	}
	return h
}

// visit explores what follows, and reports whether to go on.
func (x *explorer) visit(w *world) bool {
	if x.over(w) {
		var path []string
		for _, s := range x.path {
			path = append(path, fmt.Sprintf("%d %s at %d", s.machine, s.what, s.now))
		}
		x.found = strings.Join(path, "; ")
		return false
	}
	b := w.id()
	id := [2]uint64{xxhash.Sum64(b), xxhash.Sum64(append(b, 1))}
	if _, ok := x.seen[id]; ok || len(x.seen) >= maxStates {
		return true
	}
	x.seen[id] = struct{}{}
	var all []step
	for i := range w.machines {
		all = x.steps(all, w, i)
	}
	for i := range w.late {
		if len(w.log) < x.records {
			c := x.clone(w)
			c.log = append(c.log, c.late[i])
			c.late = slices.Delete(c.late, i, i+1)
			all = append(all, step{"record arrives late", 0, 0, c})
		}
	}
	for _, next := range all {
		x.path = append(x.path, next)
		if !x.visit(next.world) {
			return false
		}
		x.path = x.path[:len(x.path)-1]
	}
	return true
}

type step struct {
	what    string
	machine int
	now     int8
	world   *world
}

// steps appends what a machine can do.
func (x *explorer) steps(all []step, w *world, i int) []step {
	m := w.machines[i]
	now := max(m.clock, m.time)
	do := func(what string, f func(c *world, m *machine)) {
		c := x.clone(w)
		f(c, &c.machines[i])
		all = append(all, step{what, i, now, c})
	}
	if m.read < len(w.log) {
		do("reads", func(c *world, m *machine) {
			r := &c.log[m.read]
			m.read++
			if r.Node == m.node && m.pending >= 0 && uint64(m.pendNum) <= r.Number {
				m.pending = -1
			}
		})
	}
	if x.used(w, i, now)+window <= x.bound(w, i)*window {
		do("admits", func(c *world, m *machine) {
			c.admitted = append(c.admitted, unit{int8(i), now})
			m.time = now
		})
	}
	if next := slices.Index(x.stops, m.clock) + 1; next < len(x.stops) {
		do("ticks", func(_ *world, m *machine) { m.clock = x.stops[next] })
	}
	if w.crashes > 0 {
		do("starts again", func(c *world, m *machine) {
			c.crashes--
			c.nodes++
			*m = machine{node: c.nodes, clock: m.clock, time: m.clock, pending: -1}
		})
	}
	if len(w.log)+len(w.late) >= x.records {
		return all
	}
	s := x.state(w.log[:m.read])
	h := s.Holding(m.node, key)
	write := func(what string, ops ...Op) {
		put := func(how string, f func(c *world, r Record)) {
			do(what+how, func(c *world, m *machine) {
				m.number++
				m.time = now
				for _, op := range ops {
					if op.Kind == Return && x.flaw != returnsFirst {
						if m.pending < 0 || int8(op.N) < m.pending {
							m.pending = int8(op.N)
						}
						m.pendNum = m.number
					}
				}
				f(c, Record{Node: m.node, Number: uint64(m.number), Time: int64(now), Until: int64(now) + x.rules.Lease, Ops: ops})
			})
		}
		put("", func(c *world, r Record) { c.log = append(c.log, r) })
		if w.faults > 0 {
			put(" late", func(c *world, r Record) { c.faults--; c.late = append(c.late, r) })
			if len(w.log)+2 <= x.records {
				put(" and again late", func(c *world, r Record) { c.faults--; c.log = append(c.log, r); c.late = append(c.late, r) })
			}
		}
	}
	if _, _, ok := s.Member(m.node); !ok || m.number == 0 {
		if m.number == 0 {
			write("joins")
		}
		return all
	}
	if until, _, _ := s.Member(m.node); int64(now) > until-x.rules.Lease {
		write("renews")
	}
	if h.Units < x.limit {
		write("claims", Op{Kind: Claim, Key: key, N: x.limit, Limit: x.limit})
	}
	if used := (x.used(w, i, now) + window - 1) / window; h.Open && used < h.Units {
		write("returns", Op{Kind: Return, Key: key, N: used})
	}
	if h.Idle && h.Open {
		write("forgets", Op{Kind: Forget, Key: key})
	}
	return all
}

func explore(t *testing.T, b bounds, f flaw) *explorer {
	t.Helper()
	settle := int64(window)
	if b.sliding {
		settle *= 2
	}
	x := &explorer{bounds: b, flaw: f, seen: map[[2]uint64]struct{}{}, states: map[string]*State{},
		rules: Rules{Machines: b.machines, Limit: b.limit, Lowest: b.limit, Lease: int64(cmp.Or(b.machineLease, window)), Settle: settle, Entries: 1}}
	w := &world{crashes: int8(b.crashes), faults: int8(b.faults)}
	for range b.machines { // all have joined
		w.nodes++
		m := machine{node: w.nodes, number: 1, pending: -1, read: b.machines}
		w.machines = append(w.machines, m)
		w.log = append(w.log, Record{Node: m.node, Number: 1, Time: int64(m.clock), Until: int64(m.clock) + x.rules.Lease})
	}
	x.records += len(w.log)
	x.visit(w)
	return x
}

// worlds are explored in full.
var worlds = map[string]bounds{
	"turn":          {machines: 2, limit: 2, records: 3, stops: []int8{0, 2}},
	"sliding":       {machines: 2, limit: 2, records: 3, stops: []int8{0, 3}, sliding: true},
	"sliding turns": {machines: 2, limit: 1, records: 3, stops: []int8{0, 1, 2, 3}, sliding: true},
	"limit 4":       {machines: 2, limit: 4, records: 3, stops: []int8{0}},
	"3 machines":    {machines: 3, limit: 3, records: 3, stops: []int8{0}},
	"fewer units":   {machines: 3, limit: 2, records: 3, stops: []int8{0, 2}},
	"fault":         {machines: 2, limit: 2, records: 4, stops: []int8{0}, faults: 1},
	"fault, turn":   {machines: 2, limit: 2, records: 3, stops: []int8{0, 2}, faults: 1},
	"crash":         {machines: 2, limit: 2, records: 2, stops: []int8{0, 5}, crashes: 1},
	"crash, share":  {machines: 2, limit: 2, records: 3, stops: []int8{0, 4}, crashes: 1, machineLease: 1},
	"lease":         {machines: 2, limit: 2, records: 3, stops: []int8{0, 2, 3}, sliding: true},
}

func TestModel_NeverAboveTheLimit(t *testing.T) {
	for name, b := range worlds {
		t.Run(name, func(t *testing.T) {
			x := explore(t, b, sound)
			require.Empty(t, x.found)
			require.Less(t, len(x.seen), int(maxStates), "not all states were visited")
			t.Logf("%d states", len(x.seen))
		})
	}
}

func TestModel_FindsFlaws(t *testing.T) {
	more := worlds["fault"]
	more.records++
	for _, c := range []struct {
		name  string
		world bounds
		flaw
	}{
		{"no reserve", worlds["turn"], noReserve},
		{"lease by the others' clock", worlds["lease"], othersClock},
		{"no numbers", more, noNumbers},
		{"return before lowering", worlds["turn"], returnsFirst},
		{"grant before the return's time", worlds["turn"], timelessGrant},
		{"units of a lease that has ended do not count", worlds["lease"], noSettle},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := explore(t, c.world, c.flaw)
			require.NotEmpty(t, x.found, "%d states", len(x.seen))
			t.Log(x.found)
		})
	}
}
