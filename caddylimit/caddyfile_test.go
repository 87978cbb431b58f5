package caddylimit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/stretchr/testify/require"
)

// handlerOf returns the handler's part of a config.
func handlerOf(t *testing.T, config []byte) string {
	var find func(any) string
	find = func(v any) (found string) {
		switch v := v.(type) {
		case map[string]any:
			if v["handler"] == "sketch_rate_limit" {
				text, err := json.Marshal(v)
				require.NoError(t, err)
				return string(text)
			}
			for _, inner := range v {
				found = cmp.Or(found, find(inner))
			}
		case []any:
			for _, inner := range v {
				found = cmp.Or(found, find(inner))
			}
		}
		return found
	}
	var c any
	require.NoError(t, json.Unmarshal(config, &c))
	found := find(c)
	require.NotEmpty(t, found)
	return found
}

// All options of caddy-ratelimit, and all of ours.
func TestCaddyfile(t *testing.T) {
	s := newServer(t)
	config, err := s.adapt(`sketch_rate_limit {
	distributed {
		read_interval 5s
		write_interval 6s
		purge_age 7s
	}
	storage file_system /tmp/counts
	jitter 0.2
	sweep_interval 1m
	snapshot_interval 5m
	log_key
	disable_metrics
	zone static_example {
		match {
			method GET
		}
		match {
			path /a /b
		}
		key static
		events 100
		window 1m
	}
	zone dynamic_example {
		key {remote_host}
		events 2
		window 5s
		ipv4_prefix 24
		ipv6_prefix 64
		limit 1000 1h
		limit 5000 1d
		algorithm fixed
		keys 5e6
		headroom 4
		overload deny_proven
	}
	zone bucket {
		limit 10 1s
		algorithm bucket
		burst 50
		memory 16MiB
	}
	redis redis://127.0.0.1:6379 {
		seed 0x2a
		interval 200ms
	}
}`)
	require.NoError(t, err)
	require.JSONEq(t, `{
	"handler": "sketch_rate_limit",
	"rate_limits": {
		"static_example": {
			"match": [{"method": ["GET"]}, {"path": ["/a", "/b"]}],
			"key": "static", "max_events": 100, "window": 60000000000
		},
		"dynamic_example": {
			"key": "{http.request.remote.host}", "max_events": 2, "window": 5000000000,
			"limits": [{"max_events": 1000, "window": 3600000000000}, {"max_events": 5000, "window": 86400000000000}],
			"ipv4_prefix": 24, "ipv6_prefix": 64, "algorithm": "fixed", "keys": 5000000, "headroom": 4, "overload": "deny_proven"
		},
		"bucket": {
			"limits": [{"max_events": 10, "window": 1000000000}], "algorithm": "bucket", "burst": 50, "memory": 16777216
		}
	},
	"distributed": {"read_interval": 5000000000, "write_interval": 6000000000, "purge_age": 7000000000},
	"storage": {"module": "file_system", "root": "/tmp/counts"},
	"jitter": 0.2, "sweep_interval": 60000000000, "snapshot_interval": 300000000000,
	"log_key": true, "disable_metrics": true,
	"redis": {"address": "redis://127.0.0.1:6379", "seed": 42, "interval": 200000000}
}`, handlerOf(t, config))
	_, err = s.adapt(strings.Replace(limit("key a\nwindow 1m\nevents 1"), "{", "/api/* {", 1)) // a matcher for all zones
	require.NoError(t, err)
	off, err := s.adapt(limit("key a\nwindow 1m\nevents 1", "snapshot_interval off"))
	require.NoError(t, err)
	require.Contains(t, handlerOf(t, off), `"snapshot_interval":-1`)
}

// The Caddyfile of docs/caddy.md, but for the proxy.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/caddy.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(page), "```caddyfile\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	block = strings.Replace(block, "reverse_proxy localhost:9000", "respond ok", 1)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte("{\nadmin off\nauto_https off\n}\n"+block), nil)
	require.NoError(t, err)
	var c caddy.Config
	require.NoError(t, json.Unmarshal(config, &c))
	require.NoError(t, caddy.Validate(&c))
	var h Handler
	handler := strings.Replace(handlerOf(t, config), `"handler":"sketch_rate_limit",`, "", 1) // as Caddy loads modules
	require.NoError(t, json.Unmarshal([]byte(handler), &h))
	require.Len(t, h.Zones, 2)
}

