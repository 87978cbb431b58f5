package exact

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit"
	ticks "github.com/sketchlimit/sketchlimit/internal/clock"
	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// maxShards is the number of shards of a limiter that may hold many keys; keysPerShard is
// the number of keys that are worth a shard.
const (
	maxShards    = 128
	keysPerShard = 1024
)

// purpose is what a limiter was made for.
type purpose struct {
	limit  int           // units per window, as decisions say it
	most   int           // units that a request may cost at most: the limit, or the burst
	window time.Duration // that the limit is meant for
	align  time.Duration // length of the generations that the limiter's clock keeps to; 0 = none
	lower  bool          // requests may have limits of their own, of lowest … limit
	lowest int
}

// ofWindow is the purpose of a limiter that counts the units of a window.
func ofWindow(limit int, window, align time.Duration) purpose {
	return purpose{limit: limit, most: limit, window: window, align: align, lower: true}
}

// keyed makes a limiter of a rule.
type keyed[S any] struct {
	rule exactmath.Rule[S]
	purpose
	settings
	unseen S // of a key never seen
	seed   maphash.Seed
	number uint64 // of the limiters that were made: the order in which groups lock them
	shift  int    // of a hash, for the shard
	shards []shard[S]

	late bool          // the clock is read once in a tick, see now
	tick atomic.Uint64 // during which wall is the time, if late
	wall atomic.Int64  // latest time that the clock has shown, if late

	floor atomic.Int64 // no time lies before: start of the latest generation. It rises under a shard's lock only
	held  atomic.Int64 // keys, and those about to be
	turn  atomic.Uint64
}

// shard holds the keys of a part of the hashes.
type shard[S any] struct {
	mu sync.Mutex // guards what follows
	table[S]
	latest int64 // time that has come: none was spent at a later one
	counts
	_ [64]byte // no two shards' locks in one cache line
}

// counts are a shard's since construction.
type counts struct {
	admitted, denied, overdraft, tooLow uint64
	refused, dropped, droppedUnits      uint64
}

// made is the number of limiters made.
var made atomic.Uint64

func (k *keyed[S]) init(r exactmath.Rule[S], p purpose, unseen S, options []Option) error {
	s, err := newSettings(options)
	if err != nil {
		return err
	}
	k.rule, k.purpose, k.settings, k.unseen = r, p, s, unseen
	k.seed, k.number = maphash.MakeSeed(), made.Add(1)
	if p.lower {
		k.lowest = 1
	}
	n, shift := 1, 64
	for n < maxShards && (s.maxKeys == 0 || s.maxKeys > int64(keysPerShard*n)) {
		n, shift = 2*n, shift-1
	}
	k.shift, k.shards = shift, make([]shard[S], n)
	for i := range k.shards {
		k.shards[i].seed, k.shards[i].latest = k.seed, math.MinInt64
	}
	k.floor.Store(math.MinInt64)
	k.wall.Store(math.MinInt64)
	if k.clock == nil {
		k.clock, k.late = sketchlimit.Now, k.shortest() >= 100*sketchlimit.Resolution
	}
	return nil
}

