//go:build !long

package testkit

// Long reports whether statistical tests run at full size.
const Long = false

// Divisor is by how much the default run makes statistical tests smaller.
const Divisor = 8
