package main

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/httprate"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"golang.org/x/time/rate"

	"github.com/sketchlimit/sketchlimit"
)

// kind is a limiter, and where its settings come from.
type kind struct {
	Name    string `json:"name"`
	Setting string `json:"setting"`
	Source  string `json:"source"`
	// build returns what tells whether a request of a client is admitted. It may keep
	// the key.
	build func(*settings) (func(client netip.Prefix, key string) bool, error)
}

const tableRoom = 100_000

// kinds are the limiters, in the order of the page.
var kinds = []kind{
	{"sketchlimit, with a limit on the /48",
		"NewGroup: Keys: 200_000, and Limit: 1000 for each /48",
		"docs/prefixes.md", newLadder},
	{"sketchlimit",
		"Config{Limit, Window, Keys: 200_000}",
		"README.md", newSketch},
	{"x/time/rate in a map",
		"rate.NewLimiter(rate.Every(window/limit), limit) for each key",
		"https://pkg.go.dev/golang.org/x/time/rate", newRates},
	{"go-limiter, memorystore",
		"memorystore.Config{Tokens: limit, Interval: window}",
		"https://pkg.go.dev/github.com/sethvargo/go-limiter/memorystore", newGoLimiter},
	{"httprate",
		"httprate.NewRateLimiter(limit, window)",
		"https://pkg.go.dev/github.com/go-chi/httprate", newHTTPRate},
	{"throttled, memstore of 65,536",
		"memstore.NewCtx(65536), RateQuota{PerDuration(limit, window), MaxBurst: limit - 1}",
		"https://pkg.go.dev/github.com/throttled/throttled/v2", newThrottled},
	{"LRU of 65,536 buckets, as in Traefik",
		"lru.New(65536) of x/time/rate: the longest unused one goes",
		"https://doc.traefik.io/traefik/middlewares/http/ratelimit/", newLRU},
	{"table of 100,000, then no limit, as CoreDNS' rrl",
		"max-table-size 100000: who finds no room is not limited",
		"https://github.com/coredns/rrl", newTable(true)},
	{"table of 100,000, then nobody new",
		"the same, but who finds no room is refused",
		"https://github.com/0xERR0R/blocky", newTable(false)},
}

func newSketch(s *settings) (func(netip.Prefix, string) bool, error) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: s.Limit, Window: s.Window, Keys: 200_000})
	if err != nil {
		return nil, err
	}
	return func(_ netip.Prefix, key string) bool { return l.Allow(key) }, nil
}

// newLadder limits what comes from one /48 as well. An IPv4 address counts there as
// itself, and never reaches that limit.
func newLadder(s *settings) (func(netip.Prefix, string) bool, error) {
	clients, err := sketchlimit.New(sketchlimit.Config{Limit: s.Limit, Window: s.Window, Keys: 200_000})
	if err != nil {
		return nil, err
	}
	networks, err := sketchlimit.New(sketchlimit.Config{Limit: 100 * s.Limit, Window: s.Window, Keys: 200_000})
	if err != nil {
		return nil, err
	}
	group, err := sketchlimit.NewGroup(clients, networks)
	if err != nil {
		return nil, err
	}
	asks := make([]sketchlimit.Ask, 2)
	return func(client netip.Prefix, key string) bool {
		network := netip.PrefixFrom(client.Addr(), min(client.Bits(), 48)).Masked()
		asks[0] = sketchlimit.Ask{Limiter: 0, Request: sketchlimit.Request{Key: key}}
		asks[1] = sketchlimit.Ask{Limiter: 1, Request: sketchlimit.Request{Addr: network.Addr()}}
		return group.DoEach(asks).Allowed
	}, nil
}

// bucket is that of one key, as its documentation has it.
func (s *settings) bucket() *rate.Limiter {
	return rate.NewLimiter(rate.Every(s.Window/time.Duration(s.Limit)), s.Limit)
}

func newRates(s *settings) (func(netip.Prefix, string) bool, error) {
	clients := map[string]*rate.Limiter{}
	return func(_ netip.Prefix, key string) bool {
		l := clients[key]
		if l == nil {
			l = s.bucket()
			clients[key] = l
		}
		return l.Allow()
	}, nil
}

func newGoLimiter(s *settings) (func(netip.Prefix, string) bool, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(s.Limit), Interval: s.Window})
	if err != nil {
		return nil, err
	}
	return func(_ netip.Prefix, key string) bool {
		_, _, _, ok, err := store.Take(context.Background(), key)
		return ok && err == nil
	}, nil
}

// discard is a response that nobody reads. httprate writes its fields and refusals there.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { clear(d.header); return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func newHTTPRate(s *settings) (func(netip.Prefix, string) bool, error) {
	l := httprate.NewRateLimiter(s.Limit, s.Window)
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	w := discard{http.Header{}}
	return func(_ netip.Prefix, key string) bool { return !l.OnLimit(w, r, key) }, err
}

func newThrottled(s *settings) (func(netip.Prefix, string) bool, error) {
	store, err := memstore.NewCtx(65_536)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(s.Limit, s.Window), MaxBurst: s.Limit - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	return func(_ netip.Prefix, key string) bool {
		limited, _, err := l.RateLimitCtx(context.Background(), key, 1)
		return !limited && err == nil
	}, nil
}

func newLRU(s *settings) (func(netip.Prefix, string) bool, error) {
	clients, err := lru.New[string, *rate.Limiter](65_536)
	return func(_ netip.Prefix, key string) bool {
		l, held := clients.Get(key)
		if !held {
			l = s.bucket()
			clients.Add(key, l)
		}
		return l.Allow()
	}, err
}

// newTable has room for so many clients. When it is full, the one who has not asked for
// longest goes if his bucket is full again: nobody would notice.
func newTable(open bool) func(*settings) (func(netip.Prefix, string) bool, error) {
	return func(s *settings) (func(netip.Prefix, string) bool, error) {
		clients, err := lru.New[string, *rate.Limiter](tableRoom)
		return func(_ netip.Prefix, key string) bool {
			l, held := clients.Get(key)
			if !held {
				if clients.Len() == tableRoom {
					if _, oldest, _ := clients.GetOldest(); oldest.Tokens() < float64(s.Limit) {
						return open
					}
				}
				l = s.bucket()
				clients.Add(key, l) // in the place of the oldest one
			}
			return l.Allow()
		}, err
	}
}