// orNil returns the limiter, or nil and the error.
func orNil[L any](l *L, err error) (*L, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// shortest returns the span in which a whole quota comes back, or that of a generation.
func (p *purpose) shortest() time.Duration {
	if p.align > 0 {
		return p.align
	}
	return time.Duration(min(float64(p.window)*float64(p.most)/float64(p.limit), exactmath.MaxSpan))
}

// now returns the clock's time, and how late it may be. Reading a clock costs as much
// as a decision, so the default clock is read once a millisecond.
func (k *keyed[S]) now() (at, lag int64) {
	if !k.late {
		return unixNano(k.clock()), 0
	}
	if tick := ticks.Tick(); tick != 0 && tick == k.tick.Load() {
		return k.wall.Load(), int64(ticks.Resolution)
	}
	now, tick := ticks.Read()
	at = unixNano(now)
	for was := k.wall.Load(); was < at && !k.wall.CompareAndSwap(was, at); was = k.wall.Load() {
	}
	if tick == ticks.None {
		ticks.Start()
	} else {
		k.tick.Store(tick) // after wall, which never falls: it is not older than the tick
	}
	return at, 0
}

// question is a request with its time, hash and limit resolved.
type question struct {
	key   string
	hash  uint64
	at    int64 // Unix ns, as the caller or the clock says
	lag   int64 // by which the clock may be late
	n     int64 // units
	limit int64 // 0: no access
	low   bool  // its own limit is above 0 and below the lowest
	brief bool  // only Allowed is asked for
	seen  bool  // its time has come: what is as good as new then may go
}

func (k *keyed[S]) question(now time.Time, key string, n int) question {
	return question{key: key, hash: k.hash(key), at: unixNano(now), n: int64(n), limit: int64(k.limit)}
}

// TakeAt implements [Limiter].
func (k *keyed[S]) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	return k.take(k.question(now, key, n))
}

// PeekAt implements [Limiter].
func (k *keyed[S]) PeekAt(now time.Time, key string, n int) sketchlimit.Decision {
	return k.peek(k.question(now, key, n))
}

// Take is TakeAt the time of the clock.
func (k *keyed[S]) Take(key string, n int) sketchlimit.Decision {
	q := question{key: key, hash: k.hash(key), n: int64(n), limit: int64(k.limit)}
	q.at, q.lag = k.now()
	return k.take(q)
}

// Peek returns what Take(key, 1) would answer, and consumes nothing: Remaining is what
// is free without it.
func (k *keyed[S]) Peek(key string) sketchlimit.Decision { return k.PeekAt(k.clock(), key, 1) }

// Allow takes one unit and reports whether it was admitted.
func (k *keyed[S]) Allow(key string) bool {
	q := question{key: key, hash: k.hash(key), n: 1, limit: int64(k.limit), brief: true}
	q.at, _ = k.now()
	s := k.shard(q.hash)
	s.mu.Lock()
	d, _ := k.takeLocked(s, &q)
	s.mu.Unlock()
	return d.Allowed
}

// Do implements [Limiter].
func (k *keyed[S]) Do(r sketchlimit.Request) sketchlimit.Decision {
	var text [16]byte
	q := k.ask(&r, &text)
	if r.Peek {
		return k.peek(q)
	}
	return k.take(q)
}

// ask makes a question of a request. Its key is in the request's memory, or in text.
func (k *keyed[S]) ask(r *sketchlimit.Request, text *[16]byte) question {
	key := keyOf(r, text)
	q := question{key: key, hash: k.hash(key), n: int64(r.N), limit: k.own(r.Limit)}
	if r.N == 0 {
		q.n = 1
	}
	q.low, q.seen = q.limit == 0 && r.Limit > 0, r.Time.IsZero()
	if q.seen {
		q.at, q.lag = k.now()
	} else {
		q.at = unixNano(r.Time)
	}
	return q
}

// keyOf returns the bytes of a request's key as a string, which is not to be kept.
func keyOf(r *sketchlimit.Request, text *[16]byte) string {
	switch {
	case r.Addr.IsValid() && r.Addr.Unmap().Is4():
		*(*[4]byte)(text[:]) = r.Addr.Unmap().As4()
		return unsafe.String(&text[0], 4)
	case r.Addr.IsValid():
		*text = r.Addr.As16()
		return unsafe.String(&text[0], 16)
	case r.Bytes != nil:
		return unsafe.String(unsafe.SliceData(r.Bytes), len(r.Bytes))
	}
	return r.Key
}

// own returns the limit that a request is held against; 0 if the limiter does not support
// the request's own limit.
func (k *keyed[S]) own(limit int) int64 {
	switch {
	case limit == 0 || limit >= k.limit:
		return int64(k.limit)
	case !k.lower || limit < k.lowest:
		return 0
	}
	return int64(limit)
}

