//go:build !race

package testkit

// Slowdown is 1 without the race detector.
const Slowdown = 1
