package sketchlimit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What Prefetch fetches is where decisions look, once the shard has turned, and fetching it
// changes nothing.
func TestPrefetchLooksWhereDecisionsDo(t *testing.T) {
	for name, c := range map[string]Config{
		"sliding":     {Limit: 20},
		"fixed":       {Limit: 20, Algorithm: FixedWindow},
		"sub-windows": {Limit: 20, SubWindows: 4},
		"limit 1":     {Limit: 1},
		"bucket":      {Limit: 20, Algorithm: TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			now := time.Unix(-20, 0)
			c.Window, c.MemoryBytes, c.Seed, c.Clock = 4*time.Second, 16<<10, 3, func() time.Time { return now }
			l, err := New(c)
			require.NoError(t, err)
			other, err := New(c)
			require.NoError(t, err)
			for range 1000 {
				now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second)))
				key := []byte{byte(random.Uint32())}
				l.Prefetch(key)
				d := l.TakeBytes(key, 1)
				require.Equal(t, other.TakeBytes(key, 1), d)
				require.Equal(t, other.memory, l.memory)
				r := l.request(l.hashBytes(key))
				for age := range l.generations {
					first, h := r.at(l.windows.Latest() - int64(age))
					require.Equal(t, r.buffer(age), first)
					if d.Allowed && age == 0 && l.door.Words() > 0 {
						require.True(t, l.door.Test(l.memory, first, h))
					}
				}
			}
		})
	}
}
