package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSettingsErrors(t *testing.T) {
	for variable, want := range map[string]string{
		"PORT=none":                                 `PORT "none", must be a whole number`,
		"PORT=65536":                                `PORT 65536, must be 0 … 65535`,
		"USE_STATSD=perhaps":                        `USE_STATSD "perhaps", must be true or false`,
		"STATS_FLUSH_INTERVAL=10":                   `STATS_FLUSH_INTERVAL "10", must be a duration such as 10s`,
		"STATS_FLUSH_INTERVAL=-1s":                  `STATS_FLUSH_INTERVAL -1s, must be above 0`,
		"NEAR_LIMIT_RATIO=high":                     `NEAR_LIMIT_RATIO "high", must be a number`,
		"NEAR_LIMIT_RATIO=1.5":                      `NEAR_LIMIT_RATIO 1.5, must be above 0 and at most 1`,
		"NEAR_LIMIT_RATIO=0":                        "NEAR_LIMIT_RATIO 0, must be above 0 and at most 1",
		"PROMETHEUS_PATH=metrics":                   `PROMETHEUS_PATH "metrics", must begin with a slash`,
		"EXTRA_TAGS=a":                              `EXTRA_TAGS "a", must be pairs such as name:value,name:value`,
		"MEMORY=64MB":                               `MEMORY "64MB", must be a number of bytes such as 65536, 512KiB, 64MiB or 1GiB`,
		"MEMORY=-1":                                 `MEMORY "-1", must be a number of bytes`,
		"MEMORY=1023KiB":                            "MEMORY 1047552, must be 1048576 … 1099511627776",
		"OVERRIDE_MEMORY=63KiB":                     "OVERRIDE_MEMORY 64512, must be 65536 … 67108864",
		"CONFIG_TYPE=REDIS":                         `CONFIG_TYPE "REDIS", must be FILE or GRPC_XDS_SOTW`,
		"STATSD_PROTOCOL=sctp":                      `STATSD_PROTOCOL "sctp", must be tcp or udp`,
		"USE_PROMETHEUS=true":                       "USE_STATSD true, USE_DOG_STATSD false, USE_PROMETHEUS true: unable to use more than one stats sink at the same time",
		"GRPC_SERVER_USE_TLS=true":                  `GRPC_SERVER_TLS_CERT "" and GRPC_SERVER_TLS_KEY "" must both be set`,
		"GRPC_CLIENT_TLS_SAN=envoy":                 `GRPC_CLIENT_TLS_SAN "envoy", goes with GRPC_CLIENT_TLS_CACERT only`,
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=a.crt":     `CONFIG_GRPC_XDS_CLIENT_TLS_CERT "a.crt" with CONFIG_GRPC_XDS_CLIENT_TLS_KEY "", must both be set or none`,
		"XDS_CLIENT_BACKOFF_MAX_INTERVAL=1s":        "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL 10s, must be at most XDS_CLIENT_BACKOFF_MAX_INTERVAL, 1s",
		"XDS_CLIENT_BACKOFF_RANDOM_FACTOR=2":        "XDS_CLIENT_BACKOFF_RANDOM_FACTOR 2, must be 0 … 1",
		"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=-1":       "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES -1, must be 0 … 1073741824",
		"LIMIT_RESET_HEADER=":                       `LIMIT_RESET_HEADER "", must be three names`,
		"GRPC_MAX_CONNECTION_AGE=0s":                "GRPC_MAX_CONNECTION_AGE 0s, must be above 0",
		"SHARED_INTERVAL=1h":                        "SHARED_INTERVAL 1h0m0s, must be 1ms … 1m0s",
		"SHARED_SEED=-1":                            `SHARED_SEED "-1", must be a whole number from 0 on`,
		"REDIS_TYPE=TWO":                            `REDIS_TYPE "TWO", must be SINGLE or SENTINEL or CLUSTER`,
		"CACHE_KEY_PREFIX={a}":                      `CACHE_KEY_PREFIX "{a}", must not hold a brace`,
		"SNAPSHOT_DIR=a":                            `SNAPSHOT_DIR "a" with REDIS_URL, only one of them may be set`,
		"SNAPSHOT_INTERVAL=0s":                      "SNAPSHOT_INTERVAL 0s, must be above 0",
		"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=x": `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT "x", must be true or false`,
	} {
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv("LIMIT_RESPONSE_HEADERS_ENABLED", "true")
			t.Setenv("REDIS_URL", "localhost:6379")
			t.Setenv(name, value)
			_, err := readSettings()
			require.ErrorContains(t, err, want)
		})
	}
}

