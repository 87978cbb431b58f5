package sketchlimit

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// Algorithm is the rule by which a [Limiter] admits.
type Algorithm int

const (
	// SlidingWindow admits n units while
	//
	//	count(current) + count(previous) × (1 − elapsed/window) + n ≤ limit
	//
	// compared as if without rounding. Any span of one window holds at most the
	// limit if the previous generation's units came evenly. With
	// [Config.SubWindows] m > 1 the window is cut into m generations, of which
	// only the oldest of m+1 is weighted, and the assumption concerns 1/m of it.
	SlidingWindow Algorithm = iota
	// FixedWindow admits n units while count(current) + n ≤ limit. It needs half
	// the memory, and lets up to twice the limit through around a window's edge.
	FixedWindow
	// TokenBucket admits n units while the key's bucket holds them. The bucket holds
	// [Config.Burst] units at most, which flow back evenly, Limit per Window: any
	// span s of time admits at most Burst + Limit × s / Window units. Leaky bucket
	// (as a meter) and GCRA are other names for it. Its cells are times of
	// 32 bits; cells of windows are counts of 8 bits for limits up to 256.
	TokenBucket
)

// String returns the algorithm's name as the command line spells it.
func (a Algorithm) String() string {
	switch a {
	case SlidingWindow:
		return "sliding"
	case FixedWindow:
		return "fixed"
	case TokenBucket:
		return "bucket"
	}
	return fmt.Sprintf("Algorithm(%d)", int(a))
}

// Config says what a [Limiter] limits and how large it is. Limit, Window and one of
// Keys, MemoryBytes and Plan must be set.
type Config struct {
	// Limit is the number of units per key and Window, 1 … 1<<31-1.
	Limit int
	// LowestLimit is the lowest limit that a request may come with, see [Limiter.TakeLimit]:
	// 1 … Limit; 0 is Limit. The lower it is, the more memory Keys asks for: a few units of
	// other keys in a key's cells are little of Limit, and may be all of a low limit.
	LowestLimit int
	// Window is the span that Limit is meant for, 1ms … 1<<61ns (73 years).
	// Windows start at multiples of their length since the Unix epoch.
	Window time.Duration
	// Algorithm is the rule of admission; SlidingWindow if not set.
	Algorithm Algorithm
	// SubWindows cuts a sliding window into so many generations, of at least 1ms
	// and a whole number of nanoseconds each; 0 is 1. More of them follow a log
	// of all requests more closely, and each takes its share of the memory.
	SubWindows int
	// Burst is the number of units that a bucket holds, and so the most that one
	// request may cost: 1 … 1<<31-1; 0 is Limit. It goes with TokenBucket alone. A
	// bucket must fill within 1<<61ns.
	//
	// A bucket of n units passes n at once, and one request after another at exactly its
	// rate. Its cells count ticks, and a unit is a whole number of ticks. The time in which
	// the bucket fills, or Window if that is longer, has some 3e9 ticks, a few times fewer
	// where neither Limit nor Window is a round number.
	//
	// Two things are rounded up to ticks: the time of a request that finds its bucket full,
	// and the cost at a limit of the request's own whose unit is not whole ticks. Each time
	// the bucket gets its last unit later, by less than a tick. That is nanoseconds in a
	// bucket that fills within a minute, a microsecond if it takes an hour, and one part in
	// 1,500 of a unit in a bucket of a million units. Each shard keeps the exact time of the
	// key that it last rounded, which so loses nothing. The clock that a limiter reads itself
	// is taken at whole ticks where milliseconds are whole ticks.
	Burst int

	// Keys is the number of distinct keys expected in one window, 1 … 1<<31-1. The
	// limiter is made large enough to hold FalseDenialRate at a mean of up to
	// five requests a key, with one key in a hundred at three times Limit, at whatever
	// moment of a window these begin. With LowestLimit the rate holds for keys under that
	// limit. With MemoryBytes, Keys only chooses how the memory is spent.
	Keys int
	// FalseDenialRate is the share of requests of innocent keys (those that have
	// used less than half of Limit) that may be denied wrongly, 1e-12 … below
	// 1; 0 is 1e-5. It goes with Keys alone.
	FalseDenialRate float64
	// MemoryBytes is the most memory the limiter may take, everything included.
	MemoryBytes int
	// Plan gives the dimensions themselves.
	Plan *Plan

	// Overload is what happens when FalseDenialRate (or 1e-5) is passed: Deny if not set,
	// and always with TokenBucket.
	Overload Overload
	// MaxMemoryBytes is the most memory that a limiter may grow to; with Grow alone.
	MaxMemoryBytes int

	// Hash is what keys are hashed by; XXHash(Seed) if nil. Where strangers choose the bytes
	// of their keys it is to be a keyed one, such as [MapHash].
	Hash Hash
	// Seed makes a limiter reproducible: with the same seed, keys and times, one
	// goroutine gets the same decisions bit for bit. 0 draws one from
	// crypto/rand, which is what a service wants: whoever knows the seed can
	// choose keys that collide, unless the Hash is keyed.
	Seed uint64
	// Clock is read by the forms without a time, at every decision; it must be safe
	// for concurrent use. nil is the wall clock, see [NewWindowManager], which a
	// limiter reads once every [Resolution] if its generations, or the time in which
	// its buckets fill, are at least 100 times as long.
	Clock func() time.Time
}

