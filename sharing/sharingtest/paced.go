package sharingtest

import (
	"math"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Paced is a limit in short windows of which one key is offered to each node at a steady
// rate, and which is reached in each window.
type Paced struct {
	Nodes  []PacedNode
	Limit  int
	Rate   float64       // units a second that each node is offered at most
	Window time.Duration // of the limiters
}

// PacedNode is one node's limiter of a [Paced].
type PacedNode interface {
	Do(sketchlimit.Request) sketchlimit.Decision
	Bound() int // what all nodes admit at most, by what this one knows
}

// PacedResult is what nodes of a [Paced] admitted, window by window.
type PacedResult struct {
	Windows int // that were judged
	Telling int // of these, whose bound was below what the nodes were offered
	Above   int // that admitted more than the bound
	// Most is the highest share of its bound that a window admitted, Over the most units
	// above the limit, and Bound the bound of that window.
	Most        float64
	Over, Bound int
}

// pacedWindow is what is known of one window.
type pacedWindow struct{ offered, admitted, bound int }

// run asks until stop is closed.
func (p *Paced) run(stop <-chan struct{}) (r PacedResult) {
	var mu sync.Mutex
	windows := map[int64]*pacedWindow{}
	window := func(now time.Time) (*pacedWindow, int64) {
		w := now.UnixNano() / int64(p.Window)
		if windows[w] == nil {
			windows[w] = &pacedWindow{}
		}
		return windows[w], w
	}
	gap := time.Duration(math.Ceil(float64(time.Second) / p.Rate))
	begin := time.Now()
	var all sync.WaitGroup
	for _, n := range p.Nodes {
		all.Go(func() {
			tick := time.NewTicker(gap) // which drops what is late: no node is offered more
			defer tick.Stop()
			var latest time.Time
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				now := time.Now()
				if now.Sub(latest) < gap {
					continue
				}
				latest = now
				d := n.Do(sketchlimit.Request{Key: "paced", Time: now})
				mu.Lock()
				w, _ := window(now)
				w.offered++
				if d.Allowed {
					w.admitted++
				}
				mu.Unlock()
			}
		})
	}
	sample := func() {
		now, bound := time.Now(), 0
		for _, n := range p.Nodes {
			bound = max(bound, n.Bound())
		}
		mu.Lock()
		defer mu.Unlock()
		w, number := window(now)
		w.bound = max(w.bound, bound)
		if before := windows[number-1]; before != nil { // a delay may show itself later
			before.bound = max(before.bound, bound)
		}
	}
	for running := true; running; sample() {
		select {
		case <-stop:
			running = false
		case <-time.After(10 * time.Millisecond):
		}
	}
	all.Wait()
	_, first := window(begin)
	_, last := window(time.Now())
	for number, w := range windows {
		if number == first || number == last || w.offered == 0 {
			continue // which was not whole
		}
		r.Windows++
		if w.bound < w.offered {
			r.Telling++
		}
		if w.admitted > w.bound {
			r.Above++
		}
		r.Most = max(r.Most, float64(w.admitted)/float64(w.bound))
		if over := w.admitted - p.Limit; over > r.Over {
			r.Over, r.Bound = over, w.bound
		}
	}
	return r
}
