//go:build race

package testkit

// Slowdown is how much less the single-threaded statistical tests do under the race
// detector, which slows them more than tenfold and has nothing to find in them.
const Slowdown = 8
