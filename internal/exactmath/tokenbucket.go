package exactmath

import "time"

// TokenBucket admits n units if n tokens are in the bucket, and takes them. At t it has
// min(burst, tokens + (t − last) × limit/window).
type TokenBucket struct{ rate }

// Tokens is what was in the bucket, in grains, at a time; below 0 it is a debt.
type Tokens struct{ grains, last int64 }

// NewTokenBucket returns the rule of limit units per window and burst at once. It
// refuses a burst of more than 1<<61 grains.
func NewTokenBucket(limit, window, burst int64) (TokenBucket, error) {
	r, err := newRate(limit, window, burst)
	return TokenBucket{r}, err
}

// Initial returns the state of a key never seen.
func (b *TokenBucket) Initial() Tokens { return Tokens{grains: b.burst} }

// at refills the bucket up to t.
func (b *TokenBucket) at(s Tokens, t int64) Tokens {
	if s.grains == b.burst {
		return Tokens{b.burst, t}
	}
	t = max(t, s.last)
	return Tokens{min(b.burst, s.grains+b.flowed(s.last, t)), t}
}

// Wait implements [Rule].
func (b *TokenBucket) Wait(s Tokens, t, n int64) time.Duration {
	return b.takes(b.cost(n) - b.at(s, t).grains)
}

// Left implements [Rule].
func (b *TokenBucket) Left(s Tokens, t int64) (int64, time.Duration) {
	grains := b.at(s, t).grains
	return grains / b.unit, b.takes(b.burst - grains)
}

// Spend implements [Rule].
func (b *TokenBucket) Spend(s Tokens, t, n int64) Tokens {
	s = b.at(s, t)
	s.grains = max(s.grains-b.cost(n), b.burst-maxGrains)
	return s
}

// Since implements [Rule].
func (b *TokenBucket) Since(s Tokens) int64 { return s.last }
