package caddylimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit/redislimit"
)

// Redis is where instances exchange what they have admitted. Each decides by itself;
// see docs/redis-synced.md of the repository for what they may admit too much together.
type Redis struct {
	// host:port, or a URL such as rediss://user:password@host:6379/0. It may have
	// placeholders such as {env.REDIS_URL}.
	Address string `json:"address"`
	// A secret number, the same for all instances. Without one, it is kept in Redis,
	// and an instance does not start while Redis is away.
	Seed Seed `json:"seed,omitempty"`
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
	zone     string
	rules    string // what counts mean, beside the layouts of the limiters
	interval time.Duration
	all      []*redislimit.Synced
}

// newShared gets ready to connect to Redis.
func newShared(z *Zone) (*shared, error) {
	options, err := z.redis.options()
	if err != nil {
		return nil, err
	}
	s := &shared{
		client: redis.NewClient(options), seed: uint64(z.redis.Seed), zone: z.name,
		rules:    fmt.Sprintf("%q /%d /%d", z.Algorithm, z.IPv4Prefix, z.IPv6Prefix),
		interval: cmp.Or(time.Duration(z.redis.Interval), exchangeEvery),
	}
	if s.seed == 0 {
		if s.seed, err = redislimit.Seed(context.Background(), s.client, redisPrefix); err != nil {
			s.client.Close()
			return nil, fmt.Errorf("redis: %w: set its seed to the same number everywhere to start without Redis", err)
		}
	}
	return s, nil
}

// connect shares the counts of the limiters. A Redis that does not answer is waited for
// once, not for each.
func (s *shared) connect(limiters []*limiter) error {
	s.all = make([]*redislimit.Synced, len(limiters))
	errs := make([]error, len(limiters))
	var all sync.WaitGroup
	for i, l := range limiters {
		all.Go(func() { s.all[i], errs[i] = s.share(l) })
	}
	all.Wait()
	s.all = slices.DeleteFunc(s.all, func(synced *redislimit.Synced) bool { return synced == nil })
	return errors.Join(errs...)
}

// share shares the counts of a limiter with those that count alike: the names in Redis
// hold what must be the same for one to read the other's cells. So nodes whose limit,
// size or seed changes do not wait for the old cells to expire.
func (s *shared) share(l *limiter) (*redislimit.Synced, error) {
	share, err := l.Share()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	prefix := redisPrefix + ":" + name(s.zone) + ":" + digest(s.rules+share.Layout())
	synced, err := redislimit.NewSynced(s.client, l.Limiter, min(s.interval, l.config.Window),
		redislimit.Prefix(prefix), redislimit.Log(slog.New(&logHandler{})))
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	l.share = synced.MemoryBytes
	return synced, nil
}

// close sends the other nodes what was admitted here. It does not wait where Redis is
// known to be away.
func (s *shared) close() error {
	closed := make(chan error, len(s.all))
	for _, synced := range s.all {
		go func() { closed <- synced.Close() }()
	}
	tell := func() error {
		var errs []error
		for range s.all {
			if err := <-closed; err != nil {
				errs = append(errs, fmt.Errorf("redis: others do not know all that was admitted here: %w", err))
			}
		}
		return errors.Join(append(errs, s.client.Close())...)
	}
	if slices.ContainsFunc(s.all, func(synced *redislimit.Synced) bool { return synced.Stats().Away }) {
		go tell()
		return errors.New("redis: away: others do not know all that was admitted here")
	}
	return tell()
}
