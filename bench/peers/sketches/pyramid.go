package main

// pyramid is Pyramid Sketch with conservative update: T. Yang, Y. Zhou, H. Jin, S. Chen
// and X. Li, "Pyramid Sketch: a Sketch Framework for Frequency Estimation of Data
// Streams", VLDB 2017. A counter of the lowest layer that overflows carries into its
// parent, which it shares with its neighbour. A parent has 4 bits as well: a flag for
// each child that has carried, and 2 bits of count. It is the form without word
// acceleration, which trades accuracy for speed, and updates by whole counts, because
// the paper's shortcut of comparing the lowest layer alone counts too little.
type pyramid struct {
	layers []cells
	depth  int
}

// newPyramid takes the counters of a key and the layers.
func newPyramid(bytes int, s setting) sketch {
	p := &pyramid{depth: s[0]}
	top := bytes / 8 / (1<<s[1] - 1) // words of the highest layer
	for i := s[1] - 1; i >= 0; i-- {
		p.layers = append(p.layers, newCells(top<<i, 4))
	}
	return p
}

func (p *pyramid) bits() (n int) {
	for i := range p.layers {
		n += p.layers[i].bits()
	}
	return n
}

func (p *pyramid) clear() {
	for i := range p.layers {
		p.layers[i].clear()
	}
}

func (p *pyramid) estimate(h uint64) uint32 {
	least := p.read(pick(h, p.layers[0].count()))
	for range p.depth - 1 {
		h = next(h)
		least = min(least, p.read(pick(h, p.layers[0].count())))
	}
	return uint32(least)
}

func (p *pyramid) add(h uint64, estimate uint32) {
	for range p.depth {
		if i := pick(h, p.layers[0].count()); p.read(i) <= int(estimate) {
			p.carry(i)
		}
		h = next(h)
	}
}

// read returns the count of a counter with its parents. Where both children have
// carried, one carry at least is the other child's.
func (p *pyramid) read(i uint64) int {
	sum, weight := int(p.layers[0].get(i)), 16
	for l := 1; l < len(p.layers); l++ {
		side := i & 1
		i /= 2
		v := p.layers[l].get(i)
		if v>>(2+side)&1 == 0 {
			break
		}
		if v>>2 == 3 {
			sum -= weight
		}
		sum += int(v&3) * weight
		weight *= 4
	}
	return sum
}

// carry adds a unit to a counter and what it carries to its parents. The highest ones
// stop at their most, beyond any limit.
func (p *pyramid) carry(i uint64) {
	if v := p.layers[0].get(i); v < 15 {
		p.layers[0].set(i, v+1)
		return
	}
	p.layers[0].set(i, 0)
	for l := 1; l < len(p.layers); l++ {
		v := p.layers[l].get(i/2) | 4<<(i&1)
		i /= 2
		if v&3 < 3 {
			p.layers[l].set(i, v+1)
			return
		}
		if l < len(p.layers)-1 {
			v &^= 3
		}
		p.layers[l].set(i, v)
	}
}
