// Package synced has the limiters that share one limit through an engine of package
// sharing. It is for packages that bring an engine: redislimit and natslimit. Programs
// use those.
package synced

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
)

// Failure is how requests are decided while the engine is away: gone, or too slow.
type Failure int

const (
	// FailShare goes on with this machine's share of the limit.
	FailShare Failure = iota
	// FailLocal goes on with what this machine knows, and with the whole limit.
	FailLocal
	// FailOpen admits every request.
	FailOpen
	// FailClosed denies every request.
	FailClosed
)

// String returns the policy's name.
func (f Failure) String() string {
	switch f {
	case FailShare:
		return "share"
	case FailLocal:
		return "local"
	case FailOpen:
		return "open"
	case FailClosed:
		return "closed"
	}
	return fmt.Sprintf("Failure(%d)", int(f))
}

// Unseen decides on n units, of which most can pass at once, without looking at the
// key, as FailOpen or FailClosed says.
func (f Failure) Unseen(n, most, limit int) sketchlimit.Decision {
	d := sketchlimit.Decision{Limit: limit}
	switch {
	case n < 1 || n > most:
		d.RetryAfter = sketchlimit.Never
	case f == FailOpen:
		d.Allowed, d.Remaining = true, most
	default:
		d.RetryAfter = ProbeEvery
	}
	return d
}

// ProbeEvery is how often an engine that is away is asked whether it is back.
const ProbeEvery = 250 * time.Millisecond

// Health says whether the engine answers.
type Health struct {
	// Away: it does not, or one of several servers does not, or one way to it is
	// broken. Requests that would go there are decided as Failure says.
	Away    bool
	Since   time.Time // of the latest change; zero if there was none
	Changes uint64    // how often Away has changed, of each server and way
	Err     error     // the latest failure or error reply, nil if there was none
}

// Guard decides by the results of calls whether an engine is away.
type Guard interface {
	Done(err error)
	State() Health
}

// Options are what a [Limiter] may be told. Defaults returns them.
type Options struct {
	Prefix  string
	Timeout time.Duration
	Failure Failure
	Log     *slog.Logger
	logged  bool    // Log was given
	Nodes   int     // 0: those that have been met
	KeyRate float64 // 0: unknown
}

// Option changes what a limiter does.
type Option func(*Options) error

// Prefix begins the names of what is kept at the server, "sketchlimit" otherwise. Nodes
// that share a limit have the same. It must not hold a brace.
func Prefix(prefix string) Option {
	return func(o *Options) error {
		o.Prefix = prefix
		if prefix == "" || strings.ContainsAny(prefix, "{}") {
			return fmt.Errorf("Prefix %q, must be without braces, and not empty", prefix)
		}
		return nil
	}
}

// Timeout is how long the server may take to answer, a second otherwise. Requests do
// not wait for it.
func Timeout(timeout time.Duration) Option {
	return func(o *Options) error {
		o.Timeout = timeout
		if timeout <= 0 {
			return fmt.Errorf("Timeout %v, must be above 0", timeout)
		}
		return nil
	}
}

// OnFailure is how requests are decided while the server is away, [FailShare] otherwise.
func OnFailure(failure Failure) Option {
	return func(o *Options) error {
		o.Failure = failure
		if failure < FailShare || failure > FailClosed {
			return fmt.Errorf("Failure %d, must be FailShare, FailLocal, FailOpen or FailClosed", int(failure))
		}
		return nil
	}
}

// Log is told what all nodes together may admit: at construction, and again when this
// first exceeds twice the limit. It is also told when the server goes away and comes
// back; without Log slog.Default() is told that, and not the former.
func Log(log *slog.Logger) Option {
	return func(o *Options) error {
		o.Log, o.logged = log, true
		if log == nil {
			return errors.New("Log nil, must be a logger")
		}
		return nil
	}
}

