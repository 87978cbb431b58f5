//go:build race

package frameworks

const keys = 20_000 // the detector takes ten times as long
