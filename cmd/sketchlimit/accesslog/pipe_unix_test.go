//go:build unix

package accesslog

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// piped is a named pipe that a text is written to once.
func piped(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	go func() {
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString(text)
			_ = f.Close()
		}
	}()
	return path
}

// TestPipesAreReadWhole: a pipe can be opened only once; what is read of it to find the
// format is not lost.
func TestPipesAreReadWhole(t *testing.T) {
	text := strings.Join(logLines(20_000), "\n") + "\n"
	half := strings.Index(text[len(text)/2:], "\n") + len(text)/2 + 1
	_, want := read(t, Options{Cost: "bytes"}, write(t, "access.log", text))
	require.Len(t, want, 20_000)
	for name, paths := range map[string][]string{
		"plain":             {piped(t, text)},
		"gzip":              {piped(t, gzipped(t, text))},
		"zstd":              {piped(t, zstandard(t, text))},
		"two":               {piped(t, text[half:]), piped(t, text[:half])},
		"with a file":       {piped(t, text[half:]), write(t, "1.log", text[:half])},
		"with an empty one": {piped(t, ""), piped(t, text)},
	} {
		l, err := Open(paths, nil, Options{Cost: "bytes"})
		require.NoError(t, err, name)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		n := 0
		require.NoError(t, l.Read(ctx, func(b Batch) error { n += len(b.Requests); return nil }), name)
		stop()
		assert.Equal(t, 20_000, n, name)
		assert.Zero(t, l.Size(), name)
		assert.Equal(t, name == "with an empty one", len(l.Empty) == 1, name)
	}
}
