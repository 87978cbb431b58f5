//go:build race

package main

// raced tells that predictions, one goroutine each, take ten times as long for nothing, and reports do.
const raced = true
