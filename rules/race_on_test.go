//go:build race

package rules_test

// Under the race detector a sync.Pool forgets at random what it is given, and what one
// goroutine computes takes ten times as long.
const raced = true
