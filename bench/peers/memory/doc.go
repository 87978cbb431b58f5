// Command memory draws the picture of the README: what limiters take by the number of
// their keys, and what they do in an attack.
//
//	go run -C bench/peers ./memory -plot ../../docs/memory.png
//
// It measures nothing itself. This library's curve is Config.Size. The bytes a key of
// other limiters stand in notes/tables/peers.md, which `go run -C bench/peers .`
// writes, and the attack in notes/fourways.md, whose figures `go run -C
// examples/fourways .` prints. It prints the picture's description, which the README
// has as its alternative text.
package main
