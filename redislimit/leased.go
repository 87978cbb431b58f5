package redislimit

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing/leased"
)

// Leased is a limiter that shares its limit with those of other machines, decides locally
// nearly always, and never admits more than the limit, all machines together.
//
// Of every key each machine holds Limit / Machines units and admits them by itself. A
// machine that needs more claims them through a stream in Redis: it gets what nobody
// holds, and the others return what they do not need. A request that needs units of
// others waits for them, LeasedOptions.Wait at most. Package
// [github.com/sketchlimit/sketchlimit/sharing/lease] has the protocol.
//
// While Redis is away a machine goes on with what it holds until its lease ends,
// and then denies. A machine that starts denies until it has read the log. A stream that is
// new, or has lost what it had, grants no claims for a Lease and two windows: until then
// each machine has its share alone. A server that loses what it has acknowledged, and keeps
// the rest, may let units that were lost be admitted again.
//
// All requests of a key should have the same limit: where they differ, the units of the
// key stay within the highest of them. A Leased is safe for concurrent use.
type Leased struct {
	*leased.Limiter
	release func()
}

// LeasedOptions are what a [Leased] may be told. Machines must be set: how many machines
// share the limit at once, at most, those included that start before others have ended.
type LeasedOptions = leased.Options

// LeasedStats is a picture of a [Leased].
type LeasedStats = leased.Stats

// NewLeased returns a limiter that shares the limit of the Config with all machines that
// have the same Prefix, Config and Seed. It waits for Redis for twice the Timeout at most;
// a Redis that does not answer is no error. It holds one connection of the client's pool.
// Redis must be of version 6.2 or later. Algorithms are SlidingWindow and FixedWindow.
func NewLeased(client redis.UniversalClient, c sketchlimit.Config, o LeasedOptions) (*Leased, error) {
	if isNil(client) {
		return nil, errNoClient
	}
	if err := leased.Check(c, o); err != nil {
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	hub, release := useHub(client, o.Prefix)
	l, err := leased.New(hub.engine, c, o, "redislimit: Redis")
	if err != nil {
		release()
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	return &Leased{l, release}, nil
}

// Close ends the machine's part: others may claim what it held, once that does not count
// any more. It denies all from then on. The client stays open.
func (l *Leased) Close() error {
	defer l.release()
	return l.Limiter.Close()
}
