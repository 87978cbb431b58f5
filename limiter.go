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
// Most callers want [Limiter.Allow], or [Limiter.Take] to tell clients how long to
// wait. Use [Limiter.Do] when the key is bytes or an address, when the request has its
// own limit, or to pass the time.
//
// It never admits what the exact algorithm, given the same admitted history, would
// deny, unless [Config.Overload] is [DenyProven]. It may deny what the exact algorithm
// would admit, a false denial; Stats().FalseDenialRate is the chance that an unseen key
// meets one. Only admitted units count: a flood of denied requests changes nothing.
//
// A key is any string of bytes. A request costs n units; a cost below 1 or above Limit
// (Burst, of a bucket) is denied with RetryAfter [Never]. Decisions allocate nothing.
//
// Make a Limiter with [New]; the zero value is not usable. A Limiter is safe for
// concurrent use. It does not know its keys, so it cannot list them, reset one, or take
// units back.
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

// made is the number of limiters made. Groups lock limiters in the order of their
// numbers.
var made atomic.Uint64

// New returns a limiter that has counted nothing. Its errors name the field of the
// Config, its value and what is allowed. On Linux, a limiter above 1 GiB must fit into
// the memory of the machine and of the process's cgroup.
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
	e.Audit = audit
	l.engine.Store(e)
	if c.MaxMemoryBytes > 0 {
		l.grows()
	}
	l.begin()
	return l, nil
}

// begin makes a limiter without a Config.Clock follow the clock of the process.
func (l *Limiter) begin() {
	if c := &l.config; c.Clock == nil && c.late() {
		rule := c.rule()
		l.windows.grid, l.windows.late = rule.Grid(Resolution), true
	}
}

// WithLimit returns a limiter with another Limit, and Burst of a TokenBucket (0 is
// Limit), that takes over the counts and the memory of l at a time; the zero Time is
// now. What a key has used counts against the new limit, so a key gets no more than the
// highest of all limits that follow each other within a window. Units of a bucket flow
// back at the new rate from then on, each of them up to a tick late.
//
// Decisions may be made meanwhile. Afterwards l decides by the same counts, at the
// lower of both limits (of a bucket, at the lower rate); do not save it any more. A
// LowestLimit above the new limit becomes that. Stats of the new limiter continue those
// of l.
//
// If the counts cannot be taken over, WithLimit changes nothing and returns an error,
// which wraps [errors.ErrUnsupported] unless the limit is out of range. That is so with
// MaxMemoryBytes, with Overload [DenyProven], for a limiter that is shared or has been
// replaced before, for a limit that the cells cannot hold (see Plan.CellBits), and for
// less than half of the highest limit that a TokenBucket has had.
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
		config: c, drawn: l.drawn, number: l.number, audit: e.Audit,
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

// Allow consumes one unit of the key, now, and reports whether it was admitted.
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

// AllowN consumes n units of the key, now, or none, and reports whether they were
// admitted. A cost below 1 or above the limit is denied.
func (l *Limiter) AllowN(key string, n int) bool {
	return l.engine.Load().Take(l.windows.nowWord(), l.hasher.String(key), n, l.limit, engine.Brief).Allowed
}

// Take consumes n units of the key, now, or none, and returns the decision: whether they
// were admitted, what is left, and how long to wait. Unless a Clock is configured, now is
// late by up to [Resolution], and the durations of the decision are longer by as much.
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

// TakeAt is [Limiter.Take] at the time now. The first time may be any, so yesterday's
// log can be replayed. Later times may come in any order: one before the latest window
// counts as that window's first instant, and one far ahead ends all windows before it,
// see [WindowManager]. Leave out lines of a log whose time is damaged. The zero Time is
// a time long ago, not the present.
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

// Do decides on r, as [Limiter.Take] does on a key and a cost. Use it when the key is
// bytes or an address, when the request has its own limit, or to pass the time. With
// Request.Peek it consumes nothing. It does not keep Request.Bytes.
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

// ErrQueueFull is returned by [Limiter.Reserve] where the queue would become longer than
// Config.Burst.
var ErrQueueFull = errors.New("sketchlimit: the queue is full")

