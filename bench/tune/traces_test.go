package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Every plan reaches its goal with seeds that the tuner has not seen, and errs as its
// replays have shown.
func TestTraces(t *testing.T) {
	testkit.NeedsLong(t)
	var b strings.Builder
	printTraces(&b, "../../tune/testdata", "")
	require.Equal(t, 2+2*4*3*2, strings.Count(b.String(), "\n"))
	require.NotContains(t, b.String(), "false")
}

// Plans for the first half of a trace reach their goals in the second.
func TestDays(t *testing.T) {
	testkit.NeedsLong(t)
	var b strings.Builder
	printDays(&b, "../../tune/testdata", "")
	require.Equal(t, 2+2*4*3, strings.Count(b.String(), "\n"))
	require.NotContains(t, b.String(), "false")
}
