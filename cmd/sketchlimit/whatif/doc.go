// Package whatif tells, from a log of requests, what a range of limits and windows
// would have refused.
//
//	a, err := whatif.New(whatif.Options{})
//	...
//	a.Add(batch) // again and again, in the order of the log
//	...
//	report := a.Report()
//
// It reads the log once, in bounded memory. A limit decides as the library's default
// algorithm does: by a sliding window of two weighted generations, in which only
// admitted units count (exact.SlidingWindow).
//
// # How it counts
//
// Until a limit refuses a key something, the key has used what it has asked for,
// whatever the limit. So for each window one table holds what keys ask for, and one
// table for each limit holds only what it has refused. A light key touches one entry a
// window.
//
// As long as the tables have room for the keys of two generations, all counts are
// exact, up to 64-bit hashes that are alike. After that they are estimates:
//
//   - Keys that ask for much in a window, or send much of the whole log, are followed as before. A count-min sketch tells
//     when a key begins to ask for much.
//   - Of the light keys some are followed, drawn by their hash. Each stands for 2, 4, 8 … keys. A limit begins with that
//     on its own when its table is full, and a window when its table of keys is.
//
// Every estimate has an Error, which is 0 where it is exact. It covers five standard
// deviations of what drawn keys stand for, what was unknown of keys when they grew
// heavy, and every request that may have been decided the other way because the sketch
// read too much.
//
// Options.Exact takes as much memory as all keys need, and has no errors.
package whatif