var errNoQueue = fmt.Errorf("sketchlimit: Reserve goes with TokenBucket only: %w", errors.ErrUnsupported)

// Reserve puts the request into the queue of its key (the leaky bucket as a queue) and
// returns how long the caller must wait before going on: until all units that came before
// have left. Use it to wait rather than be refused. Units leave in the order they came,
// Limit per Window, evenly. A reservation cannot be given back.
//
// It admits what [Limiter.Do] admits, and the two may be mixed. Where Do would deny, it
// reserves nothing and returns [ErrQueueFull]. Windows have no order, so without
// TokenBucket the error wraps [errors.ErrUnsupported]. Unless a Clock is configured, the
// wait is longer by up to twice [Resolution]. Request.Peek reserves nothing.
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

// tell sets d to the verdict word by word. The compiler copies a Decision in pairs of
// words, which the processor cannot forward from words just written: 21.6 instead of 15.8
// ns for a remembered denial.
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

// arrive makes the request's time seen, and returns its word and its lag, see
// [WindowManager.now]. limit is the result of l.lower for the request's limit.
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

// lower returns a request's limit cut to the limiter's, or 0 if it is below the lowest.
func (l *Limiter) lower(limit int) int64 {
	switch {
	case limit == 0:
		return l.limit
	case limit < l.lowest:
		return 0
	}
	return min(int64(limit), l.limit)
}

// Prefetch begins to fetch the memory that a decision on the key reads, and returns at
// once. It changes nothing. It pays where limiters leave the processor's caches between
// two requests, and the caller has other work, or another limiter to ask, before the
// decision.
func (l *Limiter) Prefetch(key []byte) {
	l.engine.Load().Prefetch(l.hasher.Bytes(key), l.windows.Latest(), false)
}

// Share makes the limiter one of several that hold one limit together, on several
// machines say. Build all of them from the same Config with the same Seed; then they
// have the same [sharing.Share.Layout]. What l admitted before Share stays unknown to
// the others. The error wraps [errors.ErrUnsupported] with TokenBucket, whose times do
// not add up, and with [DenyProven]. With MaxMemoryBytes the counters of what others have
// admitted keep the size that the limiter has at first. Called again, Share returns the
// same value.
func (l *Limiter) Share() (*sharing.Share, error) {
	switch {
	case l.config.Algorithm == TokenBucket:
		return nil, fmt.Errorf("sketchlimit: Share with Algorithm %v, must be a window: %w", TokenBucket, errors.ErrUnsupported)
	case l.config.Overload != Deny:
		return nil, fmt.Errorf("sketchlimit: Share with Overload %v, must be %v: %w", l.config.Overload, Deny, errors.ErrUnsupported)
	}
	hash := l.hasher.String(shared.Text)
	counters := (*shared.Counters)(nil)
	if l.growth != nil {
		counters = l.growth.Share(hash)
	} else {
		counters = shared.New(l.engine.Load(), hash)
	}
	l.share.CompareAndSwap(nil, sharing.New(counters, l.windows.nowPosition))
	return l.share.Load(), nil
}

// Plan returns the limiter's present dimensions, and what they are for.
func (l *Limiter) Plan() Plan { return l.config.planOf(l.engine.Load().Dimensions()) }

// LowestLimit returns Config.LowestLimit: 0 if it is not set. Then every limit of a
// request's own below Config.Limit denies the request, and middleware refuses a
// function that returns such limits.
func (l *Limiter) LowestLimit() int { return l.config.LowestLimit }

// Window returns the span that the limit is meant for, as configured.
func (l *Limiter) Window() time.Duration { return l.config.Window }

// MemoryBytes returns the memory the limiter takes of the heap, everything included. It
// does not change unless the limiter grows.
func (l *Limiter) MemoryBytes() int {
	bytes := sizing.Overhead + stats.Footprint(l.engine.Load()) + sizing.AuditBytes(l.audit)
	if l.growth != nil {
		bytes += growthBytes
	}
	return bytes
}

// Close stops a limiter with MaxMemoryBytes from growing, and returns nil. A closed
// limiter goes on deciding. Other limiters need no Close: they are collected as they
// are.
func (l *Limiter) Close() error {
	if l.grower != nil {
		l.grower.closed.Store(true)
	}
	return nil
}
