package exactmath

import (
	"fmt"
	"time"
)

// DiscreteBucket admits n units if missing + n ≤ maxAmount. Every refillTime after the
// first unit taken from a full bucket, refillAmount fewer are missing.
type DiscreteBucket struct {
	maxAmount, refillTime, refillAmount int64
	most                                int64 // tokens that can be missing
}

// Portions is how many tokens were missing after the refill at a time.
type Portions struct {
	missing  int64
	refilled int64
	last     int64
}

// NewDiscreteBucket returns the rule of a bucket of maxAmount units, into which
// refillAmount come every refillTime. It refuses a bucket that takes longer than
// 1<<61ns to fill.
func NewDiscreteBucket(maxAmount, refillTime, refillAmount int64) (DiscreteBucket, error) {
	b := DiscreteBucket{maxAmount: maxAmount, refillTime: refillTime, refillAmount: refillAmount}
	b.most = mulCapped(uint64(MaxSpan/refillTime), uint64(refillAmount), MaxSpan)
	if maxAmount > b.most {
		return DiscreteBucket{}, fmt.Errorf("exact: maxAmount %d, must be 1 … %d with %d refilled every %v",
			maxAmount, b.most, refillAmount, time.Duration(refillTime))
	}
	return b, nil
}

// at makes the refills that are due at t, and returns the time that t is taken as.
func (b *DiscreteBucket) at(s Portions, t int64) (Portions, int64) {
	if s.missing > 0 {
		t = max(t, s.last)
		refills := (uint64(t) - uint64(s.refilled)) / uint64(b.refillTime)
		s.missing -= mulCapped(refills, uint64(b.refillAmount), s.missing)
		s.refilled += int64(refills * uint64(b.refillTime))
	}
	if s.missing == 0 {
		s.refilled = t
	}
	return s, t
}

// until returns the time from t until no more than missing tokens are missing.
func (b *DiscreteBucket) until(s Portions, t, missing int64) time.Duration {
	if s.missing <= missing {
		return 0
	}
	return time.Duration(s.refilled - t + ceilDiv(s.missing-missing, b.refillAmount)*b.refillTime)
}

// Wait implements [Rule].
func (b *DiscreteBucket) Wait(s Portions, t, n int64) time.Duration {
	s, t = b.at(s, t)
	return b.until(s, t, b.maxAmount-n)
}

// Left implements [Rule].
func (b *DiscreteBucket) Left(s Portions, t int64) (int64, time.Duration) {
	s, t = b.at(s, t)
	return b.maxAmount - s.missing, b.until(s, t, 0)
}

// Spend implements [Rule].
func (b *DiscreteBucket) Spend(s Portions, t, n int64) Portions {
	s, t = b.at(s, t)
	s.missing += min(n, b.most-s.missing)
	s.last = t
	return s
}

// Since implements [Rule].
func (b *DiscreteBucket) Since(s Portions) int64 {
	if s.missing == 0 {
		return -MaxTime
	}
	return s.last
}
