// Package httpratelimit is a counter of go-chi/httprate for millions of keys in fixed
// memory. The one that comes with it keeps each key of two windows in maps.
//
//	counter, err := httpratelimit.New(1_000_000) // keys in one window
//	...
//	clients := &httplimit.Clients{}
//	r.Use(httprate.LimitBy(100, time.Minute,
//		func(r *http.Request) (string, error) { return clients.Text(r), nil },
//		httprate.WithLimitCounter(counter)))
//
// httprate decides itself, by the counts of the current window and of the one before,
// under one lock for all keys. Package httplimit of sketchlimit decides without such a
// lock, in a quarter of the memory, and tells clients when to come back: it is a
// middleware of net/http, too.
package httpratelimit

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"
	"unsafe"

	"github.com/go-chi/httprate"

	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// A shard is two sketches of 16 KiB, one a window. It turns when it is next touched, so
// no request clears more than both.
const (
	windows     = 2 // the current one and the one before
	depth       = 4
	width       = 2048
	cellBits    = 16 // counts up to most
	most        = math.MaxInt32
	keysInShard = 2 * width
)

var ring = rotating.NewRing(windows)

// Counter is a [httprate.LimitCounter], made by [New]. Its counts are never too low, up
// to 2^31-1, and may be too high; so httprate admits nothing with it that it would deny
// with exact counts. It is safe for concurrent use.
//
// A time before the latest window counts as that window, so that a clock which steps
// back forgets nothing.
type Counter struct {
	layout cms.Layout
	keys   maphash.Seed
	seed   uint64

	mu     sync.Mutex
	length time.Duration // of a window
	err    error         // of Config
	words  []uint64
	latest []int64 // window of each shard
}

var _ httprate.LimitCounter = (*Counter)(nil)

// New returns a counter for so many distinct keys in one window, 1 … 1<<31-1. It takes
// 8 bytes for each. With more keys counts are too high more often.
func New(keys int) (*Counter, error) {
	if keys < 1 || keys > math.MaxInt32 {
		return nil, fmt.Errorf("httpratelimit: keys %d, must be 1 to %d", keys, math.MaxInt32)
	}
	layout, err := cms.NewLayout(depth, width, cellBits)
	if err != nil {
		return nil, fmt.Errorf("httpratelimit: %w", err)
	}
	shards := (keys-1)/keysInShard + 1
	c := &Counter{
		layout: layout, keys: maphash.MakeSeed(),
		words:  make([]uint64, shards*windows*layout.Words()),
		latest: make([]int64, shards),
	}
	c.seed = maphash.String(c.keys, "windows")
	for i := range c.latest {
		c.latest[i] = math.MinInt64 + windows // before all windows
	}
	return c, nil
}

// MemoryBytes returns the memory that the counter takes, everything included.
func (c *Counter) MemoryBytes() int { return 8*(len(c.words)+len(c.latest)) + int(unsafe.Sizeof(*c)) }

// Config implements [httprate.LimitCounter]: [httprate.NewRateLimiter] calls it. Rate
// limiters that share a counter, and so their keys, must have one window: of two, every
// request is answered with an error. Each of them asks and counts under a lock of its
// own: so each but the first may admit one request too many at a time.
func (c *Counter) Config(_ int, windowLength time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case windowLength <= 0:
		c.err = fmt.Errorf("httpratelimit: window %v, must be above 0", windowLength)
	case c.length != 0 && c.length != windowLength:
		c.err = fmt.Errorf("httpratelimit: windows %v and %v share a Counter, must be the same", c.length, windowLength)
	}
	c.length = windowLength
}

// Increment implements [httprate.LimitCounter].
func (c *Counter) Increment(key string, currentWindow time.Time) error {
	return c.IncrementBy(key, currentWindow, 1)
}

// IncrementBy implements [httprate.LimitCounter]. An amount below 0 is an error: a
// sketch cannot take units back.
func (c *Counter) IncrementBy(key string, currentWindow time.Time, amount int) error {
	if amount < 0 {
		return fmt.Errorf("httpratelimit: amount %d, must be 0 or more: a sketch cannot take units back", amount)
	}
	h := maphash.String(c.keys, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	shard, _, err := c.turn(h, currentWindow)
	if err != nil {
		return err
	}
	first, h := c.at(shard, c.latest[shard], h)
	if _, ok := c.layout.AddBounded(c.words, first, h, uint32(min(amount, most)), most); !ok {
		c.layout.Raise(c.words, first, h, most)
	}
	return nil
}

// Get implements [httprate.LimitCounter]. The previous window is the one before the
// current one, whatever it is given.
func (c *Counter) Get(key string, currentWindow, _ time.Time) (current, previous int, err error) {
	h := maphash.String(c.keys, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	shard, behind, err := c.turn(h, currentWindow)
	if err != nil {
		return 0, 0, err
	}
	latest := c.latest[shard]
	current, previous = c.read(shard, latest, h), c.read(shard, latest-1, h)
	if behind { // at the first instant of the latest window all of the previous one counts
		return min(current, most-previous) + previous, 0, nil
	}
	return current, previous, nil
}

// turn makes a window the latest of the key's shard, unless it is behind that.
func (c *Counter) turn(h uint64, window time.Time) (shard int, behind bool, err error) {
	if c.err == nil && c.length == 0 {
		return 0, false, errors.New("httpratelimit: window 0, must be set by Config")
	}
	if c.err != nil {
		return 0, false, c.err
	}
	high, _ := bits.Mul64(h, uint64(len(c.latest)))
	shard = int(high)
	number := window.UnixNano() / int64(c.length)
	ring.Rotate(c.latest[shard], number, func(buffer int) { clear(c.words[c.first(shard, buffer):][:c.layout.Words()]) })
	behind = number < c.latest[shard]
	c.latest[shard] = max(number, c.latest[shard])
	return shard, behind, nil
}

// at returns where the sketch of a window begins, and the hash of a key there: two keys
// that are unlucky in one window are strangers in the next.
func (c *Counter) at(shard int, window int64, h uint64) (first int, own uint64) {
	high, low := bits.Mul64(h^c.seed, rotating.Seed(c.seed, window)|1)
	return c.first(shard, ring.Buffer(window)), high ^ low
}

// first returns where a buffer of a shard begins.
func (c *Counter) first(shard, buffer int) int { return (shard*windows + buffer) * c.layout.Words() }

func (c *Counter) read(shard int, window int64, h uint64) int {
	first, h := c.at(shard, window, h)
	return int(c.layout.Estimate(c.words, first, h))
}
