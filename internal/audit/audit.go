// Package audit counts some of a limiter's keys exactly, beside the sketch that decides.
//
// The keys are those of a slice of the hash space. Of each the audit keeps two states
// of the exact algorithm: one of what the limiter has admitted, which finds a unit too
// many, and one of the exact algorithm alone, which finds a request that was denied
// wrongly. It decides nothing.
//
// The slice halves when there is no place for a key, and opens again when a window has
// ended in which there was room. A key counts once the audit knows all that it may have
// used.
//
// It goes by package exactmath, of which the limiter knows nothing: an audit by the
// limiter's own arithmetic would prove nothing.
package audit

import (
	"log/slog"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// Audit counts a sample of one limiter's keys. It is safe for concurrent use. Its zero
// value samples no key.
type Audit struct {
	slice atomic.Uint64 // a key whose place is below this is sampled
	known atomic.Uint64 // a sampled key whose place is below this counts: all its use is known
	epoch atomic.Int64  // the latest, or never

	alike      bool  // see kind: all keys of the slice count that are not unsure
	span       int64 // of an epoch, ns: after two nothing counts that a key has used
	keys       keys
	sets       int          // that there are when it starts
	seen       atomic.Int64 // keys of the epoch
	overLogged atomic.Bool  // that a unit too many was admitted

	mu     sync.Mutex // guards what follows; taken last
	ended  uint64     // slice at the end of the epoch before
	before [2]Counts  // when this epoch began, and the one before
	base   Counts     // of the audit that this one follows
}

const never = math.MinInt64

// Counts are what an audit has counted. They only rise. All but Over are for all keys
// of the limiter: each sampled one counts as many times as there are keys for one in
// the slice. So what was counted while the slice was larger weighs no more.
type Counts struct {
	Keys            uint64 // that made a request, counted anew in each window
	Requests, Units uint64 // of light keys, which had used less than half of their limit
	Denied          uint64 // of these requests, that the exact algorithm admits
	Admitted, Exact uint64 // units of all keys, and those that the exact algorithm alone admits
	Over            uint64 // units of sampled keys that were admitted beyond the limit

	Squares Squares
}

// Squares are sums of products, which say how far the rate may err: over keys and
// windows of their requests and denied ones, because the requests of one key are no
// independent sample, and over requests.
type Squares [4]float64

const (
	requestsSquared = iota
	requestsDenied
	deniedSquared
	weightsSquared
)

// Plus returns the sum of both.
func (c Counts) Plus(d *Counts) Counts {
	c.Keys, c.Requests, c.Units, c.Denied = c.Keys+d.Keys, c.Requests+d.Requests, c.Units+d.Units, c.Denied+d.Denied
	c.Admitted, c.Exact, c.Over = c.Admitted+d.Admitted, c.Exact+d.Exact, c.Over+d.Over
	for i := range c.Squares {
		c.Squares[i] += d.Squares[i]
	}
	return c
}

// Minus returns what was counted since d.
func (c Counts) Minus(d *Counts) Counts {
	c.Keys, c.Requests, c.Units, c.Denied = c.Keys-d.Keys, c.Requests-d.Requests, c.Units-d.Units, c.Denied-d.Denied
	c.Admitted, c.Exact, c.Over = c.Admitted-d.Admitted, c.Exact-d.Exact, c.Over-d.Over
	for i := range c.Squares {
		c.Squares[i] -= d.Squares[i]
	}
	return c
}

// Use is when the units of a request count that is admitted.
type Use uint8

const (
	Now   Use = iota
	Later     // when they are charged. No charge follows a denial, so for the exact algorithm alone a denied request counts now
	Never     // another limiter refuses the request
)

// Event is a decision, or a charge.
type Event struct {
	Hash         uint64
	At           int64 // unix ns
	N            int64 // units, ≥ 1
	Held         int64 // units of the key that are held beside, and counted later
	Limit        int64 // of the request, 1 … the audit's
	Admitted     bool
	Use          Use
	Charge       bool // they are used whether they fit or not
	OverCapacity bool // the limiter may have let others through on purpose
}

// Window returns an audit of at most so many bytes, which is to start, for windows of
// limit units, in generations of a length in ns, of which as many are kept.
func Window(limit, length int64, generations, bytes int) *Audit {
	switch m := int64(generations - 1); m {
	case 0:
		w := exactmath.NewFixedWindow(limit, length)
		return of(length, bytes, fixed{window[exactmath.WindowCount]{&w, limit}})
	case 1:
		w := exactmath.NewSlidingWindow(limit, length)
		return of(length, bytes, sliding{window[exactmath.WindowPair]{&w, limit}})
	default:
		w := exactmath.NewSlots(limit, length, m)
		return of(length*m, bytes, slots{window[exactmath.Ring]{&w, limit}, m})
	}
}

// Bucket is Window for token buckets of burst units, of which limit flow back in a
// window, so that all do in a time in ns. It samples nothing if it cannot count them
// exactly.
func Bucket(limit, window, burst, fills int64, bytes int) *Audit {
	g, err := exactmath.NewGCRA(limit, window, burst)
	if err != nil {
		return new(Audit)
	}
	return of(2*min(max(fills, 1), math.MaxInt64/8), bytes, &bucket{g, limit, burst}) // a debt may be as much again
}

// keys are the sampled keys and what they have used.
type keys interface {
	// count counts an event. It reports whether there was a place for the key.
	count(a *Audit, q Event, epoch int64) bool
	// sum returns what all have counted.
	sum() Counts
	// places returns how many keys there is room for.
	places() int
	// forget lets all keys go.
	forget()
	// setBytes returns the bytes of a set of places, and make takes the memory of some
	// sets.
	setBytes() int
	make(sets int)
}

func of[S any](span int64, bytes int, k kind[S]) *Audit {
	a := &Audit{alike: k.alike(), span: max(1, span), keys: &table[S]{kind: k}}
	a.sets = max(bytes, 0) / a.keys.setBytes()
	a.epoch.Store(never)
	return a
}

// Bytes returns what the table takes once the audit has started: whole sets of places.
func (a *Audit) Bytes() int {
	if a.sets == 0 {
		return 0
	}
	return a.sets * a.keys.setBytes()
}

// Start takes the memory, and samples keys from then on. It goes before any other use.
func (a *Audit) Start() {
	if a.sets == 0 {
		return
	}
	a.keys.make(a.sets)
	a.slice.Store(math.MaxUint64)
	a.known.Store(math.MaxUint64)
	a.ended = math.MaxUint64
}

// place spreads the keys over the hash space anew: other parts of a limiter go by the
// bits of their hashes.
func place(h uint64) uint64 { return h * 0xd6e8feb86659fd93 }

// Sampled reports whether a key is in the slice, by its hash. The compiler inlines it.
func (a *Audit) Sampled(h uint64) bool { return place(h) < a.slice.Load() }

// weightOf returns how many keys one of a slice stands for: slices are powers of 2,
// less 1.
func weightOf(slice uint64) uint64 { return 1 << bits.LeadingZeros64(slice|1) }

// Count counts a decision on a sampled key. Decisions of one key come one after another.
func (a *Audit) Count(q Event) {
	if q.Hash == 0 { // that is no key in a set
		return
	}
	epoch := a.reach(q.At)
	for at := place(q.Hash); ; {
		slice := a.slice.Load()
		if at >= slice || a.keys.count(a, q, epoch) {
			return
		}
		a.halve(slice)
	}
}

// halve halves the slice, unless somebody else has.
func (a *Audit) halve(from uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slice.Load() != from {
		return
	}
	a.slice.Store(from / 2)
	a.known.Store(min(a.known.Load(), from/2))
}

// Reach notes that a time has come, also where no key of the slice makes a request any
// more.
func (a *Audit) Reach(t int64) {
	if a.sets > 0 {
		a.reach(t)
	}
}

// reach returns the epoch of a time, or a later one if that has begun.
func (a *Audit) reach(t int64) int64 {
	epoch, _ := exactmath.Split(t, a.span)
	if latest := a.epoch.Load(); epoch <= latest {
		return latest
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	latest := a.epoch.Load()
	if epoch <= latest {
		return latest
	}
	if latest != never {
		a.turn()
	}
	a.epoch.Store(epoch)
	return epoch
}

// turn begins an epoch. The slice opens if the keys of the last one leave three
// quarters of the places free. What it opens for counts when an epoch has been seen as
// a whole.
func (a *Audit) turn() {
	slice, seen := a.slice.Load(), a.seen.Swap(0)
	a.known.Store(min(a.ended, slice))
	a.ended = slice
	for places := int64(a.keys.places()); seen <= places/4 && slice < math.MaxUint64; seen = max(1, 2*seen) {
		slice = slice<<1 | 1
	}
	a.slice.Store(slice)
	a.before = [2]Counts{a.sum(), a.before[0]}
}

// Forget is for a limiter that goes on with counts which the audit has not seen.
func (a *Audit) Forget() {
	if a.sets == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known.Store(0)
	a.ended = 0
	a.keys.forget()
}

// Follow starts the audit and makes its counts go on from those of one of before, which
// ends.
func (a *Audit) Follow(before *Audit) {
	if a.sets == 0 {
		return
	}
	a.Start()
	a.Forget()
	before.slice.Store(0)
	a.base = before.Counts()
	a.before = [2]Counts{a.base, a.base}
}

// Counts returns all that was counted.
func (a *Audit) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sum()
}

// Lately returns what was counted in this window and in the one before.
func (a *Audit) Lately() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sum().Minus(&a.before[1])
}

