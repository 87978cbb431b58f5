package sharingtest

import (
	"context"
	"errors"
	"sync"

	"github.com/sketchlimit/sketchlimit/sharing"
)

// Fault is what goes wrong with an entry that is appended.
type Fault int

const (
	None      Fault = iota
	Refuse          // it is not appended, and an error is returned
	LoseReply       // it is appended, and an error is returned
	Repeat          // it is appended twice
	Delay           // it is appended after all that come with it, and an error is returned
	Forget          // it is not appended, and no error is returned: no engine may do this, but a failover does
)

var errFault = errors.New("sharingtest: a fault")

// Faulty is an engine in which things go wrong. It is safe for concurrent use.
type Faulty struct {
	sharing.Engine
	mu   sync.Mutex
	next func(n int) Fault
	n    int
}

// Set makes next return what goes wrong with each entry from now on, by how many came
// before it; nil: nothing.
func (f *Faulty) Set(next func(n int) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.n = next, 0
}

func (f *Faulty) fault() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		return None
	}
	f.n++
	return f.next(f.n - 1)
}

// Append implements [sharing.Engine].
func (f *Faulty) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	results := make([]sharing.Result, len(entries))
	var delayed []sharing.Entry
	for i, e := range entries {
		one := func() sharing.Result { return f.Engine.Append(ctx, []sharing.Entry{e})[0] }
		switch f.fault() {
		case Refuse:
			results[i].Err = errFault
		case LoseReply:
			if results[i] = one(); results[i].Err == nil {
				results[i].Err = errFault
			}
		case Repeat:
			results[i] = one()
			if results[i].Err == nil {
				results[i] = one()
			}
		case Delay:
			results[i].Err = errFault
			delayed = append(delayed, e)
		case Forget:
			e.Log, e.ID, e.Begin = e.Log+"-forgotten", e.ID+"-forgotten", true
			results[i] = one() // of the place that it would have had
		default:
			results[i] = one()
		}
	}
	if len(delayed) > 0 {
		f.Engine.Append(ctx, delayed)
	}
	return results
}
