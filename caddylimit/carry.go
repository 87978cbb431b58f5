package caddylimit

import (
	"cmp"
	"hash/maphash"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// former is a limiter that a zone had before its settings changed, while its counts matter.
type former struct {
	*sketchlimit.Limiter // and no more: it must not keep its own former ones
	config               sketchlimit.Config
	until                time.Time // when nothing of it is left
}

// carrying are locks of keys that are carried: two requests must not charge what one key has used twice.
var (
	carrying     [64]sync.Mutex
	carryingSeed = maphash.MakeSeed()
)

func carryingOf(r sketchlimit.Request) *sync.Mutex {
	type key struct {
		text string
		addr netip.Addr
	}
	return &carrying[maphash.Comparable(carryingSeed, key{r.Key, r.Addr})%uint64(len(carrying))]
}

// maxFormers bounds the memory of a zone whose settings change again and again. Keys that have come since have carried
// on what older limiters had counted.
const maxFormers = 4

// succeed makes the state go on with the counts of the one that the zone has now, limit by limit, where window and
// algorithm are the same.
func (s *state) succeed(before *state) {
	if before == nil || before.v4 != s.v4 || before.v6 != s.v6 {
		return
	}
	now := timeNow()
	for _, l := range s.limiters {
		var formers []former
		for _, b := range before.limiters {
			if b.config.Window != l.config.Window || b.config.Algorithm != l.config.Algorithm {
				continue
			}
			b.heir.Store(l)
			formers = append(formers, former{b.Limiter, b.config, now.Add(b.lasts())})
			if earlier := b.formers.Load(); earlier != nil {
				for _, f := range *earlier {
					if now.Before(f.until) {
						formers = append(formers, f)
					}
				}
			}
		}
		if formers = formers[:min(len(formers), maxFormers)]; len(formers) > 0 {
			l.formers.Store(&formers)
		}
	}
}

// lasts returns how long the counts of the limiter matter when nothing is counted in it any more.
func (l *limiter) lasts() time.Duration {
	c := l.config
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

// carry charges a key with what former limiters have counted of it, as far as it does not have that yet. From then on
// its count is all that matters.
//
// While the server of a config ends, the next one serves: then each looks at what the other has counted. Of requests at
// the same instant each may admit one.
//
// All that a sliding window has counted is charged now, which may take until the end of the window to leave it.
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
	if heir != nil {
		inUse = max(inUse, used(heir.config, heir.Do(r)))
	}
	if inUse == 0 {
		return
	}
	inUse = min(inUse, float64(cmp.Or(l.config.Burst, l.config.Limit)))
	lock := carryingOf(r)
	lock.Lock()
	defer lock.Unlock()
	const rounding = 1e-6 // of a unit, of the times of buckets
	if lacks := math.Ceil(inUse - used(l.config, l.Do(r)) - rounding); lacks > 0 {
		r.Peek, r.N = false, int(lacks)
		l.DoCharge(r)
	}
}

// formerly returns the units in use of a key by what former limiters have counted, and lets go of them once none matters.
func (l *limiter) formerly(formers *[]former, look sketchlimit.Request) (inUse float64) {
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
	return time.Now()
}
