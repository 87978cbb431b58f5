// Package engine decides. It is what a sketchlimit.Limiter is a face over: it knows hashes instead of keys, positions in
// generations instead of a clock, and memory of fixed dimensions.
//
// An [Engine] is shards. A shard is a mutex over plain memory, and everything under that lock is single-threaded
// code on a request: one key in one shard. By file:
//
//	engine.go       Engine and its calls: find the shard, lock, decide
//	dimensions.go   what an engine is made of, what is allowed, how many bytes it takes
//	layout.go       where things lie in a shard's memory
//	rule.go         the arithmetic of windows
//	bucketcells.go  the cells of token buckets, whose arithmetic is in package gcra; lastrounded.go keeps one time exact
//	take.go         decides in a window; takebucket.go in a bucket
//	read.go         reads a key in sketch, doorkeeper and heavy table
//	enter.go        counts a key, and decides whether it enters the table of heavy hitters, see package heavyhitter
//	lately.go       what requests have been like, which each core keeps, see package striped
//	rotate.go       rotates all that a shard keeps by generations
//	prefetch.go     fetches a key's cache lines
//	group.go        asks several engines in one step
//	share.go        counts of other nodes
//	growth.go       replaces an engine by a larger or smaller one
//	encode.go       writes snapshots; decode.go restores them; package savestate has the format
//	copy.go         copies of shards, from which stats.go, odds.go and strangers.go tell the error rate, with package errorrate
//	claims.go       asserts in a test build what decisions rely on
//
// # Locks
//
// A goroutine that holds a lock waits only for locks that come later in this order:
//
//  1. the Growth of a limiter, which is held while shards are read and a successor is made
//  2. a shard of a budget; one at most, another one only by TryLock
//  3. shards of limiters: of several limiters by the limiters' numbers, of one engine by the shards' indices. Only [TakeAll]
//     holds several; all others hold one, and with it at most one of its predecessor
//  4. the shard of the key in the predecessor of the engine
//  5. the state of a limiter that is over capacity, [Spare]
//
// A limiter with a Growth is in no group, so a lock of the fourth kind is held beside those of one shard alone. Nothing
// calls out while it holds a lock but Spare.Grow, which must not wait. A build with the tag invariants asserts the order,
// see package invariants.
package engine
