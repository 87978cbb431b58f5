// Command ordinary measures what New takes for a number of keys in ordinary use: every
// key uses the same share of its limit, below half of it, so that nobody is to be
// denied, beside one key in a hundred that asks for three times the limit from the
// midst of a window on. It does so at the load that Keys states, and at multiples of
// it.
//
//	go run ./bench/ordinary -loads 1,2,4,10
//
// By -arrivals and -costs it measures use that is less even: keys at random, or each
// key's requests in a row, and requests of larger parts of the limit.
package main

import (
	"flag"
	"fmt"
	"iter"
	"log"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// row is a limiter and its use.
type row struct {
	algorithm sketchlimit.Algorithm
	sub       int // parts of a sliding window
	window    time.Duration
	limit     int
	use       float64 // share of the limit that each key asks for in a window
	cost      int     // of one request
	keys      int     // Config.Keys
	load      float64 // multiple of those keys that comes
	arrivals  string  // how their requests come, see orders
}

// orders are those in which requests come, by arrivals: as many of each key in an order
// of its own, of keys at random, or each key's in a row.
var orders = map[string]func(order []int32, keys int, random *rand.Rand){
	"even": func(order []int32, keys int, random *rand.Rand) {
		for i := range order {
			order[i] = int32(i % keys)
		}
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	},
	"random": func(order []int32, keys int, random *rand.Rand) {
		for i := range order {
			order[i] = int32(random.IntN(keys))
		}
	},
	"bursts": func(order []int32, keys int, random *rand.Rand) {
		each := len(order) / keys
		for i, key := range random.Perm(keys) {
			for j := range each {
				order[i*each+j] = int32(key)
			}
		}
	},
}

const (
	windows = 3
	looks   = 128  // at Stats, in a window
	late    = 1.5  // windows from the beginning, when abusers come
	abusers = 0.01 // of all keys
	excess  = 3    // of what abusers ask for over their limit

	auditBytes = 64 << 10 // also where limiters are too small to have as much by themselves

	leastDenied = 100  // requests from which on a rate means something
	frequently  = 1e-3 // of requests
)

// requests returns how many a key sends in a window: at least one.
func (r *row) requests() int { return max(1, int(r.use*float64(r.limit)/float64(r.cost))) }

// result is what came of a row.
type result struct {
	bytes                  float64 // a key
	denied, sent           uint64  // requests of those who stay below half of the limit
	falseDenials, innocent uint64  // requests of light keys: those of abusers, too, until these reach half of the limit
	audited                float64 // the share of light keys' requests that the limiter's audit has found wrongly denied
	least, most            float64 // and the ends of its interval
	unseenRate             float64 // its rate of a new key for their cost, the highest at the end of a window
	outside                bool    // Stats.OutsidePlan at any look
}

func (r *result) rate() float64 { return float64(r.falseDenials) / float64(r.innocent) }

// judged is a limiter beside the exact algorithm.
type judged struct {
	*sketchlimit.Limiter
	oracle interface {
		TakeAt(now time.Time, key string, n int) sketchlimit.Decision
	}
	limit int
	*result
}

// take sends a request, and tells whether it was admitted.
func (j *judged) take(now time.Time, key string, cost int) bool {
	d, allowed := j.oracle.TakeAt(now, key, cost), j.TakeAt(now, key, cost).Allowed
	free := d.Remaining
	if d.Allowed {
		free += cost
	}
	if 2*(j.limit-free) < j.limit {
		j.innocent++
		if !allowed && d.Allowed {
			j.falseDenials++
		}
	}
	return allowed
}

// look reads what the limiter states.
func (j *judged) look() {
	s := j.Stats()
	j.outside = j.outside || s.OutsidePlan
	j.audited, j.least, j.most = s.Audit.Rate()
}

// play sends the load, evenly over each window, and counts.
func (r *row) play(seed uint64) (result, error) {
	c := sketchlimit.Config{Limit: r.limit, Window: r.window, Algorithm: r.algorithm, SubWindows: r.sub, Keys: r.keys, Seed: seed, AuditBytes: auditBytes}
	limiter, err := sketchlimit.New(c)
	if err != nil {
		return result{}, err
	}
	defer limiter.Close()
	oracle, err := exact.Of(c)
	if err != nil {
		return result{}, err
	}
	var out result
	l := &judged{Limiter: limiter, oracle: oracle, limit: r.limit, result: &out}
	random := rand.New(rand.NewPCG(seed, 0))
	light := int(r.load * float64(r.keys))
	heavy := max(1, int(abusers*float64(light)))
	names := make([]string, light+heavy)
	for i := range names {
		names[i] = strconv.FormatUint(random.Uint64(), 36)
	}
	order := make([]int32, light*r.requests())
	perRequest := float64(excess*r.limit/r.cost*heavy) / float64(len(order))
	out.bytes = float64(l.MemoryBytes()) / float64(r.keys)
	begin, owed := time.Unix(1_000_000_000, 0).Truncate(r.window), 0.
	for w := range windows {
		orders[r.arrivals](order, light, random)
		for i, key := range order {
			passed := float64(w) + float64(i)/float64(len(order))
			now := begin.Add(time.Duration(passed * float64(r.window)))
			out.sent++
			if !l.take(now, names[key], r.cost) {
				out.denied++
			}
			if (i+1)*looks/len(order) > i*looks/len(order) {
				l.look()
			}
			if passed < late {
				continue
			}
			for owed += perRequest; owed >= 1; owed-- {
				l.take(now, names[light+random.IntN(heavy)], r.cost)
			}
		}
		out.unseenRate = max(out.unseenRate, l.FalseDenialRate(r.cost, r.limit))
	}
	return out, nil
}

// setting is what all rows have in common.
type setting struct {
	keys     int // Config.Keys
	most     int // requests of a window: there are fewer keys where it would have more
	window   time.Duration
	loads    []float64
	parts    []int // of the limit that requests take one of, or one unit if that is more
	arrivals string
}

// usual is what is measured if nothing is said.
func usual(keys, most int, loads ...float64) setting {
	return setting{keys, most, time.Minute, loads, []int{math.MaxInt, 50}, "even"}
}

// rows returns all limits, algorithms, shares, loads, and costs of which a share holds
// a whole request.
func (s *setting) rows() (all []row) {
	for _, limit := range []int{10, 100, 1000, 100_000} {
		var costs []int
		for _, parts := range s.parts {
			costs = append(costs, max(1, limit/parts))
		}
		for _, cost := range slices.Compact(costs) {
			for _, rule := range rules {
				for _, use := range []float64{0.01, 0.05, 0.1, 0.2, 0.4} {
					for _, load := range s.loads {
						r := row{rule.algorithm, rule.sub, s.window, limit, use, cost, s.keys, load, s.arrivals}
						if use*float64(limit) >= float64(cost) {
							r.keys = min(s.keys, int(float64(s.most)/load)/r.requests())
							all = append(all, r)
						}
					}
				}
			}
		}
	}
	return all
}

var rules = []struct {
	algorithm sketchlimit.Algorithm
	sub       int
}{{sketchlimit.SlidingWindow, 1}, {sketchlimit.SlidingWindow, 6}, {sketchlimit.FixedWindow, 1}, {sketchlimit.TokenBucket, 1}}

func main() {
	log.SetFlags(0)
	keys := flag.Int("keys", 20_000, "Config.Keys")
	loads := flag.String("loads", "1", "`MULTIPLES` of the keys, with commas")
	window := flag.Duration("window", time.Minute, "Config.Window")
	arrivals := flag.String("arrivals", "even", "`ORDER` of requests: even, random, or bursts")
	costs := flag.String("costs", "1,1/50", "`UNITS` of a request, with commas: 1, or a part of the limit")
	flag.Parse()
	s := usual(*keys, 4_000_000)
	s.window, s.arrivals, s.parts = *window, *arrivals, nil
	if orders[s.arrivals] == nil {
		log.Fatalf("arrivals %q, must be even, random or bursts", s.arrivals)
	}
	for text := range strings.SplitSeq(*loads, ",") {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x > 0) {
			log.Fatalf("loads: %q, must be above 0", text)
		}
		s.loads = append(s.loads, x)
	}
	for text := range strings.SplitSeq(*costs, ",") {
		parts := math.MaxInt
		if text != "1" {
			if _, err := fmt.Sscanf(text, "1/%d", &parts); err != nil || parts < 1 {
				log.Fatalf("costs: %q, must be 1, or a part of the limit such as 1/50", text)
			}
		}
		s.parts = append(s.parts, parts)
	}
	s.print()
}

