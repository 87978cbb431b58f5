// Package stress tries limiters harder than tests of their own package can: it holds
// what goroutines see against a sequential limiter, by the linearizability checker
// porcupine, and has three programs: soak keeps a limiter under load for minutes,
// adversary tries to make limiters, groups and shares break what they promise, and
// attack has a chosen client denied.
package stress
