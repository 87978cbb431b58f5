package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/rules"
)

var oneHit = [len(suffixes)]uint64{1}

// Whoever chooses values or domains cannot fill the memory with names, and what is left
// of one age ago makes room.
func TestNamesAreBoundedAndAge(t *testing.T) {
	n := names{prefix: "api.tenant_", most: 100}
	for i := range 100 {
		first, filled := n.add(fmt.Sprint(i), oneHit)
		require.Equal(t, []bool{true, false}, []bool{first, filled})
	}
	for i := range 3 { // it is told once
		first, filled := n.add(fmt.Sprint("more", i), oneHit)
		require.Equal(t, []bool{i == 0, i == 0}, []bool{first, filled})
	}
	told := map[string]uint64{}
	tell := func(now time.Time) {
		clear(told)
		n.tell(now, func(name string, count uint64) { told[name] = count })
	}
	start := time.Now()
	tell(start)
	require.Len(t, told, 101)
	require.EqualValues(t, 1, told["7.total_hits"])
	require.EqualValues(t, 3, told["api.tenant_other.total_hits"])
	require.EqualValues(t, 3, n.others)
	tell(start)
	require.Empty(t, told, "each count is told once")

	n.add("7", [len(suffixes)]uint64{2, 0, 0, 5})
	tell(start.Add(nameAge - time.Second))
	require.Equal(t, map[string]uint64{"7.total_hits": 2, "7.over_limit": 5}, told)
	require.Len(t, n.seen, 101)
	tell(start.Add(nameAge))
	require.Len(t, n.seen, 1, "that which has just been used")
	first, filled := n.add("new", oneHit)
	require.Equal(t, []bool{true, false}, []bool{first, filled})
	for i := range 200 {
		_, now := n.add(fmt.Sprint("again", i), oneHit)
		filled = filled || now
	}
	require.True(t, filled, "it is told again")
}

// No name is longer than a packet of statsd has room for, and none is more than one
// line of it.
func TestNamesOfStatsd(t *testing.T) {
	n := names{most: 10}
	first, filled := n.add(strings.Repeat("a", maxNameBytes+1), oneHit)
	require.Equal(t, []bool{true, false}, []bool{first, filled})
	n.add("domain.path_/a\nfake:1|c\r\n", oneHit)
	told := map[string]uint64{}
	n.tell(time.Now(), func(name string, count uint64) { told[name] = count })
	require.Equal(t, map[string]uint64{"other.total_hits": 1, "domain.path_/a_fake_1_c__.total_hits": 1}, told)
	require.Equal(t, ".__a=b_c.__d=e", tagged(map[string]string{"d": "e", "a": "b:c", "": "x", "f": ""}))
}

// Rules share the room for names equally, and have some however many they are.
func TestRoomForNames(t *testing.T) {
	for many, want := range map[int]int{1: maxNames, 4: maxNames / 4, 300: minNamesOfRule} {
		var text strings.Builder
		text.WriteString("domain: api\ndescriptors:\n")
		for i := range many {
			fmt.Fprintf(&text, "  - {key: k%d, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
		}
		limits, err := rules.Options{MaxMemoryBytes: 64 << 20, SharedBytes: 32 << 20}.New(rules.File{Name: "f", Data: []byte(text.String())})
		require.NoError(t, err)
		all := namesOfRules{rules: map[string]*names{}}
		n := all.of(limits.All()[0], limits)
		require.Equal(t, want, n.limit())
		require.Same(t, n, all.of(limits.All()[0], limits))
		require.Len(t, all.all(), many)
	}
}

// Whoever fills the names of one rule takes none from others, nor does the log fall
// silent about domains.
func TestManyValues(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": `domain: api
descriptors:
  - {key: tenant, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: user, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}
`})
	variables := environment(root)
	variables["DISABLE_STATS"], variables["STATS_FLUSH_INTERVAL"] = "false", "50ms"
	variables["USE_PROMETHEUS"], variables["PROMETHEUS_ADDR"], variables["LOG_FORMAT"] = "true", "127.0.0.1:0", "text"
	l, _ := command(t, variables)
	client, _ := dial(t, l.address("gRPC"))
	page := "http://" + l.address("Prometheus") + "/metrics"
	send := func(domain, key string, from, to int) {
		for from < to {
			r := ask(domain, key, fmt.Sprint("v", from))
			for from++; from < to && len(r.Descriptors) < 1000; from++ {
				r.Descriptors = append(r.Descriptors, &commonv3.RateLimitDescriptor{
					Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: fmt.Sprint("v", from)}},
				})
			}
			_, err := client.ShouldRateLimit(t.Context(), r)
			require.NoError(t, err)
		}
	}
	send("api", "tenant", 0, 12_000)
	require.Contains(t, l.wait("as many names of statistics as it may"), "rule=api.tenant names=5000")
	send("nowhere", "tenant", 0, 1)
	require.Contains(t, l.wait("no file has the domain"), "domain=nowhere")
	send("api", "user", 0, 1)
	lines := []string{
		`ratelimit_service_rate_limit_total_hits{domain="api",key1="tenant_v4999"} 1`,
		`ratelimit_service_rate_limit_total_hits{domain="api",key1="tenant_other"} 7000`,
		`ratelimit_service_rate_limit_total_hits{domain="api",key1="user_v0"} 1`,
		`sketchlimitd_detailed_metric_names{limiter="api.tenant"} 5001`,
		`sketchlimitd_detailed_metric_names_limit{limiter="api.tenant"} 5000`,
		`sketchlimitd_detailed_metric_other_hits_total{limiter="api.tenant"} 7000`,
		`sketchlimitd_detailed_metric_names{limiter="api.user"} 1`,
	}
	require.Eventually(t, func() bool {
		_, body := get(t, page)
		for _, line := range lines {
			if !strings.Contains(body, line+"\n") {
				return false
			}
		}
		return true
	}, 30*time.Second, 100*time.Millisecond, "%s", lines)
	require.Equal(t, 1, strings.Count(l.all(), "as many names of statistics"))
}
