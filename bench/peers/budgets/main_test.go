package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const trace = "../../../cmd/sketchlimit/data/mooncake.tsv.gz"

// The quick form plays every row, and writes its page.
func TestEverythingEndToEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "budgets.md")
	document := "# Budgets\n\n<!-- budgets:begin -->\nstale\n<!-- budgets:end -->\nend\n"
	require.NoError(t, os.WriteFile(file, []byte(document), 0o644))
	var out strings.Builder
	require.NoError(t, execute([]string{"-quick", "-trace", trace, "-write", file}, &out, io.Discard))
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(written)
	assert.Equal(t, "# Budgets\n\n<!-- budgets:begin -->\n"+out.String()+"<!-- budgets:end -->\nend\n", text)
	assert.Contains(t, text, "`go run -C bench/peers ./budgets -quick -trace ")
	assert.Contains(t, text, "Seeds: 1. Made-up traffic: 10,000 requests of 100 users in 10 windows of a minute.")
	assert.NotContains(t, text, "NaN")
	assert.NotContains(t, text, "Inf")
	for _, row := range table {
		from := strings.Index(text, "| "+row.name+" | **hold and settle** | ")
		require.Positive(t, from, row.name)
		lines := strings.Split(text[from:], "\n")
		for _, line := range lines[:3] {
			assert.Equal(t, 10, strings.Count(line, "|"), line)
		}
		if !strings.Contains(row.spec, "most=") {
			assert.Contains(t, lines[0], "| **hold and settle** | 0 | 0 | ", row.name)
			assert.True(t, strings.HasSuffix(lines[0], "| 0 |"), lines[0])
		}
		assert.True(t, strings.HasPrefix(lines[1], "|  | check, then debit | "), lines[1])
		assert.True(t, strings.HasPrefix(lines[2], "|  | debit afterwards | "), lines[2])
	}
}

func TestWrongUsage(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "bare.md")
	require.NoError(t, os.WriteFile(bare, []byte("# Budgets\n"), 0o644))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-seeds", "0"}, "seeds 0, must be at least 1"},
		{[]string{"all"}, `unexpected argument "all"`},
		{[]string{"-trace", "nowhere"}, "open nowhere"},
		{[]string{"-write", bare}, "marker <!-- budgets:begin -->: found 0 times"},
		{[]string{"-fast"}, "not defined: -fast"},
	} {
		var out strings.Builder
		assert.ErrorContains(t, execute(c.args, &out, io.Discard), c.want)
		assert.Empty(t, out.String())
	}
}

func TestShare(t *testing.T) {
	assert.Equal(t, []string{"0", "0.001 %", "0.12 %", "12.3 %"},
		[]string{share(0, 0), share(1, 100_000), share(123, 100_000), share(123, 1000)})
}
