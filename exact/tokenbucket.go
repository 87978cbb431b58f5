package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// TokenBucket is a bucket of burst tokens that flow in continuously, limit per
// window, and of which a request takes one for every unit, if all are there. A new
// key's bucket is full.
//
// Within any span t no more than burst + t×limit/window units pass. Remaining in its
// Decisions is up to the burst, the most that can be free at once. Tokens are counted in
// whole fractions, so nothing is rounded and no remainder is lost between requests.
// A key's times do not run backwards: a time before its last admitted request is
// taken as the time of that request. Charges make debts of up to 1<<61 grains of
// window/gcd(limit, window) to the unit. Memory: 16 bytes a key and the map around
// them.
type TokenBucket struct {
	keyed[exactmath.Tokens]
}

// NewTokenBucket returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, and burst, 1 … 1<<31-1, at once, for every key. It refuses a burst
// that, counted in whole fractions of a unit, is beyond 1<<61.
func NewTokenBucket(limit int, window time.Duration, burst int, options ...Option) (*TokenBucket, error) {
	if err := checkRate(limit, window, burst); err != nil {
		return nil, err
	}
	r, err := exactmath.NewTokenBucket(int64(limit), int64(window), int64(burst))
	if err != nil {
		return nil, err
	}
	b := new(TokenBucket)
	return orNil(b, b.init(&r, purpose{limit: limit, most: burst, window: window}, r.Initial(), options))
}