// Nodes is how many machines share the limit, for [Stats.Bound] and [FailShare];
// otherwise those that have been met, this one included.
func Nodes(n int) Option {
	return func(o *Options) error {
		o.Nodes = n
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("Nodes %d, must be 1 … %d", n, 1<<20)
		}
		return nil
	}
}

// KeyRate is the most units of one key that are offered to one machine in a second, for
// [Stats.Bound]. If the traffic exceeds it, so may what is admitted exceed the bound.
func KeyRate(perSecond float64) Option {
	return func(o *Options) error {
		o.KeyRate = perSecond
		if !(perSecond > 0) {
			return fmt.Errorf("KeyRate %v, must be above 0", perSecond)
		}
		return nil
	}
}

// Apply returns what options say.
func Apply(options []Option) (Options, error) {
	o := Options{Prefix: "sketchlimit", Timeout: time.Second, Log: slog.Default()}
	for i, option := range options {
		if option == nil {
			return o, fmt.Errorf("option %d nil, must be one", i)
		}
		if err := option(&o); err != nil {
			return o, err
		}
	}
	o.Log = o.Log.With(slog.String("name", o.Prefix))
	return o, nil
}

const minInterval = time.Millisecond

// Check refuses what New could not share.
func Check(limiter *sketchlimit.Limiter, interval time.Duration) error {
	switch {
	case limiter == nil:
		return errors.New("limiter nil, must be one")
	case interval < minInterval || interval > limiter.Window():
		return fmt.Errorf("interval %v, must be %v … the Window, %v", interval, minInterval, limiter.Window())
	}
	return nil
}

// Limiter shares its limit with others, its nodes. Each decides by itself, by what it
// has admitted and what it knows of the others. It is safe for concurrent use.
type Limiter struct {
	limiter  *sketchlimit.Limiter
	node     *sharing.Node
	guard    Guard
	options  Options
	interval time.Duration
	limit    int
	lowest   int          // limit that a request may come with
	blind    atomic.Bool  // the failure decides
	machines atomic.Int64 // that took part at the latest exchange
	alone    sync.Mutex   // of decisions by the share
	warned   atomic.Bool
	ready    atomic.Bool // node is set
}

// New shares the limiter's limit with all that join the log. It exchanges once, and
// then every interval. A server that does not answer is no error, and is waited for
// twice the Timeout at most.
func New(hub *sharing.Hub, limiter *sketchlimit.Limiter, interval time.Duration, log string, o Options, guard Guard) (*Limiter, error) {
	plan := limiter.Plan()
	share, err := limiter.Share()
	if err != nil {
		return nil, err
	}
	l := &Limiter{limiter: limiter, guard: guard, options: o, interval: interval, limit: plan.Limit,
		lowest: cmp.Or(plan.LowestLimit, plan.Limit)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*o.Timeout)
	defer cancel()
	l.node, err = hub.Join(ctx, share, sharing.Config{Log: log, Interval: interval, Timeout: o.Timeout, Window: limiter.Window(), Report: l.report})
	if err != nil {
		return nil, err
	}
	l.ready.Store(true)
	if o.logged {
		l.tell(l.Stats())
	}
	return l, nil
}

// report takes in the result of an exchange.
func (l *Limiter) report(err error) {
	l.guard.Done(err)
	l.blind.Store(l.options.Failure != FailLocal && l.guard.State().Away)
	if err == nil && l.options.Failure == FailShare && l.ready.Load() {
		l.machines.Store(int64(max(1, l.options.Nodes, l.node.Stats().Nodes)))
	}
	if err == nil && l.options.logged && l.ready.Load() && !l.warned.Load() {
		if s := l.Stats(); s.Bound > 2*l.limit && s.Bound < math.MaxInt { // FailOpen admitted all, as was said
			l.tell(s)
		}
	}
}

