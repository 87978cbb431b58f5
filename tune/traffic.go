package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Traffic is what a limiter has to cope with in one window. Its parts add up: Zipf-distributed
// keys may have abusers among them and one-hit keys beside them.
type Traffic struct {
	// Keys is the number of distinct keys that come back from window to window,
	// 1 … 1<<31-1.
	Keys int
	// Requests is the number of requests that all keys together send in a window, for
	// one unit each: 1 … 1<<53; 0 is five for each key, beside those of abusers.
	Requests int
	// Exponent makes the r-th most frequent key come in proportion to r^−Exponent,
	// 0 … 10 (Zipf); 0 is all keys alike.
	Exponent float64
	// Abusers is the share of Keys that send Excess times the limit each, 0 … 1.
	Abusers float64
	// Excess is above 0 … 1e6; 0 is 3.
	Excess float64
	// Late makes all abusers begin at once, in the window that is judged: at its beginning, or in the middle of a FixedWindow.
	// By then other keys have filled cells and the table of heavy keys, so abusers disturb more. It changes
	// nothing for a TokenBucket.
	Late bool
	// Even says that each key's requests are spread over the window. Otherwise they are taken to come in bursts: all
	// requests of a window within a tenth of it, each key's at once.
	Even bool
	// Steady says that the same keys send the most in every window. Otherwise others do in each.
	Steady bool
	// OneHit is the share of Requests that come from keys beside Keys which send
	// one request each and never come back, 0 … below 1: a scan.
	OneHit float64
	// Sample is the requests in one window of some keys of real traffic, drawn at random
	// from all Keys of that window, in place of Requests, Exponent, Abusers, Late and OneHit;
	// each at least 1. Every window is taken to be like it: as many keys, with these counts.
	Sample []int
	// Trace is recorded traffic, in place of all but Keys, which is 0 for as many keys as its fullest window has. If Keys
	// is another number, the trace stands for that much more or less traffic. Rates are then those of replays through the
	// plan, and not predicted: see [Plan].
	Trace *Trace
}

// Goal is what a limiter shall do for its traffic. At least one of FalseDenialRate,
// WithheldShare and MemoryBytes must be set.
type Goal struct {
	Limit       int                   // as in sketchlimit.Config
	LowestLimit int                   // as in sketchlimit.Config
	Algorithm   sketchlimit.Algorithm // as in sketchlimit.Config
	SubWindows  int                   // as in sketchlimit.Config
	Burst       int                   // as in sketchlimit.Config

	// FalseDenialRate is the greatest share, 1e-12 … 0.5, of the requests of innocent keys that may be denied wrongly.
	// Innocent keys have used less than half of their limit. With LowestLimit every key is judged at that limit; in a
	// TokenBucket abusers have it as well.
	FalseDenialRate float64
	// WithheldShare is the greatest share, 1e-12 … 0.5, of the units that the exact algorithm admits and the limiter
	// does not. If only one of the two rates is set, the other one may be the greater of that and 1e-3, or as
	// WithheldShare 3e-2 unless the traffic is Even and Steady.
	WithheldShare float64
	// MemoryBytes is the most memory to take, everything included. Without the two
	// others all of it is used.
	MemoryBytes int
	// Headroom is the multiple of the traffic up to which the goal shall hold, 1 … 1000; 0 is 1, and 1.5 for a Trace,
	// because tomorrow differs from it.
	Headroom float64
}

// traceHeadroom is the Headroom for a trace where none is stated.
const traceHeadroom = 1.5

// usualHeadroom is the Headroom where none is stated.
func (t *Traffic) usualHeadroom() float64 {
	if t.Trace != nil {
		return traceHeadroom
	}
	return 1
}

// Forecast is what is expected of a plan.
type Forecast struct {
	MemoryBytes int         // everything included
	Keys        float64     // distinct keys in a generation (a window or sub-window) of the stated traffic
	At          [5]Expected // at 0.5, 1, 2, 4 and 10 times the stated traffic
	// Cliff is the multiple of the stated traffic from which the limiter denies
	// everybody: more than one in ten requests of innocent keys. At most 64, which
	// stands for more as well.
	Cliff float64
}

