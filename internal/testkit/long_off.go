//go:build !long && !rows

package testkit

// Long reports whether statistical tests run in all their cases.
const Long = false