// tell logs what all nodes together may admit.
func (l *Limiter) tell(s Stats) {
	level, text := slog.LevelInfo, "all nodes together admit at most bound units of a key in a window"
	if s.Bound > 2*l.limit {
		level, text = slog.LevelWarn, text+", more than twice the limit"
		l.warned.Store(true)
	}
	l.options.Log.LogAttrs(context.Background(), level, text, slog.Int("bound", s.Bound), slog.Int("limit", l.limit),
		slog.Int("nodes", max(s.Met, l.options.Nodes)), slog.Duration("interval", l.interval))
}

// Stats is a picture of a [Limiter].
type Stats struct {
	Health
	sharing.Stats
	// Bound is the most units of a key that all nodes together admit in a window:
	//
	//	limit + (nodes − 1) × min(limit, KeyRate × (2 × interval + RoundTrip))
	//
	// of the option Nodes, or of those that were Met if these are more, and with
	// Delay in place of the time in brackets if that is longer. It is nodes × limit
	// without the option KeyRate and while the server is away. It is math.MaxInt while
	// FailOpen admits all, and for two windows after that. Nodes that have met different
	// delays have different Bounds: the highest holds.
	Bound int
}

// Stats returns a picture of the exchanges. That of the decisions is the limiter's.
func (l *Limiter) Stats() Stats {
	s := Stats{Health: l.guard.State(), Stats: l.node.Stats()}
	s.Bound = l.options.bound(l.limit, l.interval, l.limiter.Window(), time.Now(), s)
	return s
}

func (o *Options) bound(limit int, interval, window time.Duration, now time.Time, s Stats) int {
	away := s.Away || s.Changes > 0 && now.Sub(s.Since) < 2*window // in this window or the one before
	if away && o.Failure == FailOpen {
		return math.MaxInt
	}
	each := float64(limit)
	if o.KeyRate > 0 && !s.Away {
		each = min(each, math.Ceil(o.KeyRate*max(2*interval+s.RoundTrip, s.Delay).Seconds()))
	}
	return int(min(float64(math.MaxInt), float64(limit)+float64(max(s.Met, o.Nodes)-1)*each))
}

// Exchange sends the others all that is new here, and reads what is new there, now.
// Nodes do so by themselves.
func (l *Limiter) Exchange(ctx context.Context) error { return l.node.Exchange(ctx) }

// Leave ends the exchanges without a last one.
func (l *Limiter) Leave() { l.node.Leave() }

// Close ends the exchanges with a last one, which tells the others what this node has
// admitted, and returns its error. It waits as long as that goes on, and twice the
// Timeout if the server does not answer. The limiter goes on with what it knows.
func (l *Limiter) Close() error { return l.node.Close() }

// MemoryBytes returns the memory that sharing takes here, beside the limiter's.
func (l *Limiter) MemoryBytes() int {
	share, _ := l.limiter.Share() // there is one
	return share.MemoryBytes() + l.node.MemoryBytes()
}

// Allow consumes one unit of the key, now, and reports whether it was admitted. It and
// the other forms are those of [sketchlimit.Limiter].
func (l *Limiter) Allow(key string) bool {
	if l.blind.Load() {
		return l.unseen(sketchlimit.Request{Key: key}).Allowed
	}
	return l.limiter.Allow(key)
}

// AllowN consumes n units of the key, now, and reports whether they were admitted.
func (l *Limiter) AllowN(key string, n int) bool {
	if l.blind.Load() {
		return l.unseen(sketchlimit.Request{Key: key, N: cmp.Or(n, -1)}).Allowed
	}
	return l.limiter.AllowN(key, n)
}

// Take consumes n units of the key, now, if they are admitted.
func (l *Limiter) Take(key string, n int) sketchlimit.Decision {
	if l.blind.Load() {
		return l.unseen(sketchlimit.Request{Key: key, N: cmp.Or(n, -1)})
	}
	return l.limiter.Take(key, n)
}

