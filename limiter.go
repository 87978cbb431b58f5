package sketchlimit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/growth"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/shared"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/stats"
	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/rotating"
	"github.com/sketchlimit/sketchlimit/sharing"
)

// Limiter admits at most Limit units per key and Window, for any number of keys, in
// memory that is fixed when it is built, or bounded if it grows.
//
// Most callers want [Limiter.Allow], or [Limiter.Take] if they tell their clients how long to wait. [Limiter.Do]
// says all the rest: keys that are bytes or addresses, limits of the request's own, times.
//
// It never admits what the exact algorithm, given the same admitted history, would
// deny, unless [Config.Overload] lets it. It may deny what that would admit; Stats().FalseDenialRate says how often a
// new key meets that. Only admitted units count: a flood of denied requests changes
// nothing.
//
// A key is any string of bytes. A request costs n units; a cost below 1 or above Limit (Burst, of
// a bucket) is denied with RetryAfter [Never]. Decisions allocate nothing.
//
// A Limiter is made by New; its zero value is of no use. It is safe for concurrent use. What it cannot do, because it does
// not know its keys: list them, forget one, or take units back.
type Limiter struct {
	engine    atomic.Pointer[engine.Engine] // what decides at present
	windows   *WindowManager
	hasher    keyhash.Hasher
	limit     int64
	lowest    int           // the lowest limit that a request may come with
	tooLow    atomic.Uint64 // requests that came with a lower one, above 0
	overdraft atomic.Uint64 // units that were charged and not free
	flooded   *striped.Counter
	audit     *audit.Audit
	growth    *growth.Growth // nil if the limiter does not grow
	grower    *grower        // likewise
	config    Config         // as given
	drawn     bool           // the seed was
	share     atomic.Pointer[sharing.Share]
	number    uint64 // of the limiters that were made, for those in a Group
}

// made counts the limiters, whose numbers say in which order they are locked.
var made atomic.Uint64

// New returns a limiter with nothing counted. Its errors name the field of the
// Config, its value and what is allowed. A limiter above 1 GiB must fit into the memory of
// the machine and of the process's cgroup, where Linux tells these.
func New(c Config) (*Limiter, error) {
	dimensions, audit, bytes, err := c.dimensions()
	if err == nil {
		err = c.fits(bytes)
	}
	if err != nil {
		return nil, err
	}
	windows, err := NewWindowManager(c.generation(), c.Clock)
	if err != nil {
		return nil, err
	}
	hasher, drawn, err := keyhash.New(c.Hash, c.Seed)
	if err != nil {
		return nil, err
	}
	l := &Limiter{
		windows: windows, hasher: hasher, limit: int64(c.Limit), lowest: c.lowest(), flooded: new(striped.Counter),
		config: c, drawn: drawn, number: made.Add(1), audit: audit,
	}
	e, err := engine.New(c.rule(), dimensions, hasher.Seed, l.flooded)
	if err != nil {
		return nil, err
	}
	e.Rank(l.number)
	audit.Start()
	engine.SetAudit(e, audit)
	l.engine.Store(e)
	if c.MaxMemoryBytes > 0 {
		l.grows()
	}
	l.begin()
	return l, nil
}

// begin lets a limiter without a Clock of its own follow the clock of the process.
func (l *Limiter) begin() {
	if c := &l.config; c.Clock == nil && c.late() {
		rule := c.rule()
		l.windows.grid, l.windows.late = rule.Grid(Resolution), true
	}
}

