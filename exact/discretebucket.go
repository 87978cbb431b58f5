package exact

import (
	"fmt"
	"time"
)

// DiscreteBucket is a token bucket refilled in portions: refillAmount tokens every
// refillTime, up to maxAmount. A new key's bucket is full, and its refills count from
// the first token taken; a bucket that is full again is as good as new, so its next
// refill is a whole refillTime after the next token is taken. No more than
// maxAmount + ⌊t/refillTime⌋×refillAmount units pass within a span t that begins with
// a full bucket.
//
// Limit in its Decisions is maxAmount. A key's times do not run backwards: a time
// before its last admitted request is taken as the time of that request. Charges
// make debts of what is refilled within 1<<61ns, and no more than 1<<61 tokens.
// Memory: 24 bytes a key and the map around them.
//
// Source: Smyte's description of its rate limiter, whose two operations are
// [DiscreteBucket.Get] and [DiscreteBucket.Reduce]. There the refills of a full
// bucket go on unseen, so that the first one after a burst may come at once.
type DiscreteBucket struct {
	keyed[portions]
	refillTime, refillAmount int64
	most                     int64 // tokens that can be missing
}

// portions is how many tokens were missing after the refill at a time.
type portions struct {
	missing  int64
	refilled int64
	last     int64
}

// NewDiscreteBucket returns a limiter with a bucket of maxAmount tokens, 1 … 1<<31-1,
// for every key, into which refillAmount, 1 … 1<<31-1, come every refillTime, 1ns or
// more. To fill an empty bucket must take at most 1<<61ns.
func NewDiscreteBucket(maxAmount int, refillTime time.Duration, refillAmount int) (*DiscreteBucket, error) {
	if err := checkUnits("maxAmount", maxAmount); err != nil {
		return nil, err
	}
	if err := checkSpan("refillTime", refillTime); err != nil {
		return nil, err
	}
	if err := checkUnits("refillAmount", refillAmount); err != nil {
		return nil, err
	}
	b := &DiscreteBucket{refillTime: int64(refillTime), refillAmount: int64(refillAmount)}
	b.most = mulCapped(uint64(maxSpan/b.refillTime), uint64(refillAmount), maxSpan)
	if int64(maxAmount) > b.most {
		return nil, fmt.Errorf("exact: maxAmount %d, must be 1 … %d with %d refilled every %v",
			maxAmount, b.most, refillAmount, refillTime)
	}
	b.init(b, maxAmount, 0, portions{})
	return b, nil
}

// Get returns the number of tokens in the key's bucket, and changes nothing.
func (b *DiscreteBucket) Get(now time.Time, key string) int {
	return b.PeekAt(now, key, 1).Remaining
}

// Reduce takes so many tokens out of the key's bucket if they are in it, the last one
// included, and returns the number then in it.
func (b *DiscreteBucket) Reduce(now time.Time, key string, tokens int) (value int, ok bool) {
	d := b.TakeAt(now, key, tokens)
	return d.Remaining, d.Allowed
}

// at makes the refills that are due at t, and returns the time that t is taken as.
func (b *DiscreteBucket) at(s portions, t int64) (portions, int64) {
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
func (b *DiscreteBucket) until(s portions, t, missing int64) time.Duration {
	if s.missing <= missing {
		return 0
	}
	return time.Duration(s.refilled - t + ceilDiv(s.missing-missing, b.refillAmount)*b.refillTime)
}

func (b *DiscreteBucket) wait(s portions, t, n int64) time.Duration {
	s, t = b.at(s, t)
	return b.until(s, t, b.limit-n)
}

func (b *DiscreteBucket) left(s portions, t int64) (int64, time.Duration) {
	s, t = b.at(s, t)
	return b.limit - s.missing, b.until(s, t, 0)
}

func (b *DiscreteBucket) spend(s portions, t, n int64) portions {
	s, t = b.at(s, t)
	s.missing += min(n, b.most-s.missing)
	s.last = t
	return s
}

func (b *DiscreteBucket) since(s portions) int64 {
	if s.missing == 0 {
		return -maxTime
	}
	return s.last
}
