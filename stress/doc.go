// Package stress tries limiters harder than tests of their own package can: it holds what
// goroutines see against a sequential limiter, by the linearizability checker porcupine, and
// has a program, soak, that keeps a limiter under load for minutes.
package stress
