package httplimit

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/sketchlimit/sketchlimit/budget"
)

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

// HoldOf returns what a request holds that [NewBudget] has admitted, so that its handler can settle or extend it: of
// several budgets that of the innermost. It is false if the request holds nothing.
func HoldOf(r *http.Request) (budget.Hold, bool) {
	hold, ok := r.Context().Value(holdKey{}).(budget.Hold)
	return hold, ok
}
