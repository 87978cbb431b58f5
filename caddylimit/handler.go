package caddylimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/sketchlimit/sketchlimit"
)

func init() { caddy.RegisterModule(new(Handler)) }

// Handler limits the requests of each key of its zones. A request must be within the
// limits of all zones that match it. If one of them refuses, none counts it.
//
// A request that is refused is an error with status 429 and Retry-After, which the
// routes for errors handle. The placeholder {http.rate_limit.exceeded.name} is the
// zone's name, and there is an event rate_limit_exceeded.
type Handler struct {
	// The zones by name. Zones of one name and with the same limits count together,
	// wherever in the config they are.
	Zones map[string]*Zone `json:"rate_limits,omitempty"`

	// The share of the wait that is added to it at random: with 0.2, up to a fifth.
	Jitter float64 `json:"jitter,omitempty"`
	// Writes keys to the log. They may be personal data.
	LogKey bool `json:"log_key,omitempty"`
	// Leaves this handler's zones out of the counters in Caddy's metrics.
	DisableMetrics bool `json:"disable_metrics,omitempty"`

	// Where counts are kept over a restart; Caddy's own storage, if not set.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=caddy.storage inline_key=module"`
	// How often they are kept; a minute if not set, and never if it is -1.
	SnapshotInterval caddy.Duration `json:"snapshot_interval,omitempty"`

	// Shares the limits with other instances.
	Redis *Redis `json:"redis,omitempty"`

	// What caddy-ratelimit has and sketches have no use for. They are in the log.
	SweepInterval caddy.Duration `json:"sweep_interval,omitempty"`
	Distributed   *Distributed   `json:"distributed,omitempty"`

	zones  []*Zone // by name
	owners []*Zone // of the group's limiters
	group  *sketchlimit.Group
	ctx    caddy.Context
	logger *zap.Logger
	events *caddyevents.App

	// started is true once Caddy has started all apps of the config. Before, the events
	// app must not be asked to emit: it may be taking subscriptions, while the server
	// already has requests.
	started    atomic.Bool
	background sync.WaitGroup
}

// hook does something at an event.
type hook struct{ do func() }

// Handle implements [caddyevents.Handler].
func (h *hook) Handle(context.Context, caddy.Event) error {
	h.do()
	return nil
}

// Distributed is how instances of caddy-ratelimit exchange counts. Here Redis does it.
type Distributed struct {
	WriteInterval caddy.Duration `json:"write_interval,omitempty"`
	ReadInterval  caddy.Duration `json:"read_interval,omitempty"`
	PurgeAge      caddy.Duration `json:"purge_age,omitempty"`
}

// never is the SnapshotInterval of those who want no snapshots.
const never caddy.Duration = -1

// CaddyModule implements [caddy.Module].
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.sketch_rate_limit",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision implements [caddy.Provisioner].
func (h *Handler) Provision(ctx caddy.Context) error {
	h.ctx, h.logger = ctx, ctx.Logger()
	if err := h.validate(); err != nil {
		return err
	}
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting the events app: %w", err)
	}
	h.events = app.(*caddyevents.App)
	k := kept{config: ctx.GetMetricsRegistry(), where: string(h.StorageRaw), every: h.interval()}
	if k.storage, err = h.storage(ctx); err != nil { // which empties StorageRaw
		return err
	}
	if err := errors.Join(
		h.events.On("started", &hook{func() { h.start(k) }}),
		h.events.On("stopping", &hook{func() { h.save(k) }}),
	); err != nil {
		return err
	}
	if !h.DisableMetrics {
		if err := register(ctx.GetMetricsRegistry()); err != nil {
			return err
		}
	}
	if err := h.begin(k); err != nil {
		return err
	}
	var limiters []sketchlimit.Member
	for _, z := range h.zones {
		z.first = len(limiters)
		for _, l := range z.state.limiters {
			limiters = append(limiters, l.Limiter)
			h.owners = append(h.owners, z)
		}
		if !h.DisableMetrics {
			z.counters = newCounters(z.name)
		}
	}
	h.group, err = sketchlimit.NewGroup(limiters...)
	return err
}

// begin makes the zones ready to decide, all at once: a Redis that does not answer is
// waited for only once.
func (h *Handler) begin(k kept) error {
	for _, name := range slices.Sorted(maps.Keys(h.Zones)) {
		z := h.Zones[name]
		if z == nil {
			return fmt.Errorf("zone %q: no limit, must have window and events, or limit", name)
		}
		if err := z.prepare(h.ctx, name, h.Redis, k); err != nil {
			return fmt.Errorf("zone %q: %w", name, err)
		}
		h.zones = append(h.zones, z)
	}
	return h.each(func(z *Zone) error {
		if err := z.begin(); err != nil {
			return fmt.Errorf("zone %q: %w", z.name, err)
		}
		return nil
	})
}

