package budget

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/held"
	"github.com/sketchlimit/sketchlimit/internal/inside"
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/prefetch"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Config says what a [Budget] limits and how large it is. All fields must be set.
type Config struct {
	// Limits are the 1 … 4 limits that a key must keep at once, such as one a minute
	// and one a day, each as for sketchlimit.New. Overload must be Deny. Keys are
	// hashed by Hash and Seed of the first. If one has a Clock, all must have the same.
	Limits []sketchlimit.Config
	// InFlight is the number of holds, of all keys together, that may be open at once,
	// 1 … 1<<24. Up to it none is denied for want of room; above it more and more are,
	// and all at 1.25 × InFlight.
	InFlight int
	// HoldFor is the time after which a hold expires, at least 1ms, from when it was
	// made or extended. It is then settled in full.
	HoldFor time.Duration
}

// Budget admits requests whose cost shows only afterwards. For each key, settled and
// held units together are at most each limit, as long as no hold is settled above what
// it held and nothing is charged.
//
// Settled units are counted by sketches, as in a sketchlimit.Limiter, so a request may
// be denied wrongly; Stats().Limits has how often. Held units are counted exactly. The
// memory is fixed when a Budget is built: that of the limiters, and about 83 bytes for
// each hold that may be open.
//
// Make a Budget with [New]; the zero value is not usable. It is safe for concurrent
// use. Only [Budget.Stats] and the methods for snapshots allocate.
type Budget struct {
	config Config
	limits []limit
	clock  int // the limit whose time holds expire by: that of the shortest generations
	hasher *keyhash.Hasher
	shards []shard
	keys   held.Table // of all shards, perShard each
	holds  []hold
	swept  atomic.Uint64 // shards, by those who found no room

	perShard int
}

// limit is one of a budget's.
type limit struct {
	*sketchlimit.Limiter
	inside.Parts
	whole int64 // Config.Limit
}

// at returns the limit that a request is held against; own is Request.Limit. It is 0 if
// own is below the lowest.
func (l *limit) at(own int) int64 {
	if own == 0 {
		return l.whole
	}
	return l.Lower(own)
}

// charged returns the limit that units count at: as at, but the lowest instead of 0.
func (l *limit) charged(limit int) int64 {
	if lower := l.at(limit); lower > 0 {
		return lower
	}
	return l.Lowest
}

const (
	maxLimits   = 4
	maxInFlight = 1 << 24
	leastHold   = time.Millisecond
	// holdsPerShard leaves a shard's keys, if each of them has one hold, far from all
	// entries of its table: where the mean is 256, there are more than 384 with a
	// chance of 6e-14.
	holdsPerShard = 256
	// There are InFlight/spareHolds more places than InFlight, so that a shard mostly
	// has a free one.
	spareHolds = 4
	// There are InFlight/spareKeys more entries for keys than InFlight: at most three
	// quarters full, a walk through them is short.
	spareKeys = 3
	// busy is the RetryAfter where only holds are in the way: it is unknown when they
	// settle.
	busy = time.Second
)

// never is before all times.
var never = [maxLimits]int64{math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64}

// New returns a Budget with nothing held or settled. Its errors name the field of the
// Config, its value and what is allowed.
func New(c Config) (*Budget, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	c.Limits = slices.Clone(c.Limits)
	limits, err := newLimits(c.Limits)
	if err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	shards := max(1, c.InFlight/holdsPerShard)
	b := &Budget{
		config: c,
		shards: make([]shard, shards),
		keys:   held.Room[held.Entry](c.InFlight+c.InFlight/spareKeys, shards),
		holds:  held.Filled[hold](c.InFlight + c.InFlight/spareHolds),
	}
	b.perShard = len(b.keys) / shards
	for i := range b.shards {
		b.shards[i].id = uint64(i + 1)
		invariants.SetRank(&b.shards[i].mu, invariants.Rank{Level: invariants.BudgetShard})
		b.shards[i].seen = never
		b.shards[i].expires = math.MaxInt64
	}
	for place := range b.holds { // neighbours to one shard: those that expire one after the other are read together
		b.shards[place*shards/len(b.holds)].give(b.holds, uint32(place))
	}
	b.use(limits)
	return b, nil
}

