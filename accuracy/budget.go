package accuracy

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy/internal/windows"
	"github.com/sketchlimit/sketchlimit/budget"
)

// BudgetResult is what ways to limit costs that show only afterwards did with the same
// requests.
type BudgetResult struct {
	Source   string        `json:"source"`
	Limit    int           `json:"limit"`
	Window   time.Duration `json:"window_ns"`
	Requests uint64        `json:"requests"`
	Keys     int           `json:"keys"`      // distinct
	PeakKeys int           `json:"peak_keys"` // distinct in the fullest window
	Windows  int           `json:"windows"`   // from the first request to the last one

	Units          uint64        `json:"units"`           // that all requests would cost
	EstimatedUnits uint64        `json:"estimated_units"` // that they are estimated at
	AboveEstimate  uint64        `json:"above_estimate"`  // requests that cost more than that
	AboveLimit     uint64        `json:"above_limit"`     // requests that are estimated above the limit
	Longest        time.Duration `json:"longest_ns"`
	// Requests at the same time, at the most, if all of them are admitted.
	PeakInFlight      int `json:"peak_in_flight"`
	PeakInFlightOfKey int `json:"peak_in_flight_of_key"`

	Ways []BudgetWay `json:"ways"` // [HoldAndSettle], [CheckThenDebit], [DebitAfterwards]
}

// The ways of [ReplayBudget].
const (
	// HoldAndSettle holds the estimate when the request comes, see
	// [budget.Budget.Hold], and settles its cost at the end.
	HoldAndSettle = "hold and settle"
	// CheckThenDebit admits if the estimate is free, and consumes the cost at the end,
	// all of it or nothing.
	CheckThenDebit = "check, then debit"
	// DebitAfterwards admits while a unit is free, and charges the cost at the end, see
	// [sketchlimit.Limiter.Charge].
	DebitAfterwards = "debit afterwards"
)

// BudgetWay is what one way did, by exact books. Units count in the window in which
// their request ends.
type BudgetWay struct {
	Way              string `json:"way"`
	MemoryBytes      int    `json:"memory_bytes"` // what it states
	AdmittedRequests uint64 `json:"admitted_requests"`
	DeniedRequests   uint64 `json:"denied_requests"`
	// DeniedFitting are those of DeniedRequests that would have fitted by what they
	// cost, beside what the key's requests have cost in the window and those under way
	// are going to cost.
	DeniedFitting uint64  `json:"denied_fitting"`
	ServedUnits   uint64  `json:"served_units"`
	Overspent     uint64  `json:"overspent_units"` // above the limit, over all keys and windows
	OverspentKeys int     `json:"overspent_keys"`  // above it in any window
	WorstLoad     float64 `json:"worst_load"`      // most units of one key in one window, as × the limit
	Uncounted     uint64  `json:"uncounted_units"` // that the limiter did not admit at the end: CheckThenDebit alone

	// OverHeld is, by exact books, what requests cost above what they held and did not
	// fit beside what was settled and held then, of which others may have used less in
	// the end. So Overspent ≤ OverHeld. Overdraft is that of [budget.Stats]: the same
	// where no keys meet and no request is above the limit by itself, of which it
	// counts at most the limit. HoldAndSettle alone.
	OverHeld  uint64 `json:"over_held_units"`
	Overdraft uint64 `json:"overdraft_units"`
}

// ReplayBudget shows the same requests to each way, in the order of time, requests that
// end before those that come then. c is the limiter of each, by the time of the stream,
// for PeakKeys if it does not say how large it is; it must have fixed windows, whose
// definition exact books follow. Of o it uses Progress alone.
func ReplayBudget(ctx context.Context, src Spendings, c sketchlimit.Config, o Options) (*BudgetResult, error) {
	if c.Algorithm != sketchlimit.FixedWindow {
		return nil, fmt.Errorf("accuracy: Algorithm %v, must be %v", c.Algorithm, sketchlimit.FixedWindow)
	}
	r := &BudgetResult{Source: src.Name(), Limit: c.Limit, Window: c.Window}
	if err := r.census(ctx, src); err != nil {
		return nil, err
	}
	if c.MemoryBytes == 0 && c.Plan == nil {
		or(&c.Keys, r.PeakKeys)
	}
	for i, way := range budgetWays {
		s := &clockwork{limit: c.Limit, window: int64(c.Window), accounts: make(map[string]*account, r.Keys)}
		s.Way = way.name
		c.Clock = func() time.Time { return s.now }
		var err error
		if s.spender, err = way.build(r, c); err != nil {
			return nil, err
		}
		progress := func(done int) {
			if o.Progress != nil {
				o.Progress(i*src.Len()+done, len(budgetWays)*src.Len())
			}
		}
		if err := errors.Join(s.play(ctx, src, progress), s.close()); err != nil {
			return nil, err
		}
		s.MemoryBytes = s.memory()
		r.Ways = append(r.Ways, s.BudgetWay)
	}
	return r, nil
}

