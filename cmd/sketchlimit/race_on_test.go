//go:build race

package main

// The race detector makes the exact counts ten times as slow, and needs no more of them
// than a sample of the keys.
const embeddedAbove = 20_000

// raced tells that predictions, one goroutine each, take ten times as long for nothing.
const raced = true
