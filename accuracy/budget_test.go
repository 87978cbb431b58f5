package accuracy

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// listed are requests of which the requests of a test are made.
type listed []Spending

func (l listed) Name() string { return "listed" }
func (l listed) Len() int     { return len(l) }
func (l listed) Spendings() iter.Seq[Spending] {
	return func(yield func(Spending) bool) {
		for _, r := range l {
			if !yield(r) {
				return
			}
		}
	}
}

func listedCosts(t *testing.T, spec string, seed uint64) listed {
	t.Helper()
	w, err := ParseCosts(spec, Costs{Seed: seed})
	require.NoError(t, err)
	src, err := w.Source()
	require.NoError(t, err)
	var all listed
	for r := range src.Spendings() {
		all = append(all, r)
	}
	require.Len(t, all, src.Len())
	return all
}

// definition is a way by its definition: what it knows are requests that it has admitted.
type definition struct {
	BudgetWay
	limit    int
	window   time.Duration
	admitted []*definedRequest

	overdraft uint64 // OverHeld as Stats counts it: at most the limit a request
}

type definedRequest struct {
	Spending
	end     time.Time
	ended   bool
	counted int // units, by the limiter
}

// sums are those of a key in a window, over all requests.
func (p *definition) sums(key string, at time.Time) (settled, counted, running, held int) {
	for _, r := range p.admitted {
		switch {
		case r.Key != key:
		case !r.ended:
			running += r.Cost
			held += r.Estimate
		case r.end.UnixNano()/int64(p.window) == at.UnixNano()/int64(p.window):
			settled += r.Cost
			counted += r.counted
		}
	}
	return settled, counted, running, held
}

// next is the request under way that ends first, by a moment.
func (p *definition) next(by time.Time) (first *definedRequest) {
	for _, r := range p.admitted {
		if !r.ended && !r.end.After(by) && (first == nil || r.end.Before(first.end)) {
			first = r
		}
	}
	return first
}

func (p *definition) play(requests listed) BudgetWay {
	for _, r := range requests {
		p.endBy(r.Time)
		settled, counted, running, held := p.sums(r.Key, r.Time)
		free := p.limit - counted
		if p.Way == HoldAndSettle {
			free -= held
		}
		needs := r.Estimate
		if p.Way == DebitAfterwards {
			needs = 1
		}
		if free >= needs {
			p.AdmittedRequests++
			p.admitted = append(p.admitted, &definedRequest{Spending: r, end: r.Time.Add(r.Duration)})
			continue
		}
		p.DeniedRequests++
		if settled+running+r.Cost <= p.limit {
			p.DeniedFitting++
		}
	}
	p.endBy(time.Unix(1<<40, 0))
	p.judge()
	return p.BudgetWay
}

func (p *definition) endBy(by time.Time) {
	for r := p.next(by); r != nil; r = p.next(by) {
		_, counted, _, held := p.sums(r.Key, r.end)
		r.ended, r.counted = true, r.Cost
		if p.Way == CheckThenDebit && counted+r.Cost > p.limit {
			r.counted = 0
			p.Uncounted += uint64(r.Cost)
		}
		p.ServedUnits += uint64(r.Cost)
		if unheld := r.Cost - r.Estimate; p.Way == HoldAndSettle && unheld > 0 {
			free := max(0, p.limit-counted-held)
			p.OverHeld += uint64(max(0, unheld-free))
			p.overdraft += uint64(min(max(0, unheld-free), p.limit))
		}
	}
}

// judge looks at what has ended in each window of each key.
func (p *definition) judge() {
	type place struct {
		key    string
		window int64
	}
	settled, over := map[place]int{}, map[string]bool{}
	for _, r := range p.admitted {
		settled[place{r.Key, r.end.UnixNano() / int64(p.window)}] += r.Cost
	}
	for at, units := range settled {
		p.WorstLoad = max(p.WorstLoad, float64(units)/float64(p.limit))
		if units > p.limit {
			p.Overspent += uint64(units - p.limit)
			over[at.key] = true
		}
	}
	p.OverspentKeys = len(over)
}

