package main

import (
	"context"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A bench of a row within the plan plays, and writes its page and its picture.
func TestEverythingEndToEnd(t *testing.T) {
	dir := t.TempDir()
	file, picture := filepath.Join(dir, "overload.md"), filepath.Join(dir, "overload.png")
	document := "# Overload\n\n<!-- overload:begin -->\nstale\n<!-- overload:end -->\nend\n"
	require.NoError(t, os.WriteFile(file, []byte(document), 0o644))
	b := &bench{
		rows:  []row{{load: 1, abusers: 0.01, times: 3, start: 30}, {load: 1, abusers: 0.001, times: 3, start: 70}},
		scale: 1. / 1024, seeds: 1, workers: 2, ctx: t.Context(), progress: io.Discard,
	}
	var out strings.Builder
	require.NoError(t, b.report("here and now\n", file, picture, &out))
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(written)
	assert.True(t, strings.HasPrefix(text, "# Overload\n\n<!-- overload:begin -->\nhere and now\n\n"+
		"![Innocents denied and abusers' excess by load](overload.png)\n"), text)
	assert.True(t, strings.HasSuffix(text, "\nEverything is as promised.\n<!-- overload:end -->\nend\n"), text)
	assert.NotContains(t, text, "stale")
	assert.NotContains(t, text, "NaN")
	for i := range len(ours) + len(peers) {
		plain, bold := strings.Count(text, "| "+nameOf(i)+" |"), strings.Count(text, "| **"+nameOf(i)+"** |")
		assert.Equal(t, len(b.rows), plain+bold)
	}
	assert.Contains(t, text, "| ×1 by keys, 0.1 % ask 3 ×, from 70 % (")
	assert.Contains(t, text, out.String())
	drawn, err := os.Open(picture)
	require.NoError(t, err)
	defer drawn.Close()
	decoded, err := png.Decode(drawn)
	require.NoError(t, err)
	assert.Equal(t, 1000, decoded.Bounds().Dx())
}

// Results do not depend on which run ends first.
func TestSameSeedsSameResults(t *testing.T) {
	rows := []row{{kind: byCosts, load: 2, abusers: 0.001, times: 3}}
	b := &bench{rows: rows, scale: 1. / 1024, seeds: 2, workers: 2, ctx: t.Context(), progress: io.Discard}
	first, err := b.play()
	require.NoError(t, err)
	b.workers = 1
	again, err := b.play()
	require.NoError(t, err)
	for i := range first {
		for l := range first[i].outcomes {
			for seed := range first[i].outcomes[l] {
				x, y := first[i].outcomes[l][seed], again[i].outcomes[l][seed]
				assert.Equal(t, x.denied, y.denied)
				assert.Equal(t, x.excess, y.excess)
			}
		}
	}
}

// Who interrupts a bench gets the seeds that all rows have played.
func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	rows := []row{{load: 1, abusers: 0.01, times: 3}, {load: 1, abusers: 0.001, times: 3}}
	ended := 0
	b := &bench{rows: rows, scale: 1. / 1024, seeds: 9, workers: 1, ctx: ctx, progress: writer(func() {
		if ended++; ended == 5 {
			interrupt()
		}
	})}
	results, err := b.play()
	require.NoError(t, err)
	assert.Equal(t, 2, b.seeds)
	for _, r := range results {
		assert.Len(t, r.outcomes[0], 2)
		assert.NotZero(t, r.outcomes[1][1].innocents[late])
	}
	_, err = b.play()
	assert.ErrorContains(t, err, "interrupted")
}

// writer calls a function for each line.
type writer func()

func (w writer) Write(line []byte) (int, error) { w(); return len(line), nil }

func TestFailsBeforeItMeasures(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "bare.md")
	require.NoError(t, os.WriteFile(bare, []byte("# Overload\n"), 0o644))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-write", bare}, "marker <!-- overload:begin -->: found 0 times"},
		{[]string{"-write", bare + "none"}, "no such file"},
		{[]string{"-scale", "2"}, `scale "2", must be 1/1024 … 1`},
		{[]string{"-scale", "1/0"}, `scale "1/0", must be 1/1024 … 1`},
		{[]string{"-scale", "x"}, `scale "x", must be 1/1024 … 1`},
		{[]string{"-only", "×3"}, `only "×3", must be part of a row's name`},
		{[]string{"-seeds", "0"}, "seeds, workers and bursts must be at least 1"},
		{[]string{"-abusers-burst", "0"}, "seeds, workers and bursts must be at least 1"},
		{[]string{"file"}, `unexpected argument "file"`},
	} {
		var out, progress strings.Builder
		assert.ErrorContains(t, execute(c.args, &out, &progress), c.want)
		assert.Empty(t, out.String()+progress.String())
	}
	scale, err := fraction("1/16")
	require.NoError(t, err)
	assert.InDelta(t, 0.0625, scale, 0)
}
