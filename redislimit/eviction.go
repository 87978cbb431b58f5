package redislimit

import (
	"bufio"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Eviction is what Redis does with counts where its memory is full: a server that evicts them forgets what
// was admitted, and admits it again.
type Eviction string

const (
	// EvictionUnknown: Redis has not answered yet, or its user may not ask for INFO.
	EvictionUnknown Eviction = "unknown"
	// EvictionNone: Redis keeps counts. All other values are the maxmemory-policy of a server that does not.
	EvictionNone Eviction = "none"
)

// evictionWatch holds what was last known, and tells the log once if that is bad.
type evictionWatch struct {
	client  redis.UniversalClient
	log     *slog.Logger
	timeout time.Duration
	latest  atomic.Pointer[Eviction]
	told    atomic.Bool
}

// watchEviction asks all servers, which nobody waits for.
func watchEviction(client redis.UniversalClient, log *slog.Logger, timeout time.Duration) *evictionWatch {
	w := &evictionWatch{client: client, log: log, timeout: timeout}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		w.look(ctx)
	}()
	return w
}

// state returns what was last known.
func (w *evictionWatch) state() Eviction {
	if e := w.latest.Load(); e != nil {
		return *e
	}
	return EvictionUnknown
}

// look asks all servers.
func (w *evictionWatch) look(ctx context.Context) Eviction {
	e := evictionOf(ctx, w.client)
	if e == EvictionUnknown && w.latest.Load() != nil {
		return w.state() // as it was
	}
	w.latest.Store(&e)
	if e != EvictionUnknown && e != EvictionNone && !w.told.Swap(true) {
		w.log.LogAttrs(ctx, slog.LevelWarn, "redislimit: Redis may evict counts and admit their units again; set maxmemory-policy noeviction",
			slog.String("maxmemory-policy", string(e)))
	}
	return e
}

// evictionOf returns the worst of all servers.
func evictionOf(ctx context.Context, client redis.UniversalClient) Eviction {
	var mu sync.Mutex
	worst := EvictionNone
	one := func(ctx context.Context, c redis.Cmdable) error {
		e := EvictionUnknown
		if info, err := c.Info(ctx, "memory").Result(); err == nil {
			e = parseEviction(info)
		}
		mu.Lock()
		defer mu.Unlock()
		if worst == EvictionNone || worst == EvictionUnknown && e != EvictionNone {
			worst = e
		}
		return nil
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error { return one(ctx, m) })
	case *redis.Ring:
		err = c.ForEachShard(ctx, func(ctx context.Context, s *redis.Client) error { return one(ctx, s) })
	default:
		err = one(ctx, client)
	}
	if err != nil && worst == EvictionNone {
		return EvictionUnknown
	}
	return worst
}

// parseEviction reads INFO memory.
func parseEviction(info string) Eviction {
	most, policy := "", ""
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		switch name, value, _ := strings.Cut(lines.Text(), ":"); name {
		case "maxmemory":
			most = value
		case "maxmemory_policy":
			policy = value
		}
	}
	switch {
	case most == "" || policy == "":
		return EvictionUnknown
	case most == "0" || policy == "noeviction":
		return EvictionNone
	}
	return Eviction(policy)
}
