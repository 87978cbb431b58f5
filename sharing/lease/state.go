// Package lease implements the protocol by which several machines hold one limit per
// key and decide locally. It does no I/O: a [State] is what a log of records amounts to,
// and all machines that read the same log have the same State.
//
// The protocol in four rules:
//
//  1. Of every key each of N machines holds limit/N units. A machine admits a request
//     only if the units of the key that count at the request's time, those of the request
//     included, are not above what the machine holds.
//  2. A machine that needs more appends a Claim. Claims are granted in the log's order,
//     as long as all holdings of the key add up to no more than the limit.
//  3. A Claim that is not granted in full is a call: each machine that reads it lowers
//     its holding first, to the units that it has admitted and those that it expects
//     soon, and then appends that as a Return. Lower is always granted.
//  4. A machine holds its units until a time of its own clock, its lease, which its
//     records prolong. After that it admits nothing. Once a record's time is past the
//     lease and past the time that units count, that machine holds nothing.
//
// Holdings add up to no more than the limit at each place of the log, so the machines'
// counts do, too. No rule compares the clocks of two machines with real time: records
// carry their writer's time, a Claim is not granted before the time of the Returns that
// make room for it, and a machine never decides at a time before that of a record that
// it has written.
//
// A key that no machine has claimed has no entry: it costs no message and no memory. A
// machine that reads no log, because it is cut off or the server is away, goes on with
// what it holds.
package lease

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Rules is what all machines of a limit have in common. They are part of the protocol:
// machines with other Rules have other States.
type Rules struct {
	Machines int   // that hold a share of each key, 1 … MaxMachines
	Limit    int   // units
	Lowest   int   // limit of a request, 1 … Limit
	Lease    int64 // longest time from a record to the end of the lease, ns
	Settle   int64 // time after which a unit does not count any more, ns
	Entries  int   // keys that have been claimed, at most
}

// MaxMachines is the largest value of Rules.Machines.
const MaxMachines = 1024

func (r *Rules) check() error {
	switch {
	case r.Machines < 1 || r.Machines > MaxMachines:
		return fmt.Errorf("lease: Machines %d, must be 1 … %d", r.Machines, MaxMachines)
	case r.Limit < 1 || r.Limit > math.MaxInt32:
		return fmt.Errorf("lease: Limit %d, must be 1 … %d", r.Limit, math.MaxInt32)
	case r.Lowest < 1 || r.Lowest > r.Limit:
		return fmt.Errorf("lease: Lowest %d, must be 1 … Limit %d", r.Lowest, r.Limit)
	case r.Lease < 1 || r.Settle < 1:
		return errors.New("lease: Lease and Settle must be above 0")
	case r.Entries < 1 || r.Entries > 1<<24:
		return fmt.Errorf("lease: Entries %d, must be 1 … %d", r.Entries, 1<<24)
	}
	return nil
}

// Share returns what each machine holds of a key without an entry.
func (r *Rules) Share() int { return r.Lowest / r.Machines }

// OpKind is what an Op does.
type OpKind byte

const (
	// Claim raises the writer's holding by up to N units, while the holdings of all add
	// up to no more than the op's Limit.
	Claim OpKind = 1 + iota
	// Return lowers the writer's holding to N units.
	Return
	// Forget ends an entry of which no machine holds more than its share.
	Forget
)

// Op is one step of a Record.
type Op struct {
	Kind  OpKind
	Key   uint64 // hash
	N     int
	Limit int // Claim: of the request
}

// Record is what a machine appends to the log.
type Record struct {
	Node   uint64 // of the machine, until it starts again
	Number uint64 // of the record: each machine's rise from 1
	Time   int64  // of the writer's clock, ns; no later decision of the writer is before it
	Until  int64  // end of the writer's lease by its clock, ns
	Reset  bool   // the log is a new one, or has lost records
	Leave  bool   // the writer ends now
	Ops    []Op
}

// member is a machine that has written to the log.
type member struct {
	node   uint64 // 0: none
	number uint64 // of its latest record
	time   int64  // of its latest record
	until  int64  // end of its lease
	share  bool   // it holds a share of each key without an entry
}

// entry is a key that has been claimed. The holdings are in State.holdings.
type entry struct {
	key   uint64
	limit int   // what the holdings add up to at most: lowest limit of the claims
	total int   // sum of the holdings
	time  int64 // no Claim before it is granted
	calls int   // Claims that were not granted in full
}

