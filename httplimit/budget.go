package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// Spending says what requests hold of a budget before they are handled, and how they tell what they have used. Its
// functions must be safe for concurrent use.
type Spending struct {
	// Budget must keep holds open, HoldFor, for longer than a handler takes: a hold that expires is settled in full.
	Budget *budget.Budget
	// Names are those of its limits as policies, in their order, as for [Quota]. Without Names a Budget of one limit is
	// "default".
	Names []string
	// Key says what is counted.
	Key Key
	// AtMost returns the units that a request may cost at the most: it holds them while it is handled. With 0 it passes
	// uncounted. One that no wait makes admissible, below 0 or above a limit, is refused without Retry-After.
	AtMost func(*http.Request) int
	// Limit is the limit that a request is held against, as the option [Limit] has it; nil is those of the Budget,
	// of which one must otherwise have a LowestLimit.
	Limit func(*http.Request) int

	// Used returns the units that a request has used, or not ok if that is not known: [BytesWritten], or a function of
	// your own. It is called when the handler has returned.
	Used func(*Response) (units int, ok bool)
	// Field is the name of a header field or trailer of the response, instead of Used. Its value is the units used, in
	// digits. A trailer goes before a header field.
	Field string
	// HideField keeps the field from the client.
	HideField bool
}

// NewBudget is [New] for costs that show only afterwards: bytes of a response, tokens of a language model. A request is
// handled while it holds what it may cost, and settles what it has used when the handler returns. What clients are told
// is what is left beside all that is held.
//
// The hold is settled once, and rather by too much than by too little. It is settled in full if the handler panics, if
// neither Used nor Field is set, or if they do not know what was used. A handler that knows settles before it returns,
// see [HoldOf]: the first settlement counts. With [Shadow], a request that does not fit holds and settles nothing.
//
// The handler's ResponseWriter flushes, hijacks and reads from files as the server's own does, also by
// [http.ResponseController]. It does not push. What is written to a hijacked connection is not counted: such a handler
// settles by Used, or itself, and does not return before it is done.
//
// Inside of [http.TimeoutHandler], a request holds its units until its own handler returns. Outside of it, they are
// settled when the time is out.
//
// A request takes two allocations more than with [New]: the ResponseWriter, and a copy of the request with the hold in
// its context. No later request uses them again, because goroutines may keep them when the handler has returned.
func NewBudget(s Spending, options ...Option) (func(http.Handler) http.Handler, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	s.Names, s.Field = slices.Clone(s.Names), http.CanonicalHeaderKey(s.Field)
	if s.Names == nil {
		s.Names = []string{"default"}
	}
	return NewPolicies(&spender{s, s.Budget.Windows()}, options...)
}

// check refuses what is no Spending.
func (s *Spending) check() error {
	if s.Budget == nil {
		return errors.New("Spending.Budget nil, must be one")
	}
	switch n := len(s.Budget.Windows()); {
	case s.Names == nil && n > 1:
		return fmt.Errorf("Spending.Names nil, must be %d: one for each limit of the Budget", n)
	case s.Names != nil && len(s.Names) != n:
		return fmt.Errorf("Spending.Names are %d, must be %d: one for each limit of the Budget", len(s.Names), n)
	}
	for i, name := range s.Names {
		if err := checkPolicy(name); err != nil {
			return fmt.Errorf("Spending.Names[%d]: %w", i, err)
		}
		if slices.Contains(s.Names[:i], name) {
			return fmt.Errorf("Spending.Names[%d] %q is that of another limit, must be another one", i, name)
		}
	}
	if err := check(s.Key); err != nil {
		return err
	}
	switch {
	case s.AtMost == nil:
		return given("AtMost", false)
	case s.Used != nil && s.Field != "":
		return fmt.Errorf("Spending.Used and Field %q, only one of them must be set", s.Field)
	case s.HideField && s.Field == "":
		return errors.New("Spending.HideField, goes with Field only")
	case s.Limit != nil && s.Budget.LowestLimit() == 0:
		return fmt.Errorf("Spending.%w", checkLowest(s.Budget))
	case s.Field != "":
		return checkName("Field", s.Field)
	}
	return nil
}

// spender decides by a budget.
type spender struct {
	Spending
	windows []time.Duration
}

// Decide implements [Decider].
func (p *spender) Decide(a *Answer, r *http.Request, cost int) {
	each, ok := a.Memory.([]sketchlimit.Decision)
	if !ok {
		each = make([]sketchlimit.Decision, len(p.windows))
		a.Memory = each
	}
	a.Keys = p.Key.AppendKey(a.Keys, r)
	q := sketchlimit.Request{Bytes: a.Keys, N: cost, Limit: own(p.Limit, r)}
	a.spent, _ = p.Budget.DoEach(q, each)
	for i, d := range each {
		if d.Allowed { // or what is held would be back at once
			d.ResetAfter = max(d.ResetAfter, time.Second)
		}
		a.Policies = append(a.Policies, Policy{Name: p.Names[i], Window: p.windows[i], Key: a.Keys, Decision: d, own: q.Limit})
	}
	none := func(d sketchlimit.Decision) bool { return d.Allowed && d.Remaining == 0 }
	if slices.ContainsFunc(each, none) { // as in setNext
		q.N, q.Peek = 1, true
		p.Budget.DoEach(q, each)
		for i := range a.Policies {
			if policy := &a.Policies[i]; none(policy.Decision) {
				policy.Next = each[i].RetryAfter
			}
		}
	}
}

// serve handles a request that holds units, and settles them.
func (p *spender) serve(w http.ResponseWriter, r *http.Request, next http.Handler, hold budget.Hold) {
	defer func() { hold.Settle(hold.Units()) }() // if all else fails; the first Settle counts
	e := &exchange{inner: w, holder: holder{r.Context(), hold}}
	e.response.Request = r.WithContext(&e.holder)
	if p.HideField {
		e.hidden = p.Field
	}
	next.ServeHTTP(e.writer(), e.response.Request)
	e.hide()
	if units, ok := p.used(e); ok && units >= 0 {
		hold.Settle(units)
	}
}

// used returns what the request has used, or not ok.
func (p *spender) used(e *exchange) (units int, ok bool) {
	switch {
	case p.Field != "":
		return e.field(p.Field)
	case p.Used != nil:
		return p.Used(e.end())
	}
	return 0, false
}

// HoldOf returns what a request holds that [NewBudget] has admitted, so that its handler can settle or extend it: of
// several budgets that of the innermost. It is false if the request holds nothing.
func HoldOf(r *http.Request) (budget.Hold, bool) {
	hold, ok := r.Context().Value(holdKey{}).(budget.Hold)
	return hold, ok
}