// Do decides on r. Use it when the key is bytes or an address, when the request has its
// own limit, or to pass the time.
func (l *Limiter) Do(r sketchlimit.Request) sketchlimit.Decision {
	if l.blind.Load() {
		return l.unseen(r)
	}
	return l.limiter.Do(r)
}

// Peek returns what Take(key, 1) would, and consumes nothing.
func (l *Limiter) Peek(key string) sketchlimit.Decision {
	if l.blind.Load() {
		return l.unseen(sketchlimit.Request{Key: key, Peek: true})
	}
	return l.limiter.Peek(key)
}

// Window returns the span that the limit is meant for.
func (l *Limiter) Window() time.Duration { return l.limiter.Window() }

// LowestLimit returns that of the limiter, see [sketchlimit.Limiter.LowestLimit].
func (l *Limiter) LowestLimit() int { return l.limiter.LowestLimit() }

// Lower returns the limit of a [sketchlimit.Request] within bounds, 0 if it is below
// the lowest.
func Lower(limit, lowest, own int) int {
	switch {
	case limit == 0:
		return own
	case limit < lowest:
		return 0
	}
	return min(limit, own)
}

// unseen decides while the engine is away: as the Failure says, or by the machine's
// share.
func (l *Limiter) unseen(r sketchlimit.Request) sketchlimit.Decision {
	limit := Lower(r.Limit, l.lowest, l.limit)
	if l.options.Failure != FailShare {
		return l.options.Failure.Unseen(cmp.Or(r.N, 1), limit, limit)
	}
	return l.byShare(r, limit)
}

// byShare admits r if all units of the key that are known, those of the other machines
// included, stay within the machine's share of a limit.
func (l *Limiter) byShare(r sketchlimit.Request, limit int) sketchlimit.Decision {
	n, share := cmp.Or(r.N, 1), limit/int(max(1, l.machines.Load(), int64(l.options.Nodes)))
	switch {
	case n < 1 || n > limit:
		return sketchlimit.Decision{Limit: limit, RetryAfter: sketchlimit.Never}
	case n > share:
		return sketchlimit.Decision{Limit: limit, RetryAfter: ProbeEvery}
	}
	l.alone.Lock() // looking and taking are one step
	defer l.alone.Unlock()
	ask := r
	ask.N, ask.Peek = n+limit-share, true // passes if n units stay within the share
	d := l.limiter.Do(ask)
	if !d.Allowed || r.Peek {
		d.Remaining = max(0, d.Remaining-(limit-share))
		return d
	}
	d = l.limiter.Do(r)
	d.Remaining = max(0, d.Remaining-(limit-share))
	return d
}

// NewGuard returns a Guard to which an engine is away after three failures in a row
// that span a quarter of a second. It logs each change. What the nodes' limiters have
// different is no absence.
func NewGuard(log *slog.Logger, engine string) Guard { return &plainGuard{log: log, engine: engine} }

type plainGuard struct {
	log    *slog.Logger
	engine string

	mu       sync.Mutex
	health   Health
	failures int       // in a row
	first    time.Time // of these
}

const breakAfter = 3 // failures in a row

func (g *plainGuard) Done(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if errors.Is(err, sharing.ErrLayout) {
		g.health.Err, err = err, nil
	}
	if err == nil {
		g.failures = 0
		if g.health.Away {
			g.log.LogAttrs(context.Background(), slog.LevelInfo, g.engine+" is back", slog.Duration("after", now.Sub(g.health.Since)))
			g.health.Away, g.health.Since = false, now
			g.health.Changes++
		}
		return
	}
	g.health.Err = err
	if g.failures == 0 {
		g.first = now
	}
	if g.failures++; !g.health.Away && g.failures >= breakAfter && now.Sub(g.first) >= ProbeEvery {
		g.health.Away, g.health.Since = true, now
		g.health.Changes++
		g.log.LogAttrs(context.Background(), slog.LevelError, g.engine+" is away", slog.Any("error", err))
	}
}

func (g *plainGuard) State() Health {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.health
}
