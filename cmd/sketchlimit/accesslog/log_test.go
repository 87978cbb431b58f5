package accesslog

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRead reads the log that LOG names, or one of a hundred thousand lines.
func BenchmarkRead(b *testing.B) {
	path := os.Getenv("LOG")
	if path == "" {
		path = b.TempDir() + "/access.log"
		line := `10.1.2.3 - - [01/Nov/2026:00:00:00 +0000] "GET /item/1?from=search HTTP/1.1" 200 512 "https://shop.example/" "Mozilla/5.0"`
		require.NoError(b, os.WriteFile(path, []byte(strings.Repeat(line+"\n", 100_000)), 0o644))
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := Open([]string{path}, nil, Options{})
		require.NoError(b, err)
		b.SetBytes(l.Size())
		n := 0
		require.NoError(b, l.Read(context.Background(), func(batch Batch) error { n += len(batch.Requests); return nil }))
		b.ReportMetric(float64(n), "requests/op")
		require.Empty(b, l.Files[0].CutOff)
	}
}
