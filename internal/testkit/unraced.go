package testkit

import "testing"

// Unraced skips a test under the race detector, which has nothing to find in one goroutine, and takes ten times as long
// for it. "make unraced" runs it.
func Unraced(t testing.TB) {
	t.Helper()
	if Slowdown > 1 {
		t.Skip("one goroutine and much to compute: without the race detector")
	}
}
