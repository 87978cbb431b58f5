// Package refresh caches values that take long to read, for scrapes of metrics, which
// may get a value of a short while ago.
package refresh

import (
	"sync"
	"time"
)

// AtOnce are the bytes that one Reading reads at most before it returns, which takes
// some 30 ms.
const AtOnce = 2 << 20

// Queue reads values in the background: one at a time, in at most a tenth of a core.
// Its goroutine ends when nothing is left to read. The zero value is ready to use. It
// is safe for concurrent use.
type Queue struct {
	mu      sync.Mutex
	waiting []func()
	running bool
}

func (q *Queue) add(read func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, read)
	if !q.running {
		q.running = true
		go q.run()
	}
}

func (q *Queue) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.running, q.waiting = false, nil
			q.mu.Unlock()
			return
		}
		read := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		start := time.Now()
		read()
		time.Sleep(9 * time.Since(start))
	}
}

// Reading asks for several values, one after another. It is for one goroutine.
type Reading struct {
	queue *Queue
	left  int // bytes
}

// Start begins a Reading.
func (q *Queue) Start() Reading { return Reading{q, AtOnce} }

// Value is one that takes long to read. The zero value has not been read. It is safe
// for concurrent use.
type Value[T any] struct {
	mu      sync.Mutex
	value   T
	known   bool
	waiting bool      // in a Queue
	until   time.Time // when it is to be read again
}

// Get returns the value that was read last, and whether there is one. A value that took
// time t to read is read anew after 9 × t: at once if its bytes are left to the
// Reading, and in the background otherwise, for a later call.
func Get[T any](r *Reading, v *Value[T], bytes int, read func() T) (value T, known bool) {
	v.mu.Lock()
	due := !v.waiting && !time.Now().Before(v.until)
	later := due && bytes > r.left
	if due {
		v.waiting = true
	}
	v.mu.Unlock()
	if later {
		r.queue.add(func() { v.refresh(read) })
	} else if due {
		r.left -= bytes
		v.refresh(read)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.known
}

func (v *Value[T]) refresh(read func() T) {
	start := time.Now()
	value := read()
	end := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value, v.known, v.waiting, v.until = value, true, false, end.Add(9*end.Sub(start))
}