// each does something with all zones at once.
func (h *Handler) each(do func(*Zone) error) error {
	errs := make([]error, len(h.zones))
	var all sync.WaitGroup
	for i, z := range h.zones {
		all.Go(func() { errs[i] = do(z) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// start makes all zones keep their counts as this config says. One that fails to start
// must not change that.
func (h *Handler) start(k kept) {
	h.started.Store(true)
	for _, z := range h.zones {
		if z.state.saver != nil {
			z.state.saver.keep(k)
		}
	}
	h.background.Go(func() { sweep(k) })
}

// save keeps the counts of zones that end with this config. Their storage may close
// before they do.
func (h *Handler) save(k kept) {
	for _, z := range h.zones {
		if saver := z.state.saver; saver != nil && saver.now().config == k.config {
			saver.save()
		}
	}
}

func (h *Handler) validate() error {
	switch {
	case len(h.Zones) == 0:
		return errors.New("no zone, must have one or more")
	case h.Jitter < 0:
		return fmt.Errorf("jitter %v, must be 0 or more", h.Jitter)
	case h.SnapshotInterval != 0 && h.SnapshotInterval != never && h.SnapshotInterval < caddy.Duration(time.Second):
		return fmt.Errorf("snapshot_interval %v, must be 1s or more, or off", time.Duration(h.SnapshotInterval))
	case h.Distributed != nil && h.Redis == nil:
		return errors.New("distributed: counts are not exchanged through storage: " +
			"set redis to the address of a Redis server, or take distributed out")
	}
	if h.SweepInterval != 0 {
		h.logger.Warn("option has no effect: memory is fixed, and nothing is swept",
			zap.String("option", "sweep_interval"))
	}
	if d := h.Distributed; d != nil {
		for option, value := range map[string]caddy.Duration{
			"write_interval": d.WriteInterval, "read_interval": d.ReadInterval, "purge_age": d.PurgeAge,
		} {
			if value != 0 {
				h.logger.Warn("option has no effect: counts are exchanged through redis, at its interval",
					zap.String("option", "distributed "+option))
			}
		}
	}
	if h.Redis != nil {
		return h.Redis.validate()
	}
	return nil
}

// storage returns where counts are kept.
func (h *Handler) storage(ctx caddy.Context) (certmagic.Storage, error) {
	if len(h.StorageRaw) == 0 {
		return ctx.Storage(), nil
	}
	module, err := ctx.LoadModule(h, "StorageRaw")
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	storage, err := module.(caddy.StorageConverter).CertMagicStorage()
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	return storage, nil
}

// interval returns how often counts are kept; 0 is never.
func (h *Handler) interval() time.Duration {
	switch {
	case h.SnapshotInterval == never:
		return 0
	case h.SnapshotInterval == 0:
		return time.Minute
	}
	return time.Duration(h.SnapshotInterval)
}

// Cleanup implements [caddy.CleanerUpper].
func (h *Handler) Cleanup() error {
	h.background.Wait()
	return h.each((*Zone).cleanup)
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	var start time.Time
	if !h.DisableMetrics {
		start = time.Now()
	}
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	var few [8]sketchlimit.Ask
	asks, keys := few[:0], keySet(0)
	for _, z := range h.zones {
		if matches, err := z.matchers.AnyMatchWithError(r); err != nil {
			return err
		} else if !matches {
			continue
		}
		request := z.request(repl.ReplaceAll(z.Key, ""))
		keys.add(request)
		for i := range z.state.limiters {
			asks = append(asks, sketchlimit.Ask{Limiter: z.first + i, Request: request})
		}
	}
	if len(asks) == 0 {
		return next.ServeHTTP(w, r)
	}
	d := h.decide(asks, keys)
	for i := range asks {
		z := h.owners[asks[i].Limiter]
		z.state.asked()
		if asks[i].Limiter == z.first && !h.DisableMetrics {
			z.counters.count(start)
		}
	}
	if !d.Allowed {
		return h.refuse(w, r, repl, h.owners[d.By], d.RetryAfter)
	}
	return next.ServeHTTP(w, r)
}

// decide asks the limiters for keys, whose locks are those of the set.
func (h *Handler) decide(asks []sketchlimit.Ask, keys keySet) sketchlimit.Decision {
	keys.lock()
	defer keys.unlock()
	for i := range asks {
		z := h.owners[asks[i].Limiter]
		z.state.limiters[asks[i].Limiter-z.first].carry(asks[i].Request)
	}
	return h.group.DoEach(asks)
}

// exceeded is the name of the event.
const exceeded = "rate_limit_exceeded"

// refuse counts and logs that a zone has refused the request, and returns the error
// that Caddy's routes for errors handle.
func (h *Handler) refuse(
	w http.ResponseWriter, r *http.Request, repl *caddy.Replacer, z *Zone, wait time.Duration,
) error {
	if h.Jitter > 0 {
		wait = time.Duration(min(float64(wait)*(1+h.Jitter*rand.Float64()), math.MaxInt64/2))
	}
	seconds := max(1, int64(math.Ceil(wait.Seconds())))
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		remote = r.RemoteAddr
	}
	if !h.DisableMetrics {
		z.counters.declined.Inc()
	}
	if line := h.logger.Check(zap.InfoLevel, "rate limit exceeded"); line != nil {
		fields := []zap.Field{zap.String("zone", z.name), zap.Duration("wait", wait), zap.String("remote_ip", remote)}
		if h.LogKey {
			fields = append(fields, zap.String("key", z.text(repl.ReplaceAll(z.Key, ""))))
		}
		line.Write(fields...)
	}
	if h.started.Load() && h.events.ShouldEmit(exceeded) {
		h.events.Emit(h.ctx, exceeded, map[string]any{"zone": z.name, "wait": wait, "remote_ip": remote})
	}
	repl.Set("http.rate_limit.exceeded.name", z.name)
	return caddyhttp.Error(http.StatusTooManyRequests, nil)
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
