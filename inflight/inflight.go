// Package inflight limits how many units of a key are in flight at once, in memory that
// is fixed when the limiter is built.
//
//	hold, ok := limiter.Acquire(user, 1)
//	defer hold.Release() // of a denied request it does nothing
//	if !ok { ... 429 ... }
//
// It never admits too much. It denies wrongly only if more requests are in flight than
// [Config].Requests, or if two keys have the same 64-bit hash.
package inflight

import (
	"fmt"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/held"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
)

// Config says what a [Limiter] limits and how large it is. Limit and
// Requests must be set.
type Config struct {
	// Limit is the units per key that may be in flight at once, 1 … 1<<31-1.
	Limit int
	// Requests is the number of requests, of all keys together, that may be in flight
	// at once, 1 … 1<<24. Up to it none is denied for want of room; above it more and
	// more are, and all at 1.5 × Requests.
	Requests int
	// Hash hashes the keys; nil is sketchlimit.KeyedHash(Seed).
	Hash sketchlimit.Hash
	// Seed makes a Limiter reproducible. Services leave it 0, which draws one from
	// crypto/rand: with the seed a client can choose keys that collide.
	Seed uint64
}

// Limiter limits how many units of a key are in flight at once, as a
// sketchlimit.Limiter limits how many come in a window, for any number of keys, in
// memory that is fixed when it is built: about 36 bytes for each request that may be in
// flight at once.
//
// [Limiter.Acquire] admits a request, and [Hold.Release] gives back its units, once,
// however often it is called. No more than Limit units of a key are ever in flight.
// Units that are never released stay in flight: defer the release.
//
// A request is denied wrongly if there is no room for it, a chance that
// Stats().FalseDenialRate has, or if its key has the 64-bit hash of another key in
// flight: one pair of keys in 1.8e19, unless keys are made to collide, which the
// default Hash prevents.
//
// A key is any string of bytes: Acquire, AcquireBytes and AcquireAddr count the same
// bytes for the same key. A request costs n units; a cost below 1 or above Limit is
// denied. No method allocates. Make a Limiter with [New]; it is safe for concurrent
// use.
//
// It is exact where sketchlimit.Limiter is a sketch. There are no more keys than
// requests in flight, so a table of them is small, 24 bytes a request, and each request
// needs a word anyhow, so that a second release is not counted. A count-min sketch of
// four rows would deny 1e-6 of unseen keys, while all others are at the limit, with 130
// bytes a request at a limit of 1, 26 at 5 and 13 at 10.
type Limiter struct {
	limit   int64
	hasher  keyhash.Hasher
	shards  []shardState
	entries held.Table      // of all shards, perShard each
	tickets []atomic.Uint64 // of all shards: the ids of the requests in flight, 0 where free

	perShard int
}

// shardState is the state that keys share whose hashes begin alike. On 64-bit machines it
// fills a cache line.
type shardState struct {
	mu       sync.Mutex // guards the entries as well
	id       uint64     // of the last request; each shard has ids of its own
	requests int        // in flight
	keys     int        // in flight: entries that are taken
	units    int64      // in flight
	admitted uint64     // units
	denied   uint64     // units
	noRoom   uint64     // units of denied
}

const (
	maxRequests = 1 << 24
	// requestsPerShard is enough for the keys of a shard not to be many more than
	// the mean: where it is 256, there are 384 with a chance of 6e-14.
	requestsPerShard = 256
	// ticketProbes is the number of tickets that a request tries. With Requests in
	// flight two of three tickets are taken, and all that it tries with a chance of
	// 5e-12.
	ticketProbes = 64
)

// New returns a Limiter with nothing in flight. Its errors name the field of
// the config, its value and what is allowed.
func New(c Config) (*Limiter, error) {
	switch {
	case c.Limit < 1 || c.Limit > math.MaxInt32:
		return nil, fmt.Errorf("inflight: Limit %d, must be 1 … %d", c.Limit, math.MaxInt32)
	case c.Requests < 1 || c.Requests > maxRequests:
		return nil, fmt.Errorf("inflight: Requests %d, must be 1 … %d", c.Requests, maxRequests)
	}
	h, _, err := keyhash.New(c.Hash, c.Seed)
	if err != nil {
		return nil, err
	}
	shards := max(1, c.Requests/requestsPerShard)
	in := &Limiter{
		limit:   int64(c.Limit),
		hasher:  h,
		shards:  make([]shardState, shards),
		entries: held.Room[held.Entry](c.Requests, shards),
		tickets: held.Room[atomic.Uint64](c.Requests, 1),
	}
	in.perShard = len(in.entries) / shards
	for i := range in.shards {
		in.shards[i].id = uint64(i + 1)
	}
	return in, nil
}

// Hold is the units that a request holds of its key's limit until it is released.
// Copies are the same hold: releasing one releases all. The zero Hold holds nothing. It
// is safe for concurrent use.
type Hold struct {
	in *Limiter
	h  uint64 // hash of the key
	id uint64
	n  int64 // units
}

// Release gives back the units that the request holds. It reports whether this call
// did: the first of all calls for a hold and its copies, from any goroutine, does.
func (h Hold) Release() bool {
	if h.in == nil || !h.in.swap(h.id, h.id, 0) {
		return false
	}
	s, keys := h.in.shard(h.h)
	s.mu.Lock()
	s.requests--
	s.units -= h.n
	i := keys.Find(h.h)
	if keys[i].Units -= h.n; keys[i].Units == 0 {
		s.keys--
		keys.CloseGap(i)
	}
	s.mu.Unlock()
	return true
}

