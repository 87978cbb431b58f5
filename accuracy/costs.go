package accuracy

import (
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/draw"
)

// Spending is a request whose cost shows only when it ends.
type Spending struct {
	Request                // its Cost is what it did cost: nobody knows it before the end
	Estimate int           // units, known when the request comes: 1 …
	Duration time.Duration // from then to the end, if the request is admitted: 1 …
}

// Spendings is a [Source] of requests whose cost shows only when they end. [Costs]
// makes them.
type Spendings interface {
	Name() string
	Len() int
	Spendings() iter.Seq[Spending]
}

// CostKind names a distribution with a long tail.
type CostKind string

// The distributions of what the answer to a request costs.
const (
	LogNormal CostKind = "lognormal" // its logarithm is normal, with standard deviation Shape
	Pareto    CostKind = "pareto"    // above x in proportion to x^−Shape
)

// CostKinds lists an example specification of every kind, for help texts.
func CostKinds() []string {
	return []string{
		"lognormal:1,keys=1000,requests=1e5,median=300,cap=1000",
		"pareto:1.2,keys=1000,requests=1e5,median=300,cap=1000,most=16000",
	}
}

// Costs describes requests to a language model, say: what a prompt costs is known when
// it comes, what its answer costs only at the end. Requests, users and prompts are made
// up, or those of a trace. A field at zero takes its default.
type Costs struct {
	Kind  CostKind `json:"kind"`
	Shape float64  `json:"shape"` // 0.01 … 10; 0 = 1 for LogNormal, 1.2 for Pareto
	// Median of the answers' units, before they are cut at Most: 1 … 1e6; 0 = 300.
	Median int `json:"median"`
	// Cap is what an answer is estimated at, as max_tokens is: 1 … 1e9; 0 = 1000. Most
	// is where answers end at the latest: 1 … 1e9; 0 = Cap. So a request costs more
	// than its estimate only with Most above Cap.
	Cap  int    `json:"cap"`
	Most int    `json:"most"`
	Pace int    `json:"pace"` // units of an answer in a second: a request lasts as long; 1 … 1e9; 0 = 50
	Seed uint64 `json:"seed"`
	// Keys is the users, 1 … 1e8; 0 = 1000, or 100 with a Trace. The r-th most frequent
	// one comes in proportion to r^−Exponent: above 0 … 10; 0 = 1.
	Keys     int     `json:"keys"`
	Exponent float64 `json:"exponent"`

	// Without a Trace: so many requests, 1 … 1e9 and 0 = 1e5, evenly over so many
	// windows, 1 … 1e6 and 0 = 10. A user sends 1 … Burst of them at the same time,
	// evenly drawn; 1 … 1e6 and 0 = 4. Prompts are drawn evenly from 1 … Prompt units,
	// 1 … 1e9 and 0 = 500.
	Requests int           `json:"requests,omitempty"`
	Windows  int           `json:"windows,omitempty"`
	Window   time.Duration `json:"window_ns,omitempty"` // 1ms … 8760h; 0 = 1 minute
	Burst    int           `json:"burst,omitempty"`
	Prompt   int           `json:"prompt,omitempty"`

	// Trace has a line for each block of each prompt, all at the time of the request;
	// its key says what the text is, as in the traces of Mooncake. Where the first key
	// of the whole trace comes again, the next request begins. A block is [BlockUnits]
	// units, a line with a cost so many blocks. Whoever sends the same second block is
	// the same user: the first one is often the same for all. These are conversations,
	// of which one user has many: each is given to one of Keys, drawn as above by its
	// second block.
	Trace *Trace `json:"-"`
}

// BlockUnits is the tokens of a block of a prompt.
const BlockUnits = 512

// costShape is what follows the name of a kind directly.
const costShape = "shape"

func (w *Costs) fields() []field {
	f := []field{
		{costShape, &w.Shape, 0.01, 10, false},
		{"median", &w.Median, 1, 1e6, false},
		{"cap", &w.Cap, 1, 1e9, false},
		{"most", &w.Most, 1, 1e9, false},
		{"pace", &w.Pace, 1, 1e9, false},
		{"keys", &w.Keys, 1, 1e8, false},
		{"exponent", &w.Exponent, 0, 10, true},
		{"seed", &w.Seed, 0, math.MaxUint64, false},
	}
	if w.Trace == nil {
		f = append(f,
			field{"requests", &w.Requests, 1, 1e9, false},
			field{"windows", &w.Windows, 1, 1e6, false},
			field{"window", &w.Window, float64(time.Millisecond), float64(8760 * time.Hour), false},
			field{"burst", &w.Burst, 1, 1e6, false},
			field{"prompt", &w.Prompt, 1, 1e9, false})
	}
	return f
}

// ParseCosts reads a specification as [ParseWorkload] does:
// name[:shape][,field=value…]. With base.Trace it knows no field of made-up requests.
func ParseCosts(spec string, base Costs) (Costs, error) {
	head, rest, more := strings.Cut(spec, ",")
	name, shape, shaped := strings.Cut(head, ":")
	w := base
	w.Kind = CostKind(strings.TrimSpace(name))
	var settings []string
	if shaped {
		settings = append(settings, costShape+"="+shape)
	}
	if more {
		settings = append(settings, strings.Split(rest, ",")...)
	}
	if err := w.checkKind(); err != nil {
		return Costs{}, err
	}
	if _, err := apply(w.fields(), settings); err != nil {
		return Costs{}, fmt.Errorf("accuracy: workload %s: %w", w.Kind, err)
	}
	w.fill()
	return w, w.check()
}

