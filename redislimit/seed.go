package redislimit

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
)

const (
	// seedTimeout is how long [Seed] waits for Redis.
	seedTimeout = 5 * time.Second
	// keepEvery is how often limiters look after a seed that was drawn.
	keepEvery = time.Second
)

// Seed returns the seed that all limiters of a prefix have in common, and makes one if
// there is none yet. It stays in Redis for ever, and limiters of this process that have it put it there
// again if Redis has lost it. A seed from your configuration, the same on all machines, cannot be lost.
//
// It returns an error when the context ends, or after five seconds, if Redis has not answered.
func Seed(ctx context.Context, client redis.UniversalClient, prefix string) (uint64, error) {
	if isNil(client) {
		return 0, errNoClient
	}
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	var b [8]byte
	crand.Read(b[:]) // never fails
	b[0] |= 1        // not 0
	type answer struct {
		seed uint64
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // the client may wait for longer than the context
		seed, err := putSeed(ctx, client, prefix, hex.EncodeToString(b[:]))
		answers <- answer{seed, err}
	}()
	select {
	case a := <-answers:
		if a.err == nil {
			drawn.add(a.seed, prefix)
		}
		return a.seed, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("redislimit: no seed from Redis: %w", ctx.Err())
	}
}

// putSeed puts a seed to Redis unless there is one, and returns the one that is there.
func putSeed(ctx context.Context, client redis.UniversalClient, prefix, seed string) (uint64, error) {
	if err := client.SetNX(ctx, prefix+":seed", seed, 0).Err(); err != nil {
		return 0, fmt.Errorf("redislimit: %w", err)
	}
	text, err := client.Get(ctx, prefix+":seed").Result()
	if err != nil {
		return 0, fmt.Errorf("redislimit: %w", err)
	}
	found, err := strconv.ParseUint(text, 16, 64)
	if err != nil || found == 0 {
		return 0, fmt.Errorf("redislimit: seed %q at %s:seed, must be a hexadecimal number above 0", text, prefix)
	}
	return found, nil
}

// drawn are the seeds that Seed has returned: a limiter that has one of them looks after it in Redis.
var drawn seeds

type seeds struct {
	mu       sync.Mutex
	prefixes map[uint64]string // by seed
}

func (s *seeds) add(seed uint64, prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prefixes == nil {
		s.prefixes = make(map[uint64]string)
	}
	s.prefixes[seed] = prefix
}

// of returns the seed that a limiter has which tells no more of it than its Share's layout, or 0.
func (s *seeds) of(share *sharing.Share) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seed := range s.prefixes {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: time.Second, Keys: 1, Seed: seed})
		if err != nil {
			continue
		}
		other, err := l.Share()
		if err == nil && seedOf(other) == seedOf(share) {
			l.Close()
			return seed
		}
		l.Close()
	}
	return 0
}

// seedOf returns what a layout tells of a seed.
func seedOf(share *sharing.Share) string {
	layout := share.Layout()
	return layout[strings.LastIndex(layout, " "):]
}

// keeper looks after a seed that was drawn. A nil one does nothing: the seed was not drawn here.
type keeper struct {
	client redis.UniversalClient
	prefix string
	next   atomic.Int64 // when to look, ns since 1970
}

// keeper returns the keeper of a seed.
func (s *seeds) keeper(client redis.UniversalClient, seed uint64) *keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	if prefix, ok := s.prefixes[seed]; ok {
		return &keeper{client: client, prefix: prefix}
	}
	return nil
}

// due reports whether it is time to look: to one caller a second, or at once.
func (k *keeper) due(now time.Time, atOnce bool) bool {
	if k == nil {
		return false
	}
	next := k.next.Load()
	return (atOnce || now.UnixNano() >= next) && k.next.CompareAndSwap(next, now.Add(keepEvery).UnixNano())
}

// keep puts the seed to Redis if it was lost there, and returns the one that is there.
func (k *keeper) keep(ctx context.Context, seed uint64) (uint64, error) {
	return putSeed(ctx, k.client, k.prefix, fmt.Sprintf("%016x", seed))
}

// insist puts the seed to Redis whatever is there: that of a node which came after Redis had lost this one.
func (k *keeper) insist(ctx context.Context, seed uint64) error {
	return k.client.Set(ctx, k.prefix+":seed", fmt.Sprintf("%016x", seed), 0).Err()
}

var errNoClient = errors.New("redislimit: client nil, must be one")

// isNil reports whether an interface is nil or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}
