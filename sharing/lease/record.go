package lease

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// ErrRecord is returned for data that is no record of the protocol.
var ErrRecord = errors.New("lease: not a record, or cut")

// Chain is what the records of a log amount to, in a few bytes: logs with the same Chain
// have the same records since the latest Reset.
type Chain struct {
	Epoch uint32 // of the latest Reset
	Count uint64 // of records since, that one included
	Sum   uint32
}

// Add appends the data of a record, which is a Reset or not.
func (c *Chain) Add(data []byte, reset bool) {
	sum := uint32(xxhash.Sum64(binary.BigEndian.AppendUint32(data[:len(data):len(data)], c.Sum)))
	if reset {
		*c = Chain{Epoch: sum}
	}
	c.Count++
	c.Sum = sum
}

// Message is the data of a log's record: what a machine appends, or a part of a State.
type Message struct {
	Layout uint64 // hash of the Rules, and of what else the machines have in common
	Chain  Chain  // what the writer had read
	Record Record
	// Of a part of a State, and not of a Record: the number of parts, the number of
	// this one, and the part. Chain and the place are as of the State.
	Parts, Part  int
	Major, Minor uint64
	Data         []byte
}

const (
	flagReset = 1 << iota
	flagLeave
	flagPart
)

// Append appends m to b.
func (m *Message) Append(b []byte) []byte {
	r := &m.Record
	flags := byte(0)
	if r.Reset {
		flags |= flagReset
	}
	if r.Leave {
		flags |= flagLeave
	}
	if m.Parts > 0 {
		flags |= flagPart
	}
	b = binary.BigEndian.AppendUint64(append(b, flags), m.Layout)
	b = binary.AppendUvarint(binary.BigEndian.AppendUint32(b, m.Chain.Epoch), m.Chain.Count)
	b = binary.BigEndian.AppendUint32(b, m.Chain.Sum)
	b = binary.AppendUvarint(binary.BigEndian.AppendUint64(b, r.Node), r.Number)
	if m.Parts > 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(m.Parts)), uint64(m.Part))
		return append(binary.AppendUvarint(binary.AppendUvarint(b, m.Major), m.Minor), m.Data...)
	}
	b = binary.AppendVarint(binary.AppendVarint(b, r.Time), r.Until-r.Time)
	for _, op := range r.Ops {
		b = binary.AppendUvarint(binary.BigEndian.AppendUint64(append(b, byte(op.Kind)), op.Key), uint64(op.N))
		if op.Kind == Claim {
			b = binary.AppendUvarint(b, uint64(op.Limit))
		}
	}
	return b
}

// Decode returns the Message that Append has written. Data is a part of the argument.
func Decode(b []byte) (m Message, err error) {
	d := decoder{data: b}
	flags := d.byte()
	m.Layout = d.uint64()
	m.Chain = Chain{d.uint32(), d.uvarint(), d.uint32()}
	r := &m.Record
	r.Node, r.Number = d.uint64(), d.uvarint()
	r.Reset, r.Leave = flags&flagReset != 0, flags&flagLeave != 0
	if flags >= flagPart<<1 {
		return m, ErrRecord
	}
	if flags&flagPart != 0 {
		m.Parts, m.Part = d.int(), d.int()
		m.Major, m.Minor = d.uvarint(), d.uvarint()
		m.Data = d.data
		if d.bad || m.Parts < 1 || m.Part >= m.Parts {
			return m, ErrRecord
		}
		return m, nil
	}
	r.Time = d.varint()
	r.Until = r.Time + d.varint()
	for len(d.data) > 0 {
		op := Op{Kind: OpKind(d.byte()), Key: d.uint64(), N: d.int()}
		if op.Kind == Claim {
			op.Limit = d.int()
		}
		if op.Kind < Claim || op.Kind > Forget {
			return m, ErrRecord
		}
		r.Ops = append(r.Ops, op)
	}
	if d.bad || r.Node == 0 || r.Time < -maxTime || r.Time > maxTime || r.Until < r.Time || r.Until > 2*maxTime {
		return m, ErrRecord
	}
	return m, nil
}

// maxTime bounds times, in ns, so that sums of them do not overflow.
const maxTime = math.MaxInt64 / 4

// decoder reads from the beginning of data; bad stays set.
type decoder struct {
	data []byte
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if n < 1 || len(d.data) < n {
		d.bad, d.data = true, nil
		return make([]byte, 8)
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) byte() byte     { return d.take(1)[0] }
func (d *decoder) uint32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) uint64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.data)
	d.take(size)
	return n
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.data)
	d.take(size)
	return n
}

// int returns a number of 0 … 2³¹−1.
func (d *decoder) int() int {
	n := d.uvarint()
	if n > math.MaxInt32 {
		d.bad = true
		return 0
	}
	return int(n)
}

// Append appends the State to b.
func (s *State) Append(b []byte) []byte {
	b = binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(b, s.joinTime), s.freeTime), s.closed)
	for _, m := range s.members {
		b = binary.AppendUvarint(b, m.node)
		if m.node == 0 {
			continue
		}
		share := uint64(0)
		if m.share {
			share = 1
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, m.number), share)
		b = binary.AppendVarint(binary.AppendVarint(b, m.time), m.until)
	}
	keys := make([]uint64, 0, len(s.index))
	for key := range s.index {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		i := s.index[key]
		e := &s.entries[i]
		b = binary.AppendUvarint(binary.BigEndian.AppendUint64(b, key), uint64(e.limit))
		b = binary.AppendUvarint(binary.AppendVarint(b, e.time), uint64(e.calls))
		for m := range s.members {
			b = binary.AppendUvarint(b, uint64(s.holdings[int(i)*len(s.members)+m]))
		}
	}
	return b
}

// Load replaces the State by one that Append has written. After an error it is empty.
func (s *State) Load(b []byte) error {
	s.clear()
	d := decoder{data: b}
	s.joinTime, s.freeTime, s.closed = d.varint(), d.varint(), d.varint()
	for m := range s.members {
		if s.members[m].node = d.uvarint(); s.members[m].node == 0 {
			continue
		}
		s.members[m].number, s.members[m].share = d.uvarint(), d.uvarint() == 1
		s.members[m].time, s.members[m].until = d.varint(), d.varint()
	}
	for len(d.data) > 0 && len(s.free) > 0 {
		e := entry{key: d.uint64(), limit: d.int(), time: d.varint(), calls: d.int()}
		i := s.free[len(s.free)-1]
		for m := range s.members {
			n := d.int()
			s.holdings[int(i)*len(s.members)+m] = uint32(n)
			e.total += n
		}
		if _, twice := s.index[e.key]; twice || e.total > e.limit || e.limit > s.rules.Limit {
			d.bad = true
			break
		}
		s.free = s.free[:len(s.free)-1]
		s.entries[i], s.index[e.key] = e, i
	}
	if d.bad || len(d.data) > 0 {
		s.clear()
		return ErrRecord
	}
	return nil
}
