//go:build !race

package frameworks

const keys = 1_000_000
