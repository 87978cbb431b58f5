// Package leased has the limiters that share one limit through the log of an engine of
// package sharing, decide locally, and together never admit more than the limit. Package
// [lease] has the protocol. It is for packages that bring an engine: redislimit and
// natslimit. Programs use those.
package leased

//lint:file-ignore ST1005 redislimit and natslimit put their names before these errors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	crand "crypto/rand"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/lease"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

// Options are what a [Limiter] may be told. The zero value of a field is its default.
type Options struct {
	Machines int           // that share the limit at once, at most; must be set
	Lease    time.Duration // how long a machine goes on that reads no log; 0: one minute, or the Window if that is longer
	Entries  int           // keys of which a machine needs more than its share, at once, at most; 0: a tenth of Config.Keys, at least 1000
	Wait     time.Duration // how long a request waits for units of other machines, at most; 0: 100ms; below 0: it does not wait
	Timeout  time.Duration // that the engine may take; 0: a second
	// Failure is how requests are decided while the engine is away: FailShare (the
	// default) goes on with what the machine holds, until its lease ends.
	Failure synced.Failure
	Prefix  string       // names the limit; machines that share it have the same; "": "sketchlimit"
	Log     *slog.Logger // is told when the engine goes away and comes back; nil: slog.Default()
}

func (o *Options) setDefaults(c *sketchlimit.Config) error {
	if o.Machines < 1 || o.Machines > lease.MaxMachines {
		return fmt.Errorf("Machines %d, must be 1 … %d", o.Machines, lease.MaxMachines)
	}
	if o.Lease == 0 {
		o.Lease = max(time.Minute, c.Window)
	}
	if o.Lease < time.Second || o.Lease > maxLease {
		return fmt.Errorf("Lease %v, must be 1s … %v", o.Lease, time.Duration(maxLease))
	}
	if o.Entries == 0 {
		o.Entries = max(1000, c.Keys/10)
	}
	if o.Wait == 0 {
		o.Wait = 100 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Prefix == "" {
		o.Prefix = "sketchlimit"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Log = o.Log.With(slog.String("name", o.Prefix))
	switch {
	case o.Entries < 1 || o.Entries > 1<<24:
		return fmt.Errorf("Entries %d, must be 0 … %d", o.Entries, 1<<24)
	case o.Timeout < 0:
		return fmt.Errorf("Timeout %v, must be at least 0", o.Timeout)
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("Prefix %q, must be without braces", o.Prefix)
	case o.Failure < synced.FailShare || o.Failure > synced.FailClosed || o.Failure == synced.FailLocal:
		return fmt.Errorf("Failure %d, must be FailShare, FailOpen or FailClosed", int(o.Failure))
	}
	return nil
}

const maxLease = 366 * 24 * time.Hour

// stripes is the number of locks over keys.
const stripes = 256

// Limiter is one machine's part of a limit that several machines share. It is safe for
// concurrent use.
type Limiter struct {
	config  sketchlimit.Config
	options Options
	rules   lease.Rules
	windows windows
	hash    keyhash.Hasher
	local   *sketchlimit.Limiter // decides on keys of which the machine holds its share; nil if that is 0
	guard   synced.Guard
	node    *node

	share  atomic.Int64 // units of each key without an entry
	until  atomic.Int64 // end of the lease
	floor  atomic.Int64 // no decision is before it
	latest atomic.Int64 // latest time that a request brought along
	away   atomic.Bool
	turn   atomic.Int64 // when the next generation begins
	held   atomic.Int64 // keys in the stripes

	stripes [stripes]stripe

	timer   func() int64                       // ns that have passed; no clock steps it
	observe func(key uint64, now int64, n int) // what is admitted; for tests
}

// stripe has the keys of some hashes.
type stripe struct {
	mu      sync.Mutex
	keys    map[uint64]*held
	local   uint64 // decisions without waiting
	waited  uint64 // decisions that waited for others
	granted uint64 // of these: admitted
	starved uint64 // of these: denied
	_       [64]byte
}

// held is a key of which the machine holds another number of units than its share, or
// wants to.
type held struct {
	count
	bound   int           // units that count, at most
	limit   int           // of the entry; 0: there is none
	free    int           // units that nobody held
	calls   int           // claims that were not granted in full
	called  int64         // when the latest of these was read, by the limiter's clock
	calling int64         // the same by its timer
	claim   int64         // when the latest own claim was made, by the timer; 0: it is answered
	number  uint64        // record of it; 0: not written
	spent   int           // units since the latest claim
	used    int64         // latest request
	changed chan struct{} // closed when bound or free rise; nil: nobody waits
}

// Check refuses a Config and Options that New could not use.
func Check(c sketchlimit.Config, o Options) error {
	if err := o.setDefaults(&c); err != nil {
		return err
	}
	switch {
	case c.Algorithm != sketchlimit.SlidingWindow && c.Algorithm != sketchlimit.FixedWindow:
		return fmt.Errorf("Algorithm %v, must be a window: %w", c.Algorithm, errors.ErrUnsupported)
	case c.SubWindows > 1:
		return fmt.Errorf("SubWindows %d, must be 0 or 1: %w", c.SubWindows, errors.ErrUnsupported)
	case c.Seed == 0:
		return errors.New("Seed 0, must be the same secret number on all machines")
	case c.Plan != nil || c.Overload != sketchlimit.Deny:
		return fmt.Errorf("Plan and Overload must not be set: %w", errors.ErrUnsupported)
	}
	_, err := sketchlimit.New(c)
	return err
}

// New returns a limiter that takes part in a log of the engine. It reads the log first,
// and waits for that for twice the Timeout at most. Until it has read it, it denies all.
// Server is the name of the engine in the Log.
func New(engine sharing.Engine, c sketchlimit.Config, o Options, server string) (*Limiter, error) {
	if err := Check(c, o); err != nil {
		return nil, err
	}
	if err := o.setDefaults(&c); err != nil {
		return nil, err
	}
	l := &Limiter{config: c, options: o, guard: synced.NewGuard(o.Log, server), windows: windows{int64(c.Window), c.Algorithm == sketchlimit.SlidingWindow}}
	if l.config.Clock == nil {
		l.config.Clock = sketchlimit.Now
	}
	lowest := c.LowestLimit
	if lowest == 0 {
		lowest = c.Limit
	}
	l.rules = lease.Rules{Machines: o.Machines, Limit: c.Limit, Lowest: lowest, Lease: int64(o.Lease), Settle: l.windows.settle(), Entries: o.Entries}
	var err error
	if l.hash, _, err = keyhash.New(keyhash.NewKeyed(keyhash.Derive(c.Seed, "lease")), 0); err != nil {
		return nil, err
	}
	if share := l.rules.Share(); share > 0 {
		own := c
		own.Limit, own.LowestLimit, own.UnitsPerKey = share, 0, min(c.UnitsPerKey, float64(share))
		if l.local, err = sketchlimit.New(own); err != nil {
			return nil, err
		}
	}
	for i := range l.stripes {
		l.stripes[i].keys = make(map[uint64]*held, 2*o.Entries/stripes)
	}
	l.until.Store(math.MinInt64)
	l.floor.Store(math.MinInt64)
	start := time.Now()
	l.timer = func() int64 { return int64(time.Since(start)) }
	l.latest.Store(math.MinInt64)
	l.turn.Store(math.MinInt64)
	l.node, err = newNode(l, engine, o.Prefix+":leased")
	return l, err
}

// layout is a hash of what all machines must have in common.
func (l *Limiter) layout() uint64 {
	return xxhash.Sum64String(fmt.Sprint("lease 1", l.rules, l.windows, l.hash.String("layout")))
}

func newID() uint64 {
	var id [8]byte
	crand.Read(id[:]) // never fails
	return max(1, binary.BigEndian.Uint64(id[:]))
}

// now returns the time of the clock, or the latest that a request brought along.
func (l *Limiter) now() int64 {
	return max(l.config.Clock().UnixNano(), l.latest.Load())
}

// Allow consumes one unit of the key, now, and reports whether it was admitted.
func (l *Limiter) Allow(key string) bool { return l.Do(sketchlimit.Request{Key: key}).Allowed }

// AllowN consumes n units of the key, now, and reports whether they were admitted.
func (l *Limiter) AllowN(key string, n int) bool { return l.Take(key, n).Allowed }

// Take consumes n units of the key, now, if they are admitted.
func (l *Limiter) Take(key string, n int) sketchlimit.Decision {
	if n == 0 {
		n = -1 // which 0 does not stand for in a Request
	}
	return l.Do(sketchlimit.Request{Key: key, N: n})
}

// Peek returns what Take(key, 1) would by what the machine holds, and consumes nothing.
func (l *Limiter) Peek(key string) sketchlimit.Decision {
	return l.Do(sketchlimit.Request{Key: key, Peek: true})
}

// Do decides on r. If the machine lacks units that others may hold, Do waits for them,
// up to Options.Wait.
func (l *Limiter) Do(r sketchlimit.Request) sketchlimit.Decision {
	d, _ := l.DoContext(context.Background(), r)
	return d
}

// DoContext is Do that waits no longer than until the context ends, and then returns the
// context's error and a denial.
func (l *Limiter) DoContext(ctx context.Context, r sketchlimit.Request) (sketchlimit.Decision, error) {
	q := request{Request: r, n: r.N, limit: synced.Lower(r.Limit, l.rules.Lowest, l.config.Limit)}
	if q.n == 0 {
		q.n = 1
	}
	switch {
	case r.Addr.IsValid():
		q.hash = l.hash.Addr(r.Addr)
	case r.Bytes != nil:
		q.hash = l.hash.Bytes(r.Bytes)
	default:
		q.hash = l.hash.String(r.Key)
	}
	if q.limit < 1 || q.n < 1 || q.n > q.limit {
		return sketchlimit.Decision{Limit: q.limit, RetryAfter: sketchlimit.Never}, nil
	}
	if !r.Time.IsZero() {
		raise(&l.latest, r.Time.UnixNano())
	}
	var waited *time.Timer
	for {
		d, wait, patience := l.decide(&q, waited != nil)
		if wait == nil {
			return d, nil
		}
		if waited == nil {
			waited = time.NewTimer(patience)
			defer waited.Stop()
		}
		select {
		case <-wait:
		case <-waited.C:
			q.last = true
		case <-ctx.Done():
			return d, ctx.Err()
		}
	}
}

// request is one that is being decided.
type request struct {
	sketchlimit.Request
	hash     uint64
	n, limit int
	last     bool // it waits no longer
}

// decide decides by what the machine holds. If it returns a channel, the request should
// wait for that, up to a time at first, and ask again.
func (l *Limiter) decide(q *request, waited bool) (d sketchlimit.Decision, wait <-chan struct{}, patience time.Duration) {
	s := &l.stripes[q.hash%stripes]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.time(q)
	if l.away.Load() && (l.options.Failure == synced.FailOpen || l.options.Failure == synced.FailClosed) {
		return l.options.Failure.Unseen(q.n, q.limit, q.limit), nil, 0
	}
	if now > l.until.Load() {
		return sketchlimit.Decision{Limit: q.limit, RetryAfter: synced.ProbeEvery}, nil, 0
	}
	h := s.keys[q.hash]
	d = l.spend(q, h, now)
	d.Limit = q.limit
	switch {
	case q.Peek:
		return d, nil, 0
	case d.Allowed:
		if l.observe != nil {
			l.observe(q.hash, now, q.n)
		}
		if h != nil {
			h.used, h.spent = now, h.spent+q.n
		}
		l.prefetch(s, h, q, now, d.Remaining)
	case !q.last:
		if wait, patience = l.lack(s, h, q, now); wait != nil {
			return d, wait, patience
		}
	}
	s.note(d.Allowed, waited)
	return d, nil, 0
}

// time returns the time of a request: that of the clock or its own, but not before the
// latest record that was written, nor before the latest generation in which the machine
// has decided.
func (l *Limiter) time(q *request) (now int64) {
	if q.Time.IsZero() {
		now = l.config.Clock().UnixNano()
	} else {
		now = q.Time.UnixNano()
	}
	if now >= l.turn.Load() {
		g, _ := l.windows.split(now)
		raise(&l.floor, g*l.windows.length)
		raise(&l.turn, (g+1)*l.windows.length)
	}
	return max(now, l.floor.Load())
}

// raise sets a to n if that is larger.
func raise(a *atomic.Int64, n int64) {
	for was := a.Load(); was < n && !a.CompareAndSwap(was, n); was = a.Load() {
	}
}

func (s *stripe) note(allowed, waited bool) {
	switch {
	case !waited:
		s.local++
	case allowed:
		s.waited, s.granted = s.waited+1, s.granted+1
	default:
		s.waited, s.starved = s.waited+1, s.starved+1
	}
}

// spend decides by what the machine holds of a key.
func (l *Limiter) spend(q *request, h *held, now int64) sketchlimit.Decision {
	if h != nil {
		return h.decide(&l.windows, now, q.n, min(h.bound, q.limit), q.Peek)
	}
	if l.local == nil || l.share.Load() == 0 {
		return sketchlimit.Decision{RetryAfter: synced.ProbeEvery}
	}
	d := l.ask(q.hash, q.n, now, q.Peek)
	if d.RetryAfter == sketchlimit.Never { // more than a share
		d.RetryAfter = d.ResetAfter
	}
	return d
}

// ask asks the limiter of keys without an entry. Their names there are their hashes,
// which is all that other machines send.
func (l *Limiter) ask(hash uint64, n int, now int64, peek bool) sketchlimit.Decision {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], hash)
	return l.local.Do(sketchlimit.Request{Bytes: key[:], N: n, Time: time.Unix(0, now), Peek: peek})
}