// A 0 in JSON is refused where it would stand for the default, and so is a seed that is
// not exact.
func TestJSONNumbers(t *testing.T) {
	const leftOut = ", must be above 0, or left out"
	for text, want := range map[string]string{
		`{"rate_limits": {"a": {"max_events": 0, "limits": [{"max_events": 1}]}}}`: "max_events 0" + leftOut,
		`{"rate_limits": {"a": {"window": "0s"}}}`:                                 "window 0s" + leftOut,
		`{"rate_limits": {"a": {"keys": 0}}}`:                                      "keys 0" + leftOut,
		`{"rate_limits": {"a": {"memory": 0}}}`:                                    "memory 0" + leftOut,
		`{"rate_limits": {"a": {"headroom": 0}}}`:                                  "headroom 0" + leftOut,
		`{"rate_limits": {"a": {"burst": 0}}}`:                                     "burst 0" + leftOut,
		`{"rate_limits": {"a": {"nobody": 1}}}`:                                    `unknown field "nobody"`,
		`{"snapshot_interval": 0}`:                                                 "snapshot_interval 0" + leftOut,
		`{"redis": {"address": "a", "interval": 0}}`:                               "interval 0" + leftOut,
		`{"redis": {"address": "a", "seed": 0}}`:                                   "seed 0: must be a whole number of 1",
		`{"redis": {"address": "a", "seed": 9007199254740992}}`:                    `seed 9007199254740992, must be the text "9007199254740992"`,
		`{"redis": {"address": "a", "seed": 1.5}}`:                                 "seed 1.5: must be a whole number",
		`{"redis": {"address": "a", "seed": "18446744073709551616"}}`:              "must be a whole number of 1 … 2^64-1",
	} {
		require.ErrorContains(t, caddy.StrictUnmarshalJSON([]byte(text), new(Handler)), want)
	}
	for _, text := range []string{"9007199254740991", `"9007199254740993"`, `"18446744073709551615"`} {
		var r Redis
		require.NoError(t, json.Unmarshal([]byte(`{"address": "a", "seed": `+text+`}`), &r))
		require.Equal(t, strings.Trim(text, `"`), fmt.Sprint(uint64(r.Seed)))
		var through map[string]any // as Caddy's config goes
		marshalled, err := json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(marshalled, &through))
		marshalled, err = json.Marshal(through)
		require.NoError(t, err)
		var again Redis
		require.NoError(t, json.Unmarshal(marshalled, &again))
		require.Equal(t, r, again)
	}
}

// Windows in JSON are texts in caddy-ratelimit's documents.
func TestJSONDurations(t *testing.T) {
	var h Handler
	require.NoError(t, caddy.StrictUnmarshalJSON([]byte(`{"rate_limits": {"a": {"window": "1m", "max_events": 5}}}`), &h))
	require.EqualValues(t, 60e9, h.Zones["a"].Window)
}

