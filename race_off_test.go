//go:build !race

package sketchlimit_test

const slowdown = 1