// TestReplayBudgetAgainstDefinitions: where no keys meet, each way does what its
// definition says, number by number.
func TestReplayBudgetAgainstDefinitions(t *testing.T) {
	testkit.Computes(t)
	for spec, limit := range map[string]int{
		"lognormal:1,keys=20,requests=1500,windows=4":                           6000,
		"lognormal:1.5,keys=20,requests=1500,windows=5,cap=200,most=9000":       5000,
		"pareto:0.8,keys=9,requests=1000,windows=3,cap=100,most=20000,burst=20": 4000,
		// Requests that take longer than a window, and estimates above the limit.
		"pareto:1.2,keys=30,requests=1500,windows=2,pace=10,prompt=9000": 12000,
	} {
		for seed := range uint64(3) {
			requests := listedCosts(t, spec, seed+1)
			r, err := ReplayBudget(context.Background(), requests, sketchlimit.Config{
				Limit: limit, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 1 << 20, Seed: seed + 1,
			}, Options{})
			require.NoError(t, err)
			require.Len(t, r.Ways, 3)
			for _, got := range r.Ways {
				require.Positive(t, got.MemoryBytes)
				overdraft := got.Overdraft
				got.MemoryBytes, got.Overdraft = 0, 0
				want := definition{BudgetWay: BudgetWay{Way: got.Way}, limit: limit, window: time.Minute}
				require.Equal(t, want.play(requests), got, "%s, seed %d", spec, seed+1)
				require.Equal(t, want.overdraft, overdraft, "%s, seed %d", spec, seed+1)
			}
			hold, check, debit := r.Ways[0], r.Ways[1], r.Ways[2]
			if r.AboveEstimate == 0 {
				require.Zero(t, hold.Overdraft, spec)
			} else {
				require.Positive(t, hold.Overdraft, spec)
			}
			require.LessOrEqual(t, hold.Overspent, hold.OverHeld, spec)
			require.Positive(t, check.Overspent, spec)
			require.Positive(t, debit.Overspent, spec)
			require.Zero(t, hold.Uncounted+debit.Uncounted, spec)
		}
	}
}

// TestReplayBudgetCrowded: where keys read each other's units, nothing is overspent
// that was held, and Overdraft is never below what the books show.
func TestReplayBudgetCrowded(t *testing.T) {
	testkit.Computes(t)
	above := 0
	for _, most := range []string{"", ",most=8000"} {
		for seed := range uint64(4) {
			requests := listedCosts(t, "lognormal:1,keys=4000,requests=20000,windows=2,exponent=0.2,cap=500"+most, seed)
			r, err := ReplayBudget(context.Background(), requests, sketchlimit.Config{
				Limit: 4000, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 8 << 10, Seed: seed + 1,
			}, Options{})
			require.NoError(t, err)
			hold := r.Ways[0]
			require.LessOrEqual(t, hold.Overspent, hold.OverHeld)
			require.LessOrEqual(t, hold.OverHeld, hold.Overdraft)
			if r.AboveEstimate == 0 {
				require.Zero(t, hold.Overdraft)
				require.LessOrEqual(t, hold.WorstLoad, 1.0)
			}
			if hold.Overdraft > hold.OverHeld {
				above++
			}
		}
	}
	require.Positive(t, above, "no keys meet: the test shows nothing")
}

// TestReplayBudgetCensus counts what all ways have in common.
func TestReplayBudgetCensus(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	requests := listed{
		{Request{at(100), "a", 7}, 5, 30 * time.Second},
		{Request{at(100), "b", 1}, 5, 10 * time.Second},
		{Request{at(109), "a", 2}, 50, time.Second},
		{Request{at(110), "c", 2}, 2, time.Minute},
		{Request{at(200), "c", 2}, 2, time.Minute},
	}
	r, err := ReplayBudget(context.Background(), requests, sketchlimit.Config{
		Limit: 10, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, Seed: 1,
	}, Options{})
	require.NoError(t, err)
	r.Ways = nil
	require.Equal(t, &BudgetResult{
		Source: "listed", Limit: 10, Window: time.Minute, Requests: 5, Keys: 3, PeakKeys: 3, Windows: 3,
		Units: 14, EstimatedUnits: 64, AboveEstimate: 1, AboveLimit: 1, Longest: time.Minute,
		PeakInFlight: 3, PeakInFlightOfKey: 2,
	}, r)
}

func TestReplayBudgetErrors(t *testing.T) {
	c := sketchlimit.Config{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.FixedWindow}
	_, err := ReplayBudget(context.Background(), listed{}, c, Options{})
	require.EqualError(t, err, "accuracy: listed: no requests")

	sliding := c
	sliding.Algorithm = sketchlimit.SlidingWindow
	_, err = ReplayBudget(context.Background(), listed{}, sliding, Options{})
	require.EqualError(t, err, "accuracy: Algorithm sliding, must be fixed")

	requests := listedCosts(t, "lognormal,requests=200", 1)
	wrong := c
	wrong.Limit = 0
	_, err = ReplayBudget(context.Background(), requests, wrong, Options{})
	require.ErrorContains(t, err, "Limit 0, must be")
	wrong = c
	wrong.Window = 0
	_, err = ReplayBudget(context.Background(), requests, wrong, Options{})
	require.ErrorContains(t, err, "Window 0s, must be")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = ReplayBudget(ctx, requests, c, Options{})
	require.ErrorIs(t, err, context.Canceled)
}
