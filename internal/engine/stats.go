package engine

import "github.com/sketchlimit/sketchlimit/internal/meancost"

// Units returns what the engine has admitted and denied under its locks.
func (e *Engine) Units() (admitted, denied uint64) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		admitted += s.admitted
		denied += s.denied
		s.mu.Unlock()
	}
	return admitted, denied
}

// MeanCost returns the mean units of the requests admitted lately; 1 if there were none.
func (e *Engine) MeanCost() float64 { return meancost.Mean(e.flooded) }
