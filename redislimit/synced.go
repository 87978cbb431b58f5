package redislimit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

// Synced is a limiter that shares its limit with those of other machines, its nodes. Each
// decides by itself, in nanoseconds, by what it has admitted and what it knows of the
// others. Every interval it appends what it has admitted to a stream in Redis, and reads what the others
// have. While nobody admits anything, all Synceds of a process that have one client make one call in two
// seconds together; it holds one connection of the client's pool.
//
// Every unit is known everywhere two intervals later at the latest, while Redis answers. So what all
// nodes together admit of a key, in a window, is at most
//
//	Limit + (nodes − 1) × min(Limit, rate × (2 × interval + round trip))
//
// where rate is the units of the key that are offered to one node a second: nodes × Limit, if nobody knows the
// rate. Failures and pauses take longer than that time: SyncedStats.Delay says how long. SyncedStats.Bound says how
// many units that are. Nodes number their generations by their own clocks: SyncedStats.ClockSkew says how far these
// are off.
//
// A node that ends with [Synced.Close] tells what it has admitted; one that crashes takes
// up to an interval of it along. One that comes reads what the others have admitted in the
// windows that count. While Redis is away nodes decide as their [Failure] says, keep what
// they have to tell, and tell it when Redis is back. If it comes back with nothing, they
// tell all that they have admitted; what nodes that are gone have admitted is known then
// only where it was before. Beyond its plan a Synced only denies: limiters with Overload DenyProven are refused.
//
// The stream is cut when it is longer than twice the limiter's own cells: the node that made it so
// appends the cells of all nodes, and removes what these contain. It expires two windows after the last
// record, a minute at least.
//
// The limiter may be used by itself as well: its decisions are the same, but for those
// while Redis is away. A Synced is safe for concurrent use.
type Synced struct {
	base     *synced.Limiter
	client   redis.UniversalClient
	options  synced.Options
	engine   *engine
	release  func() // the hub
	eviction *evictionWatch
	seed     uint64
	keeper   *keeper // of the seed
	stop     context.CancelFunc
}

// Option changes what a [Synced] does.
type Option = synced.Option

// Prefix begins the names of the Redis keys, "sketchlimit" otherwise. Nodes that share a limit
// have the same. It must not hold a brace. What precedes its first colon chooses the slot of a cluster: Synceds of one
// process that have that in common are read by one call.
func Prefix(prefix string) Option { return synced.Prefix(prefix) }

// Timeout is how long Redis may take to answer, a second otherwise. Requests do not wait for it.
func Timeout(timeout time.Duration) Option { return synced.Timeout(timeout) }

// OnFailure is how requests are decided while Redis is away, [FailShare] otherwise.
func OnFailure(failure Failure) Option { return synced.OnFailure(failure) }

// Log is told what all nodes together may admit: at construction, and again when that first exceeds twice the limit. It is
// also told when Redis goes away and comes back. Without Log, slog.Default() is told that alone.
func Log(log *slog.Logger) Option { return synced.Log(log) }

// Nodes is how many machines share the limit, for SyncedStats.Bound and [FailShare]; otherwise those that have been met.
func Nodes(n int) Option { return synced.Nodes(n) }

// KeyRate is the most units of one key that are offered to one machine in a second, for SyncedStats.Bound. If the
// traffic exceeds it, so may what is admitted exceed the bound.
func KeyRate(perSecond float64) Option { return synced.KeyRate(perSecond) }

// NewSynced shares the limiter's limit with all nodes that have the same Prefix, whose
// limiters must be built from the same Config with the same Seed: [Seed] has one for all.
// It exchanges once, and then every interval (1ms … a window). A Redis that does not answer is no
// error, and is waited for twice the Timeout at most. The client's timeouts should not be
// longer than the interval by much. Limiters with other Windows do not share: their windows
// have other numbers. Redis must be of version 6.2 or later.
//
// A limiter that was restored from a snapshot shares, too, but what this machine had told
// Redis before the snapshot counts twice for it until that has left the window.
func NewSynced(client redis.UniversalClient, limiter *sketchlimit.Limiter, interval time.Duration, opts ...Option) (*Synced, error) {
	if isNil(client) {
		return nil, errNoClient
	}
	if err := synced.Check(limiter, interval); err != nil {
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	o, err := synced.Apply(opts)
	if err != nil {
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	s := &Synced{client: client, options: o}
	hub, release := useHub(client, o.Prefix)
	s.engine, s.release = hub.engine, release
	s.base, err = synced.New(hub.Hub, limiter, interval, o.Prefix, o, guard{newBreaker(o.Log, o.Timeout)})
	if err != nil {
		release()
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	s.eviction = watchEviction(client, o.Log, o.Timeout)
	if share, err := limiter.Share(); err == nil {
		s.seed = drawn.of(share)
		s.keeper = drawn.keeper(client, s.seed)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	if s.keeper != nil {
		go s.keepSeeds(ctx)
	}
	return s, nil
}

// guard reports the outcome of exchanges to a breaker.
type guard struct{ *breaker }

func (g guard) Done(err error) {
	now := time.Now()
	g.done(now, now, err)
}

func (g guard) State() Health { return g.state() }

// keepSeeds looks after the seed in Redis until the context ends: each minute, and when Redis has lost what it knew.
func (s *Synced) keepSeeds(ctx context.Context) {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for seconds, lost := 1, uint64(0); ; seconds++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := s.base.Stats().Lost; now != lost || seconds%60 == 0 {
			lost = now
			s.keepSeed(ctx)
		}
	}
}

// keepSeed looks after the seed in Redis. Whose exchanges are accepted has the right one.
func (s *Synced) keepSeed(ctx context.Context) {
	if stats := s.base.Stats(); stats.Away || stats.Exchanges == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if found, err := s.keeper.keep(ctx, s.seed); err == nil && found != s.seed {
		err := s.keeper.insist(ctx, s.seed)
		s.options.Log.LogAttrs(ctx, slog.LevelWarn, "redislimit: Redis had lost the seed, another node has drawn a new one and must start again",
			slog.Any("error", err))
	}
}

// Close ends the exchanges with a last one, which tells the others what this node has
// admitted, and returns its error. It waits as long as that goes on, and twice the Timeout if Redis does not
// answer. The client stays open, and the limiter goes on with what it knows.
func (s *Synced) Close() error {
	s.stop()
	err := s.base.Close()
	if err == nil && s.keeper != nil {
		s.keepSeed(context.Background())
	}
	s.release()
	return err
}

// SyncedStats is a picture of a [Synced]. Its SentBytes and ReceivedBytes are the records'; Redis' protocol adds
// some 80 bytes to each.
type SyncedStats struct {
	synced.Stats
	// ClockSkew is how far this machine's clock is ahead of that of Redis, to half a
	// round trip and a millisecond. Windows begin by the nodes' own clocks.
	ClockSkew time.Duration
	// Eviction is whether Redis may lose counts because its memory is full, as it was at construction.
	Eviction Eviction
}

// Stats returns a picture of the exchanges. That of the decisions is the limiter's.
func (s *Synced) Stats() SyncedStats {
	return SyncedStats{s.base.Stats(), time.Duration(s.engine.skew.Load()), s.eviction.state()}
}
