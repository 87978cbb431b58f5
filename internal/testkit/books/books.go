// Package books keeps the exact books of a limiter that counts what it is charged, in
// rational arithmetic and by the definitions of the algorithms alone. Tests hold the
// sketch against it.
package books

import (
	"cmp"
	"math/big"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Books are those of one limiter.
type Books struct {
	limit, burst int64
	window       time.Duration
	bucket       bool
	kept         int64 // generations that count; the oldest by a part if there are several
	length       int64 // of a generation, ns
	latest       int64 // generation
	seen         bool
	keys         map[string]*account
}

type account struct {
	counts map[int64]int64 // by generation
	full   *big.Rat        // unix time at which a bucket is full, ns
}

// New returns empty books. Generations of buckets say when a clock that steps back
// waits, and have the length given.
func New(c sketchlimit.Config, generation time.Duration) *Books {
	l := &Books{
		limit: int64(c.Limit), burst: int64(cmp.Or(c.Burst, c.Limit)), window: c.Window, bucket: c.Algorithm == sketchlimit.TokenBucket,
		kept: 1, length: int64(generation), keys: map[string]*account{},
	}
	if c.Algorithm == sketchlimit.SlidingWindow {
		l.kept = int64(max(1, c.SubWindows)) + 1
	}
	return l
}

// Length returns the length of a generation.
func (l *Books) Length() time.Duration { return time.Duration(l.length) }

// See makes a time the latest, and returns it as unix time in ns: that of the latest
// generation's first instant if it is before that.
func (l *Books) See(at time.Time) (now int64) {
	now = at.UnixNano()
	g := now / l.length
	if !l.seen || g > l.latest {
		l.latest, l.seen = g, true
	}
	if g < l.latest {
		return l.latest * l.length
	}
	return now
}

func (l *Books) account(key string) *account {
	a := l.keys[key]
	if a == nil {
		a = &account{counts: map[int64]int64{}, full: new(big.Rat)}
		l.keys[key] = a
	}
	return a
}

// Free returns the units of a key that are free at a time that See has returned; below
// 0 where it is in debt.
func (l *Books) Free(now int64, key string) int64 {
	a := l.account(key)
	if l.bucket {
		return l.burst - ceil(new(big.Rat).Quo(a.ahead(now), l.flow(1)))
	}
	g, free := now/l.length, l.limit
	for age := range l.kept {
		count := a.counts[g-age]
		if l.kept > 1 && age == l.kept-1 {
			left := big.NewRat(l.length-now%l.length, l.length)
			count = ceil(left.Mul(left, big.NewRat(count, 1)))
		}
		free -= count
	}
	return free
}

// Charge counts n units of a key at a time that See has returned, as far as they are
// remembered, and returns how many of them were not free.
func (l *Books) Charge(now int64, key string, n int64) (over int64) {
	a, free := l.account(key), l.Free(now, key)
	over = max(0, n-max(0, free))
	if l.bucket {
		full := new(big.Rat).Add(a.ahead(now), l.flow(n))
		if full.Cmp(l.flow(2*l.burst)) > 0 {
			full = l.flow(2 * l.burst)
		}
		if full.Add(full, big.NewRat(now, 1)); full.Cmp(a.full) > 0 { // a clock that has stepped back changes nothing
			a.full = full
		}
		return over
	}
	g := now / l.length
	a.counts[g] = min(a.counts[g]+n, l.limit)
	for old := range a.counts {
		if old <= g-l.kept {
			delete(a.counts, old)
		}
	}
	return over
}

// flow returns the ns in which n units flow.
func (l *Books) flow(n int64) *big.Rat {
	flow := big.NewRat(n, l.limit)
	return flow.Mul(flow, big.NewRat(int64(l.window), 1))
}

// ahead returns how long it takes until the bucket is full, ns.
func (a *account) ahead(now int64) *big.Rat {
	ahead := new(big.Rat).Sub(a.full, big.NewRat(now, 1))
	if ahead.Sign() < 0 {
		ahead.SetInt64(0)
	}
	return ahead
}

func ceil(r *big.Rat) int64 {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		return q.Int64() + 1
	}
	return q.Int64()
}
