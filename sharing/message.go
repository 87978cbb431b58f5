package sharing

import (
	"encoding/binary"
	"errors"
	"math"
)

// A message is the data of a log's record:
//
//	byte     kind
//	8 bytes  hash of the Layout
//	8 bytes  node
//	uvarint  number: each node numbers its messages from 1
//
// and then by its kind:
//
//	news     varint generation, cells that have risen since the news before
//	restated uvarint covers, which fragment it is, how many there are; varint generation, cells: what all
//	         news of the node had up to the number covers
//	known    uvarint major and minor of a place, which fragment it is, how many there are; then in fragment 0
//	         what was seen of each node up to that place, in the others a varint generation and the cells of
//	         all nodes up to that place
//	hello, begin, bye: nothing
type kind byte

const (
	news kind = 1 + iota
	restated
	known
	hello // the node is there
	begin // the node found no log, and made one
	bye   // the node has ended
)

type message struct {
	kind         kind
	layout       uint64
	node         uint64
	number       uint64
	generation   int64
	covers       uint64 // restated
	place        Place  // known
	fragment, of uint64 // restated, known
	body         []byte // cells, or what was seen
}

func (m *message) encode() []byte {
	b := binary.BigEndian.AppendUint64(append(make([]byte, 0, 32+len(m.body)), byte(m.kind)), m.layout)
	b = binary.AppendUvarint(binary.BigEndian.AppendUint64(b, m.node), m.number)
	switch m.kind {
	case restated:
		b = binary.AppendUvarint(b, m.covers)
	case known:
		b = binary.AppendUvarint(binary.AppendUvarint(b, m.place.Major), m.place.Minor)
	}
	if m.kind == restated || m.kind == known {
		b = binary.AppendUvarint(binary.AppendUvarint(b, m.fragment), m.of)
	}
	if m.hasCells() {
		b = binary.AppendVarint(b, m.generation)
	}
	return append(b, m.body...)
}

// hasCells reports whether the body is cells of a generation.
func (m *message) hasCells() bool {
	return m.kind == news || m.kind == restated || m.kind == known && m.fragment > 0
}

var errMessage = errors.New("sharing: a record is none of a node, or cut")

// reader reads numbers from the beginning of data; bad stays set.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.bad, r.data = true, nil
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.data)
	if size <= 0 {
		r.bad, r.data = true, nil
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *reader) uint64() uint64 {
	if len(r.data) < 8 {
		r.bad, r.data = true, nil
		return 0
	}
	n := binary.BigEndian.Uint64(r.data)
	r.data = r.data[8:]
	return n
}

func decode(data []byte) (m message, err error) {
	if len(data) == 0 {
		return m, errMessage
	}
	m.kind = kind(data[0])
	r := reader{data: data[1:]}
	m.layout, m.node, m.number = r.uint64(), r.uint64(), r.uvarint()
	switch m.kind {
	case restated:
		m.covers = r.uvarint()
	case known:
		m.place = Place{r.uvarint(), r.uvarint()}
	case news, hello, begin, bye:
	default:
		return m, errMessage
	}
	if m.kind == restated || m.kind == known {
		m.fragment, m.of = r.uvarint(), r.uvarint()
		r.bad = r.bad || m.fragment >= m.of || m.fragment >= m.number
	}
	if m.hasCells() {
		m.generation = r.varint()
	}
	m.body = r.data
	if r.bad || m.number == 0 || m.number > math.MaxInt64 {
		return m, errMessage
	}
	return m, nil
}

// seen is which of a node's messages have been taken in: the highest number, and a bit
// for each of the seenBits numbers up to it. All before these count as taken in.
type seen struct {
	max  uint64
	bits [seenBits / 64]uint64 // of number n in bit n % seenBits
}

const seenBits = 1024

func (s *seen) has(n uint64) bool {
	return n+seenBits <= s.max || n <= s.max && s.bits[n%seenBits/64]>>(n%64)&1 == 1
}

func (s *seen) add(n uint64) {
	if n+seenBits <= s.max {
		return
	}
	for s.max < n {
		if n-s.max >= seenBits {
			s.bits, s.max = [len(s.bits)]uint64{}, n
			break
		}
		s.max++
		s.bits[s.max%seenBits/64] &^= 1 << (s.max % 64)
	}
	s.bits[n%seenBits/64] |= 1 << (n % 64)
}

// upTo takes in all messages up to a number.
func (s *seen) upTo(n uint64) {
	for i := max(1, int64(n)-seenBits+1); i <= int64(n); i++ {
		s.add(uint64(i))
	}
}

// union takes in what another has.
func (s *seen) union(o *seen) {
	for i := max(1, int64(o.max)-seenBits+1); i <= int64(o.max); i++ {
		if o.has(uint64(i)) {
			s.add(uint64(i))
		}
	}
}

// beyond reports whether s has what another one has not.
func (s *seen) beyond(o *seen) bool {
	for i := max(1, int64(s.max)-seenBits+1); i <= int64(s.max); i++ {
		if s.has(uint64(i)) && !o.has(uint64(i)) {
			return true
		}
	}
	return false
}

func (s *seen) append(b []byte) []byte {
	b = binary.AppendUvarint(b, s.max)
	for _, w := range s.bits {
		b = binary.AppendUvarint(b, ^w) // nearly all are taken in
	}
	return b
}

func (r *reader) seen() (s seen) {
	s.max = r.uvarint()
	for i := range s.bits {
		s.bits[i] = ^r.uvarint()
	}
	return s
}
