package main

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// judge sends the requests of some keys and holds each decision against the exact
// algorithm, which has counted what the limiter admitted. Keys share one of its
// stripes, within which requests come one after another.
type judge struct {
	stripes [64]stripe
	keys    int
}

type stripe struct {
	mu     sync.Mutex
	oracle *exact.SlidingWindow
	tally
}

// tally counts requests.
type tally struct {
	requests      int
	unjudged      int // a generation may have begun meanwhile, and nobody knows in which they count
	denied        int
	overAdmitted  int // admitted though the exact algorithm denies, or more left than it says
	innocent      int // of keys that have used less than half of their limit
	falselyDenied int // of these, denied though the exact algorithm admits
}

func newJudge(keys int) (*judge, error) {
	j := &judge{keys: keys}
	for i := range j.stripes {
		var err error
		if j.stripes[i].oracle, err = exact.NewSlidingWindow(limit, window); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// key returns one of the judged keys, which are none of the load's.
func (j *judge) key(i int) string {
	return string(binary.LittleEndian.AppendUint64([]byte("judged"), uint64(i)))
}

// request sends one for a judged key, half of the time one of a few that flood.
func (j *judge) request(l *sketchlimit.Limiter, r *rand.Rand) {
	i := r.IntN(j.keys)
	if r.IntN(2) == 0 {
		i %= j.keys / 64
	}
	s, key, n := &j.stripes[i%len(j.stripes)], j.key(i), 1+r.IntN(2)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	want := s.oracle.PeekAt(now, key, n)
	got := l.TakeAt(now, key, n)
	if got.Allowed {
		s.oracle.Charge(now, key, n)
	}
	s.requests++
	const slack = time.Millisecond // between two readings of the clock by other goroutines
	if now.Add(-slack).Truncate(window) != time.Now().Add(slack).Truncate(window) {
		s.unjudged++
		return
	}
	if got.Allowed && (!want.Allowed || got.Remaining > want.Remaining-n) {
		s.overAdmitted++
	}
	if !got.Allowed {
		s.denied++
	}
	if want.Remaining > limit/2 {
		s.innocent++
		if want.Allowed && !got.Allowed {
			s.falselyDenied++
		}
	}
}

// sum returns what was counted so far.
func (j *judge) sum() (all tally) {
	for i := range j.stripes {
		s := &j.stripes[i]
		s.mu.Lock()
		all.requests += s.requests
		all.unjudged += s.unjudged
		all.denied += s.denied
		all.overAdmitted += s.overAdmitted
		all.innocent += s.innocent
		all.falselyDenied += s.falselyDenied
		s.mu.Unlock()
	}
	return all
}

// compare returns in how many judged keys a limiter that was restored differs from the
// one that was saved, and of how many it knows less than the exact algorithm.
func (j *judge) compare(saved, restored *sketchlimit.Limiter) (differ, less int) {
	now := time.Now()
	for i := range j.keys {
		key := j.key(i)
		peek := sketchlimit.Request{Key: key, Time: now, Peek: true}
		a, b := saved.Do(peek), restored.Do(peek)
		if a != b {
			differ++
		}
		if b.Remaining > j.stripes[i%len(j.stripes)].oracle.PeekAt(now, key, 1).Remaining {
			less++
		}
	}
	return differ, less
}
