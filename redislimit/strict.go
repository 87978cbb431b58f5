package redislimit

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

//go:embed window.lua
var windowScript string

//go:embed bucket.lua
var bucketScript string

//go:embed clock.lua
var clockScript string

// Strict limits keys on all machines together, by one script call a decision, which checks
// and counts in one step. So it never admits more than the limit, however many machines
// ask at once, and it may deny too early, as a [sketchlimit.Limiter] does. Beyond its plan it only denies: it neither
// grows nor takes Overload DenyProven.
//
// What it counts is in strings of fixed size, see [Strict.MemoryBytes], that expire two
// windows after the last unit. A server that loses them (a crash, an eviction, a failover
// before the replica had the last writes) has forgotten what was admitted: set
// maxmemory-policy noeviction. One that evicts is told in the log and by [Strict.Stats].
//
// A Strict is safe for concurrent use: up to four calls at a time go each by a connection of
// the client's pool, and those that meet more share round trips. Its connections are the
// client's, which it does not close. Of a cluster's client all calls share.
type Strict struct {
	layout
	*scripts
	at       atomic.Pointer[located]
	keeper   *keeper // of the seed
	log      *slog.Logger
	prefix   string
	unit     string // what a generation's number counts
	window   window
	bucket   bucket
	failure  Failure
	span     time.Duration // that the limit is meant for
	limit    int
	lowest   int                  // limit that a request may come with
	local    *sketchlimit.Limiter // of this machine's share; nil unless failure is FailLocal or FailShare
	machines int                  // that share the limit while Redis is away
	client   redis.UniversalClient

	// What the local limiter has admitted by itself, Redis does not know. Until this time, in µs, it counts,
	// and the local limiter must consent to what Redis admits.
	consent   atomic.Int64
	remembers time.Duration // how long a unit counts

	admitted, denied atomic.Uint64 // units
	tooLow           atomic.Uint64 // requests
}

// located is where keys are by a seed.
type located struct {
	layout
	seed  uint64   // of the Config
	names []string // of the shards
}

// locate goes by a seed from now on.
func (s *Strict) locate(seed uint64) {
	l := s.under(seed)
	s.at.Store(&located{l, seed, l.names(s.prefix, s.unit)})
}

// keepSeed looks after the seed, now and then. If Redis has lost it and another node has drawn another one
// since, this one is adopted: what Redis had counted by the old one is lost as well.
func (s *Strict) keepSeed(now time.Time) {
	if s.keeper.due(now, false) {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
			defer cancel()
			s.adoptSeed(ctx)
		}()
	}
}

func (s *Strict) adoptSeed(ctx context.Context) {
	seed := s.at.Load().seed
	if found, err := s.keeper.keep(ctx, seed); err == nil && found != seed {
		s.log.LogAttrs(ctx, slog.LevelWarn, "redislimit: Redis has lost the seed and another node has drawn a new one; counts begin anew",
			slog.String("name", s.prefix))
		s.locate(found)
	}
}

// NewStrict returns a limiter that keeps what it counts at the client's server or cluster.
// It does not wait for it. Its errors name the field of the Config, its value and what is
// allowed.
func NewStrict(client redis.UniversalClient, c Config) (*Strict, error) {
	if err := c.check(client); err != nil {
		return nil, err
	}
	l, err := newLayout(&c)
	if err != nil {
		return nil, err
	}
	s := &Strict{layout: l, failure: c.Failure, span: c.Window, limit: c.Limit, machines: c.machines(), lowest: cmp.Or(c.LowestLimit, c.Limit), client: client, prefix: c.prefix(), unit: c.Window.String(), log: c.log(),
		keeper: drawn.keeper(client, c.Seed)}
	var text string
	if c.Algorithm == sketchlimit.TokenBucket {
		if s.bucket, err = newBucket(&c); err != nil {
			return nil, err
		}
		s.unit, s.remembers = s.bucket.name(), s.bucket.longest()
		text = s.bucket.constants() + fmt.Sprintf("local size, far = %d, %d\n", l.size(), far(s.bucket.generation)) + clockScript + bucketScript
	} else {
		if s.window, err = newWindow(&c, l.kept); err != nil {
			return nil, err
		}
		s.remembers = time.Duration(l.kept) * c.Window
		text = s.window.constants() + l.constants() + fmt.Sprintf("local length, far = %d, %d\n", c.Window.Microseconds(), far(c.Window.Microseconds())) +
			clockScript + windowScript
	}
	s.locate(c.Seed)
	if c.Failure == FailLocal || c.Failure == FailShare {
		if s.local, err = c.local(); err != nil {
			return nil, err
		}
	}
	s.scripts, err = newScripts(client, &c, text)
	return s, err
}