// Expected is what a limiter gets wrong under some load.
type Expected struct {
	Load            float64 // multiple of the stated traffic, keys and requests alike
	FalseDenialRate float64 // 0 … 1, see [Goal]
	WithheldShare   float64 // 0 … 1, see [Goal]
	EstimateError   float64 // units held against a key beyond what it has used, mean over requests

	// The two rates, where luck leaves them: in one window of the stated traffic, or in the whole of a trace. They are known
	// for Load 1 of a limiter with few requests, up to about 200,000 in a window, and for a trace of up to a million;
	// not for a TokenBucket without a trace.
	FalseDenialRange, WithheldRange Range

	// Replayed and ReplayedUnits are the requests of innocent keys and the units on which the two rates were counted, in
	// replays of Traffic.Trace. They are 0 where the rates are predicted.
	Replayed, ReplayedUnits uint64
}

// loads are those of Forecast.At.
var loads = [...]float64{0.5, 1, 2, 4, 10}

// Stated returns what is expected under the traffic as stated.
func (f *Forecast) Stated() Expected { return f.At[1] }

const (
	leastRate    = 1e-12
	cliffRate    = 0.1  // the share of requests of innocent keys that counts as everybody
	cliffMargin  = 2.2  // a plan for a rate holds so many times its load: twice, and what a simulation errs by
	farthest     = 64.0 // where the search for a cliff ends
	requestsAKey = 5.0
	tuneSeed     = 1
)

// Plan returns the plan of a limiter that reaches the goal for the traffic in the least
// memory, or with MemoryBytes alone the one that errs least in it, and what to expect of it.
//
// It builds a few shards of each candidate and sends them their share of two windows of the
// traffic. What is too rare to be counted there follows from all that their cells hold. A
// plan for a rate also keeps away from the load at which it would deny everybody: that is
// more than twice the stated one.
//
// The result depends on the arguments alone. It takes a second or two, whatever the number
// of keys. Errors name the field and what would be possible.
func Plan(t Traffic, g Goal) (sketchlimit.Plan, Forecast, error) {
	if err := t.check(g.Limit); err != nil {
		return sketchlimit.Plan{}, Forecast{}, err
	}
	if err := g.check(); err != nil {
		return sketchlimit.Plan{}, Forecast{}, err
	}
	g.Headroom = cmp.Or(g.Headroom, t.usualHeadroom())
	s, err := newSearch(t, g)
	if err != nil {
		return sketchlimit.Plan{}, Forecast{}, err
	}
	larger := s
	if t.Trace == nil && g.Headroom > 1 {
		if larger, err = newSearch(t.times(g.Headroom), g); err != nil {
			return sketchlimit.Plan{}, Forecast{}, err
		}
	}
	d, err := larger.run()
	if err != nil {
		return sketchlimit.Plan{}, Forecast{}, err
	}
	f := s.forecast(d)
	return g.plan(d, f), f, nil
}

// Predict returns what to expect of a plan, such as one that was made for other traffic. Of the goal, the rates and
// the memory are ignored; the plan must be one for its Limit, LowestLimit, Algorithm, SubWindows and Burst.
//
// Rates of windows under the traffic as stated that are above about 1e-5 are counted in a simulation larger than [Plan] has
// the time for. That takes up to some seconds.
func Predict(t Traffic, g Goal, p sketchlimit.Plan) (Forecast, error) {
	s, d, err := predicting(t, g, p)
	if err != nil {
		return Forecast{}, err
	}
	return s.forecast(d), nil
}

// PredictAt is [Predict] for one multiple of the traffic, keys and requests alike, 1/64 … 64.
func PredictAt(t Traffic, g Goal, p sketchlimit.Plan, load float64) (Expected, error) {
	if !(load >= 1/farthest && load <= farthest) {
		return Expected{}, fmt.Errorf("tune: load %v, must be 1/%g … %g", load, farthest, farthest)
	}
	s, d, err := predicting(t, g, p)
	if err != nil {
		return Expected{}, err
	}
	return s.at(d, load), nil
}

