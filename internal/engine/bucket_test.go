package engine

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a shard knows of one key's time is not told another one that it takes for that at first sight.
func TestBucketsTellKeysOfOneTagApart(t *testing.T) {
	l := faceOf(t, NewBucket(7, 7, time.Hour), Dimensions{Shards: 1, Depth: 4, Width: 1 << 10, CellBits: 32})
	l.now = time.Unix(1_700_000_456, 234_567_891)
	seen := map[uint32]string{}
	for i := 0; ; i++ { // of 100,000 keys some two are alike
		key := strconv.Itoa(i)
		tag := bucket{l.at(l.hasher.String(key))}.lastTag()
		other, ok := seen[tag]
		if seen[tag] = key; !ok {
			continue
		}
		require.True(t, l.take(other, 7).Allowed)
		require.Equal(t, 0, l.peek(other, 1).Remaining)
		require.Equal(t, 7, l.peek(key, 1).Remaining)
		require.True(t, l.take(key, 1).Allowed)
		return
	}
}
