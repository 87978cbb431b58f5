package testkit

import "testing"

// NeedsLong skips a test that takes long, unless it is built with the tag "long" or
// "rows". "make long" and "make rows" run all of them.
func NeedsLong(t testing.TB) {
	t.Helper()
	if !Long {
		t.Skip("takes long: go test -tags rows")
	}
}

// Computes skips a test of one goroutine that computes for seconds, where that finds
// nothing or takes too long: under the race detector, and by -short.
func Computes(t testing.TB) {
	t.Helper()
	if Race || testing.Short() {
		t.Skip("one goroutine that computes for seconds: without -race and -short")
	}
}

// OneGoroutine skips a test under the race detector, which finds nothing where one
// goroutine computes for seconds. Without it the test runs in full, by -short as well.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine that computes for seconds: without -race")
	}
}

// Weighs skips a test that holds a process' memory against a bound under the race
// detector, which multiplies it.
func Weighs(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("holds memory against a bound: without -race")
	}
}

// Some returns the first n rows of a table of cases, and all of them in tests that are
// built with the tag "long" or "rows".
func Some[T any](n int, rows []T) []T {
	if Long {
		return rows
	}
	return rows[:n]
}