// WithLimit returns a limiter like this one but for another Limit, and Burst of a TokenBucket (0 is Limit), that goes on
// with its counts in its memory, from a time on; the zero Time is the clock's. What a key has used, it has used of the new
// limit. So of all limits that follow each other within a window, a key gets no more than the highest. Of a bucket, units
// flow back at the new rate from then on, each of them up to a tick late.
//
// Decisions may go on. From then on this limiter decides by the same counts, at the lower of both limits (of a bucket, at
// the lower rate: its units flow back as slowly); do not save it any more. LowestLimit is held to the new limit. Stats goes on from the former counts.
//
// The error, which wraps [errors.ErrUnsupported] unless the limit is out of range, tells why the counts cannot be taken
// over; then all is as it was. It is so with MaxMemoryBytes, with Overload, for a limiter that is shared, for a limit that
// counts past its cells (see Plan.CellBits), for less than half of the highest of a TokenBucket, and for one that has been replaced before.
func (l *Limiter) WithLimit(now time.Time, limit, burst int) (*Limiter, error) {
	c := l.config
	c.Limit, c.Burst, c.LowestLimit = limit, burst, min(c.LowestLimit, max(limit, 0))
	if c.Plan != nil {
		plan := *c.Plan
		plan.Limit, c.Plan = 0, &plan
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if l.growth != nil {
		return nil, fmt.Errorf("sketchlimit: WithLimit with MaxMemoryBytes %d, must be 0: %w", c.MaxMemoryBytes, errors.ErrUnsupported)
	}
	windows, err := NewWindowManager(c.generation(), c.Clock)
	if err != nil {
		return nil, err
	}
	at := l.windows.latest()
	if !now.IsZero() {
		at, _ = l.windows.look(now)
	}
	ns := l.windows.line.UnixNano(at)
	e, err := l.engine.Load().Succeed(c.rule(), ns)
	if err != nil {
		return nil, fmt.Errorf("sketchlimit: WithLimit %d: %w: %w", limit, err, errors.ErrUnsupported)
	}
	next := &Limiter{
		windows: windows, hasher: l.hasher, limit: int64(limit), lowest: c.lowest(), flooded: l.flooded,
		config: c, drawn: l.drawn, number: l.number, audit: engine.AuditOf(e),
	}
	next.tooLow.Store(l.tooLow.Load())
	next.overdraft.Store(l.overdraft.Load())
	next.engine.Store(e)
	if l.windows.word.Load() != unseen {
		windows.reach(windows.line.Position(ns))
	}
	next.begin()
	return next, nil
}

// Allow consumes one unit of the key, now, and tells whether it was admitted.
func (l *Limiter) Allow(key string) bool {
	h := l.hasher.String(key)
	e, word := l.engine.Load(), int64(0)
	if l.windows.upToDate() { // as nowWord, without a call
		word = l.windows.word.Load()
	} else {
		word = l.windows.readWord()
	}
	i := e.Shard(h)
	if e.Remembers(i, word, h) {
		l.flooded.Inc()
		return false
	}
	return e.Consume(i, word, h, 1, l.limit, engine.Brief).Allowed
}

// AllowN consumes n units of the key, now, and tells whether they were admitted. It
// is all or nothing.
func (l *Limiter) AllowN(key string, n int) bool {
	return l.engine.Load().Take(l.windows.nowWord(), l.hasher.String(key), n, l.limit, engine.Brief).Allowed
}

// Take consumes n units of the key, now, if they are admitted. Unless a Clock is
// configured, now is late by up to [Resolution], see [WindowManager], and the
// durations of the decision are longer by it.
func (l *Limiter) Take(key string, n int) (d Decision) {
	h := l.hasher.String(key)
	word, lag := int64(0), Resolution
	if l.windows.upToDate() { // as now, without a call
		word = l.windows.word.Load()
	} else {
		word, lag = l.windows.read()
	}
	l.tell(&d, l.engine.Load().Take(word, h, n, l.limit, engine.Whole), lag)
	return d
}

// TakeAt is [Limiter.Take] at a time of the caller's. Time begins with the first time that a limiter sees, so
// yesterday's log can be replayed. From then on times may come in any order: one before the latest window counts as
// that window's first instant, and one far ahead ends all windows before it, see [WindowManager]. So leave out lines of
// a log whose time is damaged. The zero Time is a time long ago.
func (l *Limiter) TakeAt(now time.Time, key string, n int) (d Decision) {
	word, lag := l.windows.at(now)
	l.tell(&d, l.engine.Load().Take(word, l.hasher.String(key), n, l.limit, engine.Whole), lag)
	return d
}

// Peek returns what Take(key, 1) would return, and consumes nothing: Remaining is
// what is free without it.
func (l *Limiter) Peek(key string) (d Decision) {
	p, lag := l.windows.lookNow()
	l.tell(&d, l.engine.Load().Peek(p, l.hasher.String(key), 1, l.limit), lag)
	return d
}

// Do is [Limiter.Take] for requests that it cannot say: keys that are bytes or addresses, limits of their own, times. With
// Request.Peek it consumes nothing.
func (l *Limiter) Do(r Request) (d Decision) {
	h, limit := l.hash(&r), l.lower(r.Limit)
	if r.Peek {
		p, lag := l.look(&r)
		l.tell(&d, l.engine.Load().Peek(p, h, r.units(), limit), lag)
	} else {
		word, lag := l.arrive(&r, limit)
		l.tell(&d, l.engine.Load().Take(word, h, r.units(), limit, engine.Whole), lag)
	}
	d.Limit = int(limit)
	return d
}

// ErrQueueFull is the error of a [Limiter.Reserve] that would make a queue longer than Config.Burst.
var ErrQueueFull = errors.New("sketchlimit: the queue is full")

var errNoQueue = fmt.Errorf("sketchlimit: Reserve goes with TokenBucket only: %w", errors.ErrUnsupported)

// Reserve puts the request into its key's queue: the leaky bucket as a queue, for callers who
// would rather wait than be refused. Units leave the queue one by one, Limit per Window evenly,
// in the order they came. Reserve returns how long to wait before going on: until all that
// came before has left. What is reserved cannot be given back.
//
// It admits what Do does, with which it may be mixed. Where Do would deny, it reserves nothing and the error is
// [ErrQueueFull]. Without TokenBucket there is no order, and the error wraps [errors.ErrUnsupported]. Unless a Clock is
// configured the wait is longer by up to twice [Resolution]. Request.Peek reserves nothing.
func (l *Limiter) Reserve(r Request) (wait time.Duration, err error) {
	if l.config.Algorithm != TokenBucket {
		return 0, errNoQueue
	}
	h, limit := l.hash(&r), l.lower(r.Limit)
	var v spec.Verdict
	var lag time.Duration
	if r.Peek {
		var p rotating.Position
		p, lag = l.look(&r)
		v = l.engine.Load().Peek(p, h, r.units(), limit)
		wait = v.ResetAfter
	} else {
		var word int64
		word, lag = l.arrive(&r, limit)
		wait, v = l.engine.Load().Reserve(l.windows.line.Unpack(word), h, r.units(), limit)
	}
	if !v.Allowed {
		return 0, ErrQueueFull
	}
	return spec.Later(wait, lag), nil
}

// tell writes the verdict word by word: the compiler copies a Decision in pairs of words,
// which the processor is slow to read where they were just written one by one.
func (l *Limiter) tell(d *Decision, v spec.Verdict, lag time.Duration) {
	d.Allowed, d.Limit, d.Remaining = v.Allowed, int(l.limit), v.Remaining
	d.RetryAfter, d.ResetAfter = spec.Later(v.RetryAfter, lag), spec.Later(v.ResetAfter, lag)
}

// hash returns the hash of the request's key.
func (l *Limiter) hash(r *Request) uint64 {
	switch {
	case r.Addr.IsValid():
		return l.hasher.Addr(r.Addr)
	case r.Bytes != nil:
		return l.hasher.Bytes(r.Bytes)
	}
	return l.hasher.String(r.Key)
}

// arrive returns the word of the request's time, which is then seen, with its lag. The limit is what lower made of the
// request's.
func (l *Limiter) arrive(r *Request, limit int64) (word int64, lag time.Duration) {
	if limit == 0 && r.Limit > 0 {
		l.tooLow.Add(1)
	}
	if r.Time.IsZero() {
		return l.windows.now()
	}
	return l.windows.at(r.Time)
}

// look returns the position of the request's time, with its lag.
func (l *Limiter) look(r *Request) (p rotating.Position, lag time.Duration) {
	if r.Time.IsZero() {
		return l.windows.lookNow()
	}
	return l.windows.look(r.Time)
}

// lower returns a limit of a request's own within bounds, 0 if it is below the lowest.
func (l *Limiter) lower(limit int) int64 {
	switch {
	case limit == 0:
		return l.limit
	case limit < l.lowest:
		return 0
	}
	return min(int64(limit), l.limit)
}

// Prefetch begins to fetch from memory what a decision on the key reads, and does not wait
// for it. It decides and changes nothing. It pays where the memory of limiters leaves the
// processor's caches between two requests, and there is other work before the decision or
// another limiter to ask.
func (l *Limiter) Prefetch(key []byte) {
	l.engine.Load().Prefetch(l.hasher.Bytes(key), l.windows.Latest(), false)
}

// Share makes the limiter one of several that hold their limit together, on several machines say. All of them must
// be built from the same Config with the same Seed; [sharing.Share.Layout] tells whether they were.
// What the limiter has admitted before stays unknown to the others. TokenBucket is
// refused, because times do not add up, and so are MaxMemoryBytes and Spare, with an error that wraps
// [errors.ErrUnsupported]. Called again, it returns the same Share.
func (l *Limiter) Share() (*sharing.Share, error) {
	switch {
	case l.config.Algorithm == TokenBucket:
		return nil, fmt.Errorf("sketchlimit: Share with Algorithm %v, must be a window: %w", TokenBucket, errors.ErrUnsupported)
	case l.config.Overload != Deny:
		return nil, fmt.Errorf("sketchlimit: Share with Overload %v, must be %v: %w", l.config.Overload, Deny, errors.ErrUnsupported)
	case l.growth != nil:
		return nil, fmt.Errorf("sketchlimit: Share with MaxMemoryBytes %d, must be 0: %w", l.config.MaxMemoryBytes, errors.ErrUnsupported)
	}
	l.share.CompareAndSwap(nil, sharing.New(shared.New(l.engine.Load(), l.hasher.String(shared.Text)), l.windows.nowPosition))
	return l.share.Load(), nil
}

// Plan returns the limiter's dimensions, those of the moment if it grows, and what they are for.
func (l *Limiter) Plan() Plan { return l.config.planOf(l.engine.Load().Dimensions()) }

// LowestLimit returns Config.LowestLimit: 0 if it is not set. Then every limit of a request's own below Config.Limit
// denies the request, and middleware refuses a function that returns such limits.
func (l *Limiter) LowestLimit() int { return l.config.LowestLimit }

// Window returns the span that the limit is meant for, as configured.
func (l *Limiter) Window() time.Duration { return l.config.Window }

// MemoryBytes returns the memory the limiter takes of the heap, everything included. It does
// not change unless the limiter grows.
func (l *Limiter) MemoryBytes() int {
	bytes := sizing.Overhead + stats.Footprint(l.engine.Load()) + sizing.AuditBytes(l.audit)
	if l.growth != nil {
		bytes += growthBytes
	}
	return bytes
}

// Close ends that the limiter grows, if it does. A limiter has nothing else to end: one that nobody refers to any more
// is collected as it is. It never fails. A closed limiter goes on deciding.
func (l *Limiter) Close() error {
	if l.grower != nil {
		l.grower.closed.Store(true)
	}
	return nil
}
