package stress

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

const mostHolds = 48 // of one history

// What goroutines ask of a budget. A hold is known by a number, which who makes it
// chooses.
type budgetCall struct {
	what string
	key  int
	hold int
	n    int
}

type budgetGot struct {
	ok   bool
	left int // Remaining, or what did not fit
}

// budgetState is that of a sequential budget of one fixed window: what keys have
// settled, and what holds hold that are open.
type budgetState struct {
	settled [2]int
	units   [mostHolds]int
	key     [mostHolds]int
}

func (s *budgetState) held(key int) (units int) {
	for i, n := range s.units {
		if s.key[i] == key {
			units += n
		}
	}
	return units
}

// charge counts units of a key beside those that are held, and returns how many of the
// unheld do not fit.
func (s *budgetState) charge(key, n, unheld, held int) (over int) {
	over = max(0, unheld-max(0, limit-s.settled[key]-held))
	s.settled[key] = min(limit, s.settled[key]+n)
	return over
}

// budgetModel answers as a sequential budget does.
var budgetModel = porcupine.Model{
	Init: func() any { return budgetState{} },
	Step: func(old, input, output any) (bool, any) {
		s, c, seen := old.(budgetState), input.(budgetCall), output.(budgetGot)
		free := limit - s.settled[c.key] - s.held(c.key)
		want := budgetGot{}
		switch c.what {
		case "hold":
			if want = (budgetGot{c.n <= free, max(0, free)}); want.ok {
				want.left -= c.n
				s.units[c.hold], s.key[c.hold] = c.n, c.key
			}
		case "extend":
			if s.units[c.hold] == 0 {
				break
			}
			if want = (budgetGot{c.n <= free || c.n == 0, max(0, free)}); want.ok {
				want.left -= c.n
				s.units[c.hold] += c.n
			}
		case "settle":
			if want.ok = s.units[c.hold] > 0; want.ok {
				s.charge(c.key, c.n, max(0, c.n-s.units[c.hold]), s.held(c.key))
				s.units[c.hold] = 0
			}
		case "charge":
			want = budgetGot{true, s.charge(c.key, c.n, c.n, s.held(c.key))}
		case "held":
			want = budgetGot{true, s.held(c.key)}
		}
		return seen == want, s
	},
}

// asker is what histories are recorded of: a budget, or a broken one.
type asker interface {
	Hold(key string, n int) (budget.Hold, sketchlimit.Decision)
	Charge(key string, n int) int
	Held(key string) int
}

// recordBudget lets goroutines make a few calls each, each at the same moment as those
// of the others: they settle and extend holds of each other.
func recordBudget(b asker, settle func(budget.Hold, int) bool, round int, r *rand.Rand) (history []porcupine.Operation) {
	const goroutines, calls = 4, 12
	var order, ready atomic.Int64
	var mu sync.Mutex // guards history and what follows
	var holds [mostHolds]budget.Hold
	var known []budgetCall
	var wg sync.WaitGroup
	for g := range goroutines {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		wg.Go(func() {
			for i := range calls {
				c := budgetCall{"hold", r.IntN(2), g*calls + i, 1 + r.IntN(5)}
				mu.Lock()
				if kind := r.IntN(10); kind < 6 && len(known) > 0 {
					c = known[max(0, len(known)-1-r.IntN(3))]
					c.what, c.n = "settle", r.IntN(c.n+2)
					if kind == 0 {
						c.what, c.n = "extend", r.IntN(3)
					}
				} else if kind == 6 {
					c.what = "charge"
				} else if kind == 7 {
					c.what, c.n = "held", 0
				}
				hold := holds[c.hold]
				mu.Unlock()
				for ready.Add(1); ready.Load() < int64((i+1)*goroutines); {
					runtime.Gosched()
				}
				key, got := fmt.Sprintf("%d of %d", c.key, round), budgetGot{ok: true}
				began := order.Add(1)
				switch c.what {
				case "hold":
					var d sketchlimit.Decision
					hold, d = b.Hold(key, c.n)
					got = budgetGot{d.Allowed, d.Remaining}
				case "extend":
					d := hold.Extend(c.n)
					got = budgetGot{d.Allowed, d.Remaining}
				case "settle":
					got.ok = settle(hold, c.n)
				case "charge":
					got.left = b.Charge(key, c.n)
				case "held":
					got.left = b.Held(key)
				}
				if r.IntN(2) == 0 {
					runtime.Gosched()
				}
				ended := order.Add(1)
				mu.Lock()
				if c.what == "hold" && got.ok {
					holds[c.hold] = hold
					known = append(known, c)
				}
				history = append(history, porcupine.Operation{ClientId: g, Input: c, Call: began, Output: got, Return: ended})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history
}

func buildBudget(t *testing.T) *budget.Budget {
	start := time.Unix(0, 0)
	b, err := budget.New(budget.Config{
		Limits: []sketchlimit.Config{{Limit: limit, Window: time.Hour, Algorithm: sketchlimit.FixedWindow,
			MemoryBytes: 64 << 10, Seed: 1, Clock: func() time.Time { return start }}},
		InFlight: 1024, HoldFor: time.Minute,
	})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// What goroutines see of a budget is what they would see one after another: who holds,
// extends, settles and charges.
func TestBudgetLinearizable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	counts := map[string]int{}
	for round := range 400 {
		b := buildBudget(t)
		h := recordBudget(b, budget.Hold.Settle, round, r)
		require.True(t, porcupine.CheckOperations(budgetModel, h), "history %d: %+v", round, h)
		for i, o := range h {
			counts[fmt.Sprint(o.Input.(budgetCall).what, " ", o.Output.(budgetGot).ok)]++
			for _, other := range h[:i] {
				if other.Call < o.Return && o.Call < other.Return {
					counts["overlaps"]++
				}
			}
		}
	}
	t.Log(counts)
	for _, what := range []string{"hold true", "hold false", "extend true", "extend false", "settle true", "settle false", "charge true", "held true"} {
		require.Greater(t, counts[what], 100, what)
	}
	require.Greater(t, counts["overlaps"], 1000, "the goroutines took turns")
}

// twoSteps is a budget that looks whether units are free and holds them in two steps.
type twoSteps struct{ *budget.Budget }

func (b twoSteps) Hold(key string, n int) (budget.Hold, sketchlimit.Decision) {
	_, d := b.Do(sketchlimit.Request{Key: key, N: n, Peek: true})
	if !d.Allowed {
		return budget.Hold{}, d
	}
	runtime.Gosched()
	h, _ := b.Budget.Hold(key, n)
	d.Remaining -= n
	return h, d
}

func TestBrokenBudgetsAreNotLinearizable(t *testing.T) {
	for name, settle := range map[string]func(budget.Hold, int) bool{
		"two steps": budget.Hold.Settle,
		"twice":     func(h budget.Hold, n int) bool { h.Settle(n); return h != budget.Hold{} },
	} {
		r := rand.New(rand.NewPCG(1, 2))
		seen := 0
		for round := range 100 {
			b := buildBudget(t)
			var one asker = b
			if name == "two steps" {
				one = twoSteps{b}
			}
			if !porcupine.CheckOperations(budgetModel, recordBudget(one, settle, round, r)) {
				seen++
			}
		}
		require.Positive(t, seen, name)
	}
}
