package caddylimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
)

// Redis is where instances exchange what they have admitted. Each decides by itself; see docs/redis-synced.md of the
// repository for what they may admit too much together.
type Redis struct {
	// host:port, or a URL such as rediss://user:password@host:6379/0. It may have placeholders such as
	// {env.REDIS_URL}.
	Address string `json:"address"`
	// A secret number, the same for all instances. Without one, it is kept in Redis, and an instance does not start
	// while Redis is away.
	Seed uint64 `json:"seed,omitempty"`
	// How often counts are exchanged; 100ms if not set.
	Interval caddy.Duration `json:"interval,omitempty"`
}

// exchangeEvery is the interval if none is set.
const exchangeEvery = 100 * time.Millisecond

// redisPrefix begins the names of the keys in Redis.
const redisPrefix = "sketchlimit:caddy"

func (r *Redis) validate() error {
	if r.Interval != 0 && r.Interval < caddy.Duration(time.Millisecond) {
		return fmt.Errorf("redis: interval %v, must be 1ms or more", time.Duration(r.Interval))
	}
	_, err := r.options()
	return err
}

// options returns how to reach Redis.
func (r *Redis) options() (o *redis.Options, err error) {
	address := caddy.NewReplacer().ReplaceAll(r.Address, "")
	switch {
	case address == "":
		return nil, errors.New("redis: address empty, must be host:port or a URL")
	case strings.Contains(address, "://"):
		if o, err = redis.ParseURL(address); err != nil {
			// The URL may hold a password, and so may an error that quotes it.
			return nil, errors.New("redis: address is no URL of Redis, must be as redis://user:password@host:6379/0")
		}
	default:
		o = &redis.Options{Addr: address}
	}
	o.MaxRetries, o.DialerRetries = -1, 1 // an exchange that fails is repeated by the next one
	return o, nil
}

// shared exchanges the counts of a zone.
type shared struct {
	client   *redis.Client
	seed     uint64
	prefix   string
	interval time.Duration
	all      []*redislimit.Synced
}

// newShared connects to Redis. The identity is what the instances' settings have in common.
func newShared(ctx context.Context, r *Redis, zone, identity string) (*shared, error) {
	options, err := r.options()
	if err != nil {
		return nil, err
	}
	s := &shared{
		client: redis.NewClient(options), seed: r.Seed,
		prefix: redisPrefix + ":" + name(zone) + ":" + digest(identity), interval: time.Duration(r.Interval),
	}
	if s.interval == 0 {
		s.interval = exchangeEvery
	}
	if s.seed == 0 {
		if s.seed, err = redislimit.Seed(ctx, s.client, redisPrefix); err != nil {
			s.client.Close()
			return nil, fmt.Errorf("redis: %w: set its seed to the same number everywhere to start without Redis", err)
		}
	}
	return s, nil
}

// add shares the counts of a limiter, and returns what tells the memory that it takes beside the limiter's.
func (s *shared) add(l *sketchlimit.Limiter, window time.Duration) (memoryBytes func() int, err error) {
	synced, err := redislimit.NewSynced(s.client, l, min(s.interval, window),
		redislimit.Prefix(fmt.Sprintf("%s:%d", s.prefix, len(s.all))), redislimit.Log(slog.New(&logHandler{})))
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s.all = append(s.all, synced)
	return synced.MemoryBytes, nil
}

// close tells the others what was admitted here.
func (s *shared) close() error {
	var errs []error
	for _, synced := range s.all {
		if err := synced.Close(); err != nil {
			errs = append(errs, fmt.Errorf("redis: others do not know all that was admitted here: %w", err))
		}
	}
	return errors.Join(append(errs, s.client.Close())...)
}