// Acquire admits n units of the key until the Hold is released, or denies them. A
// denied request gets the zero Hold, so that Release may be deferred either way.
func (in *Limiter) Acquire(key string, n int) (Hold, bool) {
	return in.acquire(in.hasher.String(key), int64(n))
}

// AcquireBytes is [Limiter.Acquire] for a key in a byte slice, which is not kept.
func (in *Limiter) AcquireBytes(key []byte, n int) (Hold, bool) {
	return in.acquire(in.hasher.Bytes(key), int64(n))
}

// AcquireAddr is [Limiter.Acquire] for an IP address, counted as its 4 or 16 bytes: an
// IPv4-mapped IPv6 address is the IPv4 address, and zones do not count.
func (in *Limiter) AcquireAddr(key netip.Addr, n int) (Hold, bool) {
	return in.acquire(in.hasher.Addr(key), int64(n))
}

// acquire checks and counts under the lock of the key's shard.
func (in *Limiter) acquire(h uint64, n int64) (Hold, bool) {
	s, keys := in.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &keys[keys.Find(h)]
	if n < 1 || n > in.limit-e.Units {
		s.denied += uint64(max(0, min(n, in.limit)))
		return Hold{}, false
	}
	isNew := e.Units == 0
	s.id += uint64(len(in.shards))
	if isNew && s.full(in.perShard) || !in.swap(s.id, 0, s.id) {
		s.denied += uint64(n)
		s.noRoom += uint64(n)
		return Hold{}, false
	}
	if isNew {
		s.keys++
	}
	s.requests++
	s.units += n
	s.admitted += uint64(n)
	*e = held.Entry{Hash: h, Units: e.Units + n}
	return Hold{in, h, s.id, n}, true
}

// Held returns the units of a key that are in flight now: 0 … Limit, and never fewer
// than there are.
func (in *Limiter) Held(key string) int { return in.held(in.hasher.String(key)) }

// HeldBytes is [Limiter.Held] for a key in a byte slice.
func (in *Limiter) HeldBytes(key []byte) int { return in.held(in.hasher.Bytes(key)) }

// Limit returns Config.Limit.
func (in *Limiter) Limit() int { return int(in.limit) }

func (in *Limiter) held(h uint64) int {
	s, keys := in.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(keys[keys.Find(h)].Units)
}

// shard returns a key's shard and its entries.
func (in *Limiter) shard(h uint64) (*shardState, held.Table) {
	i := int(h >> 32 * uint64(len(in.shards)) >> 32)
	return &in.shards[i], in.entries[i*in.perShard:][:in.perShard]
}

// full reports whether there is no entry for one more key; the last one stays free.
func (s *shardState) full(entries int) bool { return s.keys == entries-1 }

// swap changes a ticket from old to new among those drawn for an id, and reports whether
// there was one. A request takes a ticket by writing its id, which no other request ever
// has, and gives it back by removing the id, which can succeed once.
//
// The tickets are drawn from those of all shards, because one key may hold a great part
// of them. Two that change at once are two words, so no lock is needed.
func (in *Limiter) swap(id, old, new uint64) bool {
	draw := keyhash.Mix(id, in.hasher.Seed)
	for range ticketProbes {
		t := &in.tickets[draw>>32*uint64(len(in.tickets))>>32]
		if t.Load() == old && t.CompareAndSwap(old, new) {
			return true
		}
		draw = keyhash.Mix(draw, in.hasher.Seed)
	}
	return false
}

// Stats is the state of a [Limiter] at one time.
type Stats struct {
	Requests int   // in flight
	Keys     int   // in flight
	Units    int64 // in flight

	Admitted uint64 // units since construction
	Denied   uint64 // units since construction; of one request, at most Config.Limit
	// NoRoom is the units of Denied that the limit would have admitted. If it grows,
	// Config.Requests is too small.
	NoRoom uint64

	// FalseDenialRate is the chance, 0 … 1, that a unit of a key which has none in
	// flight is denied now.
	FalseDenialRate float64
}

// Stats locks one shard at a time, for a time that does not grow with its size. While
// requests come and go, its figures are of slightly different times.
func (in *Limiter) Stats() Stats {
	var sum Stats
	full := 0
	for i := range in.shards {
		s := &in.shards[i]
		s.mu.Lock()
		sum.Requests += s.requests
		sum.Keys += s.keys
		sum.Units += s.units
		sum.Admitted += s.admitted
		sum.Denied += s.denied
		sum.NoRoom += s.noRoom
		if s.full(in.perShard) {
			full++
		}
		s.mu.Unlock()
	}
	noEntry := float64(full) / float64(len(in.shards))
	noTicket := math.Pow(float64(sum.Requests)/float64(len(in.tickets)), ticketProbes)
	sum.FalseDenialRate = noEntry + (1-noEntry)*noTicket
	return sum
}

// MemoryBytes returns the memory the Limiter takes, everything included. It does not
// change.
func (in *Limiter) MemoryBytes() int {
	return int(unsafe.Sizeof(*in)) + len(in.shards)*int(unsafe.Sizeof(shardState{})) +
		len(in.entries)*int(unsafe.Sizeof(held.Entry{})) + len(in.tickets)*int(unsafe.Sizeof(atomic.Uint64{}))
}
