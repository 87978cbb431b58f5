package sketchlimit

import (
	"math"
	"time"
)

// Never is the RetryAfter of a request that no amount of waiting makes
// admissible: its cost is below 1 or above the limit.
const Never time.Duration = math.MaxInt64

// Decision is the answer to one request.
type Decision struct {
	// Allowed tells whether the request was admitted, and its units consumed.
	Allowed bool
	// Limit is the number of units per window the request was held against.
	Limit int
	// Remaining is the number of units still free now, after this request:
	// 0 … Limit, and never more than the exact algorithm would say.
	Remaining int
	// RetryAfter is 0 if the request was admitted. Otherwise it is the time until
	// the first instant at which the same request would pass if nothing else
	// came, or Never.
	RetryAfter time.Duration
	// ResetAfter is the time until the key has its whole quota back if nothing
	// else comes; 0 if it has it now.
	ResetAfter time.Duration
}