// State is what a log's records amount to. It is not safe for concurrent use.
type State struct {
	rules    Rules
	members  []member
	joinTime int64 // no machine joins before it
	freeTime int64 // no machine gets a share before it: others have held it
	closed   int64 // no Claim before it is granted: a new log does not know what was granted
	index    map[uint64]int32
	entries  []entry
	holdings []uint32 // of entry i and member j at i*len(members)+j
	free     []int32

	// Refused counts claims without room for an entry.
	Refused uint64
}

// New returns the State of an empty log. It allocates all memory that it will use.
func New(r Rules) (*State, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	members := 2 * r.Machines // those that have left stay until their units do not count
	s := &State{rules: r, members: make([]member, members), index: make(map[uint64]int32, r.Entries),
		entries: make([]entry, r.Entries), holdings: make([]uint32, r.Entries*members), free: make([]int32, 0, r.Entries)}
	s.clear()
	return s, nil
}

// clear removes all entries and members.
func (s *State) clear() {
	clear(s.index)
	clear(s.members)
	s.free = s.free[:0]
	for i := range s.rules.Entries {
		s.free = append(s.free, int32(s.rules.Entries-1-i))
	}
}

// MemoryBytes returns the memory of the State.
func (s *State) MemoryBytes() int {
	const perEntry = 40 + 4 + 24 // entry, free, map
	return len(s.entries)*perEntry + 4*len(s.holdings) + 40*len(s.members)
}

// Apply takes in the next record of the log. For each key whose holdings or calls have
// changed it calls changed, unless that is nil; with the key 0 and all set, all may have.
func (s *State) Apply(r *Record, changed func(key uint64, all bool)) {
	if changed == nil {
		changed = func(uint64, bool) {}
	}
	if r.Node == 0 {
		return
	}
	m := s.find(r.Node)
	if m >= 0 && r.Number <= s.members[m].number {
		return // repeated, or late: what has been said since may contradict it
	}
	if r.Reset {
		s.clear()
		s.closed = max(s.closed, r.Time+s.rules.Lease+s.rules.Settle)
		s.joinTime, s.freeTime = 0, 0
		changed(0, true)
		m = -1
	}
	if m < 0 || s.gone(m, r.Time) {
		if m = s.join(r); m < 0 {
			return
		}
		changed(0, true)
	}
	me := &s.members[m]
	me.number, me.time = r.Number, max(me.time, r.Time)
	me.until = max(me.until, min(r.Until, r.Time+s.rules.Lease))
	if !me.share && s.promote(m, r.Time) {
		changed(0, true)
	}
	for _, op := range r.Ops {
		s.do(m, r.Time, op, changed)
	}
	if r.Leave {
		me.until = r.Time
	}
}

// find returns the member that a node is, or -1.
func (s *State) find(node uint64) int {
	return slices.IndexFunc(s.members, func(m member) bool { return m.node == node })
}

// gone reports whether nothing that a member has admitted counts at a time.
func (s *State) gone(m int, now int64) bool {
	return s.members[m].node == 0 || now > s.members[m].until+s.rules.Settle
}

// join makes the record's writer a member, and returns its number, or -1.
func (s *State) join(r *Record) int {
	s.retire(r.Time)
	if r.Time < s.joinTime || r.Leave {
		return -1
	}
	for m := range s.members {
		if s.members[m].node == 0 {
			s.members[m].node = r.Node
			return m
		}
	}
	return -1
}

// promote gives a member a share of each key without an entry, if one is free.
func (s *State) promote(m int, now int64) bool {
	s.retire(now)
	shares := 0
	for i := range s.members {
		if s.members[i].share {
			shares++
		}
	}
	s.members[m].share = shares < s.rules.Machines && now >= s.freeTime
	return s.members[m].share
}

// retire removes the members of which nothing counts at a time.
func (s *State) retire(now int64) {
	for m := range s.members {
		if s.members[m].node == 0 || !s.gone(m, now) {
			continue
		}
		ended := s.members[m].until + s.rules.Settle
		for _, i := range s.index {
			s.lower(i, m, 0, ended)
		}
		if s.members[m].share {
			s.freeTime = max(s.freeTime, ended)
		}
		s.members[m] = member{}
	}
}

// lower lowers a holding, if it is above n, as of a time.
func (s *State) lower(i int32, m, n int, time int64) bool {
	h := &s.holdings[int(i)*len(s.members)+m]
	if int(*h) <= n {
		return false
	}
	e := &s.entries[i]
	e.total -= int(*h) - n
	e.time = max(e.time, time)
	*h = uint32(n)
	return true
}

// share returns what a member holds of a key without an entry.
func (s *State) share(m int) int {
	if s.members[m].share {
		return s.rules.Share()
	}
	return 0
}