// String is the specification: ParseCosts reads it back.
func (w Costs) String() string { return specText(string(w.Kind), costShape, w.fields()) }

func (w *Costs) fill() {
	if w.Kind == Pareto {
		or(&w.Shape, 1.2)
	}
	or(&w.Shape, 1)
	or(&w.Median, 300)
	or(&w.Cap, 1000)
	or(&w.Most, w.Cap)
	or(&w.Pace, 50)
	or(&w.Exponent, 1)
	if w.Trace != nil {
		or(&w.Keys, 100)
		return
	}
	or(&w.Keys, 1000)
	or(&w.Requests, 100_000)
	or(&w.Windows, 10)
	or(&w.Window, time.Minute)
	or(&w.Burst, 4)
	or(&w.Prompt, 500)
}

func (w *Costs) checkKind() error {
	if w.Kind != LogNormal && w.Kind != Pareto {
		return fmt.Errorf("accuracy: workload %q: unknown, must be one of %s, %s", w.Kind, LogNormal, Pareto)
	}
	return nil
}

func (w *Costs) check() error {
	if err := w.checkKind(); err != nil {
		return err
	}
	for _, f := range w.fields() {
		if err := f.check(); err != nil {
			return fmt.Errorf("accuracy: workload %s: %w", w.Kind, err)
		}
	}
	return nil
}

// errNoBlocks is that of a trace whose requests would all be of one line.
var errNoBlocks = errors.New("no time has two lines, but the blocks of a prompt have the same time")

// Source checks w, fills in the defaults and prepares the requests. The error names the
// field, its value and what is allowed.
func (w Costs) Source() (Spendings, error) {
	w.fill()
	if err := w.check(); err != nil {
		return nil, err
	}
	s := &spendings{spec: w, users: newPopulation("u", w.Keys), requests: w.Requests}
	s.users.ranks = draw.NewAlias(w.Keys, w.Exponent)
	if w.Trace != nil {
		for range s.recorded() {
			s.requests++
		}
		if s.requests == w.Trace.Len() {
			return nil, fmt.Errorf("accuracy: trace %s: %w", w.Trace.Name(), errNoBlocks)
		}
	}
	return s, nil
}

// spendings are Costs made ready.
type spendings struct {
	spec     Costs
	users    *population
	requests int
}

func (s *spendings) Len() int { return s.requests }

func (s *spendings) Name() string {
	if s.spec.Trace == nil {
		return s.spec.String()
	}
	return s.spec.Trace.Name() + ", answers " + s.spec.String()
}

// Spendings are the requests, the same ones each time.
func (s *spendings) Spendings() iter.Seq[Spending] {
	prompts := s.madeUp
	if s.spec.Trace != nil {
		prompts = s.recorded
	}
	return func(yield func(Spending) bool) {
		w, random := &s.spec, rand.New(rand.NewPCG(s.spec.Seed, 0x62756467_65740000))
		for r := range prompts() {
			answer := w.answer(random)
			q := Spending{Request: r, Estimate: r.Cost + w.Cap}
			q.Cost += answer
			q.Duration = time.Duration(answer) * time.Second / time.Duration(w.Pace)
			if !yield(q) {
				return
			}
		}
	}
}

// answer draws what an answer costs: 1 … Most.
func (w *Costs) answer(random *rand.Rand) int {
	x := float64(w.Median)
	switch w.Kind {
	case LogNormal:
		x *= math.Exp(w.Shape * random.NormFloat64())
	case Pareto:
		x *= math.Pow(2*(1-random.Float64()), -1/w.Shape) // the draw is above 0
	}
	return int(min(max(math.Round(x), 1), float64(w.Most)))
}

// madeUp are requests without their answers.
func (s *spendings) madeUp() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		w, random := &s.spec, rand.NewPCG(s.spec.Seed, 0x70726f6d_70740000)
		origin := time.Unix(0, epoch/int64(w.Window)*int64(w.Window)).UTC()
		step := float64(w.Windows) * float64(w.Window) / float64(w.Requests)
		for i := 0; i < w.Requests; {
			r := Request{Time: origin.Add(time.Duration(float64(i) * step)), Key: s.users.draw(random)}
			for range min(1+int(draw.Below(random, uint64(w.Burst))), w.Requests-i) {
				r.Cost = 1 + int(draw.Below(random, uint64(w.Prompt)))
				if !yield(r) {
					return
				}
				i++
			}
		}
	}
}

// recorded are the requests of the trace without their answers.
func (s *spendings) recorded() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		var r Request // the one that is being read
		first, lines := s.spec.Trace.keys[0], 0
		for line := range s.spec.Trace.Requests() {
			if lines > 0 && (line.Key == first || !line.Time.Equal(r.Time)) {
				if !yield(r) {
					return
				}
				r, lines = Request{}, 0
			}
			if lines++; lines <= 2 {
				r.Key = s.user(line.Key)
			}
			r.Time = line.Time
			r.Cost += line.Cost * BlockUnits
		}
		yield(r)
	}
}

// user is whose conversation begins so.
func (s *spendings) user(block string) string {
	h := fnv.New64a()
	h.Write([]byte(block))
	return s.users.draw(rand.NewPCG(s.spec.Seed, h.Sum64()))
}