// Allow takes one unit of the key, now, and tells whether it was admitted.
func (s *Strict) Allow(ctx context.Context, key string) (bool, error) {
	d, err := s.Take(ctx, key, 1)
	return d.Allowed, err
}

// Take takes n units of the key, at the time of the server's clock, if they are admitted.
//
// It answers within Config.Timeout, and while Redis is away at once, as Config.Failure
// says; Health tells. It returns an error only if the context ends before, and then
// allows nothing. Deadlines end it at once; that a context was cancelled it may notice only
// when Redis answers or the timeout is over. A request that was not answered may still be
// counted, and one whose connection broke is sent again by go-redis and may be counted twice:
// against the key.
func (s *Strict) Take(ctx context.Context, key string, n int) (sketchlimit.Decision, error) {
	return s.take(ctx, sketchlimit.Now(), request{key, n, s.limit, "", false})
}

// TakeAt is [Strict.Take] at a time of the caller's, in whole microseconds, not before
// 1970. A time before that of another call is taken as the beginning of the latest
// generation that the key's neighbours have seen. One limiter should go by one clock,
// the server's or the callers'; strings expire by the server's.
func (s *Strict) TakeAt(ctx context.Context, now time.Time, key string, n int) (sketchlimit.Decision, error) {
	return s.take(ctx, now, request{key, n, s.limit, micros(now), false})
}

// Peek returns what Take(ctx, key, 1) would return, and consumes nothing. Remaining does
// not include that unit.
func (s *Strict) Peek(ctx context.Context, key string) (sketchlimit.Decision, error) {
	return s.take(ctx, sketchlimit.Now(), request{key, 1, s.limit, "", true})
}

// Do decides on a request that [Strict.Take] cannot say, see [sketchlimit.Request]: its limits are those of the
// Config here, and for its Time see [Strict.TakeAt].
func (s *Strict) Do(ctx context.Context, r sketchlimit.Request) (sketchlimit.Decision, error) {
	q := request{keyOf(&r), cmp.Or(r.N, 1), synced.Lower(r.Limit, s.lowest, s.limit), "", r.Peek}
	if r.Limit > 0 && q.limit == 0 && !r.Peek {
		s.tooLow.Add(1)
	}
	if r.Time.IsZero() {
		return s.take(ctx, sketchlimit.Now(), q)
	}
	q.at = micros(r.Time)
	return s.take(ctx, r.Time, q)
}

// keyOf returns the bytes of the request's key.
func keyOf(r *sketchlimit.Request) string {
	switch {
	case r.Addr.IsValid():
		return string(r.Addr.Unmap().AsSlice())
	case r.Bytes != nil:
		return string(r.Bytes)
	}
	return r.Key
}

// Health reports whether Redis answers.
func (s *Strict) Health() Health { return s.scripts.Health() }

// request is what is asked of Redis.
type request struct {
	key   string
	n     int
	limit int
	at    any  // microseconds, or "" for the server's time
	peek  bool // nothing is to be taken
}

// take decides and counts how it went.
func (s *Strict) take(ctx context.Context, now time.Time, r request) (sketchlimit.Decision, error) {
	d, err := s.decide(ctx, now, r)
	most := r.limit
	if s.algorithm == sketchlimit.TokenBucket {
		b := s.bucket.under(r.limit)
		most = int(b.burst)
	}
	switch units := uint64(max(0, min(r.n, max(1, most)))); {
	case err != nil || r.peek:
	case d.Allowed:
		s.admitted.Add(units)
	default:
		s.denied.Add(units)
	}
	return d, err
}

