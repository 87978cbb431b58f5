package caddylimit

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
)

// startRedis starts a redis-server on a free port until the test ends, and returns its
// address.
func startRedis(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("SKETCHLIMIT_REDIS_REQUIRED") == "1" {
			t.Fatal("no redis-server, and SKETCHLIMIT_REDIS_REQUIRED=1")
		}
		t.Skip("no redis-server: sharing has not been tested")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	c := exec.Command(binary, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir(),
		"--requirepass", "secret")
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	return address
}

// another is the zone "api" of another instance.
func another(t *testing.T, z Zone, r *Redis) *state {
	var err error
	z.name, z.redis = "api", r
	z.configs, err = z.configsOf(true)
	require.NoError(t, err)
	z.settings = z.settingsOf()
	s, err := newState(&z)
	require.NoError(t, err)
	t.Cleanup(func() { s.close() })
	return s
}

// Two instances share a limit, also while one of them gets another config.
func TestShared(t *testing.T) {
	t.Setenv("CADDYLIMIT_TEST_REDIS", "redis://:secret@"+startRedis(t))
	const address = "{env.CADDYLIMIT_TEST_REDIS}"
	s := newServer(t)
	zone := func(more string) string {
		return limit("key {http.request.header.User}\nwindow 1h\nevents 10\nlimit 100 1d\nkeys 1000",
			"distributed {\nread_interval 5s\n}\nredis "+address+" {\ninterval 10ms\n}", more)
	}
	s.load(zone(""))
	require.Contains(t, written.text(), `"option":"distributed read_interval"`)
	other := another(t, Zone{
		Key: "{http.request.header.User}", Window: caddy.Duration(time.Hour), MaxEvents: 10,
		Limits: []Limit{{100, caddy.Duration(24 * time.Hour)}}, Keys: 1000,
	}, &Redis{Address: address, Interval: caddy.Duration(10 * time.Millisecond)})
	left := func(user string) int { return other.limiters[0].Peek(user).Remaining }
	s.want(200, 6, "GET", "/", "User", "ann")
	require.Eventually(t, func() bool { return left("ann") == 4 }, 30*time.Second, 10*time.Millisecond)
	s.load(zone("jitter 1"))
	s.want(200, 1, "GET", "/", "User", "ann")
	require.Eventually(t, func() bool { return left("ann") == 3 }, 30*time.Second, 10*time.Millisecond)
	require.True(t, other.limiters[0].AllowN("ann", 3))
	require.Eventually(t, func() bool {
		return current()["api"].limiters[0].Peek("ann").Remaining == 0
	}, 30*time.Second, 10*time.Millisecond)
	s.want(429, 1, "GET", "/", "User", "ann")
	s.want(200, 1, "GET", "/", "User", "bob")

	l := current()["api"].limiters[0]
	require.Greater(t, l.MemoryBytes(), l.Limiter.MemoryBytes())
	require.NoError(t, caddy.Stop()) // tells what is not told yet
	require.Eventually(t, func() bool { return left("bob") == 9 }, 30*time.Second, 10*time.Millisecond)
	require.Empty(t, s.kept(), "the others know")
}

// Without a seed an instance needs Redis once; with one it starts without, and says
// that Redis is away.
func TestRedisAway(t *testing.T) {
	s := newServer(t)
	const zone, away = "key a\nwindow 1h\nevents 2\nkeys 1000", "redis 127.0.0.1:1"
	err := s.try(limit(zone, away))
	require.ErrorContains(t, err, "set its seed to the same number everywhere to start without Redis")
	require.Empty(t, current())
	s.load(limit(zone, away+" {\nseed 7\n}"))
	s.want(200, 2, "GET", "/")
	s.want(429, 1, "GET", "/")
	require.Eventually(t, func() bool {
		return strings.Contains(written.text(), "Redis is away")
	}, 30*time.Second, 10*time.Millisecond)
}

// A seed may change while others go on with theirs: they count apart. Sizes that are
// the same count together, however they are set.
func TestSharedNames(t *testing.T) {
	address := "redis://:secret@" + startRedis(t)
	instance := func(seed Seed, headroom float64) *state {
		return another(t, Zone{Key: "{client_ip}", Window: caddy.Duration(time.Hour), MaxEvents: 10, Keys: 1000, Headroom: headroom},
			&Redis{Address: address, Seed: seed, Interval: caddy.Duration(10 * time.Millisecond)})
	}
	first, same, apart := instance(1, 0), instance(1, 2), instance(2, 0)
	require.True(t, first.limiters[0].AllowN("ann", 6))
	require.Eventually(t, func() bool {
		return same.limiters[0].Peek("ann").Remaining == 4
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, 10, apart.limiters[0].Peek("ann").Remaining)
}

// A Redis that takes connections and does not answer holds a config up for a while, and
// then zones decide by themselves.
func TestSilentRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := newServer(t)
	const zone = "zone %s {\nkey a\nlimit 1 1m\nlimit 2 1h\nlimit 3 1d\nkeys 10\n}\n"
	start := time.Now()
	s.load("sketch_rate_limit {\n" + strings.ReplaceAll(zone, "%s", "a") + strings.ReplaceAll(zone, "%s", "b") +
		"redis " + l.Addr().String() + " {\nseed 7\n}\n}")
	t.Log("six limits loaded after", time.Since(start))
	s.want(200, 1, "GET", "/")
	s.want(429, 1, "GET", "/")
	require.Eventually(t, func() bool {
		return strings.Count(written.text(), "Redis is away") == 6
	}, 30*time.Second, 10*time.Millisecond)
	start = time.Now()
	require.NoError(t, caddy.Stop())
	t.Log("stopped after", time.Since(start))
}
