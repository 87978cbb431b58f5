package accuracy

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/draw"
)

// Kind names the shape of a [Workload].
type Kind string

// The shapes of traffic.
const (
	Uniform Kind = "uniform" // every key equally often
	Zipf    Kind = "zipf"    // the r-th most frequent key in proportion to r^−exponent
	Flash   Kind = "flash"   // Zipf, and for a while a crowd of many other keys
	Attack  Kind = "attack"  // a few abusers far above the limit over many light keys
	Scan    Kind = "scan"    // endless keys that come once each, over Zipf
)

// Workload describes made-up traffic: requests evenly spread over a number of
// windows, the key of each drawn independently of all others. A field left at zero
// takes its default. Equal workloads make equal requests.
type Workload struct {
	Kind     Kind          `json:"kind"`
	Keys     int           `json:"keys"`      // distinct keys, beside crowd, abusers and one-hit keys: 1 … 1e8; 0 = 1e5
	Requests int           `json:"requests"`  // in all windows together: 1 … 1e12; 0 = 1e6, for Attack three a light key and window beside the abusers'
	Windows  int           `json:"windows"`   // 1 … 1e6; 0 = 4
	Window   time.Duration `json:"window_ns"` // length of one window, 1ms … 8760h; 0 = 1 minute
	Cost     int           `json:"cost"`      // costs are drawn evenly from 1 … Cost: 1 … 1e6; 0 = 1
	Seed     uint64        `json:"seed"`

	// Exponent of Zipf, Flash and Scan: 0 … 10, and 0 is uniform. ParseWorkload
	// takes 1 if nobody says otherwise.
	Exponent float64 `json:"exponent,omitempty"`

	// Factor, above 0 … 1e6; 0 = 3: with Flash, the crowd's rate divided by the usual
	// rate, on top of which it comes; with Attack, the units of each abuser in a window
	// divided by Limit.
	Factor float64 `json:"factor,omitempty"`

	Crowd  int     `json:"crowd,omitempty"`  // Flash: keys of the crowd, 1 … 1e8; 0 = Keys
	Start  float64 `json:"start,omitempty"`  // Flash: when it comes, in windows from the first: 0 … 1e6; ParseWorkload centres it
	Length float64 `json:"length,omitempty"` // Flash: how long it stays, in windows: 0.001 … 1e6; 0 = 1

	Abusers int `json:"abusers,omitempty"` // Attack: 1 … 1e8; 0 = one for 100 keys
	Limit   int `json:"limit,omitempty"`   // Attack: units per key and window, 1 … 1<<31-1; 0 = 100

	OneHit float64 `json:"share,omitempty"` // Scan: share of the requests that come from one-hit keys, above 0 … 1; 0 = 0.9
}

// epoch is where the times of workloads begin, brought down to a whole window so
// that the windows of a workload are generations of a limiter.
const epoch = 1_700_000_000 * int64(time.Second)

// Source checks w, fills in the defaults and prepares the requests: about 20 bytes
// of memory a key, one-hit keys none. The error names the field, its value and
// what is allowed.
func (w Workload) Source() (Source, error) {
	w.fill()
	if err := w.check(); err != nil {
		return nil, err
	}
	s := &synthetic{
		spec:   w,
		phases: w.phases(),
		first:  newPopulation("k", w.Keys),
	}
	switch w.Kind {
	case Zipf, Flash, Scan:
		s.first.ranks = draw.NewAlias(w.Keys, w.Exponent)
	}
	switch w.Kind {
	case Flash:
		s.second = newPopulation("c", w.Crowd)
	case Attack:
		s.second = newPopulation("a", w.Abusers)
	}
	return s, nil
}

// synthetic is a Workload made ready.
type synthetic struct {
	spec   Workload
	phases []phase
	first  *population
	second *population // the crowd or the abusers; nil: one-hit keys
}

// phase is a stretch of time with one rate and one mixture.
type phase struct {
	requests      int
	start, length float64 // ns from the beginning
	second        uint64  // a draw below this belongs to the second population: share × 2⁶⁴
}

func (w *Workload) phases() []phase {
	window := float64(w.Window)
	span := float64(w.Windows) * window
	switch w.Kind {
	case Attack:
		return []phase{{w.Requests, 0, span, share(w.abuse() / float64(w.Requests))}}
	case Scan:
		return []phase{{w.Requests, 0, span, share(w.OneHit)}}
	case Flash:
		from := min(w.Start*window, span)
		to := min(from+w.Length*window, span)
		rate := float64(w.Requests) / (span + w.Factor*(to-from))
		before := int(math.Round(rate * from))
		during := min(int(math.Round(rate*(1+w.Factor)*(to-from))), w.Requests-before)
		return []phase{
			{before, 0, from, 0},
			{during, from, to - from, share(w.Factor / (1 + w.Factor))},
			{w.Requests - before - during, to, span - to, 0},
		}
	}
	return []phase{{w.Requests, 0, span, 0}}
}

