package main

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/redisserver"
)

// The script is put together here as Strict does it: it must run, and count.
func TestSlidingScriptCounts(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("SKETCHLIMIT_REDIS_REQUIRED") != "1" {
		t.Skip("no redis-server in PATH")
	}
	addr, stop, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(stop)
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	text, err := slidingScript()
	require.NoError(t, err)
	for n := range int64(100) {
		got, err := client.Eval(context.Background(), text, []string{"shard"}, 0, "12345678", 1, "60000000").Int64Slice()
		require.NoError(t, err)
		require.Equal(t, []int64{1, n}, got[:2])
	}
	got, err := client.Eval(context.Background(), text, []string{"shard"}, 0, "12345678", 1, "60000000").Int64Slice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 100}, got[:2])
}