// What is wrong is told with its zone, its option, and what is allowed.
func TestErrors(t *testing.T) {
	s := newServer(t)
	for _, c := range []struct{ block, want string }{
		{"sketch_rate_limit\n", "no zone, must have one or more"},
		{"sketch_rate_limit 5\n", "wrong argument count"},
		{limit(""), `zone "api": no limit, must have window and events, or limit`},
		{limit("window 1m"), `zone "api": events 0, must be 1 … 2147483647`},
		{limit("events 5"), `zone "api": window 0s, must be 1ms or more`},
		{limit("events 5\nwindow 10us"), `zone "api": window 10µs, must be 1ms or more`},
		{limit("events -5\nwindow 1m"), `events "-5": must be above 0`},
		{limit("events 3000000000\nwindow 1m"), `zone "api": events 3000000000, must be 1 … 2147483647`},
		{limit("events 0\nlimit 5 1m"), `events "0": must be above 0`},
		{limit("window 0\nlimit 5 1m"), `window "0": must be above 0`},
		{limit("limit 0 1m"), `zone "api": events 0, must be 1 … 2147483647`},
		{limit("limit 5 1m\nkeys 0"), `keys "0": must be above 0`},
		{limit("limit 5 1m\nmemory 0"), `memory "0": must be above 0`},
		{limit("limit 5 1m\nheadroom 0"), `headroom "0": must be above 0`},
		{limit("limit 5 1m\nalgorithm bucket\nburst 0"), `burst "0": must be above 0`},
		{limit("limit 5 1m", "snapshot_interval -5m"), `snapshot_interval "-5m": must be above 0, or off`},
		{limit("limit 5 1m", "snapshot_interval 0"), `snapshot_interval "0": must be above 0, or off`},
		{limit("limit 5 1m", "redis 127.0.0.1:1 {\ninterval 0\n}"), `interval "0": must be above 0`},
		{limit("limit 5 1m", "redis 127.0.0.1:1 {\nseed 0\n}"), `seed "0": must be a whole number of 1 … 2^64-1`},
		{limit("events many\nwindow 1m"), `events "many": strconv.Atoi: parsing "many": invalid syntax`},
		{limit("events 5\nevents 6\nwindow 1m"), "events twice, must be once"},
		{limit("events 5 6\nwindow 1m"), "wrong argument count"},
		{limit("events\nwindow 1m"), "wrong argument count"},
		{limit("event 5\nwindow 1m"), "unknown option event"},
		{limit("limit 5 1m\nlimit 6 60s"), `zone "api": window 1m0s twice, must be different ones`},
		{limit("limit 5"), "limit of 1 values, must be events and a window, such as 100 1m"},
		{limit("limit 5 soon"), `limit: window "soon"`},
		{limit("limit some 1m"), `limit: events "some"`},
		{limit("limit 5 1m\nipv4_prefix 33"), `zone "api": ipv4_prefix 33, must be 0 … 32`},
		{limit("limit 5 1m\nipv6_prefix 129"), `zone "api": ipv6_prefix 129, must be 0 … 128`},
		{limit("limit 5 1m\nalgorithm log"), `zone "api": algorithm "log", must be sliding or fixed or bucket`},
		{limit("limit 5 1m\nburst 7"), `zone "api": burst 7, must be with algorithm bucket`},
		{limit("limit 5 1m\nkeys -1"), `keys "-1": must be above 0`},
		{limit("limit 5 1m\nkeys 1e9"), `zone "api": keys 1000000000, must be 1 … 715827882`},
		{limit("limit 5 1m\nkeys 1.5"), "must be a whole number of up to 2147483647"},
		{limit("limit 5 1m\nmemory much"), `memory "much"`},
		{limit("limit 5 1m\nmemory 10"), `zone "api": events 5, window 1m0s: memory 10, must be`},
		{limit("limit 5 1m\nlimit 6 1h\nmemory 20"), `zone "api": memory 20, shared by 2 limits: events 5, window 1m0s: memory 10, must be`},
		{limit("limit 5 1m\nheadroom 2\nmemory 1MiB"), `zone "api": headroom and memory, must be one of them`},
		{limit("key {a}\nlimit 5 1m\nheadroom 0.5"), `zone "api": events 5, window 1m0s: headroom 0.5`},
		{limit("limit 5 1m\noverload allow"), `zone "api": overload "allow", must be deny or deny_proven`},
		{limit("limit 1 1m\noverload deny_proven"), `zone "api": events 1, window 1m0s: overload`},
		{limit("limit 5 1m\nmatch {\nnobody\n}"), "nobody"},
		{limit("limit 5 1m", "zone api {\nlimit 6 1m\n}"), "zone api twice, must be once"},
		{limit("limit 5 1m", "jitter -1"), "jitter -1, must be 0 or more"},
		{limit("limit 5 1m", "jitter NaN"), `jitter "NaN": must be a number`},
		{limit("limit 5 1m", "snapshot_interval 1ms"), "snapshot_interval 1ms, must be 1s or more, or off"},
		{limit("limit 5 1m", "log_key yes"), "wrong argument count"},
		{limit("limit 5 1m", "storage nowhere"), "caddy.storage.nowhere"},
		{limit("limit 5 1m", "distributed"), "distributed: counts are not exchanged through storage: set redis to the address"},
		{limit("limit 5 1m", "redis"), "wrong argument count"},
		{limit("limit 5 1m", "redis {env.NO_SUCH_REDIS}"), "redis: address empty, must be host:port or a URL"},
		{limit("limit 5 1m", "redis http://me:secret@x/"), "redis: address is no URL of Redis"},
		{limit("limit 5 1m", "redis 127.0.0.1:1 {\ninterval 1us\n}"), "redis: interval 1µs, must be 1ms or more"},
		{limit("limit 5 1m\nalgorithm bucket", "redis 127.0.0.1:1"),
			"algorithm bucket, must be sliding or fixed to be shared through redis"},
		{limit("limit 5 1m\noverload deny_proven", "redis 127.0.0.1:1"), "overload deny_proven, must be deny to be shared through redis"},
	} {
		err := s.try(c.block)
		require.ErrorContains(t, err, c.want, c.block)
		require.NotContains(t, err.Error(), "secret")
	}
	require.Empty(t, current(), "what fails leaves nothing behind")
}

// Options that have no meaning for a sketch are told of, and are no errors.
func TestOptionsWithoutEffect(t *testing.T) {
	s := newServer(t)
	s.load(limit("limit 5 1m", "sweep_interval 5m"))
	require.Equal(t, 1, strings.Count(written.text(), `"option":"sweep_interval"`))
}
