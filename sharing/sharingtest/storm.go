package sharingtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Limiter is one node's limiter of a limit that several share.
type Limiter interface {
	Allow(key string) bool
	Peek(key string) sketchlimit.Decision
}

// Load asks the limiters of each node rate times a second, for random ones of so many
// keys, until the time has passed. It returns how often it asked and how often it was
// admitted.
func Load(nodes [][]Limiter, rate, keys int, d time.Duration) (asked, admitted int64) {
	var a, b atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for _, limiters := range nodes {
		all.Go(func() {
			n := 0
			for since := time.Duration(0); since < d; since = time.Since(start) {
				for ; n < int(since.Seconds()*float64(rate)); n++ {
					if limiters[rand.IntN(len(limiters))].Allow(fmt.Sprint(rand.IntN(keys))) {
						b.Add(1)
					}
				}
				time.Sleep(time.Millisecond)
			}
			a.Add(int64(n))
		})
	}
	all.Wait()
	return a.Load(), b.Load()
}

// Storm is trouble that nodes of one limit are in, and what it does to that limit. Each
// node has two limiters: of one the limit is never reached, so that its counts can be
// compared with what was admitted; of the other it is reached at once. Their windows do
// not end meanwhile.
type Storm struct {
	Counting, Limiting []Limiter      // one of each for each node
	Limit              int            // of Counting
	Paced              *Paced         // nil: KeyRate is not tried
	Trouble            []func() error // each makes trouble, and ends it; they come in turns
	Rounds             int            // of all trouble
	Patience           time.Duration  // until all nodes know all
}

// Result is what a storm has done.
type Result struct {
	Counted  int64 // units that the counting limiters admitted
	Least    int64 // that a node knows of in the end, all keys together
	Most     int64
	Admitted int64         // units of one key that the limiting limiters admitted, all nodes together
	Longest  time.Duration // a decision
	Settled  time.Duration // until all knew all, after the last trouble
	Paced    PacedResult
}

const stormKeys = 50

// Run makes trouble while all nodes ask. It returns an error where a node never knows
// of all that was counted.
func (s *Storm) Run() (r Result, err error) {
	var counted [stormKeys]atomic.Int64
	var admitted, longest atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	if s.Paced != nil {
		all.Go(func() { r.Paced = s.Paced.run(stop) })
	}
	for i := range s.Counting {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key := rand.IntN(stormKeys)
				start := time.Now()
				if s.Counting[i].Allow(fmt.Sprint(key)) {
					counted[key].Add(1)
				}
				if took := int64(time.Since(start)); took > longest.Load() {
					longest.Store(took)
				}
				if s.Limiting[i].Allow("k") {
					admitted.Add(1)
				}
				if n%1000 == 999 { // a flood of keys
					for range 500 {
						s.Limiting[i].Allow(fmt.Sprint("flood", rand.IntN(1<<20)))
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range s.Rounds {
		for _, trouble := range s.Trouble {
			time.Sleep(300 * time.Millisecond)
			if err := trouble(); err != nil {
				close(stop)
				all.Wait()
				return r, err
			}
		}
	}
	close(stop)
	all.Wait()
	r.Admitted, r.Longest = admitted.Load(), time.Duration(longest.Load())
	for key := range counted {
		r.Counted += counted[key].Load()
	}
	known := func(l Limiter) (sum int64, whole bool) {
		whole = true
		for key := range counted {
			used := int64(s.Limit - l.Peek(fmt.Sprint(key)).Remaining)
			sum += used
			whole = whole && used >= counted[key].Load()
		}
		return sum, whole
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		whole := true
		r.Least, r.Most = 1<<62, 0
		for _, l := range s.Counting {
			sum, ok := known(l)
			r.Least, r.Most, whole = min(r.Least, sum), max(r.Most, sum), whole && ok
		}
		if r.Settled = time.Since(start); whole {
			return r, nil
		}
		if r.Settled > s.Patience {
			return r, fmt.Errorf("after %v a node knows of %d units of %d", r.Settled, r.Least, r.Counted)
		}
	}
}
