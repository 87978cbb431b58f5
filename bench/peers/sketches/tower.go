package main

// tower is the Tower sketch with conservative update: K. Yang, Y. Li, Z. Liu, T. Yang,
// Y. Zhou, J. He, J. Xue, T. Zhao, Z. Jia and Y. Yang, "SketchINT: Empowering INT with
// TowerSketch for Per-flow Per-switch Measurement", ICNP 2021. Its rows take the same
// memory each. Lower ones have more and smaller cells, and a cell that is full says
// nothing.
type tower struct{ levels []cells }

// newTower takes the bits of the cells of all levels as the digits of one number.
func newTower(bytes int, s setting) sketch {
	var widths []int
	for digits := s[0]; digits > 0; digits /= 10 {
		widths = append(widths, digits%10)
	}
	t := new(tower)
	for _, width := range widths {
		t.levels = append(t.levels, newCells(bytes/8/len(widths), width))
	}
	return t
}

func (t *tower) bits() (n int) {
	for i := range t.levels {
		n += t.levels[i].bits()
	}
	return n
}

func (t *tower) clear() {
	for i := range t.levels {
		t.levels[i].clear()
	}
}

func (t *tower) estimate(h uint64) uint32 {
	least := uint32(1<<8 - 1)
	for i := range t.levels {
		l := &t.levels[i]
		if v := l.get(pick(h, l.count())); v < l.max {
			least = min(least, v)
		}
		h = next(h)
	}
	return least
}

func (t *tower) add(h uint64, estimate uint32) {
	for i := range t.levels {
		l := &t.levels[i]
		if at := pick(h, l.count()); l.get(at) <= estimate {
			l.set(at, min(estimate+1, l.max))
		}
		h = next(h)
	}
}
