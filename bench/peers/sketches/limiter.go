package main

// kind is an algorithm: fixed or sliding windows.
type kind int

const (
	fixed kind = iota
	sliding
)

var kinds = []kind{fixed, sliding}

func (k kind) String() string { return [...]string{"fixed", "sliding"}[k] }

// window is the length of a window, ns.
const window = 60_000_000_000

// moment is a time: a window's number, and the ns since it began.
type moment struct {
	window  int
	elapsed int64
}

// weighted returns how many units of the previous window still count, rounded up.
func weighted(units uint32, elapsed int64) uint32 {
	return uint32((uint64(units)*uint64(window-elapsed) + window - 1) / window)
}

// limiter decides on requests for one unit, in the order of their times.
type limiter interface {
	// take reports whether a request is admitted, and returns the limiter's estimate of
	// the units that its key had used.
	take(h uint64, at moment) (admitted bool, used uint32)
	bits() int
}

// counting is a sketch as a limiter: one of it in fixed windows, two in sliding ones,
// of which each counts every other window. Each window hashes anew.
type counting struct {
	sketches []sketch
	window   int
}

// newCounting returns a limiter in so many bytes.
func newCounting(build func(int, setting) sketch, s setting, k kind, bytes int) *counting {
	c := new(counting)
	for range k + 1 {
		c.sketches = append(c.sketches, build(bytes/int(k+1), s))
	}
	return c
}

func (c *counting) bits() (n int) {
	for _, s := range c.sketches {
		n += s.bits()
	}
	return n
}

func (c *counting) take(h uint64, at moment) (bool, uint32) {
	for c.window < at.window {
		c.window++
		c.of(c.window).clear()
	}
	var before uint32
	if len(c.sketches) > 1 && at.window > 0 {
		before = weighted(c.of(at.window-1).estimate(hashIn(h, at.window-1)), at.elapsed)
	}
	h = hashIn(h, at.window)
	now := c.of(at.window).estimate(h)
	if now+before+1 > limit {
		return false, now + before
	}
	c.of(at.window).add(h, now)
	return true, now + before
}

// of returns the sketch of a window.
func (c *counting) of(window int) sketch { return c.sketches[window%len(c.sketches)] }

// hashIn returns a key's hash in a window.
func hashIn(h uint64, window int) uint64 { return mix(h, uint64(window+1)*0x9e3779b97f4a7c15) }
