package whatif

import "time"

// calendar divides the log into steps of five minutes up to shortLog, then of an hour,
// and of twice, four times … that, so that there are mostSteps at most.
type calendar struct {
	length int64 // ns
	base   int64 // the first step, counted from the Unix epoch
}

const (
	mostSteps = 31 * 24
	shortStep = 5 * time.Minute
	shortLog  = 3 * time.Hour
)

func newCalendar(first int64) calendar {
	return calendar{length: int64(shortStep), base: floorDiv(first, int64(shortStep))}
}

// full reports whether steps must be longer up to a time.
func (c *calendar) full(at int64) bool {
	if c.length == int64(shortStep) {
		return c.step(at) > int(shortLog/shortStep)
	}
	return c.step(at) >= mostSteps
}

// step returns the step of a time that is not before the first one.
func (c *calendar) step(at int64) int { return int(floorDiv(at, c.length) - c.base) }

func (c *calendar) start(step int) time.Time {
	return time.Unix(0, (c.base+int64(step))*c.length).UTC()
}

// widen makes the steps longer, and returns where each one is then.
func (c *calendar) widen() (moved func(step int) int) {
	factor := int64(2)
	if c.length == int64(shortStep) {
		factor = int64(time.Hour / shortStep)
	}
	base := floorDiv(c.base, factor)
	first := int(c.base - base*factor)
	c.length, c.base = factor*c.length, base
	return func(step int) int { return (step + first) / int(factor) }
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
