package tune

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/recorded"
)

// Trace is recorded traffic, request by request, in their order. It has what no count
// of a window tells: bursts, heavy keys that stay and others that go, clients that
// retry, windows that differ.
//
// It takes 16 bytes a request and about 100 a key. It is not safe for concurrent use
// while requests are added.
type Trace struct {
	window   time.Duration
	requests []recorded.Request
	ids      map[string]uint32 // by their names; nil before the first Add
	names    []string          // of keys, by id

	// Progress, if not nil, is called after each replay with the requests that have
	// been replayed, all replays together.
	Progress func(requests int)

	mu       sync.Mutex
	judged   *judged // for the limiter that was asked for last
	replayed int
	whole    *Trace // that this is a sample of
}

// done counts requests that have been replayed.
func (t *Trace) done(requests int) {
	if t.whole != nil {
		t = t.whole
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replayed += requests
	if t.Progress != nil {
		t.Progress(t.replayed)
	}
}

// NewTrace returns an empty trace, for limits in a window (above 0).
func NewTrace(window time.Duration) *Trace {
	return &Trace{window: window}
}

// TraceOf returns a trace of requests in their order, of keys by their names, which may
// not change from then on. It is for package accuracy, which has read them.
func TraceOf(window time.Duration, names []string, requests []recorded.Request) *Trace {
	return &Trace{window: window, names: slices.Clip(names), requests: slices.Clip(requests)}
}

// Add appends a request for n units, 1 … 1<<31-1. Others are left out: no limiter
// admits them.
func (t *Trace) Add(at time.Time, key string, n int) {
	if n < 1 || n > math.MaxInt32 {
		return
	}
	if t.ids == nil {
		t.ids = make(map[string]uint32, len(t.names))
		for id, name := range t.names {
			t.ids[name] = uint32(id)
		}
	}
	id, known := t.ids[key]
	if !known {
		id = uint32(len(t.names))
		t.ids[key] = id
		t.names = append(t.names, key)
	}
	t.requests = append(t.requests, recorded.Request{NS: at.UnixNano(), Key: id, Units: uint32(n)})
}

// Len returns the number of requests.
func (t *Trace) Len() int { return len(t.requests) }

// fullest returns the units that each key asks for in the window that has the most
// keys, in ascending order.
func (t *Trace) fullest() (most []int) {
	units, keys := make([]int, len(t.names)), []uint32{}
	take := func() {
		if len(keys) > len(most) {
			most = most[:0]
			for _, id := range keys {
				most = append(most, units[id])
			}
		}
		for _, id := range keys {
			units[id] = 0
		}
		keys = keys[:0]
	}
	current := int64(math.MinInt64)
	for _, r := range t.requests {
		if n := r.NS / int64(t.window); n != current {
			take()
			current = n
		}
		if units[r.Key] == 0 {
			keys = append(keys, r.Key)
		}
		units[r.Key] += int(r.Units)
	}
	take()
	slices.Sort(most)
	return most
}
