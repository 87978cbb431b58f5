//go:build long

package testkit

// Divisor is by how much statistical tests are smaller than at full size.
const Divisor = 1