// print measures all rows and prints each, and at last how many rates are right within
// a factor of two: from one request of a thousand on, and below that, where a thousand
// looks tell little.
func (s *setting) print() {
	fmt.Println("| limit | algorithm, parts | cost | share | keys | load | bytes a key | denied | light keys denied | audited | audited ÷ denied | of a new key | outside plan |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	var frequent, rare tally
	for r, o := range s.results() {
		quotient := ""
		if o.falseDenials >= leastDenied {
			t := &rare
			if o.rate() >= frequently {
				t = &frequent
			}
			quotient = t.add(o.audited / o.rate())
		}
		fmt.Printf("| %d | %v, %d | %d | %g %% | %d | %g | %.2f | %s | %s | %.1e | %s | %.1e | %v |\n",
			r.limit, r.algorithm, r.sub, r.cost, 100*r.use, r.keys, r.load, o.bytes, share(o.denied, o.sent),
			share(o.falseDenials, o.innocent), o.audited, quotient, o.unseenRate, o.outside)
	}
	fmt.Printf("\naudited ÷ denied, rows with %d denials within a factor of 2: %v where %g of light keys' requests or more are denied, %v below that\n",
		leastDenied, frequent, frequently, rare)
}

// tally is how many quotients there were, and how many of them within a factor of two.
type tally struct{ within, all int }

// add counts a quotient, and returns it as it is printed.
func (t *tally) add(quotient float64) string {
	t.all++
	if quotient > 0.5 && quotient < 2 {
		t.within++
	}
	return fmt.Sprintf("%.2f", quotient)
}

func (t tally) String() string { return fmt.Sprintf("%d of %d", t.within, t.all) }

// results yields all rows in their order, each as soon as it is measured. Two are
// measured at a time.
func (s *setting) results() iter.Seq2[row, result] {
	all, next := s.rows(), make(chan int)
	results := make([]chan result, len(all))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	for range 2 {
		go func() {
			for i := range next {
				r, err := all[i].play(1)
				if err != nil {
					log.Fatal(err)
				}
				results[i] <- r
			}
		}()
	}
	go func() {
		for i := range all {
			next <- i
		}
		close(next)
	}()
	return func(yield func(row, result) bool) {
		for i, r := range all {
			if !yield(r, <-results[i]) {
				return
			}
		}
	}
}

// share writes a part of so many, 0 where there is none.
func share(part, of uint64) string {
	if part == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1e", float64(part)/float64(of))
}
