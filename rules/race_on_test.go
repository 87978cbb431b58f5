//go:build race

package rules_test

// Under the race detector a sync.Pool forgets at random what it is given.
const poolForgets = true