func (s *State) do(m int, now int64, op Op, changed func(uint64, bool)) {
	i, ok := s.index[op.Key]
	switch {
	case op.Kind == Claim:
		if now < s.closed || op.N < 1 || op.Limit < s.rules.Lowest {
			return
		}
		if !ok {
			if i, ok = s.open(op); !ok {
				s.Refused++
				return
			}
		}
		s.claim(i, m, now, op)
		changed(op.Key, false)
	case op.Kind == Return && ok:
		if s.lower(i, m, max(op.N, 0), now) {
			changed(op.Key, false)
		}
	case op.Kind == Forget && ok:
		if s.forget(i, now) {
			changed(op.Key, false)
		}
	}
}

// open makes an entry, of which each member holds its share.
func (s *State) open(op Op) (int32, bool) {
	if len(s.free) == 0 {
		return 0, false
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	e := entry{key: op.Key, limit: min(op.Limit, s.rules.Limit)}
	for m := range s.members {
		s.holdings[int(i)*len(s.members)+m] = uint32(s.share(m))
		e.total += s.share(m)
	}
	s.entries[i], s.index[op.Key] = e, i
	return i, true
}

// claim raises a holding as far as there is room.
func (s *State) claim(i int32, m int, now int64, op Op) {
	for other := range s.members {
		if other != m && s.gone(other, now) {
			s.lower(i, other, 0, s.members[other].until+s.rules.Settle)
		}
	}
	e := &s.entries[i]
	if e.total <= op.Limit {
		e.limit = min(e.limit, op.Limit)
	}
	n := 0
	if now >= e.time && e.limit <= op.Limit {
		n = max(0, min(op.N, e.limit-e.total))
	}
	e.total += n
	s.holdings[int(i)*len(s.members)+m] += uint32(n)
	if n < op.N {
		e.calls++
	}
}

// forget removes an entry, if afterwards each member may hold its share again, at each
// time at which it may still decide.
func (s *State) forget(i int32, now int64) bool {
	e := &s.entries[i]
	for m := range s.members {
		if s.gone(m, now) {
			s.lower(i, m, 0, s.members[m].until+s.rules.Settle)
			continue
		}
		if int(s.holdings[int(i)*len(s.members)+m]) > s.share(m) {
			return false
		}
	}
	for m := range s.members {
		if !s.gone(m, now) && s.members[m].time < e.time {
			return false
		}
	}
	s.joinTime = max(s.joinTime, e.time)
	delete(s.index, e.key)
	s.free = append(s.free, i)
	return true
}

// Holding is what is known of a key.
type Holding struct {
	Units int  // that the node holds
	Open  bool // the key has an entry
	Limit int  // of the entry
	Free  int  // units that nobody holds
	Calls int  // claims that were not granted in full
	Idle  bool // of each member's holding none is above its share
}

// Holding returns what a node holds of a key.
func (s *State) Holding(node, key uint64) (h Holding) {
	m := s.find(node)
	i, ok := s.index[key]
	if !ok {
		if m >= 0 {
			h.Units = s.share(m)
		}
		return h
	}
	e := &s.entries[i]
	h = Holding{Open: true, Limit: e.limit, Free: e.limit - e.total, Calls: e.calls, Idle: true}
	for j := range s.members {
		held := int(s.holdings[int(i)*len(s.members)+j])
		h.Idle = h.Idle && held <= s.share(j)
		if j == m {
			h.Units = held
		}
	}
	return h
}

// Member returns the end of a node's lease, and whether it holds a share of keys without
// an entry. It returns false if the node is no member.
func (s *State) Member(node uint64) (until int64, share, ok bool) {
	m := s.find(node)
	if m < 0 {
		return 0, false, false
	}
	return s.members[m].until, s.members[m].share, true
}

// Share returns what a node holds of keys without an entry.
func (s *State) Share(node uint64) int {
	if m := s.find(node); m >= 0 {
		return s.share(m)
	}
	return 0
}

// Members returns the number of nodes whose lease has not ended at a time.
func (s *State) Members(now int64) (n int) {
	for _, m := range s.members {
		if m.node != 0 && m.until >= now {
			n++
		}
	}
	return n
}

// First reports whether a node is the first of those whose lease has not ended.
func (s *State) First(node uint64, now int64) bool {
	for _, m := range s.members {
		if m.node != 0 && m.until >= now {
			return m.node == node
		}
	}
	return false
}

// Closed returns the time before which no Claim is granted.
func (s *State) Closed() int64 { return s.closed }

// Open returns the number of entries.
func (s *State) Open() int { return len(s.index) }

// Keys calls yield for each key with an entry.
func (s *State) Keys(yield func(uint64) bool) {
	for key := range s.index {
		if !yield(key) {
			return
		}
	}
}
