package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table in the README is what New takes, but for some bytes that a limiter takes whatever its size.
func TestReadmeIsCurrent(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), begin)
	written, _, _ := strings.Cut(rest, end)
	table, err := sizing()
	require.NoError(t, err)
	got, want := strings.Fields(written), strings.Fields(table)
	require.Len(t, got, len(want), "make sizing")
	for i := range want {
		if n, err := strconv.ParseFloat(want[i], 64); err == nil {
			m, err := strconv.ParseFloat(got[i], 64)
			require.NoError(t, err, "make sizing")
			require.InEpsilon(t, n, m, 0.03, "make sizing")
		} else {
			require.Equal(t, want[i], got[i], "make sizing")
		}
	}
}

func TestInUnits(t *testing.T) {
	for bytes, want := range map[int]string{9728: "9.5 KiB", 999 * 1024: "999 KiB", 1000 * 1024: "1.0 MiB", 123 << 20: "123 MiB", 7 << 30: "7.0 GiB"} {
		require.Equal(t, want, inUnits(bytes))
	}
}
