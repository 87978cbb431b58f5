package lease

import "math"

// Ledger is one machine's part: the State that it has read, and what it has written and
// not read yet. It is not safe for concurrent use.
type Ledger struct {
	state   *State
	rules   Rules
	node    uint64
	number  uint64             // of the latest record written
	time    int64              // of the latest record written
	answer  uint64             // number of the latest own record read
	pending map[uint64]pending // by key: Returns that were written and not read yet
	// lost is what was held of keys before the log was lost, where this is less than a
	// share.
	lost     map[uint64]int
	survives bool // the node was a member when the log was lost
	joined   bool // the node was a member when units were granted
}

type pending struct {
	n      int
	number uint64
}

// NewLedger returns the Ledger of a node, by a number that no other node has, 1 or above.
func NewLedger(r Rules, node uint64) (*Ledger, error) {
	s, err := New(r)
	if err != nil {
		return nil, err
	}
	return &Ledger{state: s, rules: r, node: node, pending: map[uint64]pending{}, lost: map[uint64]int{}}, nil
}

// State returns what has been read.
func (l *Ledger) State() *State { return l.state }

// Node returns the node's number.
func (l *Ledger) Node() uint64 { return l.node }

// Read takes in the next record of the log, and calls changed as [State.Apply] does.
func (l *Ledger) Read(r *Record, changed func(key uint64, all bool)) {
	if r.Reset {
		l.lose(r)
	}
	l.state.Apply(r, changed)
	_, _, ok := l.state.Member(l.node)
	l.joined = l.joined || ok && r.Time >= l.state.Closed()
	if r.Node != l.node {
		return
	}
	l.answer = max(l.answer, r.Number)
	for key, p := range l.pending {
		if p.number <= r.Number { // applied, or never to be applied
			delete(l.pending, key)
			if changed != nil {
				changed(key, false)
			}
		}
	}
}

// lose notes what the node holds at most while nobody knows what the lost log granted.
func (l *Ledger) lose(r *Record) {
	if r.Node == l.node && r.Number <= 1 {
		return // it has begun the log
	}
	l.survives = l.survives || l.joined
	for key := range l.state.Keys {
		if h := l.Bound(key, math.MinInt64, true); h < l.rules.Share() {
			l.lost[key] = h
		}
	}
}

// Bound returns the units of a key that the node may have admitted, at most, that count
// at a time. The lease is the caller's to check. In a log that has begun anew, until
// what the log before granted does not count any more, a node that has been there before
// keeps the smaller of its share and what it held; others hold their share if unknown is
// set, or nothing.
func (l *Ledger) Bound(key uint64, now int64, unknown bool) int {
	h := l.state.Holding(l.node, key).Units
	if now < l.state.Closed() {
		if !l.survives && !unknown {
			return 0
		}
		if lost, ok := l.lost[key]; ok {
			h = min(h, lost)
		}
	}
	if p, ok := l.pending[key]; ok {
		h = min(h, p.n)
	}
	return h
}

// Answered returns the number of the node's latest record that was read.
func (l *Ledger) Answered() uint64 { return l.answer }

// Until returns the end of the node's lease. It is no member before.
func (l *Ledger) Until() int64 {
	until, _, ok := l.state.Member(l.node)
	if !ok {
		return math.MinInt64
	}
	return until
}

// Write returns the node's next record. The caller makes no decision at a time before
// the record's any more, and keeps to what its Returns leave, before the record is
// appended. The record may be appended repeatedly.
func (l *Ledger) Write(now int64, ops []Op) *Record {
	l.number++
	l.time = max(l.time, now)
	if l.time >= l.state.Closed() {
		clear(l.lost)
	}
	for _, op := range ops {
		if op.Kind != Return {
			continue
		}
		p, ok := l.pending[op.Key]
		if !ok || op.N < p.n {
			p.n = op.N
		}
		p.number = l.number
		l.pending[op.Key] = p
	}
	return &Record{Node: l.node, Number: l.number, Time: l.time, Until: l.time + l.rules.Lease, Ops: ops}
}
