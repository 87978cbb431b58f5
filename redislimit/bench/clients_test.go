package main

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// The script is put together here as Strict does it: it must run, and count.
func TestSlidingScriptCounts(t *testing.T) {
	server := redistest.New(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
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
