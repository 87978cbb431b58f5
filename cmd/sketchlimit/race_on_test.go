//go:build race

package main

// raced is true with the race detector. Predictions run in one goroutine each and take
// ten times as long with it, so their tests are left out; reports are tested.
const raced = true