// Charge implements [Limiter].
func (k *keyed[S]) Charge(now time.Time, key string, n int) (over int) {
	return k.charge(k.question(now, key, n), false)
}

// DoCharge implements [Limiter].
func (k *keyed[S]) DoCharge(r sketchlimit.Request) (over int) {
	var text [16]byte
	q := k.ask(&r, &text)
	if q.limit == 0 {
		q.limit = int64(cmp.Or(k.lowest, k.limit))
	}
	return k.charge(q, r.Peek)
}

// Reset implements [Limiter].
func (k *keyed[S]) Reset(key string) bool {
	h := k.hash(key)
	s := k.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	b, i := s.find(h, key)
	if b == nil {
		return false
	}
	s.remove(b, i)
	k.held.Add(-1)
	return true
}

// Keys implements [Limiter].
func (k *keyed[S]) Keys() int { return int(k.held.Load()) }

// All implements [Limiter].
func (k *keyed[S]) All() iter.Seq2[string, sketchlimit.Decision] {
	return func(yield func(string, sketchlimit.Decision) bool) {
		type use struct {
			key string
			sketchlimit.Decision
		}
		var list []use
		for i := range k.shards {
			asked := unixNano(k.clock())
			s := &k.shards[i]
			s.mu.Lock()
			t := max(asked, k.floor.Load())
			list = list[:0]
			s.each(func(e *entry[S]) {
				if d, from := k.judge(e.state, t, 1, int64(k.limit)); d.ResetAfter > 0 {
					list = append(list, use{e.key, addLag(d, from, asked)})
				}
			})
			s.mu.Unlock()
			for _, u := range list {
				if !yield(u.key, u.Decision) {
					return
				}
			}
		}
	}
}

// Window implements [Limiter].
func (k *keyed[S]) Window() time.Duration { return k.window }

// LowestLimit implements [Limiter].
func (k *keyed[S]) LowestLimit() int { return k.lowest }

// hash returns the hash of a key.
func (k *keyed[S]) hash(key string) uint64 { return maphash.String(k.seed, key) }

func (k *keyed[S]) shard(h uint64) *shard[S] { return &k.shards[k.shardOf(h)] }

func (k *keyed[S]) shardOf(h uint64) int { return int(h >> k.shift) } // a shift by 64 is 0

func (k *keyed[S]) take(q question) sketchlimit.Decision {
	s := k.shard(q.hash)
	s.mu.Lock()
	q.seen = true
	d, from := k.takeLocked(s, &q)
	s.mu.Unlock()
	return addLag(d, from, q.at-q.lag)
}

// takeLocked returns the decision, and the time that its durations count from. The
// shard is locked.
func (k *keyed[S]) takeLocked(s *shard[S], q *question) (d sketchlimit.Decision, from int64) {
	t := k.advance(q.at)
	s.latest = max(s.latest, t)
	b, i := s.find(q.hash, q.key)
	state := k.unseen
	if b != nil {
		state = b.entries[i].state
		b.used |= 1 << i // of what was used once only, the first is the idlest
	}
	d = sketchlimit.Decision{Limit: int(q.limit), RetryAfter: k.wait(state, t, q.n, q.limit)}
	if !q.brief {
		from = max(t, k.rule.Since(state))
	}
	if d.Allowed = d.RetryAfter == 0; d.Allowed && b == nil {
		if b, i = k.enter(s, t, q); b == nil {
			s.refused++
			k.countDenied(s, q)
			return k.noPlace(t, q), t
		}
	}
	if d.Allowed {
		state = k.rule.Spend(state, t, q.n)
		b.entries[i].state = state
		s.admitted += uint64(q.n)
	} else {
		k.countDenied(s, q)
	}
	if !q.brief {
		d.Remaining, d.ResetAfter = k.quota(state, t, q.limit)
	}
	return d, from
}