// decide lets Redis decide if it answers, and the local limiter as well while that has admitted units which
// Redis does not know.
func (s *Strict) decide(ctx context.Context, now time.Time, r request) (sketchlimit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return sketchlimit.Decision{}, err
	}
	both := micros(now) <= s.consent.Load()
	if both {
		if own := s.byItself(now, r, true); !own.Allowed {
			return own, nil
		}
	}
	d, err := s.ask(ctx, r)
	switch {
	case err != nil && ctx.Err() != nil:
		return sketchlimit.Decision{}, ctx.Err()
	case err != nil:
		return s.alone(now, r), nil
	case !d.Allowed || s.local == nil:
		return d, nil
	}
	own := s.byItself(now, r, r.peek)
	switch {
	case both && !own.Allowed:
		return own, nil
	case both:
		d.Remaining, d.ResetAfter = min(d.Remaining, own.Remaining), max(d.ResetAfter, own.ResetAfter)
	}
	return d, nil
}

// byItself lets the local limiter decide, which counts what is admitted unless it is to peek. Neither the time
// nor the cost or the limit may be 0, which stand for something else.
func (s *Strict) byItself(now time.Time, r request, peek bool) sketchlimit.Decision {
	return s.local.Do(sketchlimit.Request{
		Key: r.key, N: cmp.Or(r.n, -1), Limit: cmp.Or(r.limit/s.machines, -1), Time: time.UnixMicro(micros(now)), Peek: peek,
	})
}

// ask sends the script.
func (s *Strict) ask(ctx context.Context, r request) (sketchlimit.Decision, error) {
	at := s.at.Load()
	p, b, w := at.place(r.key), s.bucket.under(r.limit), s.window
	w.limit = int64(r.limit)
	want, args := 4, []any{p.offset, p.columns[:]}
	if s.algorithm == sketchlimit.TokenBucket {
		want, args[1] = 2, []byte{p.columns[0], p.columns[2], p.columns[4], p.columns[6]}
	}
	switch { // the scripts know what is asked most
	case r == request{r.key, 1, s.limit, "", false}:
	case s.algorithm == sketchlimit.TokenBucket:
		args = append(args, b.cost(r.n), b.room(r.n), r.at)
	default:
		args = append(args, min(r.n, math.MaxInt32), r.at, r.limit)
	}
	if r.peek {
		args = append(args, 1)
	}
	reply, err := s.run(ctx, want, at.names[p.shard], args...)
	if err != nil {
		return sketchlimit.Decision{}, err
	}
	s.keepSeed(time.Now())
	allowed, taken := reply[0] == 1, r.n
	if allowed && r.peek {
		taken = 0
	}
	if s.algorithm == sketchlimit.TokenBucket {
		return b.decision(allowed, reply[1], taken), nil
	}
	return w.decision(allowed, reply[1], reply[2], reply[3], taken), nil
}

// alone decides without Redis.
func (s *Strict) alone(now time.Time, r request) sketchlimit.Decision {
	switch {
	case s.local == nil && s.algorithm == sketchlimit.TokenBucket:
		return s.failure.Unseen(r.n, int(s.bucket.under(r.limit).burst), r.limit)
	case s.local == nil:
		return s.failure.Unseen(r.n, r.limit, r.limit)
	}
	d := s.byItself(now, r, r.peek)
	if until := micros(now) + s.remembers.Microseconds(); d.Allowed && !r.peek {
		for was := s.consent.Load(); was < until && !s.consent.CompareAndSwap(was, until); was = s.consent.Load() {
		}
	}
	return d
}

// MemoryBytes returns what the strings in Redis hold, all shards together, once each has
// been written to. Redis takes 1 % more from 2 MiB on, and up to a quarter where strings
// are small.
func (s *Strict) MemoryBytes() int { return len(s.at.Load().names) * s.size() }
