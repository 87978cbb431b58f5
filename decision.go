package sketchlimit

import (
	"math"
	"net/netip"
	"time"
)

// Never is the RetryAfter of a request that no wait makes admissible: its cost is below 1
// or above the limit (of a bucket, the burst), or its limit is below Config.LowestLimit.
const Never time.Duration = math.MaxInt64

// Decision is the answer to one request.
type Decision struct {
	// Allowed reports whether the request was admitted, and its units consumed.
	Allowed bool
	// Limit is the number of units per window that the request was held against; 0 if
	// its limit was below Config.LowestLimit.
	Limit int
	// Remaining is the number of units still free now, after this request:
	// 0 … Limit, or Burst, and never more than the exact algorithm would say.
	Remaining int
	// RetryAfter is 0 if the request was admitted. Otherwise it is the time until
	// the first instant at which the same request would pass if nothing else
	// came, or Never.
	RetryAfter time.Duration
	// ResetAfter is the time until the key has its whole quota back if nothing else
	// comes; 0 if it has it now. In a sliding window that takes up to two windows,
	// because the previous one counts.
	ResetAfter time.Duration
	// By is the index, in its [Group], of the limiter that decided; 0 where there is no
	// Group.
	By int
}

// Request is what [Limiter.Do] decides on. The zero Request costs one unit of the empty
// key, now.
//
// Its key is Addr if that is valid, otherwise Bytes if that is not nil, otherwise Key.
// Bytes and a Key of the same bytes are the same key. An address counts as its 4 or 16
// bytes: an IPv4-mapped IPv6 address is the IPv4 address, and zones do not count. So an
// address and its text are different keys. One client has many IPv6 addresses: use its
// prefix, with netip.Addr.Prefix, as package httplimit does.
type Request struct {
	Key   string
	Bytes []byte // not kept
	Addr  netip.Addr

	// N is the units that the request costs; 0 is 1. A cost below 0 is denied with
	// RetryAfter Never.
	N int
	// Limit is the request's own, such as that of the client's tier: Config.LowestLimit
	// … Config.Limit; 0 is Config.Limit, and so is a higher one. Set Config.LowestLimit
	// to use it: a request with a lower limit is refused, because the memory is not
	// sized for it. Decision.Limit is then 0 and RetryAfter is Never. Stats.TooLow
	// counts such requests, except those with a limit below 0, which means no access.
	//
	// Units of a window count alike, whatever the limit was that they were taken under.
	// A bucket holds less in proportion to the limit, but one unit at least, and its
	// units flow back the more slowly: a unit that is taken under a limit of 10 takes
	// ten times as long to come back as one under 100.
	Limit int
	// Time is when the request comes, see [Limiter.TakeAt]; the zero Time is now.
	Time time.Time
	// Peek asks what would be answered, and consumes nothing: Remaining is what is free
	// without the request.
	Peek bool
}

// units returns the request's cost.
func (r *Request) units() int {
	if r.N == 0 {
		return 1
	}
	return r.N
}
