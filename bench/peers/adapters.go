package main

import (
	"context"
	"hash/maphash"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/go-chi/httprate"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	boom "github.com/tylertreat/BoomFilters"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// limiter consumes one unit of a key and tells whether it was admitted.
type limiter interface {
	Allow(key string) bool
}

// settings is what a limiter is built for: limit units per key and window.
type settings struct {
	limit  int
	window time.Duration
	size
}

// implementation is a way to limit requests per key.
type implementation struct {
	name, form  string
	module      string // the module whose version belongs to the name
	keeps       bool   // it may keep the strings that it sees keys in
	generations bool   // it has memory of its own for the previous window
	build       func(settings) (limiter, error)
}

// implementations are this library, which all others are compared with, and they.
var implementations = []implementation{
	{name: "sketchlimit", generations: true, build: newSketch},
	{name: "x/time/rate", form: "256 maps", module: "golang.org/x/time", build: newRates},
	{name: "go-limiter", form: "memorystore", module: "github.com/sethvargo/go-limiter", keeps: true, build: newGoLimiter},
	{name: "throttled", form: "memstore", module: "github.com/throttled/throttled/v2", keeps: true, build: newThrottled},
	{name: "ulule/limiter", form: "memory store", module: "github.com/ulule/limiter/v3", build: newUlule},
	{name: "httprate", form: "local counter", module: "github.com/go-chi/httprate", generations: true, build: newHTTPRate},
	{name: "BoomFilters", form: "count-min + mutex", module: "github.com/tylertreat/BoomFilters", build: newBoom},
	{name: "sketchlimit/exact", form: "SlidingWindow", build: newExact},
}

// title is the implementation's name, version and form.
func (i implementation) title() string {
	title := i.name
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == i.module {
				title += " " + shortVersion(m.Version)
			}
		}
	}
	if i.form != "" {
		title += ", " + i.form
	}
	return title
}

// shortVersion is the commit of a version that is made of one, and other versions whole.
func shortVersion(v string) string {
	if parts := strings.Split(v, "-"); len(parts) == 3 && len(parts[2]) == 12 {
		return parts[2][:7]
	}
	return v
}

func newSketch(s settings) (limiter, error) {
	return sketchlimit.New(sketchlimit.Config{Limit: s.limit, Window: s.window, MemoryBytes: s.memory})
}

func newExact(s settings) (limiter, error) { return exact.NewSlidingWindow(s.limit, s.window) }

// rates is the usual way to x/time/rate per key: a map of them, here one of 256.
type rates struct {
	seed   maphash.Seed
	every  rate.Limit
	burst  int
	shards [256]rateShard
}

type rateShard struct {
	mu sync.Mutex
	m  map[string]*rate.Limiter
	_  [48]byte // no two shards' locks in one cache line
}

func newRates(s settings) (limiter, error) {
	r := &rates{seed: maphash.MakeSeed(), every: rate.Every(s.window / time.Duration(s.limit)), burst: s.limit}
	for i := range r.shards {
		r.shards[i].m = make(map[string]*rate.Limiter)
	}
	return r, nil
}

func (r *rates) Allow(key string) bool {
	s := &r.shards[maphash.String(r.seed, key)%uint64(len(r.shards))]
	s.mu.Lock()
	l := s.m[key]
	if l == nil {
		l = rate.NewLimiter(r.every, r.burst)
		s.m[strings.Clone(key)] = l
	}
	s.mu.Unlock() // a rate.Limiter has a lock of its own
	return l.Allow()
}

// goLimiter is a bucket per key, refilled whole every window.
type goLimiter struct{ store golimiter.Store }

func newGoLimiter(s settings) (limiter, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(s.limit), Interval: s.window})
	return goLimiter{store}, err
}

func (g goLimiter) Allow(key string) bool {
	_, _, _, ok, err := g.store.Take(context.Background(), key)
	return ok && err == nil
}

func (g goLimiter) Close() error { return g.store.Close(context.Background()) }

// throttledGCRA is one theoretical arrival time per key.
type throttledGCRA struct{ limiter *throttled.GCRARateLimiterCtx }

func newThrottled(s settings) (limiter, error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(s.limit, s.window),
		MaxBurst: s.limit - 1, // it adds one
	})
	if err != nil {
		return nil, err
	}
	// By default it gives up on a request after losing ten races for its key, which
	// happens to several in a hundred where two cores share a hot one.
	l.SetMaxCASAttemptsLimit(math.MaxInt)
	return throttledGCRA{l}, nil
}

func (t throttledGCRA) Allow(key string) bool {
	limited, _, err := t.limiter.RateLimitCtx(context.Background(), key, 1)
	return !limited && err == nil
}

// ululeCounters is a count per key, from its first request until a window later.
type ululeCounters struct{ limiter *ulule.Limiter }

func newUlule(s settings) (limiter, error) {
	store := memory.NewStoreWithOptions(ulule.StoreOptions{
		Prefix: ulule.DefaultPrefix,
		// Its cleaner visits every key, by default twice a minute: that would be
		// work on some other limiter's time.
		CleanUpInterval: s.window,
	})
	return ululeCounters{ulule.New(store, ulule.Rate{Period: s.window, Limit: int64(s.limit)})}, nil
}

func (u ululeCounters) Allow(key string) bool {
	c, err := u.limiter.Get(context.Background(), key)
	return err == nil && !c.Reached
}

// httprateCounter is httprate's sliding window without HTTP: its RateLimiter asks and
// counts in two steps under a lock, as here, and writes headers besides.
type httprateCounter struct {
	limit   float64
	window  time.Duration
	mu      sync.Mutex
	counter httprate.LimitCounter
}

func newHTTPRate(s settings) (limiter, error) {
	return &httprateCounter{limit: float64(s.limit), window: s.window, counter: httprate.NewLocalLimitCounter(s.window)}, nil
}

func (h *httprateCounter) Allow(key string) bool {
	now := time.Now().UnixNano()
	elapsed := now % int64(h.window)
	// The counter compares windows with ==, so they must all be UTC.
	current := time.Unix(0, now-elapsed).UTC()
	h.mu.Lock()
	defer h.mu.Unlock()
	this, last, err := h.counter.Get(key, current, current.Add(-h.window))
	weight := 1 - float64(elapsed)/float64(h.window)
	if err != nil || float64(this)+float64(last)*weight+1 > h.limit {
		return false
	}
	return h.counter.Increment(key, current) == nil
}

// boomSketch is a textbook count-min sketch of four rows with a cell of each row for
// every key. It knows no time.
type boomSketch struct {
	limit  uint64
	mu     sync.Mutex
	counts *boom.CountMinSketch
}

func newBoom(s settings) (limiter, error) {
	// It has ⌈e/epsilon⌉ cells in each of ⌈ln(1/delta)⌉ rows.
	return &boomSketch{limit: uint64(s.limit), counts: boom.NewCountMinSketch(math.E/float64(s.keys), 0.02)}, nil
}

func (b *boomSketch) Allow(key string) bool {
	data := unsafe.Slice(unsafe.StringData(key), len(key)) // a copy would be on the heap
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts.Count(data) >= b.limit {
		return false
	}
	b.counts.Add(data)
	return true
}
