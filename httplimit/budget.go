package httplimit

import (
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
// The hold is settled in full if the handler panics, if neither Used nor Field is set,
// or if they do not know what was used. A handler may settle its hold before it
// returns, see [HoldOf]: the first settlement counts. With [Shadow], a request that
// does not fit holds and settles nothing.
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
	return NewPolicies(&spender{s, s.Budget.Windows()}, options...)
}

// HoldOf returns the hold of a request that [NewBudget] has admitted, of several
// budgets the innermost one, so that the handler can settle or extend it. It returns
// false if the request holds nothing.
func HoldOf(r *http.Request) (budget.Hold, bool) {
	hold, ok := r.Context().Value(holdKey{}).(budget.Hold)
	return hold, ok
}
