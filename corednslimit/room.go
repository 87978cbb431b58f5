package corednslimit

import (
	"fmt"
	"sync"

	"github.com/sketchlimit/sketchlimit"
)

// room knows what the blocks of a Corefile take together. In a reload, those that run
// are there until the new ones have started: what does not fit beside them would end
// the server.
type room struct {
	mu    sync.Mutex
	of    any // the Corefile that is being read
	taken int // by its blocks
}

var memory room

// take takes bytes for a block, or returns an error if the machine or the cgroup has
// not so much.
func (r *room) take(of any, bytes, running int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of != of {
		r.of, r.taken = of, 0
	}
	total := r.taken + running + bytes
	if err := sketchlimit.CheckMemory(total); err != nil {
		return fmt.Errorf("%d bytes of accounts, with those of all blocks and of the server that runs: %w", bytes, err)
	}
	r.taken += bytes
	return nil
}

// bytes returns the memory of all handlers that run.
func (s *handlers) bytes() (total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.of {
		total += h.handler.MemoryBytes()
	}
	return total
}
