package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/sketchlimit/sketchlimit/budget"
)

// NewBudget returns a middleware for costs that show only afterwards, such as the bytes
// of a response or the tokens of a language model. A request holds what it may cost
// while it is handled, and settles what it has used when the handler returns. The
// header fields state what is left beside all that is held.
//
// The hold is settled in full if the handler panics, if none of Used, Field and
// [OnStatus] is set, or if they do not know what was used. A handler may settle its
// hold before it returns, see [HoldOf]: the first settlement counts. With [Shadow], a
// request that does not fit holds and settles nothing.
//
// The handler's ResponseWriter flushes, hijacks and reads from files as the server's
// does, also by [http.ResponseController]. It does not push. Bytes written to a
// hijacked connection are not counted: such a handler must settle by Used, or itself,
// and not return before it is done.
//
// Inside [http.TimeoutHandler], a request holds its units until its own handler
// returns; around it, until the timeout.
//
// A request takes two allocations more than with [New]: the ResponseWriter, and a copy
// of the request with the hold in its context. They are not pooled, because goroutines
// may keep them when the handler has returned.
func NewBudget(s Spending, options ...Option) (func(http.Handler) http.Handler, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	s.Names, s.Field = slices.Clone(s.Names), http.CanonicalHeaderKey(s.Field)
	if s.Names == nil {
		s.Names = []string{"default"}
	}
	return NewPolicies(&spender{Spending: s, windows: s.Budget.Windows()}, options...)
}

// OnStatus counts only requests that are answered with one of the statuses, such as 401
// for a log-in that failed. While a request is handled it holds its units, so requests
// at the same time cannot pass the limit. Then it gives them back, or, with one of the
// statuses, settles them all. A handler that panics settles them too. With [NewBudget]
// only, and not with Used or Field. Statuses are 200 … 599.
func OnStatus(statuses ...int) Option {
	return func(m *middleware) error {
		switch {
		case m.spender == nil:
			return errors.New("OnStatus, goes with NewBudget only")
		case m.spender.Used != nil || m.spender.Field != "":
			return errors.New("OnStatus, goes not with Used or Field")
		case len(statuses) == 0:
			return errors.New("OnStatus without a status, must have one, such as 401")
		}
		for _, status := range statuses {
			if status < 200 || status > 599 {
				return fmt.Errorf("OnStatus %d, must be 200 … 599", status)
			}
		}
		m.spender.statuses = slices.Clone(statuses)
		return nil
	}
}

// HoldOf returns the hold of a request that [NewBudget] has admitted, of several
// budgets the innermost one, so that the handler can settle or extend it. It returns
// false if the request holds nothing.
func HoldOf(r *http.Request) (budget.Hold, bool) {
	hold, ok := r.Context().Value(holdKey{}).(budget.Hold)
	return hold, ok
}
