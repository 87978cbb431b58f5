package main

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shared is a buffer that two goroutines may use.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestProgressInLines: where there is no terminal a line tells what is done, and none
// comes after the end.
func TestProgressInLines(t *testing.T) {
	usual := sayEvery
	t.Cleanup(func() { sayEvery = usual })
	sayEvery = time.Millisecond
	var out shared
	p := newProgress(&out, 1000, stageKeys, stageReplay)
	p.stage(stageKeys).Progress(1000, 1000)
	p.stage(stageReplay).Progress(500, 1000)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), ", 60 %\n") }, time.Minute, time.Millisecond)
	assert.Contains(t, out.String(), "sketchlimit: replay, ")
	p.finish()
	said := out.String()
	time.Sleep(5 * time.Millisecond)
	assert.Equal(t, said, out.String())

	unknown := working(&out, "planning", -1)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "sketchlimit: planning, 0s\n") }, time.Minute, time.Millisecond)
	unknown.finish()
}

// TestSkippedLines: standard error tells of them, whatever is printed.
func TestSkippedLines(t *testing.T) {
	const trace = "1\ta\nnonsense\n2\tb\n\tc\n3\ta\n"
	const want = "sketchlimit: standard input: skipped 2 of 5 lines (1 no tab, 1 no time that can be read); first, line 2: \"nonsense\"\n"
	for _, args := range [][]string{{"report", "--json"}, {"report", "--memory", "16KiB"}, {"tune", "--memory", "16KiB"}} {
		o := command(io.Reader(strings.NewReader(trace)), append(args, "--trace", "-")...)
		require.Equal(t, 0, o.status, o.err)
		assert.Equal(t, want, o.err)
	}
}
