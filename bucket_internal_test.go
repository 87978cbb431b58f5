package sketchlimit

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a shard knows of one key's time is not told another one that it takes for that at first sight.
func TestBucketsTellKeysOfOneTagApart(t *testing.T) {
	l, err := New(Config{Limit: 7, Window: time.Hour, Algorithm: TokenBucket, Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) },
		Plan: &Plan{Shards: 1, Depth: 4, Width: 1 << 10, CellBits: 32}})
	require.NoError(t, err)
	seen := map[uint32]string{}
	for i := 0; ; i++ { // of 100,000 keys some two are alike
		key := strconv.Itoa(i)
		tag := l.request(l.hashString(key)).lastTag()
		other, ok := seen[tag]
		if seen[tag] = key; !ok {
			continue
		}
		now := time.Unix(1_700_000_456, 234_567_891)
		require.True(t, l.TakeAt(now, other, 7).Allowed)
		require.Equal(t, 0, l.PeekAt(now, other, 1).Remaining)
		require.Equal(t, 7, l.PeekAt(now, key, 1).Remaining)
		require.True(t, l.TakeAt(now, key, 1).Allowed)
		return
	}
}
