package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// startRedis starts a redis-server on a free port until the test ends, and returns its
// address.
func startRedis(t *testing.T, args ...string) string {
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
	c := exec.Command(binary, append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir(), "--maxmemory-policy", "noeviction"}, args...)...)
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

// Two replicas share a limit, also after one of them has started again and the rules
// have changed around it.
func TestShared(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	variables["REDIS_URL"], variables["SHARED_INTERVAL"], variables["CACHE_KEY_PREFIX"] = startRedis(t, "--requirepass", "secret"), "10ms", "team"
	variables["REDIS_AUTH"] = "secret"
	one, other := start(t, variables), start(t, variables)
	require.NotContains(t, one.all(), "ERROR")
	a, _ := dial(t, one.grpc)
	b, _ := dial(t, other.grpc)
	spentOf := func(name string) bool { // without taking
		r := ask("api", "client", name)
		r.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
		response, err := b.ShouldRateLimit(t.Context(), r)
		require.NoError(t, err)
		return response.Statuses[0].LimitRemaining == 0
	}
	spent := func() bool { return spentOf("ann") }
	allowed(t, a, "ann")
	allowed(t, a, "ann")
	require.Eventually(t, spent, 30*time.Second, 10*time.Millisecond)
	ok, _ := allowed(t, b, "bob")
	require.True(t, ok)

	write(t, filepath.Join(root, "ratelimit/config/api.yaml"), clients+"  - {key: more, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	one.wait("rules loaded")
	other.wait("rules loaded")
	require.True(t, spent())
	require.NoError(t, other.end())
	other = start(t, variables)
	b, _ = dial(t, other.grpc)
	require.Eventually(t, spent, 30*time.Second, 10*time.Millisecond)

	for _, limit := range []string{"3", "2"} { // one that has been before is shared again
		write(t, filepath.Join(root, "ratelimit/config/api.yaml"), strings.Replace(clients, "requests_per_unit: 2", "requests_per_unit: "+limit, 1))
		one.wait("rules loaded")
		other.wait("rules loaded")
	}
	require.True(t, spent(), "what was used counts on")
	allowed(t, a, "eve")
	allowed(t, a, "eve")
	require.Eventually(t, func() bool { return spentOf("eve") }, 30*time.Second, 10*time.Millisecond)

	client := redis.NewClient(&redis.Options{Addr: variables["REDIS_URL"], Password: "secret"})
	defer client.Close()
	keys, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.True(t, strings.HasPrefix(key, "team") || strings.HasPrefix(key, "{team"), key)
	}
}

// TestSharedCostsNothingWhileIdle: two replicas that nobody asks cost Redis two
// commands a second each at most, by its own count; overrides are shared once there are
// some.
func TestSharedCostsNothingWhileIdle(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	variables["REDIS_URL"] = startRedis(t)
	one, other := start(t, variables), start(t, variables)
	client := redis.NewClient(&redis.Options{Addr: variables["REDIS_URL"]})
	defer client.Close()
	commands := func() (n int) {
		for line := range strings.Lines(client.Info(t.Context(), "commandstats").Val()) {
			var calls int
			if name, after, ok := strings.Cut(line, ":calls="); ok && strings.HasPrefix(name, "cmdstat_") {
				fmt.Sscan(after, &calls)
				n += calls
			}
		}
		return n
	}
	streams := func() int { return len(client.Keys(t.Context(), "*:log").Val()) }
	require.Equal(t, 1, streams())
	time.Sleep(2500 * time.Millisecond)
	before, begin := commands(), time.Now()
	time.Sleep(5 * time.Second)
	n := commands() - before - 1 // the question before
	t.Logf("%d commands in %v", n, time.Since(begin))
	require.LessOrEqual(t, float64(n), 2*2*time.Since(begin).Seconds())

	a, _ := dial(t, one.grpc)
	b, _ := dial(t, other.grpc)
	r := ask("api", "client", "ann")
	r.Descriptors[0].Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: typev3.RateLimitUnit_DAY}
	for range 2 {
		_, err := a.ShouldRateLimit(t.Context(), r)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return streams() == 2 }, 30*time.Second, 10*time.Millisecond)
	response, err := b.ShouldRateLimit(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, ratelimitv3.RateLimitResponse_OK, response.OverallCode)
	r.Descriptors[0].HitsAddend = wrapperspb.UInt64(0) // without taking
	require.Eventually(t, func() bool {
		response, err := b.ShouldRateLimit(t.Context(), r)
		require.NoError(t, err)
		return response.Statuses[0].LimitRemaining == 0
	}, 30*time.Second, 10*time.Millisecond)
}

// What cannot be shared counts alone, and is told.
func TestSharedRefusesBuckets(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": strings.Replace(clients, "{unit: year,", "{unit: year, keys: 100, algorithm: token_bucket,", 1)})
	variables := environment(root)
	variables["REDIS_URL"] = "redis://" + startRedis(t) + "/1"
	s := start(t, variables)
	require.Contains(t, s.all(), `msg="a rule counts in this process alone" rule=api.client`)
	client, _ := dial(t, s.grpc)
	ok, _ := allowed(t, client, "ann")
	require.True(t, ok)
}

// With a seed of its own, a replica starts, decides and ends while there is no Redis.
func TestSharedWithoutRedis(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	variables["REDIS_URL"], variables["SHARED_SEED"] = "127.0.0.1:1", "7"
	s := start(t, variables)
	client, _ := dial(t, s.grpc)
	for _, want := range []bool{true, true, false} {
		ok, _ := allowed(t, client, "ann")
		require.Equal(t, want, ok)
	}
	require.NoError(t, s.end())
	require.Contains(t, s.all(), `msg="others do not know all that was admitted here" rules=1 error=`)
}

func TestRedisErrors(t *testing.T) {
	for _, c := range []struct{ url, kind, want string }{
		{"a,b", "SINGLE", "REDIS_URL, must be one address unless"},
		{"a", "SENTINEL", "REDIS_URL, must be the name of the master"},
		{"redis://user:secret@host/first", "SINGLE", "REDIS_URL, must be one as redis://"},
	} {
		_, err := (&redisSettings{URL: c.url, Type: c.kind}).client()
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "secret")
	}
	for kind, url := range map[string]string{"SINGLE": "/run/redis.sock", "CLUSTER": "a:1,b:2", "SENTINEL": "main,a:1,b:2"} {
		client, err := (&redisSettings{URL: url, Type: kind, Auth: "user:secret", PoolSize: 3, TLS: true, SkipVerifyHost: true}).client()
		require.NoError(t, err)
		require.NoError(t, client.Close())
	}
	_, err := newShared(t.Context(), &redisSettings{URL: "127.0.0.1:1", PoolSize: 1}, nil)
	require.ErrorContains(t, err, "set SHARED_SEED")
}
