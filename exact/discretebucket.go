package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
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
	keyed[exactmath.Portions]
}

// NewDiscreteBucket returns a limiter with a bucket of maxAmount tokens, 1 … 1<<31-1,
// for every key, into which refillAmount, 1 … 1<<31-1, come every refillTime, 1ns or
// more. To fill an empty bucket must take at most 1<<61ns.
func NewDiscreteBucket(maxAmount int, refillTime time.Duration, refillAmount int, options ...Option) (*DiscreteBucket, error) {
	if err := checkUnits("maxAmount", maxAmount); err != nil {
		return nil, err
	}
	if err := checkSpan("refillTime", refillTime); err != nil {
		return nil, err
	}
	if err := checkUnits("refillAmount", refillAmount); err != nil {
		return nil, err
	}
	r, err := exactmath.NewDiscreteBucket(int64(maxAmount), int64(refillTime), int64(refillAmount))
	if err != nil {
		return nil, err
	}
	b := new(DiscreteBucket)
	fills := time.Duration((maxAmount-1)/refillAmount+1) * refillTime
	return orNil(b, b.init(&r, purpose{limit: maxAmount, most: maxAmount, window: fills}, exactmath.Portions{}, options))
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
