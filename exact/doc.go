// Package exact has ten exact rate limiting algorithms. Each keeps a count or a time
// for every key, and computes without rounding. Use them as limiters for as many keys
// as the memory holds, at about 90 bytes a key, or as oracles for a sketch.
//
//	FixedWindow     a count per aligned window
//	SlidingLog      the time of every unit of the last window
//	SlidingWindow   two aligned windows, the previous one weighted by its overlap
//	Slots           the same with the window cut into m slots
//	TokenBucket     tokens that flow in continuously
//	DiscreteBucket  tokens that arrive in portions
//	LeakyQueue      the leaky bucket that holds requests and lets them out evenly
//	LeakyMeter      the leaky bucket that holds water and only counts
//	GCRA            the theoretical arrival time
//	MinInterval     a pause after every admitted request
//
// TokenBucket, LeakyMeter and GCRA give the same answers in every field. They are three
// forms of one algorithm, implemented separately so that each checks the others.
//
// # Arithmetic
//
// There are no floats. Counts are integers, a weighted count is compared by cross
// multiplication in 128 bits, and buckets count in fractions of a unit so small that a
// whole number of them flows in every nanosecond. Only answers are rounded: Remaining
// down to whole units, RetryAfter and ResetAfter up to whole nanoseconds, so that a
// denied request passes at now+RetryAfter and not one nanosecond earlier.
//
// # Time
//
// Time is an argument and may come in any order. A time is never taken to lie before
// what the limiter already knows. If a time is taken as a later one, the answer is that
// at the later time, with durations that count from the caller's time:
//
//   - FixedWindow, SlidingWindow and Slots count in generations aligned to the Unix
//     epoch: floor(unix time / length). The limiter as a whole remembers the latest
//     generation that TakeAt or Charge has seen. A time in an earlier one is taken as
//     the start of the latest; within the latest, times are used as given.
//   - The others remember, for each key they hold, the time of its last admitted or
//     charged unit. A time before that is taken as that time.
//
// Times before October 1750 or after March 2189 are taken as the ends of that range,
// which leaves room for the longest window on either side.
//
// # Memory
//
// A limiter stores the keys that have used some of their quota. A key that has its
// whole quota back is treated as one that was never seen, and is dropped by a sweep:
// every new key looks at one bucket of the table for such keys, which is about six of
// them, and the table grows and shrinks by one bucket at a time. So no request waits
// until all keys were looked at. Dropping changes no decision while time goes forward;
// of FixedWindow, SlidingWindow and Slots it never does. (The other algorithms then
// forget the key's last time, too, so after a step back of the clock the key is new.)
// Keys are copied.
//
// [MaxKeys] bounds the keys. Without it the memory grows with the keys that clients
// send within a window.
//
// # Limits of a request's own
//
// FixedWindow, SlidingLog, SlidingWindow and Slots hold a request against
// Request.Limit, 1 … limit. The others deny a request whose limit is below their own.
package exact

import (
	"iter"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Limiter is what all algorithms of this package are. Its methods are safe for
// concurrent use: a limiter has up to 128 locks, each for a part of the keys.
//
// It goes wherever a [sketchlimit.Limiter] does: into the middleware of package
// httplimit and of others, into a [sketchlimit.Group], and to package metrics.
type Limiter interface {
	// Allow takes one unit of the key, at the time of the clock, and reports whether it
	// was admitted.
	Allow(key string) bool
	// Take is TakeAt the time of the clock.
	Take(key string, n int) sketchlimit.Decision
	// TakeAt admits and consumes n units of the key, or denies and changes
	// nothing. A cost below 1 or above the limit (the burst, the capacity) is
	// denied with RetryAfter [sketchlimit.Never].
	TakeAt(now time.Time, key string, n int) sketchlimit.Decision
	// Peek returns what Take(key, 1) would answer, and consumes nothing: Remaining is
	// what is free without it.
	Peek(key string) sketchlimit.Decision
	// PeekAt gives the Allowed and RetryAfter that TakeAt would, and the
	// Remaining and ResetAfter of the key as it is. It changes nothing.
	PeekAt(now time.Time, key string, n int) sketchlimit.Decision
	// Do decides on a request, see [sketchlimit.Request].
	Do(sketchlimit.Request) sketchlimit.Decision
	// Charge consumes n units whether they fit or not, and returns how many were not
	// free. The key may then be above its limit; units above it count against later
	// requests by the rule of the algorithm. n below 1 consumes nothing.
	Charge(now time.Time, key string, n int) (over int)
	// DoCharge is Charge for a Request: its time is that of the clock if it is not set.
	// With Peek it consumes nothing.
	DoCharge(sketchlimit.Request) (over int)
	// Reset forgets the key: it has its whole quota back. It reports whether the key
	// was held.
	Reset(key string) bool
	// All yields the keys that have used some of their quota, in no order, with what
	// Peek says of each. It copies a part of the keys at a time (up to 128 parts), with
	// that part locked. Decisions go on meanwhile.
	All() iter.Seq2[string, sketchlimit.Decision]
	// Keys returns how many keys are held: those with something to remember, and
	// those that the next sweeps will drop.
	Keys() int
	// Held returns Keys, and what MaxKeys has done.
	Held() Held
	// Stats returns the units that were admitted and denied, as a [sketchlimit.Limiter]
	// counts them. DistinctKeys is Keys, and what is about the error of sketches is 0.
	Stats() sketchlimit.Stats
	// Counters returns a Stats without DistinctKeys.
	Counters() sketchlimit.Stats
	// MemoryBytes returns the memory of the limiter and of its keys, but for the logs
	// of a SlidingLog and the rings of Slots.
	MemoryBytes() int
	// Window returns the span that the limit is meant for.
	Window() time.Duration
	// LowestLimit returns the lowest Request.Limit above 0 that a request may come
	// with, 0 if that is the limit itself.
	LowestLimit() int
}