// prefetch claims more of a key that is used, before it is lacking.
func (l *Limiter) prefetch(s *stripe, h *held, q *request, now int64, remaining int) {
	switch {
	case h == nil && (l.rules.Machines == 1 || l.rules.Share() < 4 || remaining > l.rules.Share()/4):
		return
	case h != nil && (h.free < 1 || remaining > h.bound/4 || h.claim != 0):
		return
	}
	if h == nil {
		if h = l.hold(s, q.hash, now); h == nil {
			return
		}
	}
	l.claim(h, q, 0)
}

// hold makes a held of a key of which the machine holds its share; nil if there is no
// memory for it. The caller has locked s.
func (l *Limiter) hold(s *stripe, hash uint64, now int64) *held {
	if l.held.Load() >= int64(2*l.rules.Entries) {
		return nil
	}
	return l.holdAnyway(s, hash, now)
}

func (l *Limiter) holdAnyway(s *stripe, hash uint64, now int64) *held {
	l.held.Add(1)
	h := &held{bound: int(l.share.Load()), free: l.config.Limit, called: math.MinInt64, used: math.MinInt64}
	h.at(&l.windows, now)
	if l.local != nil {
		h.current = int64(l.rules.Share() - l.ask(hash, 1, now, true).Remaining)
	}
	s.keys[hash] = h
	return h
}

