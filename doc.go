// Package sketchlimit limits requests per key for millions of keys in memory that is
// fixed when the limiter is built: two bytes a key at a limit of 100, where an entry
// for each key takes about a hundred.
//
//	limiter, err := sketchlimit.New(sketchlimit.Config{
//		Limit: 100, Window: time.Minute, Keys: 1_000_000,
//	})
//	...
//	if !limiter.Allow(userID) { ... 429 ... }
//
// For client addresses in front of net/http use package httplimit, which knows IPv6
// prefixes and proxies. Package tune finds dimensions for known traffic, inflight
// limits concurrency, topkeys finds the keys that are refused the most, waiting lets
// callers wait for their turn, and exact has the algorithms without sketches, for few
// keys.
//
// # Model
//
// Time is cut into generations of one window each. Each generation has a count-min
// sketch with bounded conservative updates, whose cells begin narrow and widen as they
// fill. A key with many units, a heavy hitter, moves into a small table; there it no
// longer fills cells that others share. A Bloom filter counts the distinct keys; where
// the limit is very low it holds them all and is asked first. The current generation
// and the previous one are kept. A sliding window weighs the previous one by the part
// of it that the last window still covers:
//
//	      previous generation          current generation
//	|----------------------------|----------------------------|
//	              [=========== the last window ==========]
//	                                                    now
//	count = previous × (1 − elapsed/window) + current
//
// When a generation ends, its buffer is cleared and becomes the next current one. Each
// generation hashes with a seed of its own: two keys that share cells do so for one
// window only. A TokenBucket has a table of fingerprints and times instead, in which a
// key has an entry while its bucket is not full.
//
// # Guarantees
//
//   - Never an over-admission: for every key, what the limiter admits satisfies the
//     exact definition of its [Algorithm], whatever the concurrency. Check and count
//     are one step under the lock of the key's shard. With [Config.Overload] [DenyProven],
//     heavy hitters may get more while more comes than the memory is for;
//     Stats().OverCapacity has when, and how much at most over all keys.
//   - The error is known: it is denials only. [Limiter.Stats] returns the chance of one
//     for an unseen key, computed from every cell, and an exact count of a sample of
//     the keys.
//   - Memory is fixed: [Limiter.MemoryBytes] is true from construction on, and a
//     decision allocates nothing. With [Config.MaxMemoryBytes] it grows with the load,
//     up to that bound.
//   - Time is an argument, of [Limiter.TakeAt] and in [Request]. Calls without it read
//     a clock that is late by a millisecond at most while the scheduler keeps up. See
//     [WindowManager] for that and for clocks that step.
//   - Only admitted units count. A flood of denied requests changes nothing.
//   - The same seed, keys and times give the same decisions.
//
// # Attackers and restarts
//
// Clients may choose the bytes of their keys: without the seed, two keys count as one
// by chance only, see [KeyedHash]. [Limiter.Save] and [Limiter.Load] carry what clients
// have used over a restart.
//
// # Sources
//
// The weighted window is described by Cloudflare ("How we built rate limiting capable
// of scaling to millions of domains", 2017); count-min sketches by Cormode and
// Muthukrishnan (2005); conservative updates by Estan and Varghese (2002); cells that
// widen by Ben Basat, Einziger, Mitzenmacher and Vargaftik (SALSA, 2021); Bloom filters
// by Bloom (1970), in blocks by Putze, Sanders and Singler (2007).
package sketchlimit
