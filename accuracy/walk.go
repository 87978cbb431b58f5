package accuracy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/windows"
)

// A lane is one party that sees every request of a stream: a limiter with its judge,
// an oracle on its own, the census of keys. Lanes know nothing of each other, so a
// batch goes through all of them at once, each in a goroutine of its own; none ever
// sees two batches at the same time.
type lane interface {
	run(batch []Request)
	// reset forgets all counts, at the end of the warm-up, but no state.
	reset()
}

const (
	batchRequests = 8 << 10
)

// walk sends src through the lanes, batch by batch; after, if not nil, is called
// behind each with the counted requests, when all lanes are done with it.
func walk(ctx context.Context, src Source, window time.Duration, o Options, lanes []lane, after func([]Request)) error {
	w := walker{ctx: ctx, o: o, total: src.Len(), lanes: lanes, after: after}
	w.batch = make([]Request, 0, batchRequests)
	counting := windows.NewClock(window)
	for r := range src.Requests() {
		if !w.counted && counting.Turn(r.Time) && counting.Number-counting.First >= int64(o.WarmUp) {
			w.flush()
			w.endWarmUp()
		}
		w.batch = append(w.batch, r)
		if len(w.batch) == batchRequests && !w.flush() {
			return ctx.Err()
		}
	}
	w.flush()
	if err := ctx.Err(); err != nil {
		return err
	}
	if !w.counted {
		return fmt.Errorf("accuracy: warm-up of %d windows, must be less than the %d of %s",
			o.WarmUp, counting.Number-counting.First+1, src.Name())
	}
	if o.Progress != nil {
		o.Progress(w.done, w.total)
	}
	return nil
}

type walker struct {
	ctx         context.Context
	o           Options
	lanes       []lane
	after       func([]Request)
	batch       []Request
	done, total int
	counted     bool // the warm-up is over
}

func (w *walker) endWarmUp() {
	for _, l := range w.lanes {
		l.reset()
	}
	w.counted = true
}

// flush runs the batch through the lanes; false if the context has ended.
func (w *walker) flush() bool {
	var all sync.WaitGroup
	for _, l := range w.lanes {
		all.Go(func() { l.run(w.batch) })
	}
	all.Wait()
	if w.counted && w.after != nil {
		w.after(w.batch)
	}
	before := w.done
	w.done += len(w.batch)
	w.batch = w.batch[:0]
	if w.o.Progress != nil && before/progressRequests != w.done/progressRequests {
		w.o.Progress(w.done, w.total)
	}
	return w.ctx.Err() == nil
}

// census counts requests, units and keys.
type census struct {
	windows         windows.Clock
	seen            map[string]int64 // key -> last window
	inWindow, peak  int              // distinct keys
	requests, units uint64
	start, end      time.Time
}

func newCensus(window time.Duration) *census {
	return &census{windows: windows.NewClock(window), seen: make(map[string]int64)}
}

func (c *census) run(batch []Request) {
	for _, r := range batch {
		if c.windows.Turn(r.Time) {
			c.peak, c.inWindow = max(c.peak, c.inWindow), 0
		}
		last, known := c.seen[r.Key]
		if !known || last != c.windows.Number {
			c.seen[r.Key] = c.windows.Number
			c.inWindow++
		}
		if c.requests++; c.requests == 1 {
			c.start = r.Time
		}
		c.units += uint64(r.Cost)
		c.end = r.Time
	}
}

func (c *census) reset() { c.requests, c.units = 0, 0 }

// peakKeys is the number of distinct keys of the fullest window.
func (c *census) peakKeys() int { return max(c.peak, c.inWindow) }
