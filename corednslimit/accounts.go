package corednslimit

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// accounts are the balances of all categories of all clients, in one limiter.
//
// An account gains its allowance evenly, up to that of one second. Each response is
// charged, also one that is then refused, down to a debt of window seconds of
// allowance. So an account is a bucket of window + 1 seconds of allowance; its balance
// is what the bucket holds beyond window seconds of it, and a response is sent if the
// balance is not negative after it.
type accounts struct {
	limiter *sketchlimit.Limiter // nil if no category is limited
	of      [categories]account
}

// account is what a category allows.
type account struct {
	limit int // of the limiter; 0: the category is not limited
	debt  int // units that the bucket holds at a balance of 0
}

// rates are what a block says about accounts.
type rates struct {
	perSecond [categories]float64 // 0: not limited
	window    float64             // seconds
	keys      int                 // accounts; 0 if memory is given
	memory    int                 // bytes
	clock     func() time.Time    // nil: the limiter's own

	room func(bytes int) error // whether there is so much memory; nil: the limiter's own check
}

// longestSpan is the seconds in which an allowance must be a whole number of responses.
const longestSpan = 1000

// newAccounts returns accounts that are full.
func newAccounts(r rates) (*accounts, error) {
	span, most, lowest := r.span(), 0, math.MaxInt
	a := new(accounts)
	for c, rate := range r.perSecond {
		if rate > 0 {
			limit := max(1, int(rate*float64(span)+1e-6)) // rounded down: never more than the allowance
			a.of[c].limit = limit
			most, lowest = max(most, limit), min(lowest, limit)
		}
	}
	if most == 0 {
		return a, nil
	}
	c := sketchlimit.Config{
		Limit: most, LowestLimit: lowest, Window: time.Duration(span) * time.Second, Algorithm: sketchlimit.TokenBucket,
		Burst: max(1, int((r.window+1)*float64(most)/float64(span))), Keys: r.keys, MemoryBytes: r.memory, Clock: r.clock,
	}
	if r.keys > 0 {
		c.UnitsPerKey = float64(c.Burst) // any account may be in use at any time
	}
	_, bytes, err := c.Size()
	if err == nil && r.room != nil {
		err = r.room(bytes)
	}
	if err != nil {
		return nil, err
	}
	if a.limiter, err = sketchlimit.New(c); err != nil {
		return nil, err
	}
	for c := range a.of {
		if account := &a.of[c]; account.limit > 0 {
			full := a.limiter.Do(sketchlimit.Request{Limit: account.limit, Peek: true}).Remaining
			account.debt = full - min(full, max(1, account.limit/span))
		}
	}
	return a, nil
}

// span returns the least seconds, 1, 10, 100 or 1000, in which all allowances are whole
// numbers of responses.
func (r *rates) span() int {
	span := 1
	for span < longestSpan && !r.wholeIn(span) {
		span *= 10
	}
	return span
}

func (r *rates) wholeIn(span int) bool {
	for _, rate := range r.perSecond {
		if n := rate * float64(span); math.Abs(n-math.Round(n)) > 1e-6 {
			return false
		}
	}
	return true
}

// limits reports whether a category is limited.
func (a *accounts) limits(c category) bool { return a.of[c].limit > 0 }

// debit charges an account of a category that is limited, and tells whether its balance
// is not negative now.
func (a *accounts) debit(c category, key []byte) bool {
	account := &a.of[c]
	d := a.limiter.Do(sketchlimit.Request{Bytes: key, Limit: account.limit})
	return d.Allowed && d.Remaining >= account.debt
}

// falseDenialRate returns the chance that the first response to a client is refused
// because of others: that of the category where it is highest.
func (a *accounts) falseDenialRate() float64 {
	rate, seen := 0.0, make(map[account]bool)
	for _, of := range a.of {
		if of.limit > 0 && !seen[of] {
			seen[of] = true
			rate = max(rate, a.limiter.FalseDenialRate(of.debt+1, of.limit))
		}
	}
	return rate
}

// memoryBytes returns what the accounts take.
func (a *accounts) memoryBytes() int {
	if a.limiter == nil {
		return 0
	}
	return a.limiter.MemoryBytes()
}

// close ends what goes on in the background.
func (a *accounts) close() error {
	if a.limiter == nil {
		return nil
	}
	return a.limiter.Close()
}
