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

// A bench in parts comes to the same as one in one piece, and plays nothing twice.
func TestPlayedInParts(t *testing.T) {
	rows := []row{{load: 1, abusers: 0.01, times: 3}, {load: 1, abusers: 0.001, times: 3}}
	file := filepath.Join(t.TempDir(), "runs")
	play := func(rows []row, seeds int, stored *store) ([]result, *bench) {
		b := &bench{rows: rows, scale: 1. / 1024, seeds: seeds, workers: 1, ctx: t.Context(), progress: io.Discard, stored: stored}
		results, err := b.play()
		require.NoError(t, err)
		return results, b
	}
	again := func() *store {
		s, err := openStore(file)
		require.NoError(t, err)
		t.Cleanup(func() { s.file.Close() })
		return s
	}
	play(rows[:1], 1, again())
	play(rows[1:], 2, again())
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, 3, strings.Count(string(before), "\n"))
	results, b := play(rows, 2, again())
	whole, _ := play(rows, 2, nil)
	text, _ := b.text(results)
	want, _ := b.text(whole)
	assert.Equal(t, want, text)
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, 4, strings.Count(string(after), "\n"))

	alone := &bench{rows: rows[:1], scale: 1. / 1024, seeds: 1, alone: true, workers: 1, ctx: t.Context(), progress: io.Discard, stored: again()}
	results, err = alone.play()
	require.NoError(t, err)
	assert.Len(t, results[0].outcomes, len(ours), "without the others that are kept")
	few := filepath.Join(t.TempDir(), "few")
	s, err := openStore(few)
	require.NoError(t, err)
	require.NoError(t, s.add(identity{rows[0].String(), 1. / 1024, 0}, results[0].outcomes[0]))
	require.NoError(t, s.file.Close())
	s, err = openStore(few)
	require.NoError(t, err)
	defer s.file.Close()
	_, ok := s.played(identity{rows[0].String(), 1. / 1024, 0}, len(ours))
	assert.False(t, ok, "fewer limiters than play now")

	require.NoError(t, os.WriteFile(file, after[:len(after)/2], 0o644))
	_, err = openStore(file)
	assert.ErrorContains(t, err, "unexpected end of JSON input")
}

// Who plays alone is not beside others.
func TestAlone(t *testing.T) {
	b := &bench{rows: []row{{load: 1, abusers: 0.01, times: 3}}, scale: 1. / 1024, seeds: 1, alone: true, workers: 1, ctx: t.Context(), progress: io.Discard}
	results, err := b.play()
	require.NoError(t, err)
	assert.Len(t, results[0].outcomes, len(ours))
	text, _ := b.text(results)
	assert.NotContains(t, text, peers[0].name)
}
