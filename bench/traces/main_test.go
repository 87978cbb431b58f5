package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Every plan reaches its goal with seeds that the tuner has not seen, and errs as its replays have shown.
func TestTraces(t *testing.T) {
	if testkit.Slowdown > 1 {
		t.Skip("much to compute: without the race detector")
	}
	var b strings.Builder
	traces(&b, "../../tune/testdata", "", true)
	require.Equal(t, 2+2*4*3*2, strings.Count(b.String(), "\n"))
	require.NotContains(t, b.String(), "false")
}
