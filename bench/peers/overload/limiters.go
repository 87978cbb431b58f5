package main

import (
	"runtime"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/sketchlimit/sketchlimit"
)

// limiter decides on n units of a key. It may not keep the string.
type limiter interface {
	take(at moment, key string, n int) bool
	memory() int // bytes that it takes now
}

// kindOf is a kind of limiter.
type kindOf struct {
	name     string
	overload sketchlimit.Overload // of this library
	build    func(setup) (limiter, error)
}

// setup is what a limiter is built for.
type setup struct {
	algorithm sketchlimit.Algorithm
	overload  sketchlimit.Overload
	scale     float64
	seed      uint64
}

// scaled returns n at the scale, at least 1.
func (s setup) scaled(n int) int { return max(1, int(float64(n)*s.scale)) }

const lruEntries = 65_536 // at full size

// ours are this library's settings, and peers what else one can build. The LRU has a
// fixed number of entries. The two tables have an entry for every key of the plan: with
// the memory of this library they would be full in ordinary use.
var (
	ours = []kindOf{
		{"sketchlimit, Deny", sketchlimit.Deny, newSketch},
		{"sketchlimit, DenyProven", sketchlimit.DenyProven, newSketch},
	}
	peers = []kindOf{
		{"LRU of 65,536", 0, newLRU},
		{"table, open when full", 0, func(s setup) (limiter, error) { return newTable(s, true), nil }},
		{"table, closed when full", 0, func(s setup) (limiter, error) { return newTable(s, false), nil }},
		{"x/time/rate in a map", 0, newRates},
	}
)

// sketch is this library.
type sketch struct{ *sketchlimit.Limiter }

func newSketch(s setup) (limiter, error) {
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: limit, Window: window, Algorithm: s.algorithm, Keys: s.scaled(plannedKeys),
		Overload: s.overload, Seed: s.seed,
	})
	return sketch{l}, err
}

func (s sketch) take(at moment, key string, n int) bool { return s.TakeAt(at.time, key, n).Allowed }
func (s sketch) memory() int                            { return s.MemoryBytes() }
func (s sketch) spared() sketchlimit.OverCapacity       { return s.Stats().OverCapacity }

// entries returns those of its table of heavy keys.
func (s sketch) entries() int {
	p := s.Plan()
	return p.Shards * p.HeavyEntries
}

// recent is an exact window for each of the keys seen last. A key that is evicted
// begins anew.
type recent struct {
	algorithm sketchlimit.Algorithm
	keys      *lru.Cache[string, *units]
}

func newLRU(s setup) (limiter, error) {
	keys, err := lru.New[string, *units](s.scaled(lruEntries))
	return &recent{s.algorithm, keys}, err
}

func (r *recent) take(at moment, key string, n int) bool {
	u, held := r.keys.Get(key)
	if !held {
		u = &units{generation: at.generation}
		r.keys.Add(strings.Clone(key), u)
	}
	return u.take(r.algorithm, at, n)
}

func (r *recent) memory() int { return r.keys.Len() * bytesOf.lru }

// table is an exact window for each key, as long as there is room. Newcomers that find
// none are all admitted if it is open, and all denied otherwise.
type table struct {
	algorithm sketchlimit.Algorithm
	keys      map[string]*units
	most      int
	open      bool
	swept     int16 // generation in which those of earlier generations were dropped
}

func newTable(s setup, open bool) *table {
	return &table{algorithm: s.algorithm, keys: make(map[string]*units), open: open,
		most: s.scaled(headroom * (plannedKeys + plannedKeys*plannedHeavy))}
}

func (t *table) take(at moment, key string, n int) bool {
	u := t.keys[key]
	if u == nil {
		if len(t.keys) >= t.most {
			t.sweep(at)
		}
		if len(t.keys) >= t.most {
			return t.open
		}
		u = &units{generation: at.generation}
		t.keys[strings.Clone(key)] = u
	}
	return u.take(t.algorithm, at, n)
}

// sweep drops the keys that have nothing to remember, once a generation.
func (t *table) sweep(at moment) {
	if t.swept == at.generation {
		return
	}
	t.swept = at.generation
	for key, u := range t.keys {
		if u.idle(at) {
			delete(t.keys, key)
		}
	}
}

// memory is that of all room, as maps do not give it back.
func (t *table) memory() int { return t.most * bytesOf.table }

// rates is the usual way to x/time/rate per key: a map that grows.
type rates struct{ keys map[string]*rate.Limiter }

func newRates(setup) (limiter, error) { return &rates{make(map[string]*rate.Limiter)}, nil }

func (r *rates) take(at moment, key string, n int) bool {
	l := r.keys[key]
	if l == nil {
		l = rate.NewLimiter(rate.Every(window/limit), limit)
		r.keys[strings.Clone(key)] = l
	}
	return l.AllowN(at.time, n)
}

func (r *rates) memory() int { return len(r.keys) * bytesOf.rates }

// bytesOf is the memory of an entry, as [measureBytes] found it.
var bytesOf struct{ lru, table, rates int }

// measureBytes measures the heap with so many keys in each of the other limiters.
// Nothing else may run.
func measureBytes() error {
	const keys = 200_000
	for _, m := range []struct {
		bytes *int
		build func(setup) (limiter, error)
	}{{&bytesOf.lru, newLRU}, {&bytesOf.table, peers[1].build}, {&bytesOf.rates, newRates}} {
		before := heap()
		l, err := m.build(setup{scale: 4})
		if err != nil {
			return err
		}
		var text [nameBytes]byte
		for key := range keys {
			l.take(momentAt(0), name(&text, key), 1)
		}
		*m.bytes = (heap() - before) / keys
		runtime.KeepAlive(l)
	}
	return nil
}

// heap is the bytes in use after a collection.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