// census counts what is the same for all ways.
func (r *BudgetResult) census(ctx context.Context, src Spendings) error {
	var running ends
	seen, inFlight := make(map[string]int64), make(map[string]int)
	first, last, inWindow := int64(math.MaxInt64), int64(0), 0
	for q := range src.Spendings() {
		window := windows.FloorDiv(q.Time.UnixNano(), int64(max(r.Window, 1))) // a lower one is refused later
		if first == math.MaxInt64 {
			first, last = window, window-1
		}
		if window != last {
			last, inWindow = window, 0
		}
		if latest, known := seen[q.Key]; !known || latest != window {
			seen[q.Key] = window
			inWindow++
		}
		r.PeakKeys = max(r.PeakKeys, inWindow)
		for running.until(q.Time) {
			inFlight[heap.Pop(&running).(*ending).Key]--
		}
		heap.Push(&running, &ending{Spending: q, number: r.Requests})
		inFlight[q.Key]++
		r.PeakInFlight, r.PeakInFlightOfKey = max(r.PeakInFlight, len(running)), max(r.PeakInFlightOfKey, inFlight[q.Key])
		r.Units += uint64(q.Cost)
		r.EstimatedUnits += uint64(q.Estimate)
		r.AboveEstimate += one(q.Cost > q.Estimate)
		r.AboveLimit += one(q.Estimate > r.Limit)
		r.Longest = max(r.Longest, q.Duration)
		if r.Requests++; r.Requests%progressRequests == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if r.Requests == 0 {
		return fmt.Errorf("accuracy: %s: no requests", src.Name())
	}
	r.Keys, r.Windows = len(seen), int(last-first+1)
	return ctx.Err()
}

func one(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// spender is one way. Of a request that is admitted, settle is to be called with what
// it did cost, and tells how much of that was not counted.
type spender struct {
	arrive func(r *Spending) (settle func(cost int) (uncounted int), admitted bool)
	memory func() int
	close  func() error
	// overdraft is Stats().Overdraft; nil where nothing is held.
	overdraft func() uint64
}

var budgetWays = []struct {
	name  string
	build func(*BudgetResult, sketchlimit.Config) (*spender, error)
}{{HoldAndSettle, holdAndSettle}, {CheckThenDebit, checkThenDebit}, {DebitAfterwards, debitAfterwards}}

func holdAndSettle(r *BudgetResult, c sketchlimit.Config) (*spender, error) {
	b, err := budget.New(budget.Config{
		Limits: []sketchlimit.Config{c}, InFlight: r.PeakInFlight,
		HoldFor: r.Longest + time.Second, // nothing expires
	})
	if err != nil {
		return nil, err
	}
	return &spender{
		arrive: func(r *Spending) (func(int) int, bool) {
			hold, d := b.Hold(r.Key, r.Estimate)
			return func(cost int) int { hold.Settle(cost); return 0 }, d.Allowed
		},
		memory: b.MemoryBytes, close: b.Close,
		overdraft: func() uint64 { return b.Stats().Overdraft },
	}, nil
}

func checkThenDebit(_ *BudgetResult, c sketchlimit.Config) (*spender, error) {
	l, err := sketchlimit.New(c)
	if err != nil {
		return nil, err
	}
	return &spender{
		arrive: func(r *Spending) (func(int) int, bool) {
			settle := func(cost int) int {
				if l.AllowN(r.Key, cost) {
					return 0
				}
				return cost
			}
			return settle, l.Do(sketchlimit.Request{Key: r.Key, N: r.Estimate, Peek: true}).Allowed
		},
		memory: l.MemoryBytes, close: l.Close,
	}, nil
}

func debitAfterwards(_ *BudgetResult, c sketchlimit.Config) (*spender, error) {
	l, err := sketchlimit.New(c)
	if err != nil {
		return nil, err
	}
	return &spender{
		arrive: func(r *Spending) (func(int) int, bool) {
			return func(cost int) int { l.Charge(r.Key, cost); return 0 }, l.Peek(r.Key).Remaining >= 1
		},
		memory: l.MemoryBytes, close: l.Close,
	}, nil
}

// clockwork plays the requests to one way, and keeps the books.
type clockwork struct {
	*spender
	BudgetWay
	now      time.Time
	limit    int
	window   int64 // ns
	accounts map[string]*account
	running  ends
}

// account is the books of a key.
type account struct {
	window    int64 // the latest one in which a request ended, as a number
	settled   int   // units, in that
	running   int   // units that requests under way are going to cost
	estimated int   // units that they are estimated at
	overspent bool  // in any window
}

func (s *clockwork) play(ctx context.Context, src Spendings, progress func(done int)) error {
	done := 0
	for r := range src.Spendings() {
		for s.running.until(r.Time) {
			s.end()
		}
		s.now = r.Time
		s.arrives(&ending{Spending: r, number: uint64(done)})
		if done++; done%progressRequests == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress(done)
		}
	}
	for len(s.running) > 0 {
		s.end()
	}
	if s.overdraft != nil {
		s.Overdraft = s.overdraft()
	}
	return ctx.Err()
}

func (s *clockwork) arrives(e *ending) {
	a := s.accounts[e.Key]
	if a == nil {
		a = &account{}
		s.accounts[e.Key] = a
	}
	a.turn(s.now, s.window)
	var admitted bool
	if e.settle, admitted = s.arrive(&e.Spending); !admitted {
		s.DeniedRequests++
		s.DeniedFitting += one(a.settled+a.running+e.Cost <= s.limit)
		return
	}
	s.AdmittedRequests++
	a.running += e.Cost
	a.estimated += e.Estimate
	heap.Push(&s.running, e)
}

// end ends the request that is the next one to end.
func (s *clockwork) end() {
	e := heap.Pop(&s.running).(*ending)
	s.now = e.at()
	a := s.accounts[e.Key]
	a.turn(s.now, s.window)
	if s.overdraft != nil {
		unheld := max(0, e.Cost-e.Estimate)
		s.OverHeld += uint64(max(0, unheld-max(0, s.limit-a.settled-a.estimated)))
	}
	s.Uncounted += uint64(e.settle(e.Cost))
	s.ServedUnits += uint64(e.Cost)
	a.running -= e.Cost
	a.estimated -= e.Estimate
	s.Overspent -= uint64(max(0, a.settled-s.limit))
	a.settled += e.Cost
	s.Overspent += uint64(max(0, a.settled-s.limit))
	s.WorstLoad = max(s.WorstLoad, float64(a.settled)/float64(s.limit))
	if a.settled > s.limit && !a.overspent {
		a.overspent = true
		s.OverspentKeys++
	}
}

// turn begins the window of a moment, if another one was the latest.
func (a *account) turn(now time.Time, length int64) {
	if window := windows.FloorDiv(now.UnixNano(), length); window != a.window {
		a.window, a.settled = window, 0
	}
}

// ending is a request under way.
type ending struct {
	Spending
	number uint64 // of the request in the stream
	settle func(cost int) (uncounted int)
}

func (e *ending) at() time.Time { return e.Time.Add(e.Duration) }

// ends is a heap: the first one to end comes first, of several at one moment the one
// that came first.
type ends []*ending

// until reports whether one ends by a moment.
func (h ends) until(t time.Time) bool { return len(h) > 0 && !h[0].at().After(t) }

func (h ends) Len() int { return len(h) }
func (h ends) Less(i, j int) bool {
	a, b := h[i].at(), h[j].at()
	return a.Before(b) || a.Equal(b) && h[i].number < h[j].number
}
func (h ends) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *ends) Push(e any)   { *h = append(*h, e.(*ending)) }
func (h *ends) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return e
}