func (k *keyed[S]) countDenied(s *shard[S], q *question) {
	if q.low {
		s.tooLow++
	}
	s.denied += uint64(max(1, min(q.n, int64(k.most)-int64(k.limit)+q.limit)))
}

func (k *keyed[S]) peek(q question) sketchlimit.Decision {
	s := k.shard(q.hash)
	s.mu.Lock()
	d, from := k.peekLocked(s, &q, max(q.at, k.floor.Load()))
	s.mu.Unlock()
	return addLag(d, from, q.at-q.lag)
}

// peekLocked returns the decision that takeLocked would at a time, and changes nothing.
func (k *keyed[S]) peekLocked(s *shard[S], q *question, t int64) (d sketchlimit.Decision, from int64) {
	state, b, i := k.unseen, (*bucket[S])(nil), 0
	if b, i = s.find(q.hash, q.key); b != nil {
		state = b.entries[i].state
	}
	d, from = k.judge(state, t, q.n, q.limit)
	if d.Allowed && b == nil && k.maxKeys > 0 && k.full == DenyNew && k.held.Load() >= k.maxKeys && !k.makeRoom(s, t, q.seen) {
		return k.noPlace(t, q), t
	}
	return d, from
}

// judge returns the decision on n units of a key, and the time that its durations count
// from.
func (k *keyed[S]) judge(state S, t, n, limit int64) (d sketchlimit.Decision, from int64) {
	d = sketchlimit.Decision{Limit: int(limit), RetryAfter: k.wait(state, t, n, limit)}
	d.Allowed = d.RetryAfter == 0
	d.Remaining, d.ResetAfter = k.quota(state, t, limit)
	return d, max(t, k.rule.Since(state))
}

// wait returns how long after t the units are admitted. A limit of the request's own
// below the limiter's counts as units in use.
func (k *keyed[S]) wait(s S, t, n, limit int64) time.Duration {
	less := int64(k.limit) - limit
	if n < 1 || limit == 0 || n > int64(k.most)-less {
		return sketchlimit.Never
	}
	return k.rule.Wait(s, t, n+less)
}

func (k *keyed[S]) quota(s S, t, limit int64) (remaining int, reset time.Duration) {
	units, reset := k.rule.Left(s, t)
	if limit == 0 {
		return 0, reset
	}
	return int(max(units-int64(k.limit)+limit, 0)), reset
}

// noPlace returns the decision on a new key when as many are held as may be. After its
// RetryAfter all have their quota back, if nothing else comes and nothing was charged.
func (k *keyed[S]) noPlace(t int64, q *question) sketchlimit.Decision {
	_, longest := k.rule.Left(k.rule.Spend(k.unseen, t, int64(k.most)), t)
	return sketchlimit.Decision{Limit: int(q.limit), RetryAfter: longest}
}

