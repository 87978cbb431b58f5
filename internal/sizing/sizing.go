// Package sizing says how much memory a limiter takes for a number of keys, and how it is spent: the dimensions of
// its engine.
package sizing

import "github.com/sketchlimit/sketchlimit/internal/spec"

// Need is what a limiter is for.
type Need struct {
	Rule        spec.Rule
	Lowest      int     // limit that a request may come with
	Keys        int     // distinct keys in a window; 0 if nobody knows
	Units       float64 // that a key uses in a window, on average; 0 if nobody knows
	Headroom    float64 // multiple of that traffic up to which the rate shall hold
	Rate        float64 // of false denials
	MemoryBytes int     // the most that the limiter may take, everything included; 0 if nobody said
	Grows       bool    // it may become larger
}

// Overhead is what a limiter takes of the heap beside its engine: the Limiter, its window manager, and the counter of
// denials without a lock, as measured with Go 1.26.
const Overhead = 1616

// Plan chooses the dimensions.
func (n *Need) Plan() (spec.Dimensions, error) {
	memory := n.MemoryBytes
	if memory == 0 {
		var err error
		if memory, err = n.MemoryFor(n.Keys); err != nil {
			return spec.Dimensions{}, err
		}
	}
	return n.PlanFor(memory)
}
