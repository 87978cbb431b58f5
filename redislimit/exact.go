package redislimit

import (
	"cmp"
	"context"
	_ "embed"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

//go:embed exactwindow.lua
var exactWindowScript string

//go:embed exactbucket.lua
var exactBucketScript string

//go:embed exactlog.lua
var exactLogScript string

// Exact limits keys on all machines together and is never wrong: it keeps one Redis key
// for every key that has come in the last window, so its memory grows with them.
//
// Of the algorithms, FixedWindow is a count and TokenBucket a time (some 100 bytes a key),
// and SlidingWindow is the log that a [Strict]'s two generations stand for: any span of
// one window holds at most Limit units, and each request admitted in it takes some 100
// bytes more.
//
// An Exact is safe for concurrent use, and goes to Redis as a [Strict] does.
type Exact struct {
	*scripts
	prefix    string
	algorithm sketchlimit.Algorithm
	window    window
	bucket    bucket
	limit     int
	span      time.Duration // that the limit is meant for
}

// NewExact returns a limiter that keeps what it counts at the client's server or cluster.
// It does not wait for it. Its errors name the field of the Config, its value and what is
// allowed.
func NewExact(client redis.UniversalClient, c Config) (*Exact, error) {
	err := c.check(client)
	if err != nil {
		return nil, err
	}
	e := &Exact{algorithm: c.Algorithm, limit: c.Limit, span: c.Window}
	unit, text := c.Window.String(), ""
	switch c.Algorithm {
	case sketchlimit.TokenBucket:
		if e.bucket, err = newBucket(&c); err != nil {
			return nil, err
		}
		unit, text = e.bucket.name(), e.bucket.constants()+exactBucketScript
	case sketchlimit.FixedWindow:
		if e.window, err = newWindow(&c, 1); err != nil {
			return nil, err
		}
		text = e.window.constants() + exactWindowScript
	default:
		e.window = window{int64(c.Limit), c.Window.Microseconds(), time.Microsecond, 1}
		text = e.window.constants() + exactLogScript
	}
	e.prefix = c.prefix() + ":exact:" + c.Algorithm.String() + ":" + unit + ":"
	e.scripts, err = newScripts(client, &c, text)
	return e, err
}

// Allow takes one unit of the key, now, and tells whether it was admitted.
func (e *Exact) Allow(ctx context.Context, key string) (bool, error) {
	d, err := e.Take(ctx, key, 1)
	return d.Allowed, err
}

// Health reports whether Redis answers.
func (e *Exact) Health() Health { return e.scripts.Health() }

// Take takes n units of the key, at the time of the server's clock, if they are admitted. It returns an
// error if Redis does not decide, and allows nothing then: within Config.Timeout, and while Redis is away at
// once, an ErrAway.
func (e *Exact) Take(ctx context.Context, key string, n int) (sketchlimit.Decision, error) {
	return e.take(ctx, "", key, n, false)
}

// TakeAt is [Exact.Take] at a time of the caller's, in whole microseconds, not before 1970.
// Times of a key do not run backwards: one that lies before the key's last is taken as
// that, or as the beginning of its window.
func (e *Exact) TakeAt(ctx context.Context, now time.Time, key string, n int) (sketchlimit.Decision, error) {
	return e.take(ctx, micros(now), key, n, false)
}

// Do decides on a request that [Exact.Take] cannot say, see [sketchlimit.Request]. A limit of its own that is below
// the limiter's admits nothing. For its Time see [Exact.TakeAt].
func (e *Exact) Do(ctx context.Context, r sketchlimit.Request) (sketchlimit.Decision, error) {
	if synced.Lower(r.Limit, e.limit, e.limit) == 0 {
		return sketchlimit.Decision{RetryAfter: sketchlimit.Never}, nil
	}
	var now any = ""
	if !r.Time.IsZero() {
		now = micros(r.Time)
	}
	return e.take(ctx, now, keyOf(&r), cmp.Or(r.N, 1), r.Peek)
}

func (e *Exact) take(ctx context.Context, now any, key string, n int, peek bool) (sketchlimit.Decision, error) {
	name, looks, taken := e.prefix+key, 0, n
	if peek {
		looks, taken = 1, 0
	}
	switch e.algorithm {
	case sketchlimit.TokenBucket:
		reply, err := e.run(ctx, 2, name, e.bucket.cost(n), e.bucket.room(n), now, looks)
		if err != nil {
			return sketchlimit.Decision{}, err
		}
		if reply[0] == 0 {
			taken = n
		}
		return e.bucket.decision(reply[0] == 1, reply[1], taken), nil
	case sketchlimit.FixedWindow:
		reply, err := e.run(ctx, 3, name, min(n, math.MaxInt32), now, looks)
		if err != nil {
			return sketchlimit.Decision{}, err
		}
		if reply[0] == 0 {
			taken = n
		}
		return e.window.decision(reply[0] == 1, reply[1], 0, reply[2], taken), nil
	}
	reply, err := e.run(ctx, 4, name, min(n, math.MaxInt32), now, looks)
	if err != nil {
		return sketchlimit.Decision{}, err
	}
	d := sketchlimit.Decision{Allowed: reply[0] == 1, Limit: int(e.window.limit),
		Remaining: int(e.window.limit - reply[1]), ResetAfter: e.window.time(reply[3])}
	switch {
	case d.Allowed:
	case n < 1 || int64(n) > e.window.limit:
		d.RetryAfter = sketchlimit.Never
	default:
		d.RetryAfter = e.window.time(reply[2])
	}
	return d, nil
}
