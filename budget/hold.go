package budget

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/held"
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Hold is the units that a request holds of its key's limits until it is settled.
// Copies are the same hold: settling one settles all. The zero Hold holds nothing. It
// is safe for concurrent use.
//
// A hold that is not settled within HoldFor expires: a later request, or a call of
// Stats, settles it in full, in the windows of that moment. Until then it stays held.
// So after a clock that jumps ahead all open holds are settled in full, two at each
// request of their shard.
type Hold struct {
	b     *Budget
	h     uint64 // hash of the key
	id    uint64
	place uint32
}

// hold is the state of a place: of the open hold in it, or of none.
//
// A place belongs to one shard at a time. Either it is among the open holds of the
// shard, or it is in the shard's list of free places. The lock of the shard guards all
// fields of the places that belong to it:
//
//   - holdAt sets the id under the lock of the hold's shard, after all other fields.
//   - settle sets it to 0 under the same lock, before the place is free.
//   - take alone moves a place from one shard to another, while it holds both locks. It
//     moves free places, without an id.
//
// No two holds have the same id, and each id is of one shard. So with the lock of a
// Hold's shard held and the Hold's id in its place, the place belongs to this shard and
// does not change before the unlock. Without the lock, another id proves that the hold
// has ended; the same id proves nothing. A build with the tag invariants asserts all
// this.
type hold struct {
	id      atomic.Uint64
	h       uint64
	expires int64  // unix time, ns
	units   uint32 // held
	limit   uint32 // of the request's own, 0 if it had none
	// Holds of the shard by when they expire: places + 1. Newer of the newest one is 0,
	// older of the oldest one is anything. Of a free place, newer is another free one.
	older, newer uint32
}

// shard is the state that keys share whose hashes begin alike.
type shard struct {
	mu             invariants.Mutex
	id             uint64 // of the last hold; each shard has ids of its own
	oldest, newest uint32 // holds by when they expire: places + 1, 0 for none
	expires        int64  // when the oldest does, or before
	free           uint32 // places: + 1, 0 for none
	open, keys     int
	seen           [maxLimits]int64 // latest time of a request for each limit, as a word
	sums
}

// sums are what a shard has counted, in units but for expired.
type sums struct {
	held      int64
	settled   uint64
	overdraft uint64
	expired   uint64
	denied    uint64
	noRoom    uint64
}

// follow makes m the shard's latest time, or moves m up to that. Time never goes back
// for a key: a part of a window that has passed would count again, beside units held
// because it had passed.
func (s *shard) follow(b *Budget, m *moment) {
	for i := range b.limits {
		now, seen := &m[i], &s.seen[i]
		if now.word < *seen {
			line := &b.limits[i].Line
			now.lag += time.Duration(line.UnixNano(line.Unpack(*seen)) - line.UnixNano(line.Unpack(now.word)))
			now.word = *seen
		}
		*seen = now.word
	}
}

// Settle ends the hold: n units, the cost of the request, count from now on; the rest
// is free at once. Units above those held are counted as Charge does; n below 0 is 0.
// It reports whether this call settled the hold: the first of all calls for it and its
// copies, from any goroutine, does, unless the hold has expired.
func (d Hold) Settle(n int) bool {
	if d.b == nil {
		return false
	}
	var m moment
	d.b.now(&m)
	d.b.fetch(d.h, &m, d.place, true)
	s, o := d.lock()
	if o == nil {
		return false
	}
	defer s.mu.Unlock()
	if s.oldest != d.place+1 {
		d.b.fetchHolds(s, o.older, o.newer)
	}
	s.follow(d.b, &m)
	d.b.settle(s, o, d.place, max(n, 0), &m)
	d.b.expire(s, &m)
	return true
}

// Extend holds n ≥ 0 units more, for a request that costs more than expected, if they
// fit as those of a new hold would, and restarts HoldFor. If they do not fit, or the
// hold has been settled or has expired, Extend changes nothing.
func (d Hold) Extend(n int) (v sketchlimit.Decision) {
	v.RetryAfter = sketchlimit.Never
	if d.b == nil {
		return v
	}
	var m moment
	b := d.b
	b.now(&m)
	s, o := d.lock()
	if o == nil {
		return v
	}
	defer s.mu.Unlock()
	s.follow(b, &m)
	_, keys := b.shard(d.h)
	e := &keys[keys.Find(d.h)]
	if b.fits(d.h, e.Units, int64(n), int(o.limit), &m, nil, &v); n == 0 {
		v.Allowed, v.RetryAfter = true, 0
	}
	if !v.Allowed {
		s.denied += b.counted(n, int(o.limit))
		return v
	}
	e.Units += int64(n)
	s.held += int64(n)
	o.units += uint32(n)
	b.unlink(s, o, d.place)
	o.expires = b.until(&m)
	b.link(s, o, d.place)
	return v
}