func (c *Config) check() error {
	switch {
	case len(c.Limits) < 1 || len(c.Limits) > maxLimits:
		return fmt.Errorf("%d Limits, must be 1 … %d", len(c.Limits), maxLimits)
	case c.InFlight < 1 || c.InFlight > maxInFlight:
		return fmt.Errorf("InFlight %d, must be 1 … %d", c.InFlight, maxInFlight)
	case c.HoldFor < leastHold || c.HoldFor > spec.MaxWindow:
		return fmt.Errorf("HoldFor %v, must be %v … %v%s", c.HoldFor, leastHold, time.Duration(spec.MaxWindow), inside.Unitless(c.HoldFor))
	}
	for i, l := range c.Limits {
		if l.Overload != sketchlimit.Deny {
			return fmt.Errorf("Limits[%d].Overload %v, must be %v", i, l.Overload, sketchlimit.Deny)
		}
	}
	return nil
}

// newLimits returns limiters that have counted nothing.
func newLimits(configs []sketchlimit.Config) ([]limit, error) {
	var limits []limit
	for i, c := range configs {
		l, err := sketchlimit.New(c)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("in Limits[%d]: %w", i, err), closeAll(limits))
		}
		limits = append(limits, limit{l, inside.Of(l), int64(c.Limit)})
	}
	return limits, nil
}

func closeAll(limits []limit) error {
	for i := range limits {
		limits[i].Limiter.Close()
	}
	return nil
}

// use makes the Budget decide by the limits.
func (b *Budget) use(limits []limit) {
	b.limits, b.hasher, b.clock = limits, limits[0].Hasher, 0
	for i := range limits {
		if limits[i].Line.Length() < limits[b.clock].Line.Length() {
			b.clock = i
		}
	}
}

// Hold holds n units of the key, now, if settled units, held units and n together are
// at most each limit. Check and hold are one step. n is the most that the request may
// cost. Settle the Hold when the cost is known. A denied request gets the zero Hold,
// whose Settle does nothing.
//
// The Decision is that of the tightest limit, Decision.By. Remaining is what is left
// beside all holds. RetryAfter is the time until the same request passes if as much is
// held then as now; or, if it never would beside that, if nothing is held. It is one
// second where only holds are in the way, or where InFlight holds are open.
func (b *Budget) Hold(key string, n int) (Hold, sketchlimit.Decision) {
	r := sketchlimit.Request{Key: key}
	return b.hold(&r, n, nil)
}

// Do holds units for r, as [Budget.Hold]. Use it when the key is bytes or an address,
// or when the request has its own limit: each limit holds it against the lower of both.
// With Peek nothing is held, and Remaining is what is free without the request. r.Time
// is not used, because holds are settled by the clock.
//
// With a token bucket among Limits, requests of a key that are in flight at once must
// have the same Request.Limit: held units all count alike, but settled units of a lower
// limit take longer to flow back, see sketchlimit.Request.
func (b *Budget) Do(r sketchlimit.Request) (Hold, sketchlimit.Decision) {
	return b.hold(&r, units(&r), nil)
}

// DoEach is [Budget.Do] and also sets the decision of each limit; each must be as long
// as Config.Limits. Allowed reports whether this limit admits, whatever the others do.
// If one denies, nothing is held, and Remaining is what is free without the request.
func (b *Budget) DoEach(r sketchlimit.Request, each []sketchlimit.Decision) (Hold, sketchlimit.Decision) {
	return b.hold(&r, units(&r), each)
}

// Charge counts n units of the key, now, that were not held, whether they fit or not.
// It returns how many did not fit beside settled and held units, see
// sketchlimit.Limiter.Charge. A cost below 1 counts nothing.
func (b *Budget) Charge(key string, n int) (over int) {
	r := sketchlimit.Request{Key: key}
	return b.charge(&r, n)
}

// DoCharge charges r, as [Budget.Charge] does a key and a cost. With Peek nothing is
// counted. A request with a limit below LowestLimit counts at LowestLimit.
func (b *Budget) DoCharge(r sketchlimit.Request) (over int) { return b.charge(&r, units(&r)) }

// Held returns the units of a key that are held now. Holds that have expired count
// until a request or Stats settles them.
func (b *Budget) Held(key string) int {
	h := b.hasher.String(key)
	s, keys := b.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(keys[keys.Find(h)].Units)
}

// Windows returns the span that each limit is meant for, in the order of Config.Limits.
func (b *Budget) Windows() (list []time.Duration) {
	for i := range b.limits {
		list = append(list, b.limits[i].Window())
	}
	return list
}

