package caddylimit

import (
	"cmp"
	"hash/maphash"
	"math"
	"math/bits"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/sketchlimit/sketchlimit"
)

// predecessor is a limiter that a zone had before its settings changed, while its
// counts matter.
type predecessor struct {
	*sketchlimit.Limiter // and no more: it must not keep its own former ones
	config               sketchlimit.Config
	until                time.Time // when nothing of it is left
}

// keySet is a set of locks of keys. A request holds those of all its keys while it
// carries them and is decided: nobody else may count one of them in between, neither
// here nor in the limiters of another config that serves at the same time. It does so
// also while no settings have changed, because they may just then.
type keySet uint64

// locks are those of keySet, by bit, each in a cache line of its own.
var (
	locks [64]struct {
		sync.Mutex
		_ [56]byte
	}
	lockSeed = maphash.MakeSeed()
)

// add adds the lock of a key.
func (s *keySet) add(r sketchlimit.Request) {
	type key struct {
		text string
		addr netip.Addr
	}
	*s |= 1 << (maphash.Comparable(lockSeed, key{r.Key, r.Addr}) % uint64(len(locks)))
}

// lock takes all locks in their order, so that no two requests wait for each other.
func (s keySet) lock() {
	for left := s; left != 0; left &= left - 1 {
		locks[bits.TrailingZeros64(uint64(left))].Lock()
	}
}

func (s keySet) unlock() {
	for left := s; left != 0; left &= left - 1 {
		locks[bits.TrailingZeros64(uint64(left))].Unlock()
	}
}

// maxFormers bounds the memory of a zone whose settings change again and again. Keys
// that have come since have carried on what older limiters had counted.
const maxFormers = 4

// succeed makes the state go on with the counts of the one that the zone has now, limit
// by limit, where window and algorithm are the same.
func (s *state) succeed(before *state) {
	if before == nil || before.v4 != s.v4 || before.v6 != s.v6 {
		return
	}
	now := timeNow()
	for _, l := range s.limiters {
		var formers []predecessor
		for _, b := range before.limiters {
			if b.config.Window != l.config.Window || b.config.Algorithm != l.config.Algorithm {
				continue
			}
			b.heir.Store(l)
			formers = append(formers, predecessor{b.Limiter, b.config, now.Add(lasts(b.config))})
			formers = append(formers, b.live(now)...)
		}
		if more := len(formers) - maxFormers; more > 0 {
			log().Warn("counts of limits before the last ones were let go: keys that have not come since may have a fresh quota",
				zap.String("limiter", l.name), zap.Int("limits", more))
		}
		if formers = formers[:min(len(formers), maxFormers)]; len(formers) > 0 {
			l.formers.Store(&formers)
		}
	}
}

// live returns the former limiters that matter at a time.
func (l *limiter) live(now time.Time) (all []predecessor) {
	if formers := l.formers.Load(); formers != nil {
		for _, f := range *formers {
			if now.Before(f.until) {
				all = append(all, f)
			}
		}
	}
	return all
}

// lasts returns how long the counts of a limiter matter when nothing is counted in it
// any more.
func lasts(c sketchlimit.Config) time.Duration {
	span := 2 * c.Window
	if c.Burst > c.Limit {
		span = max(span, time.Duration(min(float64(c.Burst)/float64(c.Limit)*float64(c.Window), math.MaxInt64/2)))
	}
	return span
}

// used returns the units in use of a key, by what the limiter says to one who looks.
func used(c sketchlimit.Config, d sketchlimit.Decision) float64 {
	if c.Algorithm == sketchlimit.TokenBucket { // in which a part of a unit may have flowed back
		return float64(d.ResetAfter) / float64(c.Window) * float64(c.Limit)
	}
	return float64(c.Limit - d.Remaining)
}

// carry charges a key with what former limiters have counted of it, as far as it does
// not have that yet. The caller holds the lock of the key.
//
// While the server of a config ends, the next one serves. Each looks at what the other
// has counted, so together they admit what the limit is.
//
// All that a sliding window has counted is charged now, which may take until the end of
// the window to leave it. What a former bucket has counted flows back at its own rate:
// if the new rate is higher, the key is charged again meanwhile.
func (l *limiter) carry(r sketchlimit.Request) {
	formers, heir := l.formers.Load(), l.heir.Load()
	if formers == nil && heir == nil {
		return
	}
	r.Peek = true
	inUse := 0.0
	if formers != nil {
		inUse = l.formerly(formers, r)
	}
	for ; heir != nil; heir = heir.heir.Load() { // several configs may have come since
		inUse = max(inUse, used(heir.config, heir.Do(r)))
	}
	if inUse == 0 {
		return
	}
	inUse = min(inUse, float64(cmp.Or(l.config.Burst, l.config.Limit)))
	const rounding = 1e-6 // of a unit, of the times of buckets
	if lacks := math.Ceil(inUse - used(l.config, l.Do(r)) - rounding); lacks > 0 {
		r.Peek, r.N = false, int(lacks)
		l.DoCharge(r)
	}
}

// formerly returns the units in use of a key by what former limiters have counted, and
// lets go of them once none matters.
func (l *limiter) formerly(formers *[]predecessor, look sketchlimit.Request) (inUse float64) {
	matter, now := false, timeNow()
	for _, f := range *formers {
		if now.Before(f.until) {
			matter = true
			inUse = max(inUse, used(f.config, f.Do(look)))
		}
	}
	if !matter {
		l.formers.CompareAndSwap(formers, nil)
	}
	return inUse
}

// timeNow returns the time of the limiters.
func timeNow() time.Time {
	if clock != nil {
		return clock()
	}
	return sketchlimit.Now()
}
