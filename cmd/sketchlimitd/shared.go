package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// shared shares counts with other processes through Redis: each decides by itself, and
// exchanges what it has admitted. What that may admit too much is on
// docs/redis-synced.md.
type shared struct {
	settings *redisSettings
	logger   *slog.Logger
	client   redis.UniversalClient
	seed     uint64
	turns    chan struct{} // of those who wait for Redis: no more at once than there are connections

	mu     sync.Mutex
	all    map[*sketchlimit.Limiter]*redislimit.Synced
	unused []*rules.Rule // overrides that nobody has asked for
	stop   context.CancelFunc
}

// newShared returns what shares counts, or nil if REDIS_URL is not set.
func newShared(ctx context.Context, set *redisSettings, logger *slog.Logger) (*shared, error) {
	if set.URL == "" {
		return nil, nil
	}
	client, err := set.client()
	if err != nil {
		return nil, err
	}
	s := &shared{
		settings: set, logger: logger, client: client, seed: set.Seed,
		turns: make(chan struct{}, set.PoolSize), all: map[*sketchlimit.Limiter]*redislimit.Synced{},
	}
	if s.seed == 0 {
		if s.seed, err = redislimit.Seed(ctx, client, s.prefix()); err != nil {
			client.Close()
			return nil, fmt.Errorf("REDIS_URL: %w: set SHARED_SEED to the same number everywhere to start without Redis", err)
		}
	}
	ctx, s.stop = context.WithCancel(context.Background())
	go s.watch(ctx)
	return s, nil
}

// watch shares the counts of overrides once one of each has been admitted, until the
// context ends.
func (s *shared) watch(ctx context.Context) {
	ticker := time.NewTicker(s.settings.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		var used []*rules.Rule
		s.unused = slices.DeleteFunc(s.unused, func(r *rules.Rule) bool {
			if r.Counters().Admitted == 0 {
				return false
			}
			used = append(used, r)
			return true
		})
		s.mu.Unlock()
		for _, r := range used {
			s.join(r)
		}
	}
}

// redisLog is told by the client of Redis what would otherwise be lines of its own.
type redisLog struct{ logger *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.logger.WarnContext(ctx, "redis", "error", fmt.Sprintf(format, args...))
}

func (s *shared) prefix() string { return cmp.Or(s.settings.Prefix, "sketchlimit") }

// add shares the counts of a rule, with those of the same rule elsewhere; those of
// overrides once there are some.
func (s *shared) add(r *rules.Rule) {
	if !r.Override {
		s.join(r)
		return
	}
	if _, err := r.Limiter().Share(); err != nil { // which counts from now on what is told then
		s.join(r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unused = append(s.unused, r)
}

// join shares the counts of a rule. What cannot be shared is told, and counts here alone.
func (s *shared) join(r *rules.Rule) {
	sum := sha256.Sum256(fmt.Append(nil, r.Place(), r.Limit, r.Window, r.Algorithm, r.MemoryBytes()))
	s.turns <- struct{}{}
	synced, err := redislimit.NewSynced(s.client, r.Limiter(), min(s.settings.Interval, r.Window),
		redislimit.Prefix(s.prefix()+":"+hex.EncodeToString(sum[:16])), redislimit.Log(s.logger))
	<-s.turns
	if err != nil {
		s.logger.Error("a rule counts in this process alone", "rule", r.String(), "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[r.Limiter()] = synced
}

// retain shares the counts of these rules alone from now on.
func (s *shared) retain(limits *rules.Rules) {
	if s == nil {
		return
	}
	used := map[*sketchlimit.Limiter]bool{}
	for _, r := range limits.Counting() {
		used[r.Limiter()] = true
	}
	s.close(func(l *sketchlimit.Limiter) bool { return !used[l] })
}

// end sends the other nodes all that was admitted here.
func (s *shared) end() {
	if s == nil {
		return
	}
	s.stop()
	s.close(func(*sketchlimit.Limiter) bool { return true })
	s.client.Close()
}

// close stops to share the counts of some limiters.
func (s *shared) close(which func(*sketchlimit.Limiter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all sync.WaitGroup
	errs := make(chan error, len(s.all))
	for l, synced := range s.all {
		if which(l) {
			delete(s.all, l)
			all.Go(func() {
				s.turns <- struct{}{}
				errs <- synced.Close()
				<-s.turns
			})
		}
	}
	all.Wait()
	close(errs)
	lost := 0
	var last error
	for err := range errs {
		if err != nil {
			lost, last = lost+1, err
		}
	}
	if lost > 0 {
		s.logger.Error("others do not know all that was admitted here", "rules", lost, "error", last)
	}
}
