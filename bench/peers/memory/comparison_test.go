package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The figures of docs/comparison.md are those of notes/tables/peers.md.
func TestComparisonShowsTheTable(t *testing.T) {
	written, err := rows("../../../notes/tables/peers.md")
	require.NoError(t, err)
	shown, err := rows("../../../docs/comparison.md")
	require.NoError(t, err)
	first := regexp.MustCompile(`\(([0-9.]+) / [0-9.]+\)`) // of one goroutine, or at 1e6 keys
	checked := 0
	for _, row := range shown {
		for _, from := range written {
			if row[0] != from[0] || len(row) != 5 || len(from) != 8 || !strings.Contains(from[1], "×") {
				continue
			}
			checked++
			for i, column := range []int{1, 3, 4, 5} {
				want := first.FindStringSubmatch(from[column])
				require.NotNil(t, want, from[column])
				require.Equal(t, want[1], row[i+1], "%s, column %d", row[0], i+1)
			}
		}
	}
	require.Equal(t, 6, checked)
}
