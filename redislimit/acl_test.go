package redislimit

import (
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
	"github.com/sketchlimit/sketchlimit/sharing"
)

// TestUserOfThePage: the user that docs/redis-operate.md makes may do all that limiters do, and nothing else, as one that has
// less finds out.
func TestUserOfThePage(t *testing.T) {
	server := redistest.New(t)
	beUserOfThePage(t, newTestClient(t, server.Addr), redis.Options{Addr: server.Addr})
}

// beUserOfThePage makes the user of the page, and does as it all that limiters do.
func beUserOfThePage(t *testing.T, admin redis.UniversalClient, options redis.Options) {
	page, err := os.ReadFile("../docs/redis-operate.md")
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^ACL SETUSER (.*)$`).FindAllSubmatch(page, -1)
	require.NotEmpty(t, lines, "the page has no ACL SETUSER")
	user, password := "", ""
	for _, line := range lines {
		args := []any{"ACL", "SETUSER"}
		for i, word := range strings.Fields(string(line[1])) {
			args = append(args, word)
			if i == 0 {
				user = word
			} else if p, ok := strings.CutPrefix(word, ">"); ok {
				password = p
			}
		}
		require.NoError(t, admin.Do(t.Context(), args...).Err())
	}
	options.Username, options.Password = user, password
	client := redis.NewClient(&options)
	defer client.Close()
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())

	seed, err := Seed(t.Context(), client, "sketchlimit")
	require.NoError(t, err)
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		s, err := NewStrict(client, Config{Limit: 5, Window: time.Hour, Algorithm: a, Keys: 1000, Seed: seed, Failure: FailClosed})
		require.NoError(t, err)
		require.True(t, take(t, s, "k").Allowed)
		stats, err := s.Stats(t.Context())
		require.NoError(t, err)
		require.NoError(t, stats.Health.Err)
		e, err := NewExact(client, Config{Limit: 5, Window: time.Hour, Algorithm: a})
		require.NoError(t, err)
		for range 6 {
			_, err := e.Take(t.Context(), "k", 1)
			require.NoError(t, err)
		}
	}
	short, err := NewExact(client, Config{Limit: 5, Window: 2 * time.Millisecond}) // whose entries go
	require.NoError(t, err)
	redistest.Eventually(t, "that entries are removed", func() bool {
		_, err := short.Take(t.Context(), "short", 1)
		require.NoError(t, err)
		stats, err := admin.Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		return strings.Contains(stats, "cmdstat_zremrangebyrank:")
	})
	var clock atomic.Int64
	c := testConfig(&clock)
	c.Seed = seed
	s := newTestNode(t, client, c, Log(quiet()))
	admit(t, s, 3)
	exchange(t, s)
	require.NoError(t, s.Stats().Err)
	require.NoError(t, s.engine.Trim(t.Context(), "sketchlimit", sharing.Place{Major: 1}))
	require.NoError(t, s.engine.restarted(t.Context(), stream("sketchlimit")))
	require.NotEmpty(t, s.engine.runID)
	redistest.Eventually(t, "that Redis keeps counts", func() bool { return s.Stats().Eviction == EvictionNone })
	require.NoError(t, s.Close())
	var denied []string
	log, err := admin.ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	for _, entry := range log {
		if entry.Object != "client|setinfo" { // which clients go on without
			denied = append(denied, entry.Object)
		}
	}
	require.Empty(t, denied)
	info, err := admin.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for _, line := range lines {
		for _, right := range regexp.MustCompile(`\+(\w+)`).FindAllStringSubmatch(string(line[1]), -1) {
			require.Contains(t, info, "cmdstat_"+right[1]+":calls=", "a right that nothing needs")
		}
	}
	for _, command := range [][]any{{"KEYS", "*"}, {"FLUSHALL"}, {"GET", "another:key"}, {"DEL", "sketchlimit:seed"}} {
		require.ErrorContains(t, client.Do(t.Context(), command...).Err(), "NOPERM", command)
	}
}
