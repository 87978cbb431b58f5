// Command sketches holds a tournament: sketches of the literature, each used as a rate
// limiter in the same memory, beside this library and judged by an exact limiter.
//
//	go run -C bench/peers ./sketches -write ../../notes/tables/sketches.md -plot ../../notes/tables/sketches.png
//
// By file:
//
//	contestants.go  what a contestant is, and all of them
//	countmin.go, conservative.go, salsa.go, tower.go, coldfilter.go, elastic.go, heavykeeper.go, pyramid.go, reliable.go,
//	cuckoo.go       the sketches, one a file, and library.go for this library
//	cells.go        arrays of small counters; entries.go arrays of fingerprints with counters; hash.go draws from hashes
//	limiter.go      a sketch as a limiter of fixed or sliding windows
//	load.go         streams of requests
//	judge.go        exact counts, and what a limiter gets wrong
//	tournament.go   the search for settings, then the rounds; timing.go measures the time of a decision
//	table.go        the tables; plot.go the picture; main.go the command
package main
