package exact

import "time"

// TokenBucket is a bucket of burst tokens that flow in continuously, limit per
// window, and of which a request takes one for every unit, if all are there. A new
// key's bucket is full.
//
// Within any span t no more than burst + t×limit/window units pass. Limit in its
// Decisions is the burst, the most that can be free at once. Tokens are counted in
// whole fractions, so nothing is rounded and no remainder is lost between requests.
// A key's times do not run backwards: a time before its last admitted request is
// taken as the time of that request. Charges make debts of up to 1<<61 grains of
// window/gcd(limit, window) to the unit. Memory: 16 bytes a key and the map around
// them.
type TokenBucket struct {
	keyed[tokens]
	rate
}

// tokens is what was in the bucket, in grains, at a time; below 0 it is a debt.
type tokens struct{ grains, last int64 }

// NewTokenBucket returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, and burst, 1 … 1<<31-1, at once, for every key. It refuses a burst
// that, counted in whole fractions of a unit, is beyond 1<<61.
func NewTokenBucket(limit int, window time.Duration, burst int) (*TokenBucket, error) {
	r, err := newRate(limit, window, burst)
	if err != nil {
		return nil, err
	}
	b := &TokenBucket{rate: r}
	b.init(b, burst, 0, tokens{grains: r.burst})
	return b, nil
}

// at refills the bucket up to t.
func (b *TokenBucket) at(s tokens, t int64) tokens {
	if s.grains == b.burst {
		return tokens{b.burst, t}
	}
	t = max(t, s.last)
	return tokens{min(b.burst, s.grains+b.flowed(s.last, t)), t}
}

func (b *TokenBucket) wait(s tokens, t, n int64) time.Duration {
	return b.takes(b.cost(n) - b.at(s, t).grains)
}

func (b *TokenBucket) left(s tokens, t int64) (int64, time.Duration) {
	grains := b.at(s, t).grains
	return grains / b.unit, b.takes(b.burst - grains)
}

func (b *TokenBucket) spend(s tokens, t, n int64) tokens {
	s = b.at(s, t)
	s.grains = max(s.grains-b.cost(n), b.burst-maxGrains)
	return s
}

func (b *TokenBucket) since(s tokens) int64 { return s.last }
