// Command peers sends the same keys through this library and through other limiters,
// and writes what a decision costs each of them as a table; and it draws how long the
// decisions of this library take, one by one, while its window turns.
//
//	go run -C bench/peers . -write ../../notes/tables/peers.md -plot ../../notes/tables/latency.png
package main
