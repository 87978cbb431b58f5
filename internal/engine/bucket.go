package engine

import (
	"math"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/meancost"
	"github.com/sketchlimit/sketchlimit/internal/prefetch"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// A token bucket keeps of each key the time at which its bucket is full again, see
// [gcra.Bucket], in a [timetable.Layout]. A key whose bucket is full has no entry. A new
// key that finds no place there is denied until an entry in its lines has passed.

// buckets is the algorithm of token buckets.
type buckets struct{}

func (buckets) quota(rule *spec.Rule, limit int64) int64 { return rule.Bucket.Most(limit, rule.Limit) }

func (buckets) resetAfter(rule *spec.Rule, _ rotating.Position, quota, limit int64) time.Duration {
	if limit == 0 {
		return 0
	}
	return time.Duration(rule.Bucket.Takes(quota, limit))
}

// rotate brings the times forward. One that has passed becomes 0, a free place.
func (buckets) rotate(r request, to int64) {
	ticks, heads := r.e.Bucket.Passed(r.s.number, to), bucket{r}.heads()
	r.e.times.Shift(bucket{r}.table(), ticks)
	heads.floor -= min(heads.floor, ticks)
	r.s.number = to
}

func (buckets) prefetch(r request, _ int64, _ bool) { bucket{r}.prefetchLine() }

// prefetchLine fetches the first line of the key.
func (r bucket) prefetchLine() {
	prefetch.Line(unsafe.Pointer(&r.e.memory[r.first+r.e.times.First(keyhash.Mix(r.h, r.e.timeSeed))]))
}

func (buckets) adopt(next *Engine, r request, at int64) { retime(next, r, at) }

func (buckets) save(r request, to []uint64) {
	stateOf(r.e, to).floor = bucket{r}.heads().floor
}

func (buckets) restored(r request) {
	state := bucket{r}.state()
	*bucket{r}.heads() = bucketHeads{floor: state.floor}
	state.last = lastRounded{}
}

// bucketHeads are what a bucket's shard has in place of peaks, where every decision reads it.
type bucketHeads struct {
	tag uint32 // of the lastRounded; 0 if there is none
	// floor is the least that any key reads: the latest time that had passed when another key
	// took its place, or that a charge left which found no place. Only a clock that has
	// stepped back is behind the first.
	floor uint32
}

func (r bucket) heads() *bucketHeads { return (*bucketHeads)(unsafe.Pointer(&r.s.peaks)) }

// bucketState is what a bucket's shard has in its memory after the table: one line.
type bucketState struct {
	last  lastRounded
	floor uint32 // of a snapshot
	_     [3*8 + 4]byte
}

// bucketWords are the words of a bucketState.
const bucketWords = int(unsafe.Sizeof(bucketState{}) / 8)

var _ = [1]struct{}{}[unsafe.Sizeof(bucketState{})-spec.StateBytes] // are as large

// lastRounded is the key of a shard whose time was last rounded up to a tick, and its time
// without rounding.
//
// It is what a key needs to get all its units at a time between two ticks, or at a tier
// whose unit is not whole ticks, unless another key of the shard is in need as well.
// The table holds its time rounded up: the key may be forgotten at any time. While it is
// remembered all its charges are counted here, so its time is never too early.
type lastRounded struct {
	key uint64
	gcra.Time
}

func (r bucket) state() *bucketState { return stateOf(r.e, r.table()) }

// stateOf returns the state in the words of a shard.
func stateOf(e *Engine, memory []uint64) *bucketState {
	return (*bucketState)(unsafe.Pointer((*[bucketWords]uint64)(memory[e.generation:])))
}

// table returns the shard's words from its table on.
func (r bucket) table() []uint64 { return r.e.memory[r.first:] }

// tag is what tells most keys at once that they are not the lastRounded.
func (r bucket) tag() uint32 { return uint32(r.h) | 1 }

// lastRounded returns the exact time of the key if it is the shard's lastRounded, or was a predecessor's and has no later
// time here.
func (r bucket) lastRounded(k *estimates, now int64) (t gcra.Time, ok bool) {
	if r.heads().tag == r.tag() {
		if last := &r.state().last; last.key == r.h {
			return last.Time, true
		}
	}
	if r.e.external.Load() == nil || int64(max(k.entry.Time, r.heads().floor)) > now {
		return t, false
	}
	before := r.e.predecessor()
	if before == nil {
		return t, false
	}
	shard, locked := before.at(r.h)
	if locked {
		defer shard.s.mu.Unlock()
	}
	if last := &(bucket{shard}).state().last; (bucket{shard}).heads().tag == r.tag() && last.key == r.h {
		return last.Time, true
	}
	return t, false
}

// setLastRounded makes the key the shard's lastRounded.
func (r bucket) setLastRounded(t gcra.Time) {
	r.state().last = lastRounded{r.h, t}
	r.heads().tag = r.tag()
}

// estimates is what a bucket's shard holds of a key at a tick.
type estimates struct {
	full  int64 // tick at which its bucket is full again; it may have passed
	entry timetable.Entry
}

// read reads the key at a tick of the shard's generation, by its number, or of a later one.
func (r bucket) read(number, now int64, k *estimates) {
	r.e.times.Find(r.table(), keyhash.Mix(r.h, r.e.timeSeed), uint32(min(now, math.MaxUint32)), &k.entry)
	k.full = int64(max(k.entry.Time, r.heads().floor))
	if int64(k.entry.Time) <= now && r.e.external.Load() != nil { // an entry has taken over what a predecessor has
		if before := r.e.predecessor(); before != nil {
			k.full = max(k.full, before.full(number, r.h))
		}
	}
}

// full returns the tick of a generation at which a key's bucket is full again.
func (b *predecessor) full(number int64, h uint64) int64 {
	r, locked := b.at(h)
	if locked {
		defer r.s.mu.Unlock()
	}
	if r.s.number == never {
		return 0
	}
	var e timetable.Entry
	r.e.times.Find(bucket{r}.table(), keyhash.Mix(h, r.e.timeSeed), 0, &e)
	full := int64(max(e.Time, bucket{r}.heads().floor))
	if number < r.s.number { // of a position that it has left behind
		return min(full+int64(r.e.Bucket.Passed(number, r.s.number)), math.MaxUint32)
	}
	return full - int64(r.e.Bucket.Passed(r.s.number, number))
}

func (k *estimates) ahead(now int64) int64 { return max(0, k.full-now) }

// refused reports whether there is no place for the key at a tick.
func (r bucket) refused(k *estimates, now int64) bool {
	return int64(k.entry.Gone) > now && !r.e.Evicts()
}

// set makes a tick the one at which the key's bucket is full again, as of another one.
func (r bucket) set(k *estimates, now, full int64) {
	if gone := k.entry.Gone; int64(gone) <= now {
		r.heads().floor = max(r.heads().floor, gone)
	} else {
		r.evict(now, int64(gone))
	}
	r.e.times.Set(r.table(), &k.entry, uint32(min(full, math.MaxUint32)))
}

// evict notes that an entry gives way whose bucket is full at a tick only: its key may get the units again that have not
// flowed by then.
func (r bucket) evict(now, full int64) {
	b := &r.e.Bucket
	at := r.e.Timeline.UnixNano(rotating.Position{Generation: r.s.number}) + int64(b.Until(0, now))
	r.e.OverCapacity.Evict(at, r.e.Fills(), uint64((full-now+b.Unit-1)/b.Unit))
}

func (buckets) take(q request, p rotating.Position, n, limit int64, e Effort) spec.Verdict {
	r, b := bucket{q}, &q.e.Bucket
	ticks, between := b.Ticks(p.Elapsed)
	now := int64(ticks)
	var k estimates
	r.read(r.s.number, now, &k)
	if r.heads().tag == r.tag() || r.e.external.Load() != nil {
		if last, ok := r.lastRounded(&k, now); ok && limit > 0 {
			return r.takeLast(last, &k, p, n, limit)
		}
	}
	ahead, most := k.ahead(now), b.Most(limit, r.e.Limit)
	if n < 1 || n > most || ahead > b.Flows(most-n, limit, r.e.Limit) || r.refused(&k, now) { // free would take a division to tell
		return r.refuseTime(p, n, limit, r.deniedTime(p, &k, 0, n, limit))
	}
	if ahead == 0 {
		if between || !b.Even(limit, r.e.Limit) {
			return r.takeLast(gcra.Time{Nanos: r.e.Timeline.UnixNano(p), Of: uint64(limit)}, &k, p, n, limit)
		}
		k.full = now
	}
	r.s.admitted += uint64(n)
	r.s.denials.Clear()
	if meancost.Sampled(r.s.admitted) {
		meancost.Note(r.e.flooded, n)
	}
	if limit == r.e.Limit {
		k.full += n * b.Unit
	} else {
		k.full += b.Charged(n, limit, r.e.Limit)
	}
	r.set(&k, now, k.full)
	if e == Brief {
		return spec.Verdict{Allowed: true}
	}
	if ahead > 0 {
		most = b.Free(ahead, limit, r.e.Limit)
	}
	return spec.Verdict{Allowed: true, Remaining: int(most - n), ResetAfter: b.Until(p.Elapsed, k.full)}
}

// takeLast is take for a key by its exact time, which makes it the shard's lastRounded.
func (r bucket) takeLast(last gcra.Time, k *estimates, p rotating.Position, n, limit int64) spec.Verdict {
	b := &r.e.Bucket
	t, free, v := r.peekLast(last, k, p, n, limit)
	if !v.Allowed {
		return r.refuseTime(p, n, limit, v)
	}
	r.s.admitted += uint64(n)
	r.s.denials.Clear()
	now := r.e.Timeline.UnixNano(p)
	if meancost.Sampled(r.s.admitted) {
		meancost.Note(r.e.flooded, n)
	}
	t = t.Add(b, n)
	r.setLastRounded(t)
	ticks, _ := b.Ticks(p.Elapsed)
	r.set(k, int64(ticks), b.TicksUp(time.Duration(t.Up()-now+int64(p.Elapsed))))
	return spec.Verdict{Allowed: true, Remaining: int(free - n), ResetAfter: time.Duration(t.Up() - now)}
}

// peekLast is peek for a key by its exact time. It also returns when its bucket is full
// again, and the units that are free.
func (r bucket) peekLast(last gcra.Time, k *estimates, p rotating.Position, n, limit int64) (t gcra.Time, free int64, v spec.Verdict) {
	b, now := &r.e.Bucket, r.e.Timeline.UnixNano(p)
	most := b.Most(limit, r.e.Limit)
	t = last.At(now, limit)
	free = t.Free(b, now, most)
	v = spec.Verdict{Allowed: n >= 1 && n <= free, Remaining: int(max(free, 0)), ResetAfter: time.Duration(t.Up() - now)}
	if !v.Allowed {
		v.RetryAfter = t.RetryAfter(b, now, n, most)
	}
	if ticks, _ := b.Ticks(p.Elapsed); r.refused(k, int64(ticks)) {
		place := b.Until(p.Elapsed, int64(k.entry.Gone))
		v = spec.Verdict{RetryAfter: max(v.RetryAfter, place), ResetAfter: max(v.ResetAfter, place)}
	}
	return t, free, v
}

// refuseTime counts a request that is denied, and remembers its key if that has nothing left.
func (r bucket) refuseTime(p rotating.Position, n, limit int64, v spec.Verdict) spec.Verdict {
	r.s.denied += r.e.Counted(n, limit)
	if n == 1 && limit > 0 {
		r.cacheDenial(p, limit, v)
	}
	return v
}

// deniedTime is the Verdict on a request for n units that are not free, of a key that was
// read so many ticks of generations ago.
func (r bucket) deniedTime(p rotating.Position, k *estimates, passed, n, limit int64) (v spec.Verdict) {
	b := &r.e.Bucket
	ticks, _ := b.Ticks(p.Elapsed)
	now, full := int64(ticks), k.full-passed
	ahead := max(0, full-now)
	free := b.Free(ahead, limit, r.e.Limit)
	v.Remaining = int(max(free, 0))
	if n < 1 || n > free {
		v.RetryAfter = b.RetryAfter(p.Elapsed, full, n, limit, r.e.Limit)
	}
	if ahead > 0 {
		v.ResetAfter = b.Until(p.Elapsed, full)
	}
	if r.refused(k, now+passed) {
		place := b.Until(p.Elapsed, int64(k.entry.Gone)-passed)
		v.Remaining, v.RetryAfter, v.ResetAfter = 0, max(v.RetryAfter, place), max(v.ResetAfter, place)
	}
	return v
}

func (buckets) peek(q request, p rotating.Position, n, limit int64) spec.Verdict {
	r, b := bucket{q}, &q.e.Bucket
	number := r.s.number
	if number == never { // and nothing is there
		number = p.Generation
	}
	passed := int64(b.Passed(number, p.Generation))
	ticks, _ := b.Ticks(p.Elapsed)
	var k estimates
	r.read(number, int64(ticks)+passed, &k)
	if last, ok := r.lastRounded(&k, int64(ticks)+passed); ok && limit > 0 {
		k.entry.Gone -= min(k.entry.Gone, uint32(passed))
		_, _, v := r.peekLast(last, &k, p, n, limit)
		return v
	}
	v := r.deniedTime(p, &k, passed, n, limit)
	v.Allowed = n >= 1 && n <= int64(v.Remaining)
	return v
}

// charge implements algorithm. A key that finds no place leaves its debt to all that have none, see bucketHeads.
func (buckets) charge(q request, p rotating.Position, n, limit int64, _ bool) (free int64) {
	r, b, unix := bucket{q}, &q.e.Bucket, q.e.Timeline.UnixNano(p)
	ticks, between := b.Ticks(p.Elapsed)
	now := int64(ticks)
	most := b.Most(limit, r.e.Limit)
	var k estimates
	r.read(r.s.number, now, &k)
	full := k.full
	last, exactly := r.lastRounded(&k, now)
	if !exactly && full <= now && (between || !b.Even(limit, r.e.Limit)) {
		last, exactly = gcra.Time{Nanos: unix, Of: uint64(limit)}, true
	}
	r.s.admitted += r.e.Counted(n, r.e.Limit)
	r.s.denials.Clear()
	free = b.Free(max(0, full-now), limit, r.e.Limit)
	debt := min(n, 2*most) // of a full bucket
	if exactly {
		t := last.At(unix, limit)
		free = t.Free(b, unix, most)
		last = t.Add(b, debt)
		if deepest := (gcra.Time{Nanos: unix, Of: uint64(limit)}).Add(b, 2*most); deepest.Before(&last) {
			last = deepest
		}
		if last.Before(&t) { // of a clock that has stepped back
			last = t
		}
		r.setLastRounded(last)
		full = b.TicksUp(time.Duration(last.Up() - unix + int64(p.Elapsed)))
	} else {
		deepest := now + b.Charged(2*most, limit, r.e.Limit)
		if between {
			deepest++
		}
		full = max(full, min(max(full, now)+b.Charged(debt, limit, r.e.Limit), deepest))
	}
	if r.refused(&k, now) {
		r.heads().floor = max(r.heads().floor, uint32(min(full, math.MaxUint32)))
		return 0
	}
	r.set(&k, now, full)
	return free
}

// retime makes the times in a shard of a bucket of another limit its own, as of a unix time in ns or of the shard's
// generation, if that is later. All is rounded against the request.
func retime(e *Engine, r request, at int64) {
	p := r.rotate(r.e.Timeline.Position(at))
	was, _ := r.e.Bucket.Ticks(p.Elapsed)
	p = e.Timeline.Position(r.e.Timeline.UnixNano(p))
	is := uint64(e.Bucket.TicksUp(p.Elapsed))
	gone := uint64(0) // the latest time that has passed
	own := func(t uint32) uint32 {
		if uint64(t) <= was {
			gone = max(gone, uint64(t))
			return 0
		}
		return uint32(min(is+uint64(gcra.CeilDiv(int64(uint64(t)-was), e.Bucket.Unit, r.e.Bucket.Unit)), math.MaxUint32))
	}
	r.e.times.Map(bucket{r}.table(), own)
	heads := bucket{r}.heads()
	*heads = bucketHeads{floor: own(heads.floor)}
	if gone > 0 { // for a clock that steps back
		heads.floor = max(heads.floor, uint32(is-min(is, (was-gone)*uint64(e.Bucket.Unit)/uint64(r.e.Bucket.Unit))))
	}
	r.s.number = p.Generation
}
