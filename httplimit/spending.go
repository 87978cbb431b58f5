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

// Spending describes how requests spend a budget: what they hold before they are
// handled, and what they have used afterwards. Its functions must be safe for
// concurrent use.
type Spending struct {
	// Budget must have a HoldFor longer than a handler takes: a hold that expires is
	// settled in full.
	Budget *budget.Budget
	// Names are the policies' names of the Budget's limits, in their order, as
	// Quota.Name. Without Names a Budget of one limit is "default".
	Names []string
	// Key derives the key that a request counts under.
	Key Key
	// AtMost returns the most units that a request may cost, which it holds while it is
	// handled. 0 passes uncounted. A cost below 0 or above a limit is refused without
	// Retry-After, because no wait makes it admissible. With [OnStatus], nil is 1.
	AtMost func(*http.Request) int
	// Limit returns a request's own limit, as the option [Limit]; nil: those of the
	// Budget. With Limit, one of the Budget's limits must have a LowestLimit.
	Limit func(*http.Request) int

	// Used returns the units that a request has used, and whether they are known. It is
	// called when the handler has returned. [BytesWritten] is one such function.
	Used func(*Response) (units int, ok bool)
	// Field is, instead of Used, the name of a header field or trailer of the response
	// whose value is the units used, in digits. A trailer takes precedence over a
	// header field.
	Field string
	// HideField removes Field from the response to the client.
	HideField bool
}

// check returns an error for the first field that is wrong.
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
	windows  []time.Duration
	statuses []int // of OnStatus; nil: Used or Field
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
	case p.statuses != nil:
		if slices.Contains(p.statuses, e.end().Status) {
			units = e.holder.hold.Units()
		}
		return units, true
	case p.Field != "":
		return e.field(p.Field)
	case p.Used != nil:
		return p.Used(e.end())
	}
	return 0, false
}