// claim asks for n units and for what the machine expects to need, unless it has asked.
func (l *Limiter) claim(h *held, q *request, n int) {
	now := l.timer()
	if h.claim != 0 && now < h.claim+int64(l.options.Timeout) {
		return
	}
	more := max(2*h.spent, l.rules.Share())
	if l.rules.Share() == 0 {
		more = max(more, h.free/2)
	}
	n += max(1, min(more, h.free/2))
	if l.node.want(q.hash, min(n, q.limit), q.limit) {
		h.claim, h.number, h.spent = max(1, now), 0, 0
	}
}

// lack asks for units that a request lacks. It returns nil if it knows that there are
// none, or if the request is not to wait.
func (l *Limiter) lack(s *stripe, h *held, q *request, now int64) (<-chan struct{}, time.Duration) {
	if l.rules.Machines == 1 && h != nil && h.free < 1 || now < l.node.closed.Load() || l.options.Wait < 0 && h != nil && h.free < 1 {
		return nil, 0
	}
	if h == nil {
		if h = l.hold(s, q.hash, now); h == nil {
			return nil, 0
		}
	}
	h.used = now
	patience := l.options.Wait
	if h.free < 1 && h.calls > 0 && h.claim == 0 {
		if since := time.Duration(l.timer() - h.calling); since < patience {
			patience -= since // somebody has just called
		} else if now < h.called+l.backoff() && h.sameGeneration(&l.windows, now) {
			return nil, 0
		} else {
			l.claim(h, q, q.n)
		}
	} else {
		l.claim(h, q, q.n)
	}
	if l.options.Wait < 0 {
		return nil, 0
	}
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed, patience
}