// predicting checks what a plan is to be predicted for.
func predicting(t Traffic, g Goal, p sketchlimit.Plan) (*search, spec.Dimensions, error) {
	g.FalseDenialRate, g.WithheldShare, g.MemoryBytes = unasked, 0, 0
	if err := t.check(g.Limit); err != nil {
		return nil, spec.Dimensions{}, err
	}
	if err := g.check(); err != nil {
		return nil, spec.Dimensions{}, err
	}
	c := g.config()
	c.Plan = &p
	if _, _, err := c.Size(); err != nil {
		return nil, spec.Dimensions{}, fmt.Errorf("tune: %s", strings.TrimPrefix(err.Error(), "sketchlimit: "))
	}
	s, err := newSearch(t, g)
	if err != nil {
		return nil, spec.Dimensions{}, err
	}
	s.counting = true
	d := dimensions(p)
	if bytes, _ := engine.BytesOf(&s.need.Rule, &d); 2*(bytes+sizing.Overhead) < s.smallest() { // a plan does not use all it is given
		return nil, d, fmt.Errorf("tune: Plan of %d bytes, %w", bytes+sizing.Overhead, s.crowded())
	}
	return s, d, nil
}

// dimensions returns those of a plan.
func dimensions(p sketchlimit.Plan) spec.Dimensions {
	return spec.Dimensions{
		Shards: p.Shards, BloomBytes: p.BloomBytes, BloomProbes: p.BloomProbes, Depth: p.Depth, Width: p.Width,
		CellBits: p.CellBits, HeavyEntries: p.HeavyEntries, HeavyThreshold: p.HeavyThreshold,
	}
}

// plan returns dimensions as a plan for the goal.
func (g *Goal) plan(d spec.Dimensions, f Forecast) sketchlimit.Plan {
	return sketchlimit.Plan{
		Shards: d.Shards, BloomBytes: d.BloomBytes, BloomProbes: d.BloomProbes, Depth: d.Depth, Width: d.Width,
		CellBits: d.CellBits, HeavyEntries: d.HeavyEntries, HeavyThreshold: d.HeavyThreshold,
		Limit: g.Limit, LowestLimit: g.LowestLimit, Algorithm: g.Algorithm, SubWindows: g.SubWindows, Burst: g.Burst,
		Keys: f.Keys * g.Headroom, FalseDenialRate: f.Stated().FalseDenialRate, Goal: g.FalseDenialRate,
	}
}

func (t *Traffic) check(limit int) error {
	if t.Trace != nil {
		return t.checkTrace()
	}
	switch {
	case t.Keys < 1 || t.Keys > math.MaxInt32:
		return fmt.Errorf("tune: Traffic.Keys %d, must be 1 … %d", t.Keys, math.MaxInt32)
	case t.Requests < 0 || float64(t.Requests) > 1<<53:
		return fmt.Errorf("tune: Traffic.Requests %d, must be 0 … 1<<53", t.Requests)
	case !(t.Exponent >= 0 && t.Exponent <= 10):
		return fmt.Errorf("tune: Traffic.Exponent %v, must be 0 … 10", t.Exponent)
	case !(t.Abusers >= 0 && t.Abusers <= 1):
		return fmt.Errorf("tune: Traffic.Abusers %v, must be 0 … 1", t.Abusers)
	case !(t.Excess >= 0 && t.Excess <= 1e6):
		return fmt.Errorf("tune: Traffic.Excess %v, must be 0 … 1e+06", t.Excess)
	case !(t.OneHit >= 0 && t.OneHit < 1):
		return fmt.Errorf("tune: Traffic.OneHit %v, must be 0 … below 1", t.OneHit)
	}
	if len(t.Sample) > 0 {
		if t.Requests != 0 || t.Exponent != 0 || t.Abusers != 0 || t.Late || t.OneHit != 0 {
			return fmt.Errorf("tune: Traffic.Sample of %d keys, goes with Keys alone", len(t.Sample))
		}
		if least := slices.Min(t.Sample); least < 1 {
			return fmt.Errorf("tune: Traffic.Sample has a key of %d requests, must be at least 1", least)
		}
		return nil
	}
	if light := t.requests(limit)*(1-t.OneHit) - t.abuse(limit); light < 0 {
		return fmt.Errorf("tune: Traffic.Requests %d, must be at least %.0f for %v × %d abusers at %v times the limit of %d",
			t.Requests, math.Ceil(t.abuse(limit)/(1-t.OneHit)), t.Abusers, t.Keys, t.excess(), limit)
	}
	return nil
}

