package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplaceChangesNothingElse(t *testing.T) {
	before := "# Title\n\n<!-- peers:begin -->\nold\n<!-- peers:end -->\ntext\n<!-- latency:begin --><!-- latency:end -->\nend"
	after, err := replace([]byte(before), "peers", "| a |\n")
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n<!-- peers:begin -->\n| a |\n<!-- peers:end -->\ntext\n<!-- latency:begin --><!-- latency:end -->\nend", string(after))
	after, err = replace(after, "latency", "b\n")
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n<!-- peers:begin -->\n| a |\n<!-- peers:end -->\ntext\n<!-- latency:begin -->\nb\n<!-- latency:end -->\nend", string(after))
	again, err := replace(after, "latency", "b\n")
	require.NoError(t, err)
	assert.Equal(t, string(after), string(again))
}

func TestReplaceNeedsItsMarkers(t *testing.T) {
	for document, want := range map[string]string{
		"":                     "marker <!-- peers:begin -->: found 0 times, must be there once",
		"<!-- peers:begin -->": "marker <!-- peers:end -->: found 0 times, must be there once",
		"<!-- peers:begin --><!-- peers:begin --><!-- peers:end -->":   "marker <!-- peers:begin -->: found 2 times, must be there once",
		"<!-- peers:end --><!-- peers:begin -->":                       "marker <!-- peers:end -->: must come after <!-- peers:begin -->",
		"<!-- latency:begin --><!-- latency:end --><!-- peers:end -->": "marker <!-- peers:begin -->: found 0 times, must be there once",
	} {
		_, err := replace([]byte(document), "peers", "text")
		assert.EqualError(t, err, want, "%q", document)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0049: "0", 0.243: "0.24", 0.949: "0.95", 0.96: "1.0", 7.62: "7.6", 19.94: "19.9", 20.4: "20", 152.3: "152"} {
		assert.Equal(t, want, number(v))
	}
	for v, want := range map[float64]string{38: "38 ns", 620: "620 ns", 1510: "1.5 µs", 1.24e6: "1.2 ms", 6e9: "6.0 s"} {
		assert.Equal(t, want, nanoseconds(v))
	}
	assert.Equal(t, "1e6", count(1e6))
	assert.Equal(t, "25e4", count(250_000))
	assert.Equal(t, "1,000,000", grouped(1e6))
	assert.Equal(t, "60,000", grouped(60_000))
	assert.Equal(t, "4 MiB", mebibytes(4<<20))
	assert.Equal(t, "1 GiB", mebibytes(1<<30))
}
