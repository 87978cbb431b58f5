// Command fourways shows what limiters do when an attacker rotates through an IPv6 /48,
// beside each other and live: how much memory they take, how much of the attack passes,
// and how many innocent clients they refuse.
//
//	go run -C examples ./fourways
//
// It takes a minute, tells where its page is, and prints a table at the end. Each
// limiter is in a process of its own, and gets the same requests at the same times.
// Clients are told apart as [httprate.KeyByIP] does, and httplimit: an IPv6 client is
// its /64. So the /48 is 65,536 clients, which come in turn.
package main
