package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// during runs the service while f sends requests as ann, which tell what is left.
func during(t *testing.T, state string, every time.Duration, f func(take func() string)) {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- serve(ctx, listener, state, every) }()
	f(func() string {
		r, err := http.NewRequest("GET", "http://"+listener.Addr().String(), nil)
		require.NoError(t, err)
		r.Header.Set("X-API-Key", "ann")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		_, left, _ := strings.Cut(answer.Header.Get("RateLimit"), ";r=")
		left, _, _ = strings.Cut(left, ";")
		return left
	})
	cancel()
	require.NoError(t, <-ended)
}

func TestRestart(t *testing.T) {
	state := t.TempDir()
	snapshot := filepath.Join(state, "limiter")
	for _, want := range []string{"99", "98", "97"} {
		during(t, state, time.Hour, func(take func() string) { require.Equal(t, want, take()) })
	}
	require.NoError(t, os.Remove(snapshot))
	during(t, state, time.Millisecond, func(take func() string) {
		require.Equal(t, "99", take())
		require.Eventually(t, func() bool { _, err := os.Stat(snapshot); return err == nil }, time.Minute, time.Millisecond)
	})
	require.NoError(t, os.Truncate(snapshot, 99))
	during(t, state, time.Hour, func(take func() string) { require.Equal(t, "99", take()) })
}
