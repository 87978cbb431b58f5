package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// The table in docs/sizing.md is what New takes, but for some bytes that a limiter
// takes whatever its size.
func TestSizingPageIsCurrent(t *testing.T) {
	text, err := os.ReadFile("../../docs/sizing.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), begin)
	written, _, _ := strings.Cut(rest, end)
	table, err := sizingTable()
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

// bytesAKey matches "2.1 at 100".
var bytesAKey = regexp.MustCompile(`([0-9.]+)\sat\s([0-9,]*[0-9])`)

// The README says what New takes for each of a million keys at the default rate.
func TestReadmeBytesAKey(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, sentence, _ := strings.Cut(string(text), "Bytes a key by the limit: ")
	sentence, _, found := strings.Cut(sentence, ". ")
	require.True(t, found)
	stated := bytesAKey.FindAllStringSubmatch(sentence, -1)
	require.NotEmpty(t, stated)
	for _, m := range stated {
		limit, err := strconv.Atoi(strings.ReplaceAll(m[2], ",", ""))
		require.NoError(t, err)
		_, n, err := sketchlimit.Config{Limit: limit, Window: time.Minute, Keys: 1_000_000}.Size()
		require.NoError(t, err)
		require.Equal(t, m[1], fmt.Sprintf("%.2g", float64(n)/1e6), "limit %d", limit)
	}
}

// The README says what the limiter of its example takes.
func TestReadmeExampleSize(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	m := regexp.MustCompile(`It takes ([0-9.]+) MiB`).FindStringSubmatch(string(text))
	require.NotNil(t, m)
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Minute, Keys: 1_000_000, MaxMemoryBytes: 64 << 20, Overload: sketchlimit.DenyProven,
	})
	require.NoError(t, err)
	require.Equal(t, m[1], fmt.Sprintf("%.1f", float64(limiter.MemoryBytes())/(1<<20)))
}

func TestInUnits(t *testing.T) {
	for bytes, want := range map[int]string{9728: "9.5 KiB", 999 * 1024: "999 KiB", 1000 * 1024: "1.0 MiB", 123 << 20: "123 MiB", 1 << 30: "1.0 GiB"} {
		require.Equal(t, want, inUnits(bytes))
	}
}
