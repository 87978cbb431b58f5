package whatif

import "time"

// calendar divides the log into steps of an hour, or of twice, four times … that, so
// that there are mostSteps at most.
type calendar struct {
	length int64 // ns
	base   int64 // the first step, counted from the Unix epoch
}

const mostSteps = 31 * 24

func newCalendar(first int64) calendar {
	return calendar{length: int64(time.Hour), base: floorDiv(first, int64(time.Hour))}
}

// step returns the step of a time that is not before the first one.
func (c *calendar) step(at int64) int { return int(floorDiv(at, c.length) - c.base) }

func (c *calendar) start(step int) time.Time {
	return time.Unix(0, (c.base+int64(step))*c.length).UTC()
}

// widen doubles the length of the steps, and returns where each one is then.
func (c *calendar) widen() (moved func(step int) int) {
	odd := int(c.base & 1)
	c.length, c.base = 2*c.length, c.base>>1
	return func(step int) int { return (step + odd) / 2 }
}

// joined returns steps where widen has moved them.
func joined[T any](steps []T, moved func(int) int, join func(to *T, from T)) []T {
	for i, s := range steps {
		if to := moved(i); to == i {
			continue
		} else if i > 0 && to == moved(i-1) {
			join(&steps[to], s)
		} else {
			steps[to] = s
		}
	}
	if len(steps) == 0 {
		return steps
	}
	n := moved(len(steps)-1) + 1
	clear(steps[n:])
	return steps[:n]
}

// stepOf returns a step, which is made if there is none yet.
func stepOf[T any](steps *[]T, step int) *T {
	for step >= len(*steps) {
		*steps = append(*steps, *new(T))
	}
	return &(*steps)[step]
}

// floorDiv is a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