// LowestLimit returns the lowest Request.Limit that all Limits admit: the highest
// LowestLimit. It is 0 if none is set, or if one of the Limits without a LowestLimit is
// higher.
func (b *Budget) LowestLimit() int {
	lowest, unset := 0, 0
	for _, c := range b.config.Limits {
		if c.LowestLimit > 0 {
			lowest = max(lowest, c.LowestLimit)
		} else {
			unset = max(unset, c.Limit)
		}
	}
	if unset > lowest {
		return 0
	}
	return lowest
}

// Close closes the limiters, see sketchlimit.Limiter.Close, and returns nil.
func (b *Budget) Close() error { return closeAll(b.limits) }

// MemoryBytes returns the bytes of the heap that the Budget takes, everything included.
func (b *Budget) MemoryBytes() int {
	bytes := allocated[Budget](1) + allocated[limit](cap(b.limits)) + allocated[sketchlimit.Config](cap(b.config.Limits)) +
		allocated[shard](len(b.shards)) + len(b.keys)*int(unsafe.Sizeof(held.Entry{})) +
		len(b.holds)*int(unsafe.Sizeof(hold{})) // which fill what was allocated for them
	for i := range b.limits {
		bytes += b.limits[i].Limiter.MemoryBytes()
	}
	return bytes
}

// allocated returns the bytes that an allocation of n values takes, without what the
// runtime rounds small ones up by.
func allocated[of any](n int) int {
	var one of
	bytes := n * int(unsafe.Sizeof(one))
	if bytes > 4<<10 {
		bytes = spec.HeapBytes(bytes)
	}
	return bytes
}

// hash returns the hash of the request's key.
func (b *Budget) hash(r *sketchlimit.Request) uint64 {
	switch {
	case r.Addr.IsValid():
		return b.hasher.Addr(r.Addr)
	case r.Bytes != nil:
		return b.hasher.Bytes(r.Bytes)
	}
	return b.hasher.String(r.Key)
}

func units(r *sketchlimit.Request) int {
	if r.N == 0 {
		return 1
	}
	return r.N
}

// shard returns a key's shard and its entries.
func (b *Budget) shard(h uint64) (*shard, held.Table) {
	i := int(h >> 32 * uint64(len(b.shards)) >> 32)
	return &b.shards[i], b.keys[i*b.perShard:][:b.perShard]
}

// fetch begins to fetch all memory that a request of a key reads, a dozen places, and the
// hold of a place. A settlement reads the current generations only.
func (b *Budget) fetch(h uint64, m *moment, place uint32, settles bool) {
	s, keys := b.shard(h)
	shard, key, sums := unsafe.Pointer(s), unsafe.Pointer(&keys[keys.Home(h)]), unsafe.Pointer(&s.sums)
	prefetch.Lines(unsafe.Pointer(&b.holds[place]), key, shard, sums, shard, shard, shard)
	for i := range b.limits {
		l := &b.limits[i]
		l.Engine.Load().Prefetch(h, l.Line.Generation(m[i].word), settles)
	}
}

// fetchHolds begins to fetch two holds of the shard, which are written after the sketch
// is read. one and other are places + 1, or 0 for none.
func (b *Budget) fetchHolds(s *shard, one, other uint32) {
	none := unsafe.Pointer(s)
	first, second := none, none
	if one > 0 {
		first = unsafe.Pointer(&b.holds[one-1])
	}
	if other > 0 {
		second = unsafe.Pointer(&b.holds[other-1])
	}
	prefetch.Lines(first, second, none, none, none, none, none)
}

// moment is the time of a request for each limit.
type moment [maxLimits]struct {
	word int64
	lag  time.Duration
}

// now sets m to the clocks' time, which then counts as seen.
func (b *Budget) now(m *moment) {
	for i := range b.limits {
		m[i].word, m[i].lag = b.limits[i].Now()
	}
}

// unix returns the Unix time, in ns, that holds expire by.
func (b *Budget) unix(m *moment) int64 {
	line := &b.limits[b.clock].Line
	return line.UnixNano(line.Unpack(m[b.clock].word))
}

// until returns the Unix time, in ns, at which a hold made or extended at m expires.
func (b *Budget) until(m *moment) int64 {
	now := b.unix(m)
	return now + min(int64(b.config.HoldFor), math.MaxInt64-max(now, 0))
}
