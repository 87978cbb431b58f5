package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

// Rules are read again when their folder has been away, also for long.
func TestFolderAway(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	s := start(t, environment(root))
	client, _ := dial(t, s.grpc)
	allowed(t, client, "ann")
	config := filepath.Join(root, "ratelimit/config")
	require.NoError(t, os.RemoveAll(filepath.Join(root, "ratelimit")))
	s.wait("rules stay as they are")
	_, limit := allowed(t, client, "ann")
	require.EqualValues(t, 2, limit)
	time.Sleep(2 * away)
	require.Equal(t, 1, strings.Count(s.all(), "watching files"), "told once")

	write(t, filepath.Join(config, "api.yaml"), strings.ReplaceAll(clients, "requests_per_unit: 2", "requests_per_unit: 3"))
	s.wait("rules loaded")
	ok, limit := allowed(t, client, "ann")
	require.True(t, ok)
	require.EqualValues(t, 3, limit)
	ok, _ = allowed(t, client, "ann")
	require.False(t, ok, "what was used counts on")
	write(t, filepath.Join(config, "api.yaml"), clients)
	s.wait("rules loaded")
}

// Files that are written all the time do not keep rules from being read.
func TestFilesThatNeverSettle(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := make(chan bool, 1)
	require.NoError(t, watch(ctx, slog.New(slog.DiscardHandler), func() []string { return []string{folder} },
		func(fsnotify.Event) bool { return true }, func() {
			select {
			case reads <- true:
			case <-ctx.Done():
			}
		}))
	<-reads
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			os.WriteFile(filepath.Join(folder, fmt.Sprint(i%3)), nil, 0o600)
			time.Sleep(settled / 10)
		}
	}()
	for range 2 {
		select {
		case <-reads:
		case <-time.After(30 * time.Second):
			t.Fatal("not read")
		}
	}
	cancel()
	<-done
}

// Who runs the service knows variables, and no options of a library.
func TestErrorsNameVariables(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	s := start(t, environment(root))
	var many strings.Builder
	many.WriteString("domain: many\ndescriptors:\n")
	for i := range 1000 {
		fmt.Fprintf(&many, "  - {key: k%d, rate_limit: {unit: day, requests_per_unit: 5}}\n", i)
	}
	write(t, filepath.Join(root, "ratelimit/config/many.yaml"), many.String())
	require.Contains(t, s.wait("rules stay as they are"), "half of MEMORY, 2097152, must be at least ")
	write(t, filepath.Join(root, "ratelimit/config/many.yaml"), "domain: many\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5, keys: 100000000}}]")
	require.Contains(t, s.wait("rules stay as they are"), " bytes in all, must be at most MEMORY, 4194304; the most, ")
}