// Units returns the units held, extensions included; 0 if the hold has been settled or
// has expired.
func (d Hold) Units() int {
	s, o := d.lock()
	if o == nil {
		return 0
	}
	defer s.mu.Unlock()
	return int(o.units)
}

// lock locks the shard of the hold and returns it with the hold's state. If the hold has
// ended, it returns nils and leaves nothing locked.
func (d Hold) lock() (*shard, *hold) {
	if d.b == nil {
		return nil, nil
	}
	o := &d.b.holds[d.place]
	if o.id.Load() != d.id {
		return nil, nil
	}
	s, _ := d.b.shard(d.h)
	s.mu.Lock()
	if o.id.Load() != d.id {
		s.mu.Unlock()
		return nil, nil
	}
	if invariants.On {
		d.b.checkOpen(s, d.place)
	}
	return s, o
}

// hold implements Hold, Do and DoEach.
func (b *Budget) hold(r *sketchlimit.Request, n int, each []sketchlimit.Decision) (d Hold, v sketchlimit.Decision) {
	var m moment
	h := b.hash(r)
	b.now(&m)
	b.fetch(h, &m, 0, false) // its place is not known yet
	full := b.holdAt(h, r, n, &m, each, &d, &v)
	if full && b.sweep(m) {
		full = b.holdAt(h, r, n, &m, each, &d, &v)
	}
	if full {
		s, _ := b.shard(h)
		s.mu.Lock()
		s.denied += uint64(n) // at most each limit
		s.noRoom += uint64(n)
		s.mu.Unlock()
	}
	if each != nil && (r.Peek || !v.Allowed) {
		without(each, n)
		each[v.By] = v
	}
	return d, v
}

// without adds n to Remaining of decisions that admit, for a request that holds nothing.
func without(each []sketchlimit.Decision, n int) {
	for i := range each {
		if each[i].Allowed {
			each[i].Remaining += n
		}
	}
}

// holdAt holds at the moment m. It sets d and v, and reports whether there was no room;
// the caller counts that.
func (b *Budget) holdAt(
	h uint64, r *sketchlimit.Request, n int, m *moment, each []sketchlimit.Decision, d *Hold, v *sketchlimit.Decision,
) (full bool) {
	s, keys := b.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(b, m)
	b.expire(s, m)
	b.fetchHolds(s, s.free, s.newest)
	e := &keys[keys.Find(h)]
	b.fits(h, e.Units, int64(n), r.Limit, m, each, v)
	if r.Peek {
		if v.Allowed {
			v.Remaining += n
		}
		return false
	}
	if !v.Allowed {
		s.denied += b.counted(n, r.Limit)
		return false
	}
	place, ok := uint32(0), e.Units > 0 || s.keys < len(keys)-1 // the last entry stays free
	if ok {
		place, ok = b.take(s, h)
	}
	if !ok {
		v.Allowed, v.Remaining, v.RetryAfter = false, v.Remaining+n, busy
		return true
	}
	if e.Units == 0 {
		s.keys++
	}
	*e = held.Entry{Hash: h, Units: e.Units + int64(n)}
	s.held += int64(n)
	s.open++
	s.id += uint64(len(b.shards))
	o := &b.holds[place]
	if invariants.On {
		b.checkFree(s, place)
	}
	o.h, o.units, o.limit, o.expires = h, uint32(n), uint32(min(r.Limit, math.MaxInt32)), b.until(m)
	o.id.Store(s.id)
	b.link(s, o, place)
	*d = Hold{b, h, s.id, place}
	return false
}

// fits sets d to the decision on n units of a key beside the units that it holds, and
// each, if not nil, to those of the limits. It counts nothing.
func (b *Budget) fits(
	h uint64, holds, n int64, limit int, m *moment, each []sketchlimit.Decision, d *sketchlimit.Decision,
) {
	var tightest spec.Verdict
	for i := range b.limits {
		l := &b.limits[i]
		lower := l.at(limit)
		if lower == 0 && limit > 0 {
			l.TooLow.Add(1)
		}
		v := l.Engine.Load().Fits(m[i].word, h, holds, n, lower).After(m[i].lag)
		if !v.Allowed && v.RetryAfter == 0 {
			v.RetryAfter = busy
		}
		if each != nil {
			each[i] = decision(v, i, lower)
		}
		if i == 0 || v.Tighter(tightest) {
			tightest = v
			*d = decision(v, i, lower)
		}
	}
}

