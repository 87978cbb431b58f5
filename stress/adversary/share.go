package main

import (
	"iter"
	"slices"
)

// parcel describes counts of other nodes.
type parcel struct {
	from       int
	generation int64
}

// message is the cells of one limiter's generation, on their way to the others.
type message struct {
	parcel
	parts [][]uint64
	units map[int]int64 // by key
	sent  int           // step
}

// post sends a node's own cells of all generations that it keeps.
func (w *world) post(o op) {
	n := w.nodes[o.node]
	if n.share == nil {
		return
	}
	n.clock.Store(o.at)
	current, kept := n.share.Generations()
	n.see(o.at)
	for generation := current; generation > current-int64(kept); generation-- {
		m := message{parcel{o.node, generation}, nil, map[int]int64{}, w.step}
		for key := range n.oracle.keys {
			if c := n.oracle.own(key, generation); c > 0 {
				m.units[key] = c
			}
		}
		for part := range n.share.Parts() {
			words := make([]uint64, n.share.PartWords())
			if !n.share.Own(part, generation, words) {
				w.fail("share", o, "Own does not know generation %d of %d … %d", generation, current-int64(kept)+1, current)
				return
			}
			m.parts = append(m.parts, words)
		}
		w.mail = append(w.mail, m)
	}
	if most := 60; len(w.mail) > most {
		w.mail = slices.Delete(w.mail, 0, len(w.mail)-most)
	}
}

// deliver brings one of the messages to a node: late, again, or before older ones.
func (w *world) deliver(o op) {
	n := w.nodes[o.node]
	if n.share == nil || len(w.mail) == 0 {
		return
	}
	m := &w.mail[o.arg%len(w.mail)]
	if m.from == o.node {
		return
	}
	n.clock.Store(o.at)
	n.see(o.at)
	has := n.given[m.parcel]
	if o.own && has != nil && has.sent > m.sent {
		return // it would take back what is known, in the midst of requests
	}
	if o.n == 0 {
		w.setOthers(n, m)
	} else {
		n.addOthers(m)
	}
}

// setOthers gives a node the sum of all others' cells anew, those of a message instead
// of what it had of its sender.
func (w *world) setOthers(n *node, m *message) {
	kept := true
	for part := range m.parts {
		sum := slices.Clone(m.parts[part])
		for from := range w.nodes {
			if other := n.given[parcel{from, m.generation}]; other != nil && from != m.from {
				sum = plus(sum, other.parts[part], n.share.CellBits())
			}
		}
		kept = n.share.SetOthers(part, m.generation, sum) && kept
	}
	if kept {
		n.given[m.parcel] = m.copy()
	}
}

// addOthers gives a node what a message has more than it had of the sender. Cells come
// to the greater of what they were and what they are now, and so do the units.
func (n *node) addOthers(m *message) {
	bits := n.share.CellBits()
	has, kept := n.given[m.parcel], true
	for part, words := range m.parts {
		was := make([]uint64, len(words))
		if has != nil {
			was = has.parts[part]
		}
		kept = n.share.AddOthers(part, m.generation, risen(was, words, bits)) && kept
	}
	if !kept {
		return
	}
	next := m.copy()
	if has != nil {
		next.sent = max(next.sent, has.sent)
		for part, words := range next.parts {
			for i := range words {
				words[i] = greater(words[i], has.parts[part][i], bits)
			}
		}
		for key, c := range has.units {
			next.units[key] = max(next.units[key], c)
		}
	}
	n.given[m.parcel] = next
}

// risen yields the cells, of so many bits, that have become greater, and by how much.
func risen(was, words []uint64, bits int) iter.Seq2[int, uint32] {
	top := uint64(1)<<bits - 1
	return func(yield func(int, uint32) bool) {
		for i, word := range words {
			for lane := 0; lane < 64; lane += bits {
				now, before := word>>lane&top, was[i]>>lane&top
				if now > before && !yield(i*(64/bits)+lane/bits, uint32(now-before)) {
					return
				}
			}
		}
	}
}

func (m *message) copy() *message {
	c := &message{m.parcel, make([][]uint64, len(m.parts)), make(map[int]int64, len(m.units)), m.sent}
	for i := range m.parts {
		c.parts[i] = slices.Clone(m.parts[i])
	}
	for key, n := range m.units {
		c.units[key] = n
	}
	return c
}

// plus adds cells of so many bits, which stay at their largest value.
func plus(a, b []uint64, bits int) []uint64 {
	return cells(a, b, bits, func(x, y, top uint64) uint64 { return min(x+y, top) })
}

func greater(a, b uint64, bits int) uint64 {
	return cells([]uint64{a}, []uint64{b}, bits, func(x, y, _ uint64) uint64 { return max(x, y) })[0]
}

func cells(a, b []uint64, bits int, f func(x, y, top uint64) uint64) []uint64 {
	out, top := make([]uint64, len(a)), uint64(1)<<bits-1
	for i := range a {
		for lane := 0; lane < 64; lane += bits {
			out[i] |= f(a[i]>>lane&top, b[i]>>lane&top, top) << lane
		}
	}
	return out
}
