package tune

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/sketchlimit/sketchlimit/tune/internal/zipf"
)

// requestsAKey are the requests of a key in a window where none are stated.
const requestsAKey = 5.0

// Traffic is what a limiter has to cope with in one window. Its parts add up:
// Zipf-distributed keys may have abusers among them and one-hit keys beside them.
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
	// Late makes all abusers begin at once, in the window that is judged: at its
	// beginning, or in the middle of a FixedWindow. By then other keys have filled
	// cells and the table of heavy keys, so abusers disturb more. It changes nothing
	// for a TokenBucket.
	Late bool
	// Even says that each key's requests are spread over the window. Otherwise they are
	// taken to come in bursts: all requests of a window within a tenth of it, each
	// key's at once.
	Even bool
	// Steady says that the same keys send the most in every window. Otherwise others do
	// in each.
	Steady bool
	// OneHit is the share of Requests that come from keys beside Keys which send
	// one request each and never come back, 0 … below 1: a scan.
	OneHit float64
	// Sample is the requests in one window of some keys of real traffic, drawn at
	// random from all Keys of that window, in place of Requests, Exponent, Abusers,
	// Late and OneHit; each at least 1. Every window is taken to be like it: as many
	// keys, with these counts.
	Sample []int
	// Trace is recorded traffic, in place of all but Keys, which is 0 for as many keys
	// as its fullest window has. If Keys is another number, the trace stands for that
	// much more or less traffic. Rates are then those of replays through the plan, and
	// not predicted: see [Plan].
	Trace *Trace
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

// rates returns the requests a window of n keys that stand for all: each for as many
// ranks in a row, with their mean, because what the very first keys send rules some
// figures. Those of a sample, sorted, are counts: of one key drawn from as many ranks.
// The first of them, so many, are abusers'.
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
	ranks := zipf.New(light, t.Exponent)
	scale, each := requests/math.Max(ranks.UpTo(light), 1e-300), light/float64(n-abusers)
	for i := range n - abusers {
		from, to := float64(i)*each, float64(i+1)*each
		rates[abusers+i] = scale * (ranks.UpTo(to) - ranks.UpTo(from)) / each
	}
	return rates, abusers
}

// poissonRound rounds to a whole number at random, so that the mean stays.
func poissonRound(random *rand.Rand, mean float64) int { return int(mean + random.Float64()) }

// distinct returns the keys of a window at most, those that come once included.
func (t *Traffic) distinct(limit int) float64 {
	if t.OneHit == 0 {
		return float64(t.Keys)
	}
	return float64(t.Keys) + t.OneHit*t.requests(limit)
}