// share is p as a threshold for 64 random bits.
func share(p float64) uint64 {
	if p >= 1 {
		return math.MaxUint64
	}
	return uint64(math.Ldexp(p, 64))
}

// abuse is the number of requests that all abusers send in all windows.
func (w *Workload) abuse() float64 {
	meanCost := float64(1+w.Cost) / 2
	return float64(w.Windows) * float64(w.Abusers) * w.Factor * float64(w.Limit) / meanCost
}

func (s *synthetic) Name() string { return s.spec.String() }

func (s *synthetic) Len() int { return s.spec.Requests }

func (s *synthetic) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		window := int64(s.spec.Window)
		origin := time.Unix(0, epoch/window*window).UTC()
		random := rand.NewPCG(s.spec.Seed, 0x736b6574_63686c69)
		oneHits := oneHitKeys{}
		r := Request{Cost: 1}
		for _, p := range s.phases {
			step := p.length / float64(max(p.requests, 1))
			for i := range p.requests {
				r.Time = origin.Add(time.Duration(p.start + float64(i)*step))
				switch {
				case p.second == 0 || random.Uint64() >= p.second:
					r.Key = s.first.draw(random)
				case s.second != nil:
					r.Key = s.second.draw(random)
				default:
					r.Key = oneHits.next()
				}
				if s.spec.Cost > 1 {
					r.Cost = 1 + int(draw.Below(random, uint64(s.spec.Cost)))
				}
				if !yield(r) {
					return
				}
			}
		}
	}
}

// population is a set of keys to draw from. Their names have one length and lie one
// behind another in one string, so that a name costs a slice and no allocation.
type population struct {
	n     uint64
	names string
	ranks draw.Alias // nil: evenly
}

const nameLength = 9 // a letter and eight hexadecimal digits

func newPopulation(prefix string, n int) *population {
	return &population{n: uint64(n), names: names(prefix, 0, n)}
}

func (p *population) draw(random *rand.PCG) string {
	var i uint64
	if p.ranks == nil {
		i = draw.Below(random, p.n)
	} else {
		i = p.ranks.Draw(random)
	}
	return p.names[i*nameLength : (i+1)*nameLength]
}

// oneHitKeys names keys that never come again, a block at a time.
type oneHitKeys struct {
	made  int
	block string
}

func (o *oneHitKeys) next() string {
	if o.block == "" {
		const many = 512
		o.block = names("o", o.made, many)
		o.made += many
	}
	key := o.block[:nameLength]
	o.block = o.block[nameLength:]
	return key
}

// names are n names, numbered from first, one behind another.
func names(prefix string, first, n int) string {
	const digits = "0123456789abcdef"
	b := make([]byte, n*nameLength)
	for i := range n {
		name := b[i*nameLength : (i+1)*nameLength]
		name[0] = prefix[0]
		for d, v := nameLength-1, uint64(first+i); d > 0; d, v = d-1, v>>4 {
			name[d] = digits[v&15]
		}
	}
	return string(b)
}

// fill puts the defaults in place of zeros.
func (w *Workload) fill() {
	or(&w.Keys, 100_000)
	or(&w.Windows, 4)
	or(&w.Window, time.Minute)
	or(&w.Cost, 1)
	or(&w.Factor, 3)
	or(&w.Crowd, w.Keys)
	or(&w.Length, 1)
	or(&w.Abusers, max(w.Keys/100, 1))
	or(&w.Limit, 100)
	or(&w.OneHit, 0.9)
	if w.Kind == Attack {
		light := 3 * float64(w.Keys) * float64(w.Windows)
		or(&w.Requests, int(min(light+w.abuse(), maxRequests)))
	}
	or(&w.Requests, 1_000_000)
}

func or[T comparable](v *T, otherwise T) {
	if *v == *new(T) {
		*v = otherwise
	}
}

// check answers for a filled-in w.
func (w *Workload) check() error {
	if _, known := mainField[w.Kind]; !known {
		return fmt.Errorf("accuracy: workload %q: unknown, must be one of %s", w.Kind, kindNames())
	}
	for _, f := range w.fields() {
		if err := f.check(); err != nil {
			return fmt.Errorf("accuracy: workload %s: %w", w.Kind, err)
		}
	}
	if w.Kind == Attack && w.abuse() > float64(w.Requests) {
		return fmt.Errorf("accuracy: workload attack: requests %d, must be at least %.0f for %d abusers at %g × %d units over %d windows",
			w.Requests, math.Ceil(w.abuse()), w.Abusers, w.Factor, w.Limit, w.Windows)
	}
	return nil
}