// Never is the RetryAfter of a request that no amount of waiting makes
// admissible: its cost is below 1 or above the limit, or the burst of a bucket, or its
// limit is below Config.LowestLimit.
const Never time.Duration = math.MaxInt64

// Decision is the answer to one request.
type Decision struct {
	// Allowed tells whether the request was admitted, and its units consumed.
	Allowed bool
	// Limit is the number of units per window the request was held against; 0 if its limit
	// was below Config.LowestLimit.
	Limit int
	// Remaining is the number of units still free now, after this request:
	// 0 … Limit, or Burst, and never more than the exact algorithm would say.
	Remaining int
	// RetryAfter is 0 if the request was admitted. Otherwise it is the time until
	// the first instant at which the same request would pass if nothing else
	// came, or Never.
	RetryAfter time.Duration
	// ResetAfter is the time until the key has its whole quota back if nothing
	// else comes; 0 if it has it now.
	ResetAfter time.Duration
}

// Limiter admits at most Limit units per key and Window, for any number of keys, in
// memory that is fixed when it is built.
//
// It never admits what the exact algorithm, given the same admitted history, would
// deny. It may deny what that would admit; Stats().FalseDenialRate says how often a
// new key meets that. Only admitted units count: a flood of denied requests changes
// nothing.
//
// A key is any string of bytes: Take, TakeBytes and TakeAddr count the same bytes
// for the same key. A request costs n units; a cost below 1 or above Limit (Burst, of
// a bucket) is denied with RetryAfter [Never]. Decisions allocate nothing.
//
// A Limiter is safe for concurrent use. What it cannot do, because it does not know
// its keys: list them, forget one, or take units back.
type Limiter struct {
	layout
	windows *WindowManager
	shards  []shard
	memory  []uint64 // of all shards, layout.size words each
	plan    Plan
	planned planned
	flooded counter // requests for one unit that were denied without the lock

	drawn  bool        // seed
	beside atomic.Bool // keys have counts elsewhere as well: in share, or in before
	share  atomic.Pointer[Share]

	lowest int           // the lowest limit that a request may come with
	tooLow atomic.Uint64 // requests that came with a lower one

	number uint64 // of the limiters that were made, for those in a Group

	// For one that grows, see growth.
	inner  atomic.Pointer[Limiter] // what decides at present; nil: this one itself
	outer  *Limiter                // of an inner one: whose
	before atomic.Pointer[Limiter] // what an inner one has replaced, while that matters
	growth *growth
}

// New returns a limiter with nothing counted. Its errors name the field of the
// Config, its value and what is allowed.
func New(c Config) (*Limiter, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	plan, err := c.plan()
	if err != nil {
		return nil, err
	}
	windows, err := NewWindowManager(c.generation(), c.Clock)
	if err != nil {
		return nil, err
	}
	h, drawn, err := newHasher(c.Hash, c.Seed)
	if err != nil {
		return nil, err
	}
	l, err := newLimiter(c.window(), plan, h, windows)
	if err != nil {
		return nil, err
	}
	if c.Overload == Grow {
		if l, err = growing(l, c); err != nil {
			return nil, err
		}
	}
	if c.Clock == nil && c.coarse() {
		windows.grid = l.bucket.grid()
		windows.run()
	}
	l.planned, l.lowest = c.planned(), c.lowest()
	l.number = made.Add(1)
	l.drawn = drawn
	if windows.behind != nil {
		runtime.AddCleanup(l, (*background).end, windows.behind)
	}
	return l, nil
}

// newLimiter returns a limiter of a checked plan.
func newLimiter(w window, plan Plan, h hasher, windows *WindowManager) (*Limiter, error) {
	l := &Limiter{windows: windows, plan: plan, shards: make([]shard, plan.Shards)}
	var err error
	if l.layout, err = newLayout(w, plan, h); err != nil {
		return nil, err
	}
	l.memory = make([]uint64, plan.Shards*l.size)
	for i := range l.shards {
		l.shards[i].number = windows.Latest()
	}
	return l, nil
}