// decision returns a verdict of the i-th limit as a Decision.
func decision(v spec.Verdict, i int, limit int64) sketchlimit.Decision {
	return sketchlimit.Decision{
		Allowed: v.Allowed, Limit: int(limit), Remaining: v.Remaining,
		RetryAfter: v.RetryAfter, ResetAfter: v.ResetAfter, By: i,
	}
}

// charge implements Charge and DoCharge.
func (b *Budget) charge(r *sketchlimit.Request, n int) (over int) {
	if n < 1 {
		return 0
	}
	var m moment
	h := b.hash(r)
	b.now(&m)
	s, keys := b.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(b, &m)
	b.expire(s, &m)
	units := keys[keys.Find(h)].Units
	if !r.Peek {
		return int(b.count(s, h, int64(n), int64(n), units, r.Limit, &m))
	}
	for i := range b.limits {
		l := &b.limits[i]
		over = max(over, int(l.Engine.Load().Over(l.Line.Unpack(m[i].word), h, int64(n), units, l.charged(r.Limit))))
	}
	return over
}

// count counts n units of a key in all limits, unheld of which were not held. It
// returns how many of the unheld units did not fit.
func (b *Budget) count(s *shard, h uint64, n, unheld, holds int64, limit int, m *moment) (over int64) {
	for i := range b.limits {
		l := &b.limits[i]
		over = max(over, l.Engine.Load().Charge(m[i].word, h, n, unheld, holds, l.charged(limit)))
	}
	s.settled += b.counted(int(n), 0)
	s.overdraft += b.counted(int(over), 0)
	return over
}

// counted returns the units by which a request for n units raises a statistic: at most
// the highest of its limits. limit is Request.Limit.
func (b *Budget) counted(n, limit int) (units uint64) {
	for i := range b.limits {
		l := &b.limits[i]
		units = max(units, l.Engine.Load().Counted(int64(n), l.at(limit)))
	}
	return units
}

// settle counts n units for a hold and ends it.
func (b *Budget) settle(s *shard, o *hold, place uint32, n int, m *moment) {
	if invariants.On {
		b.checkOpen(s, place)
	}
	_, keys := b.shard(o.h)
	i := keys.Find(o.h)
	if n > 0 {
		b.count(s, o.h, int64(n), max(0, int64(n)-int64(o.units)), keys[i].Units, int(o.limit), m)
	}
	s.open--
	s.held -= int64(o.units)
	if keys[i].Units -= int64(o.units); keys[i].Units == 0 {
		s.keys--
		keys.CloseGap(i)
	}
	b.unlink(s, o, place)
	o.id.Store(0)
	s.give(b.holds, place)
}

// mostExpired is the number of expired holds that one request settles. Two a request are
// enough, because each request makes at most one hold.
const mostExpired = 2

// expire settles expired holds of the shard, the oldest first, and reports whether
// there were any.
func (b *Budget) expire(s *shard, m *moment) (some bool) {
	for range mostExpired {
		if !b.expireOne(s, m) {
			break
		}
		some = true
	}
	return some
}

func (b *Budget) expireOne(s *shard, m *moment) bool {
	now := b.unix(m)
	if s.expires > now {
		return false
	}
	if s.expires = math.MaxInt64; s.oldest > 0 {
		s.expires = b.holds[s.oldest-1].expires
	}
	if s.expires > now {
		return false
	}
	place := s.oldest - 1
	o := &b.holds[place]
	s.expired++
	b.settle(s, o, place, int(o.units), m)
	return true
}

// link appends a hold to the shard's list by expiry. It expires last, because time does
// not go back for a shard.
func (b *Budget) link(s *shard, o *hold, place uint32) {
	o.older, o.newer = s.newest, 0
	if s.newest > 0 {
		b.holds[s.newest-1].newer = place + 1
	} else {
		s.oldest, s.expires = place+1, o.expires
	}
	s.newest = place + 1
}

// unlink removes a hold from the shard's list. Where it is the oldest, as most often, the
// next hold is not written, which would wait for memory.
func (b *Budget) unlink(s *shard, o *hold, place uint32) {
	oldest, newest := s.oldest == place+1, s.newest == place+1
	switch {
	case oldest && newest:
		s.oldest, s.newest = 0, 0
	case oldest:
		s.oldest = o.newer
	case newest:
		s.newest = o.older
		b.holds[o.older-1].newer = 0
	default:
		b.holds[o.older-1].newer = o.newer
		b.holds[o.newer-1].older = o.older
	}
}
