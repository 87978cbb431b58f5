package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// output is what a process prints whose benchmarks take so long, all others 10 ns.
func output(ns map[string]float64) string {
	b := new(strings.Builder)
	for _, name := range names() {
		took := ns[name]
		if took == 0 {
			took = 10
		}
		fmt.Fprintf(b, "%s-2 \t 4000000\t %.2f ns/op\t 0 B/op\n", name, took)
	}
	return b.String()
}

// Ratios are those within one process: the machine may have been busy for all of it.
func TestTables(t *testing.T) {
	one, two := rows()[1].bench("4MiB", 1), rows()[1].bench("4MiB", 2)
	var turns []turn
	for _, busy := range []float64{1, 7, 3} {
		parsed, err := parse([]byte(output(map[string]float64{
			floorRow.bench("4MiB", 1): 40 * busy, one: 60 * busy, two: 30 * busy, control: 5 * busy, hot("Allow"): 9 * busy,
		})))
		require.NoError(t, err)
		turns = append(turns, parsed)
	}
	out := tables(turns)
	require.Contains(t, out, "| Allow, sliding | 180.0 | 1.50 | 2.00 | 10.0 | 1.00 | 1.00 |\n")
	require.Contains(t, out, "| control | 15.0 | 1.00 |\n| allow | 27.0 | 1.80 |\n")
}

func TestMissingResult(t *testing.T) {
	_, err := parse([]byte(strings.Replace(output(nil), control, "BenchmarkOther", 1)))
	require.ErrorContains(t, err, "no result of BenchmarkControl")
}