// Allow consumes one unit of the key, now, and tells whether it was admitted.
func (l *Limiter) Allow(key string) bool {
	var h uint64
	if l.hash == nil { // what hashString does, without a call
		h = mix(xxhash.Sum64String(key), l.seed)
	} else {
		h = l.hashString(key)
	}
	word := l.windows.nowWord()
	r := l.request(h)
	if _, _, ok := r.s.last.holds(h, word); ok { // as take does, in half the time
		l.flooded.inc()
		return false
	}
	return r.consume(l.windows.unpack(word), 1, l.limit, brief).allowed
}

// AllowN consumes n units of the key, now, and tells whether they were admitted. It
// is all or nothing.
func (l *Limiter) AllowN(key string, n int) bool {
	return l.take(l.windows.nowWord(), l.hashString(key), n, l.limit, brief).allowed
}

// Take consumes n units of the key, now, if they are admitted. Unless a Clock is
// configured, now is late by up to [Resolution], see [WindowManager], and the
// durations of the decision are longer by it.
func (l *Limiter) Take(key string, n int) (d Decision) {
	var h uint64
	if l.hash == nil { // as in Allow
		h = mix(xxhash.Sum64String(key), l.seed)
	} else {
		h = l.hashString(key)
	}
	word, lag := l.windows.word.Load(), Resolution
	if !l.windows.runs.Load() { // otherwise as now, without a call
		word, lag = l.windows.read()
	}
	l.decide(&d, l.take(word, h, n, l.limit, whole), lag)
	return d
}

// TakeAt is [Limiter.Take] at a time of the caller's. Times may come in any order;
// [WindowManager] says what a step back means. With a limit of the caller's as well it is
// [Limiter.TakeLimitAt].
func (l *Limiter) TakeAt(now time.Time, key string, n int) (d Decision) {
	word, lag := l.windows.at(now)
	l.decide(&d, l.take(word, l.hashString(key), n, l.limit, whole), lag)
	return d
}

// TakeBytes is [Limiter.Take] for a key in a byte slice, which is not kept.
func (l *Limiter) TakeBytes(key []byte, n int) (d Decision) {
	word, lag := l.windows.now()
	l.decide(&d, l.take(word, l.hashBytes(key), n, l.limit, whole), lag)
	return d
}

// TakeBytesAt is [Limiter.TakeAt] for a key in a byte slice, which is not kept.
func (l *Limiter) TakeBytesAt(now time.Time, key []byte, n int) (d Decision) {
	word, lag := l.windows.at(now)
	l.decide(&d, l.take(word, l.hashBytes(key), n, l.limit, whole), lag)
	return d
}

// TakeAddr is [Limiter.Take] for an IP address, counted as its 4 or 16 bytes: an
// IPv4-mapped IPv6 address is the IPv4 address, and zones do not count.
func (l *Limiter) TakeAddr(key netip.Addr, n int) (d Decision) {
	word, lag := l.windows.now()
	l.decide(&d, l.take(word, l.hashAddr(key), n, l.limit, whole), lag)
	return d
}

// TakeAddrAt is [Limiter.TakeAt] for an IP address, see [Limiter.TakeAddr].
func (l *Limiter) TakeAddrAt(now time.Time, key netip.Addr, n int) (d Decision) {
	word, lag := l.windows.at(now)
	l.decide(&d, l.take(word, l.hashAddr(key), n, l.limit, whole), lag)
	return d
}

// Peek tells what Take(key, 1) would answer, and consumes nothing: Remaining is
// what is free without it.
func (l *Limiter) Peek(key string) (d Decision) {
	word, lag := l.windows.now()
	l.decide(&d, l.peek(l.windows.unpack(word), l.hashString(key), 1, l.limit), lag)
	return d
}

// PeekAt tells what TakeAt(now, key, n) would answer if nothing else came, and
// changes nothing, also if now lies generations ahead: Remaining is what is free
// without it.
func (l *Limiter) PeekAt(now time.Time, key string, n int) (d Decision) {
	p, lag := l.windows.look(now)
	l.decide(&d, l.peek(p, l.hashString(key), n, l.limit), lag)
	return d
}

// verdict is a decision in the four words that the compiler keeps in registers. Its durations
// are counted from the position that was asked for.
type verdict struct {
	allowed                bool
	remaining              int
	retryAfter, resetAfter time.Duration
}

// decide tells the verdict word by word: the compiler copies a Decision in pairs of words,
// which the processor is slow to read where they were just written one by one.
func (l *Limiter) decide(d *Decision, v verdict, lag time.Duration) {
	d.Allowed, d.Limit, d.Remaining = v.allowed, int(l.limit), v.remaining
	d.RetryAfter, d.ResetAfter = later(v.retryAfter, lag), later(v.resetAfter, lag)
}