func (a *Audit) sum() Counts {
	if a.keys == nil {
		return a.base
	}
	return a.keys.sum().Plus(&a.base)
}

// Share returns the share of all keys that count.
func (a *Audit) Share() float64 {
	slice := a.slice.Load()
	if !a.alike {
		slice = min(slice, a.known.Load())
	}
	return float64(slice) / math.MaxUint64
}

// alarm says once that a unit too many was admitted: then the limiter has a fault. It
// does so without the caller's locks, since whoever logs may ask the limiter.
func (a *Audit) alarm(q *Event) {
	if a.overLogged.CompareAndSwap(false, true) {
		go slog.Error("sketchlimit: more was admitted than the limit allows; please report it",
			"limit", q.Limit, "units", q.N, "time", q.At)
	}
}

// quantile is of the normal distribution: 99.9 % lie between both signs. The ends are
// Poisson's, by the approximation of Wilson and Hilferty.
const quantile = 3.29

// Rate returns the share of light keys' requests that were denied wrongly, and the ends
// of an interval in which the true share lies in 99.9 % of cases. With none denied the
// upper one is the least rate that can be told from 0. Without requests it is 0 … 1.
func (c Counts) Rate() (rate, low, high float64) {
	if c.Requests == 0 {
		return 0, 0, 1
	}
	n, denied := float64(c.Requests), float64(c.Denied)
	rate = denied / n
	s, together := &c.Squares, 0. // denials that are one of the sample: those of one key come together
	if denied > 0 {
		together = max(s[weightsSquared]/n, (s[deniedSquared]-2*rate*s[requestsDenied]+rate*rate*s[requestsSquared])/denied)
	} else {
		together = s[requestsSquared] / n // all requests of a key, as far as is known
	}
	k := denied / together
	if k > 0 {
		low = k * cube(1-1/(9*k)-quantile/(3*math.Sqrt(k)))
	}
	high = (k + 1) * cube(1-1/(9*(k+1))+quantile/(3*math.Sqrt(k+1)))
	return rate, max(0, low) * together / n, min(1, high*together/n)
}

// cube is 0 for what is below.
func cube(x float64) float64 {
	x = max(0, x)
	return x * x * x
}
