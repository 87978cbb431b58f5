//go:build !race

package racing

// Slowdown is 1 without the race detector.
const Slowdown = 1
