package redislimit

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// bucket is the arithmetic of token buckets in ticks, of which a microsecond has a whole number.
// They are chosen so that one unit flows in a whole number of them, too: then a bucket of n units passes n
// at once, one that is asked at its rate passes always, and nothing is rounded.
type bucket struct {
	limit, burst int64
	window       int64 // µs
	scale        int64 // ticks in a µs
	cell         int   // bytes of a time
	generation   int64 // µs: how often the times of a block are brought forward
}

// scales are tried in turn: they have ticks for most limits, at the same names for all of them. What
// one of them has no ticks for goes by its own, in wider cells if it must.
var scales = []int64{2520, 420, 21, 1}

func newBucket(c *Config) (bucket, error) {
	b := bucket{limit: int64(c.Limit), burst: int64(c.Burst), window: c.Window.Microseconds(), cell: 4}
	if b.burst == 0 {
		b.burst = b.limit
	}
	if float64(b.burst)*float64(b.window)/float64(b.limit) > maxWindow/1000 {
		return bucket{}, fmt.Errorf("redislimit: Burst %d, must fill within %v at %d per %v", c.Burst, time.Duration(maxWindow), c.Limit, c.Window)
	}
	longest := b.longest().Microseconds()
	for !b.rescale(longest) && b.cell < 7 {
		b.cell++
	}
	b.generation = min(longest, (b.last()-longest*b.scale)/b.scale)
	return b, nil
}

// rescale chooses the ticks for cells of this size, and tells whether one unit flows in a whole number of
// them. If not, it is rounded up: that is seldom, and with cells of seven bytes one part in 1e9 at most.
func (b *bucket) rescale(longest int64) (whole bool) {
	most := b.most() / longest
	isWhole := func(scale int64) bool {
		hi, lo := bits.Mul64(uint64(b.window), uint64(scale))
		return scale <= most && bits.Rem64(hi, lo, uint64(b.limit)) == 0
	}
	own := b.limit / gcd(b.limit, b.window)
	for _, b.scale = range scales {
		if b.scale <= most {
			break
		}
	}
	if !isWhole(b.scale) && isWhole(own) {
		b.scale = own
	}
	whole = isWhole(b.scale)
	if !whole {
		b.scale = max(1, most)
	}
	return whole
}

// last returns the largest time that a cell holds and scripts compute with.
func (b *bucket) last() int64 { return 1<<min(53, 8*b.cell) - 1 }

// most returns the most ticks in which a bucket may fill: a sixteenth of the times is for those that have
// passed since a generation began.
func (b *bucket) most() int64 { return b.last() / 16 * 15 }

// forgotten returns the number of generations after which no time lies ahead.
func (b *bucket) forgotten() int64 {
	return (b.longest().Microseconds()-1)/b.generation + 2
}

func gcd(a, b int64) int64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
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

// name returns a name that differs for buckets with different ticks.
func (b *bucket) name() string { return fmt.Sprintf("%dx%d", b.scale, b.generation) }

// constants returns what scripts must know. Strings live for twice the longest that a
// bucket takes to fill, which covers the rest of a generation and what is set in it:
// a generation is shorter than that.
func (b *bucket) constants() string {
	return fmt.Sprintf("local scale, length, forgotten, cell, number = %d, %d, %d, %d, '>I%d'\nlocal ttl, unit, most = %d, %d, %d\n",
		b.scale, b.generation, b.forgotten(), b.cell, b.cell, ttl(2*b.longest()), b.cost(1), b.room(1))
}

// longest returns the window, or the time in which the bucket fills if that is longer.
func (b *bucket) longest() time.Duration {
	return time.Duration(max(b.window, ceilDiv(b.burst, b.window, b.limit))) * time.Microsecond
}

// cost returns the ticks in which n units flow, or 0 if they never pass. Only where a unit has no whole
// number of ticks, as a lower limit's may not have, it is rounded up.
func (b *bucket) cost(n int) int64 {
	if n < 1 || int64(n) > b.burst {
		return 0
	}
	return ceilDiv(int64(n), b.window*b.scale, b.limit)
}

// room returns the most ticks that the bucket may lack so that n units are in it, or −1.
func (b *bucket) room(n int) int64 {
	if n < 1 || int64(n) > b.burst {
		return -1
	}
	hi, lo := bits.Mul64(uint64(b.burst-int64(n)), uint64(b.window*b.scale))
	ticks, _ := bits.Div64(hi, lo, uint64(b.limit))
	return int64(ticks)
}

// decision returns the decision of the script, which found the bucket ahead ticks short
// of full.
func (b *bucket) decision(allowed bool, ahead int64, n int) sketchlimit.Decision {
	free := b.burst - ceilDiv(ahead, b.limit, b.window*b.scale)
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
	return time.Duration((ticks+b.scale-1)/b.scale) * time.Microsecond
}
