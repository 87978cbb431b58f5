// Command late measures what New takes for a number of keys where abusers come in the
// midst of a window: how many requests of light keys are denied wrongly in it.
//
//	go run ./bench/late -limits 100,1000
//	go run ./bench/late -limits 100 -lowest 10
//
// It sends the load that Config.Keys is for: light keys of five requests a window, and
// one key in a hundred at three times the limit. Light keys alone fill the window
// before. With -lowest they come with that limit of their own.
package main

import (
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

const (
	window = time.Minute
	excess = 3.0  // of what abusers send over their limit
	abuse  = 0.01 // of all keys
)

var starts = []float64{0, 0.25, 0.5, 0.75}

func main() {
	log.SetFlags(0)
	limits := flag.String("limits", "10,20,32,100,1000", "the `LIMITS`, with commas")
	lowest := flag.Int("lowest", 0, "the `LIMIT` that light keys come with, and Config.LowestLimit; 0 is the limit itself")
	keys := flag.Int("keys", 200_000, "how many keys there are")
	requests := flag.Float64("requests", 5, "what a light key sends in a window on average")
	seeds := flag.Int("seeds", 10, "how many runs, each with a seed of its own")
	rate := flag.Float64("rate", 0, "Config.FalseDenialRate")
	flag.Parse()
	fmt.Println("| limit | algorithm | abusers from | bytes a key | false denials | requests | rate at most (95 %) |\n|---|---|---|---|---|---|---|")
	for _, text := range strings.Split(*limits, ",") {
		limit, err := strconv.Atoi(text)
		if err != nil {
			log.Fatal(err)
		}
		for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
			c := sketchlimit.Config{Limit: limit, LowestLimit: *lowest, Window: window, Algorithm: algorithm, Keys: *keys, FalseDenialRate: *rate}
			_, bytes, err := c.Size()
			if err != nil {
				log.Fatal(err)
			}
			for _, start := range starts {
				denied, innocent := many(c, start, *requests, *seeds)
				fmt.Printf("| %d | %v | %.0f %% | %.2f | %d | %d | %.1e |\n", limit, algorithm, 100*start,
					float64(bytes)/float64(*keys), denied, innocent, atMost(denied)/float64(innocent))
			}
		}
	}
}

// many adds up runs, two at a time.
func many(c sketchlimit.Config, start, requests float64, seeds int) (denied, innocent int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 2)
	for seed := range seeds {
		all.Go(func() {
			slots <- struct{}{}
			d, n := run(c, start, requests, uint64(seed)+1)
			<-slots
			mu.Lock()
			denied, innocent = denied+d, innocent+n
			mu.Unlock()
		})
	}
	all.Wait()
	return denied, innocent
}

// load is a limiter under the load, and what it has admitted of each light key.
type load struct {
	sketchlimit.Config
	limiter          *sketchlimit.Limiter
	random           *rand.Rand
	own              int // limit of a light key
	light, abusers   int
	used             []usage
	judged           bool
	denied, innocent int // requests of light keys
}

type usage struct {
	current, previous uint16
	full              time.Duration // at which a bucket is full again
}

// run returns how many requests light keys sent in the window in which the abusers begin,
// and how many of them were denied.
func run(c sketchlimit.Config, start, requests float64, seed uint64) (denied, innocent int) {
	now := time.Unix(0, 0)
	c.Seed, c.Clock = seed, func() time.Time { return now }
	limiter, err := sketchlimit.New(c)
	if err != nil {
		log.Fatal(err)
	}
	abusers := int(abuse * float64(c.Keys))
	l := &load{Config: c, limiter: limiter, random: rand.New(rand.NewPCG(seed, 1)), own: cmp.Or(c.LowestLimit, c.Limit),
		light: c.Keys - abusers, abusers: abusers, used: make([]usage, c.Keys-abusers)}
	light := requests * float64(l.light)
	l.send(0, window, int(light), 0)
	for i := range l.used {
		l.used[i].current, l.used[i].previous = 0, l.used[i].current
	}
	l.judged = true
	begin := window + time.Duration(start*float64(window))
	l.send(window, begin, int(start*light), 0)
	l.send(begin, 2*window, int((1-start)*light), int(excess*float64(c.Limit)*float64(l.abusers)))
	return l.denied, l.innocent
}

// send sends so many requests of each kind in a span of time, in random order.
func (l *load) send(from, to time.Duration, light, abusive int) {
	all := light + abusive
	var key [8]byte
	for i := range all {
		now := from + time.Duration(float64(i)/float64(all)*float64(to-from))
		if l.random.IntN(all-i) < abusive {
			abusive--
			binary.LittleEndian.PutUint64(key[:], uint64(l.light+l.random.IntN(l.abusers)))
			l.limiter.Do(sketchlimit.Request{Time: time.Unix(0, int64(now)), Bytes: key[:]})
			continue
		}
		id := l.random.IntN(l.light)
		binary.LittleEndian.PutUint64(key[:], uint64(id))
		d := l.limiter.Do(sketchlimit.Request{Time: time.Unix(0, int64(now)), Bytes: key[:], Limit: l.own})
		l.count(&l.used[id], now, d.Allowed)
	}
}

// count keeps the books of a light key's request.
func (l *load) count(u *usage, now time.Duration, allowed bool) {
	used := l.fills(u, now)
	if l.judged && 2*math.Ceil(used) < float64(l.own) {
		l.innocent++
		if !allowed && used+1 <= float64(l.own) {
			l.denied++
		}
	}
	if allowed {
		u.current++
		u.full = max(u.full, now) + window/time.Duration(l.own)
	}
}

// fills returns the units of its limit that a key has in use.
func (l *load) fills(u *usage, now time.Duration) float64 {
	switch l.Algorithm {
	case sketchlimit.TokenBucket:
		return max(0, float64(u.full-now)/float64(window)*float64(l.own))
	case sketchlimit.FixedWindow:
		return float64(u.current)
	}
	left := 1 - float64(now%window)/float64(window)
	return float64(u.current) + left*float64(u.previous)
}

// atMost returns the mean that events are above with a chance of 95 % where so many of
// them were seen: from so many on, by the normal distribution.
func atMost(events int) float64 {
	const many = 500
	if events > many {
		return float64(events) + 1.645*math.Sqrt(float64(events)+1)
	}
	low, high := 0.0, 10+2*float64(events)
	for range 60 {
		mean := (low + high) / 2
		chance, term := 0.0, math.Exp(-mean)
		for k := 0; k <= events; k++ {
			chance += term
			term *= mean / float64(k+1)
		}
		if chance > 0.05 {
			low = mean
		} else {
			high = mean
		}
	}
	return high
}
