package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0049: "0", 0.243: "0.24", 0.949: "0.95", 0.96: "1.0", 7.62: "7.6", 19.94: "19.9", 20.4: "20", 152.3: "152"} {
		assert.Equal(t, want, number(v))
	}
	for v, want := range map[float64]string{38: "38 ns", 620: "620 ns", 1510: "1.5 µs", 1.24e6: "1.2 ms", 6e9: "6.0 s"} {
		assert.Equal(t, want, nanoseconds(v))
	}
	assert.Equal(t, "1e6", count(1e6))
	assert.Equal(t, "25e4", count(250_000))
	assert.Equal(t, "4 MiB", mebibytes(4<<20))
	assert.Equal(t, "1 GiB", mebibytes(1<<30))
}
