package main

import (
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const document = `# Performance

<!-- peers:begin -->
<!-- peers:end -->

Between.

<!-- latency:begin -->
stale
<!-- latency:end -->
`

func TestEverythingEndToEnd(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "performance.md")
	require.NoError(t, os.WriteFile(file, []byte(document), 0o644))
	var out strings.Builder
	r := report{
		scale: scale{
			rounds: 2, few: size{10_000, 1 << 20, 10_000, time.Hour}, many: size{20_000, 1 << 20, 10_000, time.Hour},
			latencies: []size{{keys: 10_000, memory: 1 << 20, window: time.Hour}, {keys: 20_000, memory: 2 << 20, window: time.Hour}},
			passes:    2, timed: 20_000, turning: 10 * time.Millisecond,
		},
		head: "here and now\n", write: file, plot: filepath.Join(dir, "latency.png"),
		out: &out, progress: io.Discard,
	}
	require.NoError(t, r.make(true, true))

	written, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(written)
	assert.True(t, strings.HasPrefix(text, "# Performance\n\n<!-- peers:begin -->\nhere and now\n\n| limiter | 1e4 keys | 2e4 keys |"), text)
	assert.Contains(t, text, "\n<!-- peers:end -->\n\nBetween.\n\n<!-- latency:begin -->\nhere and now\n\n![Latency of decisions by percentile](latency.png)\n")
	assert.NotContains(t, text, "stale")
	for _, i := range implementations {
		assert.Equal(t, 1, strings.Count(text, i.title()+" |")+strings.Count(text, i.title()+"** |"), i.name)
	}
	assert.Equal(t, 1, strings.Count(text, "| **sketchlimit** | 1.0 / 1.0 × ("))
	assert.Contains(t, text, "| 2 MiB, 2e4 keys |")
	assert.Contains(t, text, "| the timer alone |")
	assert.NotContains(t, text, "NaN")
	assert.Contains(t, out.String(), "| the timer alone |")

	picture, err := os.Open(filepath.Join(dir, "latency.png"))
	require.NoError(t, err)
	defer picture.Close()
	drawn, err := png.Decode(picture)
	require.NoError(t, err)
	assert.Equal(t, 1440, drawn.Bounds().Dx())
}

func TestFailsBeforeItMeasures(t *testing.T) {
	dir := t.TempDir()
	bare := filepath.Join(dir, "bare.md")
	require.NoError(t, os.WriteFile(bare, []byte("# Performance\n"), 0o644))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-write", bare}, "marker <!-- peers:begin -->: found 0 times"},
		{[]string{"-peers=false", "-write", bare}, "marker <!-- latency:begin -->: found 0 times"},
		{[]string{"-write", filepath.Join(dir, "none.md")}, "no such file"},
		{[]string{"file"}, `unexpected argument "file"`},
	} {
		var out, progress strings.Builder
		assert.ErrorContains(t, execute(c.args, &out, &progress), c.want)
		assert.Empty(t, out.String()+progress.String())
	}
	left, err := os.ReadFile(bare)
	require.NoError(t, err)
	assert.Equal(t, "# Performance\n", string(left))
}