func (k *keyed[S]) charge(q question, peek bool) (over int) {
	if q.n < 1 {
		if !peek {
			s := k.shard(q.hash)
			s.mu.Lock()
			k.advance(q.at)
			s.mu.Unlock()
		}
		return 0
	}
	s := k.shard(q.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := max(q.at, k.floor.Load())
	if !peek {
		t = k.advance(q.at)
		s.latest = max(s.latest, t)
	}
	b, i := s.find(q.hash, q.key)
	state := k.unseen
	if b != nil {
		state = b.entries[i].state
	}
	free, _ := k.quota(state, t, q.limit)
	over = int(max(0, q.n-int64(free)))
	if peek {
		return over
	}
	if b == nil {
		if b, i = k.enter(s, t, &q); b == nil { // nowhere to note it
			s.refused++
			s.droppedUnits += uint64(min(q.n, int64(k.most)))
			return over
		}
	}
	b.entries[i].state = k.rule.Spend(state, t, q.n)
	s.admitted += uint64(min(q.n, int64(k.most)))
	s.overdraft += uint64(min(int64(over), int64(k.most)))
	return over
}

// advance returns the time that now counts as, and raises the floor to it. The caller
// holds a shard's lock, so units of a generation are spent after the floor has risen,
// and later holders of the lock see both.
func (k *keyed[S]) advance(now int64) int64 {
	if k.align == 0 {
		return now
	}
	for {
		floor := k.floor.Load()
		t := max(now, floor)
		_, elapsed := exactmath.Split(t, int64(k.align))
		if t-elapsed <= floor || k.floor.CompareAndSwap(floor, t-elapsed) {
			return t
		}
	}
}

// minSweep is the number of keys below which a sweep is not worth its time.
const minSweep = 1024

// enter returns a slot for a new key; nil if there is none. It also sweeps one bucket,
// so the table keeps about as many buckets as it needs.
func (k *keyed[S]) enter(s *shard[S], t int64, q *question) (*bucket[S], int) {
	if k.held.Load() >= minSweep {
		k.sweepNext(s, t, true)
	}
	if k.maxKeys > 0 && k.held.Load() >= k.maxKeys && !k.makeRoom(s, t, true) && !(k.full == DropIdle && k.evict(s, t)) {
		return nil, 0
	}
	if held := k.held.Add(1); k.maxKeys > 0 && held > k.maxKeys { // another shard was faster
		k.held.Add(-1)
		return nil, 0
	}
	b, i := s.add(q.hash, strings.Clone(q.key))
	b.entries[i].state = k.unseen
	return b, i
}

// sweepNext drops the keys of one bucket whose whole quota is back at t, or at the latest
// time seen if that is earlier.
func (k *keyed[S]) sweepNext(s *shard[S], t int64, seen bool) *bucket[S] {
	before := s.keys
	if seen {
		s.latest = max(s.latest, t)
	}
	t = min(t, s.latest)
	b := s.next(func(state S) bool {
		_, reset := k.rule.Left(state, t)
		return reset == 0
	})
	k.held.Add(int64(s.keys - before))
	return b
}

const (
	others   = 2  // buckets of other shards that a new key looks at for room
	mostUsed = 32 // keys in use that an eviction goes by
)

// makeRoom sweeps a few buckets, and reports whether there is room for one key more.
// The shard is locked. Others are not waited for, so there is no order in which shards
// are locked.
func (k *keyed[S]) makeRoom(s *shard[S], t int64, seen bool) bool {
	for range others {
		k.sweepNext(s, t, seen)
		other := &k.shards[k.turn.Add(1)%uint64(len(k.shards))]
		if k.held.Load() < k.maxKeys {
			return true
		}
		if other != s && other.mu.TryLock() {
			k.sweepNext(other, t, seen)
			other.mu.Unlock()
		}
	}
	return k.held.Load() < k.maxKeys
}

// evict drops an idle key, of this shard or else of another one.
func (k *keyed[S]) evict(s *shard[S], t int64) bool {
	if k.evictFrom(s, t) {
		return true
	}
	for range k.shards {
		other := &k.shards[k.turn.Add(1)%uint64(len(k.shards))]
		if other == s || !other.mu.TryLock() {
			continue
		}
		dropped := k.evictFrom(other, t)
		other.mu.Unlock()
		if dropped {
			return true
		}
	}
	return false
}

// evictFrom drops a key of the shard that was not used since the hand came by (CLOCK).
// If all keys of the next buckets were used, it drops the last of them.
func (k *keyed[S]) evictFrom(s *shard[S], t int64) bool {
	if s.keys == 0 {
		return false
	}
	var last *bucket[S]
	at := 0
	for used := 0; used < mostUsed; {
		for b := s.clock(); b != nil; b = b.more {
			for i, tag := range b.tags {
				if tag == 0 {
					continue
				}
				if last, at = b, i; b.used>>i&1 == 0 {
					k.drop(s, b, i, t)
					return true
				}
				b.used &^= 1 << i
				used++
			}
		}
	}
	k.drop(s, last, at, t)
	return true
}

func (k *keyed[S]) drop(s *shard[S], b *bucket[S], i int, t int64) {
	if left, reset := k.rule.Left(b.entries[i].state, t); reset > 0 {
		s.dropped++
		s.droppedUnits += uint64(int64(k.most) - left)
	}
	s.remove(b, i)
	k.held.Add(-1)
}

// sweep drops all keys whose whole quota is back at a time.
func (k *keyed[S]) sweep(t int64) {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		for range 2*len(s.buckets) + 1 {
			k.sweepNext(s, t, true)
		}
		s.mu.Unlock()
	}
}