// after returns the verdict for whoever counts from a time that is earlier by lag.
func (v verdict) after(lag time.Duration) verdict {
	v.retryAfter, v.resetAfter = later(v.retryAfter, lag), later(v.resetAfter, lag)
	return v
}

// later returns a duration, unless it is 0 or Never, for whoever counts from a time that is earlier by lag.
func later(d, lag time.Duration) time.Duration {
	if d == 0 || d == Never {
		return d
	}
	return d + min(lag, Never-1-d)
}

// take is what all decisions come down to, at a position's word. The key's hash chooses the
// shard, and the shard's lock makes check and count one step.
func (l *Limiter) take(word int64, h uint64, n int, limit int64, e effort) verdict {
	r := l.request(h)
	if n == 1 && word < r.s.last.until.Load() {
		if v, ok := l.remembered(word, r, limit); ok {
			return v
		}
	}
	return r.consume(l.windows.unpack(word), n, limit, e)
}

// remembered is take for a key that was the last of its shard to be denied.
func (l *Limiter) remembered(word int64, r request, limit int64) (v verdict, ok bool) {
	until, reset, ok := r.s.last.holds(r.flood(limit), word)
	if !ok {
		return verdict{}, false
	}
	l.flooded.inc()
	now := l.nanos(l.windows.unpack(word))
	return verdict{
		retryAfter: time.Duration(l.nanos(l.windows.unpack(until)) - now),
		resetAfter: time.Duration(reset - now),
	}, true
}

// consume is take under the shard's lock.
func (r request) consume(p Position, n int, limit int64, e effort) verdict {
	r.s.mu.Lock()
	for r.outer != nil && r.Limiter != r.outer.inner.Load() { // its successor may have read this shard
		r.s.mu.Unlock()
		r = r.outer.request(r.h)
		r.s.mu.Lock()
	}
	v := r.take(p, int64(n), limit, e)
	r.s.mu.Unlock()
	return v
}

func (l *Limiter) peek(p Position, h uint64, n int, limit int64) verdict {
	r := l.request(h)
	r.s.mu.Lock()
	v := r.peek(p, int64(n), limit)
	r.s.mu.Unlock()
	return v
}

// request returns the key's place in what decides at present.
func (l *Limiter) request(h uint64) request {
	if in := l.inner.Load(); in != nil {
		l = in
	}
	i := l.shard(h)
	return request{l, &l.shards[i], i * l.size, h}
}

// inUse returns what decides at present.
func (l *Limiter) inUse() *Limiter {
	if in := l.inner.Load(); in != nil {
		return in
	}
	return l
}

func (l *Limiter) shard(h uint64) int { return int(h >> 32 * uint64(len(l.shards)) >> 32) }

// Plan returns the limiter's dimensions, those of the moment if it grows.
func (l *Limiter) Plan() Plan { return l.inUse().plan }

// Window returns the span that the limit is meant for, as configured.
func (l *Limiter) Window() time.Duration {
	if l.bucket.burst > 0 {
		return time.Duration(l.bucket.span)
	}
	return time.Duration(l.length) * time.Duration(max(1, l.generations-1))
}

// MemoryBytes returns the memory the limiter takes of the heap, everything included. It does
// not change unless the limiter grows.
func (l *Limiter) MemoryBytes() int {
	in := l.inUse()
	bytes := in.ownBytes()
	if in != l {
		bytes += growthBytes
	}
	if before := in.before.Load(); before != nil {
		bytes += before.ownBytes()
	}
	return bytes
}

// ownBytes is MemoryBytes without what is kept of a predecessor.
func (l *Limiter) ownBytes() int {
	return fixedBytes + len(l.shards)*int(unsafe.Sizeof(shard{})) + heapBytes(8*len(l.memory))
}

const (
	// fixedBytes is what a limiter takes besides its shards. The runtime puts a word before a
	// large struct with pointers, and rounds the two up to a multiple of 128 bytes (up to 1536).
	fixedBytes = (int(unsafe.Sizeof(Limiter{}))+8+127)&^127 + (int(unsafe.Sizeof(WindowManager{}))+15)&^15 + clockBytes
	// clockBytes is what the goroutine that reads the clock takes of the heap, with its ticker, channels and
	// closures, as measured with Go 1.26; it counts for limiters too that read the clock at every decision.
	clockBytes = 1160
)

// Close ends the limiter's reading of the clock in the background; a limiter that
// nobody refers to any more is closed by the garbage collector. It never fails. A
// closed limiter goes on working, and reads the clock for every decision.
func (l *Limiter) Close() error {
	l.windows.close()
	return nil
}