// backoff is how long nobody calls again for units of a key that nobody had.
func (l *Limiter) backoff() int64 { return l.windows.length / 16 }

// sameGeneration reports whether the latest call was in the generation of a time.
func (h *held) sameGeneration(w *windows, now int64) bool {
	a, _ := w.split(h.called)
	b, _ := w.split(now)
	return a == b
}

// Window returns the span that the limit is meant for.
func (l *Limiter) Window() time.Duration { return l.config.Window }

// LowestLimit returns Config.LowestLimit.
func (l *Limiter) LowestLimit() int { return l.config.LowestLimit }

// MemoryBytes returns the memory of the limiter and of what it knows of others, at most.
func (l *Limiter) MemoryBytes() int {
	bytes := l.node.memoryBytes() + 3*l.rules.Entries*heldBytes
	if l.local != nil {
		bytes += l.local.MemoryBytes()
	}
	return bytes
}

const heldBytes = 144 + 24 // and what the map takes

// Stats is a picture of a [Limiter].
type Stats struct {
	synced.Health
	Local    uint64 // decisions without waiting
	Waited   uint64 // decisions that waited for units of other machines
	Granted  uint64 // of these: admitted
	Starved  uint64 // of these: denied
	Members  int    // machines whose lease goes on, this one included
	Member   bool   // this machine's lease goes on
	Entries  int    // keys that were claimed
	Refused  uint64 // claims that found no room for an entry, or in the queue
	Resets   uint64 // how often the log began anew, or had lost records
	Restarts uint64 // how often the machine had to read the log from its beginning
	Records  uint64 // that were read
	Sent     uint64 // bytes
	Received uint64 // bytes
}

// Stats returns a picture of the limiter.
func (l *Limiter) Stats() Stats {
	s := l.node.statistics()
	s.Health = l.guard.State()
	for i := range l.stripes {
		st := &l.stripes[i]
		st.mu.Lock()
		s.Local, s.Waited, s.Granted, s.Starved = s.Local+st.local, s.Waited+st.waited, s.Granted+st.granted, s.Starved+st.starved
		st.mu.Unlock()
	}
	return s
}

// Close ends the machine's part: others may claim what it held when that does not count
// any more. It denies all from then on. Close waits for the engine for the Timeout.
func (l *Limiter) Close() error { return l.node.close() }

// Leave ends the machine's part without a word, as a crash does.
func (l *Limiter) Leave() { l.node.leave() }
