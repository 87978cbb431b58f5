package main

import (
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const document = "# Sketches\n\n<!-- results:begin -->\nstale\n<!-- results:end -->\n\nAfter.\n"

func TestEverythingEndToEnd(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sketches.md")
	require.NoError(t, os.WriteFile(file, []byte(document), 0o644))
	tournament := &tournament{
		contestants: slices.Clone(literature), loads: loads[2:4], sizes: []int{8 << 10, 16 << 10}, divisor: 4 * testDivisor,
		windows: 2, search: []uint64{9}, seeds: []uint64{1, 2}, workers: 2, rounds: 3, progress: io.Discard,
	}
	for i := range tournament.contestants {
		c := &tournament.contestants[i]
		c.settings = c.settings[:2]
	}
	require.NoError(t, pin(tournament.contestants, "CU:3"))
	var out strings.Builder
	require.NoError(t, tournament.publish("here and now\n", file, filepath.Join(dir, "sketches.png"), &out))

	written, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(written)
	assert.True(t, strings.HasPrefix(text, "# Sketches\n\n<!-- results:begin -->\nhere and now\n\n![Errors by memory](sketches.png)\n"), text)
	assert.True(t, strings.HasSuffix(text, "\n<!-- results:end -->\n\nAfter.\n"), text)
	assert.NotContains(t, text, "stale")
	assert.NotContains(t, text, "NaN")
	for _, c := range literature {
		assert.Equal(t, 4, strings.Count(text, "| "+c.name+" | "), c.name)
	}
	assert.Equal(t, 4, strings.Count(text, "| CU | 3 |"))
	assert.Equal(t, 4, strings.Count(text, "| **sketchlimit** |"))
	assert.Contains(t, out.String(), text[strings.Index(text, "here and now"):strings.Index(text, "\n<!-- results:end")])

	picture, err := os.Open(filepath.Join(dir, "sketches.png"))
	require.NoError(t, err)
	defer picture.Close()
	drawn, err := png.Decode(picture)
	require.NoError(t, err)
	assert.Equal(t, 1720, drawn.Bounds().Dx())
}

func TestFailsBeforeItPlays(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "bare.md")
	require.NoError(t, os.WriteFile(bare, []byte("# Sketches\n"), 0o644))
	for want, args := range map[string][]string{
		"marker <!-- results:begin -->: found 0 times": {"-write", bare},
		"no such file":                                 {"-write", bare + "x"},
		`unexpected argument "file"`:                   {"file"},
		`size "x", must be 4 … 1048576 KiB`:            {"-sizes", "256,x"},
		"must be at least 1":                           {"-seeds", "0"},
		`contestant "nobody": unknown`:                 {"-pin", "nobody:1"},
		`setting "3,x", must be 2 numbers: rows, bits`: {"-pin", "SALSA:3,x"},
		`setting "3", must be 2 numbers: rows, bits`:   {"-pin", "SALSA:3"},
	} {
		var out strings.Builder
		assert.ErrorContains(t, execute(args, &out, io.Discard), want)
		assert.Empty(t, out.String())
	}
}