// Held is the number of keys that a limiter holds, and the counts of [MaxKeys].
type Held struct {
	Keys    int    // held, those included that the next sweeps will drop
	Refused uint64 // requests of new keys that were denied because as many were held as may be, see [DenyNew]
	Dropped uint64 // keys that were dropped although they had used some of their quota, see [DropIdle]
	// DroppedUnits is the units in use by dropped keys when they were dropped, and the
	// units charged to new keys that were refused.
	DroppedUnits uint64
}

// Held implements [Limiter].
func (k *keyed[S]) Held() (h Held) {
	h.Keys = k.Keys()
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		h.Refused += s.refused
		h.Dropped += s.dropped
		h.DroppedUnits += s.droppedUnits
		s.mu.Unlock()
	}
	return h
}

// Stats implements [Limiter].
func (k *keyed[S]) Stats() sketchlimit.Stats {
	stats := k.Counters()
	stats.DistinctKeys = float64(k.Keys())
	return stats
}

// Counters implements [Limiter].
func (k *keyed[S]) Counters() (stats sketchlimit.Stats) {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		stats.Admitted += s.admitted
		stats.Denied += s.denied
		stats.Overdraft += s.overdraft
		stats.TooLow += s.tooLow
		s.mu.Unlock()
	}
	return stats
}

// MemoryBytes implements [Limiter].
func (k *keyed[S]) MemoryBytes() int {
	bytes := int(unsafe.Sizeof(*k)) + len(k.shards)*int(unsafe.Sizeof(k.shards[0]))
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		bytes += s.bytes()
		s.mu.Unlock()
	}
	return bytes
}

// addLag returns d, whose durations count from the time from, with durations that count
// from the earlier time asked.
func addLag(d sketchlimit.Decision, from, asked int64) sketchlimit.Decision {
	lag := time.Duration(min(uint64(from)-uint64(asked), uint64(sketchlimit.Never-1))) // it may not fit an int64
	if d.RetryAfter > 0 && d.RetryAfter != sketchlimit.Never {
		d.RetryAfter += min(lag, sketchlimit.Never-1-d.RetryAfter)
	}
	if d.ResetAfter > 0 {
		d.ResetAfter += min(lag, sketchlimit.Never-1-d.ResetAfter)
	}
	return d
}

// unixNano is time.Time.UnixNano with far times drawn to ±exactmath.MaxTime.
func unixNano(t time.Time) int64 {
	const last = exactmath.MaxTime / int64(time.Second)
	switch s := t.Unix(); {
	case s >= last:
		return exactmath.MaxTime
	case s < -last:
		return -exactmath.MaxTime
	}
	return t.UnixNano()
}

func checkUnits(what string, n int) error {
	if n < 1 || n > exactmath.MaxUnits {
		return fmt.Errorf("exact: %s %d, must be 1 … %d", what, n, exactmath.MaxUnits)
	}
	return nil
}

func checkSpan(what string, d time.Duration) error {
	if d < 1 || d > exactmath.MaxSpan {
		return fmt.Errorf("exact: %s %v, must be 1ns … %v", what, d, time.Duration(exactmath.MaxSpan))
	}
	return nil
}

func checkWindow(limit int, window time.Duration) error {
	if err := checkUnits("limit", limit); err != nil {
		return err
	}
	return checkSpan("window", window)
}

func checkRate(limit int, window time.Duration, burst int) error {
	if err := checkWindow(limit, window); err != nil {
		return err
	}
	return checkUnits("burst", burst)
}
