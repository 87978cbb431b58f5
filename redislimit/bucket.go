package redislimit

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

const (
	// generationTicks is how long a generation of times lasts.
	generationTicks = 1 << 30
	// maxAhead is the most ticks that a bucket takes to fill, so that a time which is set
	// at the end of a generation fits 32 bits.
	maxAhead = 3*generationTicks - 1
)

// bucket is the arithmetic of token buckets in ticks, of which a microsecond has 2^shift:
// as many as still let a time fit 32 bits.
type bucket struct {
	limit, burst int64
	window       int64 // µs
	shift        int
}

func newBucket(c *Config) (bucket, error) {
	b := bucket{limit: int64(c.Limit), burst: int64(c.Burst), window: c.Window.Microseconds()}
	if b.burst == 0 {
		b.burst = b.limit
	}
	if float64(b.burst)*float64(b.window)/float64(b.limit) > maxWindow/1000 {
		return bucket{}, fmt.Errorf("redislimit: Burst %d, must fill within %v at %d per %v", c.Burst, time.Duration(maxWindow), c.Limit, c.Window)
	}
	for b.shift = 32; math.Ldexp(float64(b.longest().Microseconds()), b.shift) > maxAhead; b.shift-- {
	}
	return b, nil
}

// under returns the bucket of a key whose limit is 0 … b.limit: its burst is less in
// proportion, but one unit at least.
func (b bucket) under(limit int) bucket {
	if whole := b.limit; int64(limit) < whole {
		b.limit = int64(limit)
		b.burst = max(min(1, b.limit), b.burst*b.limit/whole)
	}
	return b
}

// name tells buckets apart whose ticks are others.
func (b *bucket) name() string { return fmt.Sprint("2^", b.shift) }

// constants returns what scripts must know. Strings live for twice the longest that a
// bucket takes to fill, which covers the rest of a generation and what is set in it:
// a generation is shorter than that.
func (b *bucket) constants() string {
	return fmt.Sprintf("local scale, ttl, unit, most = %v, %d, %d, %d\n", math.Ldexp(1, b.shift), ttl(2*b.longest()), b.cost(1), b.room(1))
}

// longest returns the window, or the time in which the bucket fills if that is longer.
func (b *bucket) longest() time.Duration {
	return time.Duration(max(b.window, ceilDiv(b.burst, b.window, b.limit))) * time.Microsecond
}

// cost returns the ticks in which n units flow, rounded up, or 0 if they never pass.
func (b *bucket) cost(n int) int64 {
	if n < 1 || int64(n) > b.burst {
		return 0
	}
	units, span := b.rate()
	return ceilDiv(int64(n), span, units)
}

// room returns the most ticks that the bucket may lack so that n units are in it, or −1.
func (b *bucket) room(n int) int64 {
	if n < 1 || int64(n) > b.burst {
		return -1
	}
	units, span := b.rate()
	hi, lo := bits.Mul64(uint64(b.burst-int64(n)), uint64(span))
	ticks, _ := bits.Div64(hi, lo, uint64(units))
	return int64(ticks)
}

// rate returns how many units flow in how many ticks.
func (b *bucket) rate() (units, span int64) {
	return b.limit << max(0, -b.shift), b.window << max(0, b.shift)
}

// decision tells what the script has found: the ticks that the bucket lacked before.
func (b *bucket) decision(allowed bool, ahead int64, n int) sketchlimit.Decision {
	units, span := b.rate()
	free := b.burst - ceilDiv(ahead, units, span)
	d := sketchlimit.Decision{Allowed: allowed, Limit: int(b.limit)}
	if allowed {
		free -= int64(n)
		ahead += b.cost(n)
	} else if d.RetryAfter = sketchlimit.Never; b.room(n) >= 0 {
		d.RetryAfter = b.time(ahead - b.room(n))
	}
	d.Remaining, d.ResetAfter = int(max(0, free)), b.time(ahead)
	return d
}

// time returns so many ticks, rounded up to a microsecond.
func (b *bucket) time(ticks int64) time.Duration {
	if b.shift < 0 {
		return time.Duration(ticks<<-b.shift) * time.Microsecond
	}
	return time.Duration((ticks+1<<b.shift-1)>>b.shift) * time.Microsecond
}
