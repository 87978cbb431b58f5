// Package engine decides. A sketchlimit.Limiter is a face over it: an engine knows hashes
// instead of keys, positions in generations instead of a clock, and memory of fixed
// dimensions.
//
// # Model
//
// Time is cut into generations of one length ([rotating.Timeline]). A window keeps the
// last few: one if it is fixed, two if it is sliding, one more than its sub-windows
// otherwise. A token bucket has generations too, only to bring its times forward.
//
// An [Engine] is shards. A key's hash chooses its shard. A shard is one mutex over plain
// memory, and fills one cache line. Its memory has, in this order:
//
//   - for each generation that is kept, by [rotating.Ring], a Bloom filter
//     (bloom.Layout, the door) and a count-min sketch (cms.Layout, the cells)
//   - one table of heavy hitters ([heavyhitter.Table]), larger where the limiter denies only proven keys over capacity
//   - the words of a mode: the state of a shard that may be over capacity, or the one time of a
//     bucket that is kept without rounding
//
// A token bucket has one table of fingerprints and times ([timetable.Layout]) instead,
// and the words of its state.
//
// # Invariants
//
//   - Errors are one-sided: false denials. A key's estimate is never below what was admitted of it: counters, entries and
//     times are upper bounds, and arithmetic rounds against the request. So nothing is
//     over-admitted. The exception is a shard over capacity, which the operator chose: it
//     denies by lower bounds.
//   - Check and count are one critical section of the key's shard. What decides without the lock can only deny.
//   - Only admitted units count. A denial changes statistics, the denial cache, and what an
//     entry was offered, which only a shard over capacity reads.
//   - Nothing is allocated by a decision, and all memory is made by [New].
//   - The current generation of a shard never goes back. A position behind it is taken as
//     its first instant.
//   - Given the seed, positions and hashes, decisions are reproducible.
//
// The two claims that the hottest path rests on stand at [Engine.Consume]; a build with
// the tag invariants asserts them.
//
// # The way of a request
//
// [Engine.Remembers], or [Engine.Take], looks into the denial cache of the shard (package
// denycache), which needs no lock: a key that had nothing left is denied again until a
// unit comes free, unless something was counted in the shard since. [Engine.Consume] then
// locks the shard. Most keys of a window have no entry, come in the shard's current
// generation and are admitted: for them it bounds the older generations by a peak, or
// reads them, then reads and raises the current counters in one pass. All others go on to
// request.settle: it rotates the shard if a generation has begun, and asks the
// [algorithm], which reads what it needs, decides, and counts (window.add) or refuses
// (window.refuse). A key whose count reaches the threshold gets an entry in the
// table of heavy hitters if it stands out from the noise and its bucket of that table has
// room, and from then on fills no counters. If the bucket is full, nothing is evicted:
// the key stays in the counters, where it adds to others' estimates. Only a shard over
// capacity evicts.
//
// Allow remembers a key in the denial cache at its second denial in a row, Take at the
// first. Keys that the audit counts are never remembered: each of their decisions takes
// the lock.
//
// [Engine.Peek] decides the same and counts nothing. [Engine.Charge] counts without
// asking, at most the limit of a key in a generation. [TakeAll] locks the shards of
// several keys, rotates them, peeks at all, and takes from all or none.
//
// # Rotation
//
// A shard rotates in request.rotate, when it is next asked in a later generation: by a
// decision, a group (TakeAll), a budget (Fits, Charge), or whoever holds shards
// (Shards.Hold); a [Copy] rotates for itself. The denial cache is not cleared: what it
// holds ends by its own time. What expires then has its call in window.rotateWindow:
// filters and sketches, the table, the counters of others, and the state of a shard that
// may be over capacity. A bucket's times are brought forward in buckets.rotate. A
// predecessor is let go of as a whole, by [Engine.LetGo].
//
// # Counts elsewhere
//
// A key may have counts beside those of its engine: in a predecessor, while an engine
// that grew has not met as many generations as are kept, or in the counters of others
// that share the limit (package shared). Both are [External] counts, which are added to
// every estimate. An engine has one of both at most.
//
// # Handing over
//
// An engine has a successor when it has grown ([Engine.Replace]) or got another limit
// ([Engine.Succeed]). A successor by growth has memory of its own, and counts what has
// come since; one of another limit has the same memory and locks. A decision looks for a
// successor after it has locked its shard, and goes on there: once a successor has read a
// shard, nothing is counted in it by the engine of before. A predecessor by growth is
// read until as many generations have begun as are kept; growth.Growth then calls
// [Engine.LetGo].
//
// # Locks
//
// A goroutine that holds a lock waits only for locks that come later in this order:
//
//  1. that of a growth.Growth, which is held while shards are read and a successor is
//     made
//  2. a shard of a budget; one at most, another one only by TryLock
//  3. shards of limiters: of several limiters by the limiters' numbers, of one engine
//     by the shards' indices. Only [TakeAll] holds several; all others hold one
//  4. the shard of the key in the predecessor of the engine, by a decision on one key
//     that finds the predecessor not sealed yet
//  5. the state of a limiter that is over capacity, [overcapacity.Episodes]; a part of the
//     counters of others (package shared); a set of keys of the audit. None of these waits for
//     another
//
// Locks of limiters of package exact come before all limiters' shards where a group has
// both.
//
// A predecessor is sealed once all who may still change it have left its shards: from
// then on it is read without locks. [TakeAll] seals those that it meets before it locks
// anything, and begins again if an engine was replaced meanwhile. So it holds no lock of
// the fourth kind, which has no place among those of several limiters.
//
// Nothing calls out while it holds a shard's lock but Episodes.Grow, which must not wait.
// A build with the tag invariants asserts the order, see package invariants.
//
// # Around it
//
// Package spec says what an engine limits and what it is made of. These see its shards
// from above: growth, which replaces engines; stats, which reads them; savestate, which
// writes and restores them; shared, the counters of a limit that several hold. They copy
// a shard or hold its lock through [Copy] and [Shards].
//
// # Files
//
//	layout.go       shard, and where things lie in its memory
//	engine.go       Engine, request, algorithm; External, counts elsewhere
//	shard.go        a request's place in its shard's memory, and fetches its lines
//	rotate.go       rotates what a shard keeps by generations
//	read.go         reads what a key has used in a window
//	enter.go        counts a key, and decides whether it gets an entry
//	proven.go       decides over capacity by the table alone, and when
//	fresh.go        the chance that an unseen key is denied, by a sample
//	claims.go       asserts in a test build what decisions rely on
//	window.go       decides, peeks, charges and rotates in a window
//	bucket.go       the same in a token bucket, whose arithmetic is in package gcra
//	decide.go       rotates a shard, and asks its algorithm
//	new.go          makes engines
//	take.go         the calls of an Engine; Consume is first, which most requests end in
//	charge.go       counts what was used without asking, for budgets
//	group.go        asks several engines in one step
//	audit.go        what is told of keys that package audit counts exactly as well
//	external.go     counts of a predecessor
//	replace.go      replaces an engine by a larger or smaller one
//	succeed.go      replaces an engine by one of another limit in the same memory
//	copy.go         copies of shards, which decisions do not wait for
//	shards.go       shards, for those who save, restore and share them
package engine
