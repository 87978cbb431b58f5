package main

import "math/bits"

// salsa is a sketch whose cells merge with their neighbours when they overflow: R. Ben
// Basat, G. Einziger, M. Mitzenmacher and S. Vargaftik, "SALSA: Self-Adjusting Lean
// Streaming Analytics", ICDE 2021. It is the form with conservative update, in which a
// merged cell holds the greatest of its parts.
//
// A group is a byte of counters that begin with 1, 2 or 4 bits and merge in pairs, up
// to one of 8 bits. The parts of a group are the nodes of a binary tree: node 1 is the
// byte, nodes 2 and 3 are its lower and upper half, and so on. Each node that is not a
// leaf has a merge bit, which is set if the node is one counter.
type salsa struct {
	depth  int
	leaves uint64 // counters of a group before any merge
	row    uint64 // counters of a row
	counts []uint8
	merges []uint64 // as many groups to a word as it holds whole
	states uint64   // groups of a word of merges
}

func newSalsa(bytes int, s setting) sketch {
	leaves := uint64(8 / s[1])
	states := 64 / (leaves - 1)
	words := uint64(bytes / 8) // of counts and merges
	merges := (8*words + states + 7) / (states + 8)
	groups := min(8*(words-merges), merges*states) / uint64(s[0])
	return &salsa{
		depth: s[0], leaves: leaves, row: groups * leaves, states: states,
		counts: make([]uint8, groups*uint64(s[0])), merges: make([]uint64, merges),
	}
}

func (s *salsa) bits() int { return 8*len(s.counts) + 64*len(s.merges) }

func (s *salsa) clear() {
	clear(s.counts)
	clear(s.merges)
}

func (s *salsa) estimate(h uint64) uint32 {
	least := uint32(1<<8 - 1)
	for r := range uint64(s.depth) {
		i := r*s.row + pick(h, s.row)
		least = min(least, s.value(i/s.leaves, s.node(i)))
		h = next(h)
	}
	return least
}

func (s *salsa) add(h uint64, estimate uint32) {
	for r := range uint64(s.depth) {
		s.raise(r*s.row+pick(h, s.row), estimate+1)
		h = next(h)
	}
}

// raise lifts the counter that leaf i is part of to a count at least. A counter that is
// too narrow merges with its neighbour. What that holds is less, as it is no wider.
func (s *salsa) raise(i uint64, count uint32) {
	group, node := i/s.leaves, s.node(i)
	if s.value(group, node) >= count {
		return
	}
	for count>>width(node) > 0 {
		node /= 2
	}
	if node < s.leaves {
		s.merges[group/s.states] |= 1 << (group%s.states*(s.leaves-1) + node - 1)
	}
	all := uint8(1<<width(node) - 1)
	s.counts[group] = s.counts[group]&^(all<<lane(node)) | uint8(count)<<lane(node)
}

// node returns the counter that leaf i is part of: the first merged node on the way
// down from the byte.
func (s *salsa) node(i uint64) uint64 {
	group, leaf := i/s.leaves, s.leaves+i%s.leaves
	merged := s.merges[group/s.states] >> (group % s.states * (s.leaves - 1)) << 1
	for up := bits.Len64(leaf) - 1; up > 0; up-- {
		if node := leaf >> up; merged>>node&1 != 0 {
			return node
		}
	}
	return leaf
}

func (s *salsa) value(group, node uint64) uint32 {
	return uint32(s.counts[group]) >> lane(node) & (1<<width(node) - 1)
}

// width returns the bits of a node.
func width(node uint64) uint64 { return 16 >> bits.Len64(node) }

// lane returns the first bit of a node in its byte.
func lane(node uint64) uint64 { return node*width(node) - 8 }
