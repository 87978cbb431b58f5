//go:build race

package ginlimit_test

const raceEnabled = true