func (t *Traffic) checkTrace() error {
	if other := (Traffic{Keys: t.Keys, Trace: t.Trace}); !reflect.DeepEqual(*t, other) {
		return errors.New("tune: Traffic.Trace goes with Keys alone")
	}
	if t.Keys < 0 || t.Keys > math.MaxInt32 {
		return fmt.Errorf("tune: Traffic.Keys %d, must be 0 … %d", t.Keys, math.MaxInt32)
	}
	if t.Trace.Len() == 0 {
		return errors.New("tune: Traffic.Trace has no requests")
	}
	return nil
}

func (t *Traffic) excess() float64 {
	if t.Excess == 0 {
		return 3
	}
	return t.Excess
}

// times returns so many times the traffic.
func (t Traffic) times(n float64) Traffic {
	t.Keys = int(math.Min(n*float64(t.Keys), math.MaxInt32))
	t.Requests = int(n * float64(t.Requests))
	return t
}

// abuse returns the requests of all abusers.
func (t *Traffic) abuse(limit int) float64 {
	return float64(t.Keys) * t.Abusers * t.excess() * float64(limit)
}

// requests returns the requests of all keys.
func (t *Traffic) requests(limit int) float64 {
	if t.Requests == 0 {
		return (requestsAKey*float64(t.Keys) + t.abuse(limit)) / (1 - t.OneHit)
	}
	return float64(t.Requests)
}

func (g *Goal) check() error {
	c := g.config()
	switch {
	case g.FalseDenialRate == 0 && g.WithheldShare == 0 && g.MemoryBytes == 0:
		return fmt.Errorf("tune: Goal.FalseDenialRate 0, must be %g … 0.5, unless WithheldShare or MemoryBytes is set", leastRate)
	case g.FalseDenialRate != 0 && !(g.FalseDenialRate >= leastRate && g.FalseDenialRate <= 0.5):
		return fmt.Errorf("tune: Goal.FalseDenialRate %v, must be %g … 0.5", g.FalseDenialRate, leastRate)
	case g.WithheldShare != 0 && !(g.WithheldShare >= leastRate && g.WithheldShare <= 0.5):
		return fmt.Errorf("tune: Goal.WithheldShare %v, must be %g … 0.5", g.WithheldShare, leastRate)
	case g.Headroom != 0 && !(g.Headroom >= 1 && g.Headroom <= 1000):
		return fmt.Errorf("tune: Goal.Headroom %v, must be 1 … 1000", g.Headroom)
	case g.MemoryBytes < 0 || g.MemoryBytes > spec.MaxMemory:
		return fmt.Errorf("tune: Goal.MemoryBytes %d, must be 0 … %d", g.MemoryBytes, spec.MaxMemory)
	}
	c.Keys = 1 // any size will do to check the rest
	_, _, err := c.Size()
	if err == nil && g.MemoryBytes > 0 {
		if least := g.need().Smallest(); g.MemoryBytes < least {
			err = fmt.Errorf("MemoryBytes %d, must be at least %d", g.MemoryBytes, least)
		}
	}
	if err != nil {
		return fmt.Errorf("tune: Goal.%s", strings.TrimPrefix(err.Error(), "sketchlimit: "))
	}
	return nil
}

// rates returns the two rates: what is set, or what one may be where only the other is.
func (g *Goal) rates(t *Traffic) (denied, withheld float64) {
	denied, withheld = g.FalseDenialRate, g.WithheldShare
	if denied == 0 {
		denied = max(unasked, withheld)
	}
	if withheld == 0 {
		withheld = max(unaskedOfNew, denied)
		if t.Even && t.Steady {
			withheld = max(unasked, denied)
		}
	}
	return denied, withheld
}