func TestSettingsDefaults(t *testing.T) {
	s, err := readSettings()
	require.NoError(t, err)
	require.Equal(t, 8080, s.Port)
	require.Equal(t, "/srv/runtime_data/current", s.RuntimeRoot)
	require.True(t, s.RuntimeWatchRoot)
	require.EqualValues(t, 64<<20, s.Memory)
	require.EqualValues(t, 8<<20, s.OverrideMemory)
	require.Nil(t, s.StopCounting)
	require.Equal(t, time.Minute, s.SnapshotEvery)
	require.Equal(t, 10*time.Second, s.Stats.FlushInterval)

	t.Setenv("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "false")
	t.Setenv("MEMORY", "1GiB")
	t.Setenv("EXTRA_TAGS", "zone:a,cell:b")
	s, err = readSettings()
	require.NoError(t, err)
	require.False(t, *s.StopCounting)
	require.EqualValues(t, 1<<30, s.Memory)
	require.Equal(t, map[string]string{"zone": "a", "cell": "b"}, s.Stats.ExtraTags)
}

// reference are the variables of envoyproxy/ratelimit.
const reference = `HOST PORT DEBUG_HOST DEBUG_PORT GRPC_UDS GRPC_HOST GRPC_PORT GRPC_MAX_CONNECTION_AGE GRPC_MAX_CONNECTION_AGE_GRACE
	GRPC_SERVER_USE_TLS GRPC_SERVER_TLS_CERT GRPC_SERVER_TLS_KEY GRPC_CLIENT_TLS_CACERT GRPC_CLIENT_TLS_SAN LOG_LEVEL LOG_FORMAT CONFIG_TYPE
	FORCE_START_WITHOUT_INITIAL_CONFIG CONFIG_GRPC_XDS_NODE_ID CONFIG_GRPC_XDS_NODE_METADATA CONFIG_GRPC_XDS_SERVER_URL
	CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS CONFIG_GRPC_XDS_SERVER_USE_TLS
	CONFIG_GRPC_XDS_CLIENT_TLS_CERT CONFIG_GRPC_XDS_CLIENT_TLS_KEY CONFIG_GRPC_XDS_SERVER_TLS_CACERT CONFIG_GRPC_XDS_SERVER_TLS_SAN
	XDS_CLIENT_BACKOFF_INITIAL_INTERVAL XDS_CLIENT_BACKOFF_MAX_INTERVAL XDS_CLIENT_BACKOFF_RANDOM_FACTOR XDS_CLIENT_BACKOFF_JITTER
	XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES USE_DOG_STATSD USE_DOG_STATSD_MOGRIFIERS USE_STATSD STATSD_HOST STATSD_PORT STATSD_PROTOCOL EXTRA_TAGS
	STATS_FLUSH_INTERVAL DISABLE_STATS USE_PROMETHEUS PROMETHEUS_ADDR PROMETHEUS_PATH PROMETHEUS_MAPPER_YAML
	PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS RUNTIME_ROOT RUNTIME_SUBDIRECTORY RUNTIME_APPDIRECTORY RUNTIME_IGNOREDOTFILES RUNTIME_WATCH_ROOT
	EXPIRATION_JITTER_MAX_SECONDS LOCAL_CACHE_SIZE_IN_BYTES NEAR_LIMIT_RATIO CACHE_KEY_PREFIX BACKEND_TYPE
	STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT LIMIT_RESPONSE_HEADERS_ENABLED LIMIT_LIMIT_HEADER LIMIT_REMAINING_HEADER LIMIT_RESET_HEADER
	HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED REDIS_URL REDIS_PERSECOND_URL REDIS_AUTH MEMCACHE_HOST_PORT SHADOW_MODE QUOTA_MODE
	RESPONSE_DYNAMIC_METADATA MERGE_DOMAIN_CONFIG TRACING_ENABLED TRACING_SAMPLING_RATE
	MAX_CONCURRENT_REQUESTS REQUEST_TIMEOUT GRPC_MAX_CONCURRENT_STREAMS`

// Every variable of envoyproxy/ratelimit is one of ours, or is told to have no effect.
func TestAllVariables(t *testing.T) {
	ours := map[string]bool{}
	variables(reflect.TypeFor[settings](), ours)
	for _, name := range strings.Fields(reference + " REDIS_PERSECOND_POOL_SIZE RUNTIME_WATCHROOT SNAPSHOT_DIRECTORY GRPC_SERVER_TLS_CACERT") {
		if ours[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "secret")
			var log bytes.Buffer
			tellWithoutEffect(slog.New(slog.NewTextHandler(&log, nil)))
			require.Contains(t, log.String(), name)
			require.NotContains(t, log.String(), "secret")
		})
	}
}

// What Kubernetes, the shell and gRPC itself set is nobody's mistake.
func TestVariablesOfOthers(t *testing.T) {
	for _, name := range strings.Fields("REDIS_SERVICE_HOST REDIS_PORT REDIS_PORT_6379_TCP_ADDR REDIS_SERVICE_PORT_HTTP GRPC_GO_LOG_SEVERITY_LEVEL LOGNAME USER") {
		t.Setenv(name, "tcp://10.0.0.1:6379")
	}
	var log bytes.Buffer
	tellWithoutEffect(slog.New(slog.NewTextHandler(&log, nil)))
	require.Empty(t, log.String())
}

func TestLogFormats(t *testing.T) {
	var log bytes.Buffer
	logger, err := newLogger(&log, "Warning", "JSON")
	require.NoError(t, err)
	logger.Info("quiet")
	logger.Warn("loud", "key", 7)
	var line map[string]any
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	require.Equal(t, "loud", line["@message"])
	require.Contains(t, line, "@timestamp")
	_, err = newLogger(&log, "info", "xml")
	require.EqualError(t, err, `LOG_FORMAT "xml", must be text or json`)
}