// config returns a limiter for the goal, without a size. Its generations are a second long; a bucket's units take
// whole nanoseconds of a minute.
func (g *Goal) config() sketchlimit.Config {
	window := time.Duration(max(g.SubWindows, 1)) * time.Second
	if g.Algorithm == sketchlimit.TokenBucket {
		window = time.Minute
	}
	return sketchlimit.Config{
		Limit: g.Limit, LowestLimit: g.LowestLimit, Window: window,
		Algorithm: g.Algorithm, SubWindows: g.SubWindows, Burst: g.Burst,
	}
}

// rule returns the arithmetic of a checked goal, see config.
func (g *Goal) rule() spec.Rule { return g.ruleOf(g.config().Window) }

// ruleOf is rule for a window.
func (g *Goal) ruleOf(window time.Duration) spec.Rule {
	switch g.Algorithm {
	case sketchlimit.TokenBucket:
		return spec.NewBucket(g.Limit, cmp.Or(g.Burst, g.Limit), window)
	case sketchlimit.FixedWindow:
		return spec.NewWindow(g.Limit, window, 1)
	}
	parts := max(g.SubWindows, 1)
	return spec.NewWindow(g.Limit, window/time.Duration(parts), parts+1)
}

// need returns what memory is to be spent for, but for the number of keys. Rates are the search's own business.
func (g *Goal) need() *sizing.Need {
	return &sizing.Need{Rule: g.rule(), Lowest: cmp.Or(g.LowestLimit, g.Limit), Rate: unasked, MemoryBytes: max(g.MemoryBytes, 1)}
}

// rates returns the requests a window of n keys that stand for all: each for as many ranks in a
// row, with their mean, because what the very first keys send rules some figures. Those of a
// sample, sorted, are counts: of one key drawn from as many ranks. The first of them, so many, are abusers'.
func (t *Traffic) rates(limit, n int, random *rand.Rand) (rates []float64, abusers int) {
	rates = make([]float64, n)
	if len(t.Sample) > 0 {
		for i := range rates {
			rates[i] = float64(t.Sample[int((float64(i)+random.Float64())*float64(len(t.Sample))/float64(n))])
		}
		return rates, 0
	}
	abusers = poissonRound(random, t.Abusers*float64(n))
	for i := range abusers {
		rates[i] = t.excess() * float64(limit)
	}
	light := float64(t.Keys) * (1 - t.Abusers)
	requests := t.requests(limit)*(1-t.OneHit) - t.abuse(limit)
	ranks := newZipf(light, t.Exponent)
	scale, each := requests/math.Max(ranks.sum(light), 1e-300), light/float64(n-abusers)
	for i := range n - abusers {
		from, to := float64(i)*each, float64(i+1)*each
		rates[abusers+i] = scale * (ranks.sum(to) - ranks.sum(from)) / each
	}
	return rates, abusers
}

// poissonRound rounds to a whole number at random, so that the mean stays.
func poissonRound(random *rand.Rand, mean float64) int { return int(mean + random.Float64()) }

// zipf adds up r^−exponent over ranks r: the first ones one by one, the others as an integral.
type zipf struct {
	exponent float64
	first    []float64 // sums of the ranks up to each
}

func newZipf(ranks, exponent float64) zipf {
	z := zipf{exponent, []float64{0}}
	for r := 1.0; r <= math.Min(ranks, 1000); r++ {
		z.first = append(z.first, z.first[len(z.first)-1]+math.Pow(r, -exponent))
	}
	return z
}

// sum returns the sum up to a rank, of which the last may count in part.
func (z *zipf) sum(rank float64) float64 {
	last := len(z.first) - 1
	if whole := int(rank); whole < last {
		return z.first[whole] + (rank-float64(whole))*(z.first[whole+1]-z.first[whole])
	}
	from, to := float64(last)+0.5, rank+0.5
	if math.Abs(z.exponent-1) < 1e-9 {
		return z.first[last] + math.Log(to/from)
	}
	return z.first[last] + (math.Pow(to, 1-z.exponent)-math.Pow(from, 1-z.exponent))/(1-z.exponent)
}
