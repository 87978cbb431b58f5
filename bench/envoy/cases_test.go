package main

import (
	"fmt"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// These tests ask what the integration tests of envoyproxy/ratelimit ask
// (test/integration/integration_test.go, Apache License 2.0).

const (
	second = rls.RateLimitResponse_RateLimit_SECOND
	minute = rls.RateLimitResponse_RateLimit_MINUTE
	hour   = rls.RateLimitResponse_RateLimit_HOUR
	day    = rls.RateLimitResponse_RateLimit_DAY
	week   = rls.RateLimitResponse_RateLimit_WEEK
	month  = rls.RateLimitResponse_RateLimit_MONTH
	year   = rls.RateLimitResponse_RateLimit_YEAR
)

var basic = servers.Rules{
	"basic.yaml": `
domain: basic
descriptors:
  - key: burst
    rate_limit: {unit: second, requests_per_unit: 50}
`,
	"another.yaml": `
domain: another
descriptors:
  - key: minutely
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: hourly
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: daily
    rate_limit: {unit: day, requests_per_unit: 20}
`,
}

var none = &rls.RateLimitResponse_DescriptorStatus{Code: ok} // of a descriptor without a rule

func TestBasicConfig(t *testing.T) {
	for name, settings := range map[string][]string{
		"no settings":       nil,
		"local cache":       {"LOCAL_CACHE_SIZE_IN_BYTES=1000"},
		"prefix of keys":    {"CACHE_KEY_PREFIX=prefix:"},
		"refused uncounted": {"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, kind servers.Kind) { testBasicConfig(t, kind, settings) })
		})
	}
}

func testBasicConfig(t *testing.T, kind servers.Kind, settings []string) {
	s := kind.New(t, basic, settings...)
	c := dial(t, s.GRPC, nil)
	awayFromTurns(10*time.Second, minute)
	equal(t, answer(ok, none), c.ask("unknown", "hello=world"))
	equal(t, answer(ok, status(ok, 50, second, 49)), c.ask("basic", "burst=foo"))

	for i := range uint32(25) {
		want := answer(over, status(over, 20, minute, 0))
		if i < 20 {
			want = answer(ok, status(ok, 20, minute, 19-i))
		}
		equal(t, want, c.ask("another", "minutely=one"))
	}
	requireMetric(t, s, `ratelimit_service_rate_limit_total_hits{domain="another",key1="minutely"`, 25)
	requireMetric(t, s, `ratelimit_service_rate_limit_within_limit{domain="another",key1="minutely"`, 20)
	requireMetric(t, s, `ratelimit_service_rate_limit_over_limit{domain="another",key1="minutely"`, 5)
	requireMetric(t, s, `ratelimit_service_rate_limit_near_limit{domain="another",key1="minutely"`, 4)

	// Refused requests count in the other limit by settings only.
	refusedCount := kind.Name == servers.Reference.Name && (len(settings) == 0 || settings[0][:4] != "STOP")
	for i := range uint32(15) {
		want := answer(ok, status(ok, 20, minute, 19-i), status(ok, 10, hour, 9-i))
		if i >= 10 {
			remaining := uint32(10)
			if refusedCount {
				remaining = 19 - i
			}
			want = answer(over, status(ok, 20, minute, remaining), status(over, 10, hour, 0))
		}
		equal(t, want, c.ask("another", "minutely=both", "hourly=both"))
	}
	requireMetric(t, s, `ratelimit_service_rate_limit_total_hits{domain="another",key1="minutely"`, 40)
	requireMetric(t, s, `ratelimit_service_rate_limit_total_hits{domain="another",key1="hourly"`, 15)
	requireMetric(t, s, `ratelimit_service_rate_limit_over_limit{domain="another",key1="hourly"`, 5)
}

// requireMetric waits until a counter has a value: the services publish them with a
// delay.
func requireMetric(t *testing.T, s *servers.Service, series string, want float64) {
	t.Helper()
	require.NoError(t, servers.Eventually(10*time.Second, func() error {
		got, err := s.Metric(series)
		if err == nil && got != want {
			err = fmt.Errorf("%s} is %v, want %v", series, got, want)
		}
		return err
	}))
}

const reload = `
domain: reload
descriptors:
  - key: burst
    rate_limit: {unit: second, requests_per_unit: 50}
  - key: block
    rate_limit: {unit: second, requests_per_unit: 0}
`

func TestReloadOfFiles(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		s := kind.New(t, basic)
		c := dial(t, s.GRPC, nil)
		equal(t, answer(ok, none), c.ask("reload", "block=foo"))

		s.Reloads(t, func() error { return s.Write("reload.yaml", reload) }, "reload.block:", true)
		equal(t, answer(ok, status(ok, 50, second, 49)), c.ask("reload", "burst=foo"))
		equal(t, answer(over, status(over, 0, second, 0)), c.ask("reload", "block=foo"))

		s.Reloads(t, func() error { return s.Remove("reload.yaml") }, "reload.block:", false)
		equal(t, answer(ok, none), c.ask("reload", "block=foo"))
	})
}

// TestWrongFiles is not among those of the reference: a wrong file must not change the
// rules.
func TestWrongFiles(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		s := kind.New(t, basic)
		c := dial(t, s.GRPC, nil)
		c.ask("another", "daily=foo")
		require.NoError(t, s.Write("wrong.yaml", "domain: wrong\ndescriptors: [{key: a, rate_limit: {unit: fortnight, requests_per_unit: 1}}]"))
		requireMetric(t, s, "ratelimit_service_config_load_error", 1)
		equal(t, answer(ok, status(ok, 20, day, 18)), c.ask("another", "daily=foo"))
	})
}

func TestShareThreshold(t *testing.T) {
	rules := servers.Rules{"share.yaml": `
domain: share
descriptors:
  - key: files
    value: files/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: apart
    value: apart/*
    rate_limit: {unit: hour, requests_per_unit: 10}
`}
	each(t, func(t *testing.T, kind servers.Kind) {
		awayFromTurns(10*time.Second, hour)
		c := dial(t, kind.New(t, rules).GRPC, nil)
		for i := range uint32(10) {
			equal(t, answer(ok, status(ok, 10, hour, 9-i)), c.ask("share", "files=files/a.pdf"))
			equal(t, answer(ok, status(ok, 10, hour, 9)), c.ask("share", fmt.Sprintf("apart=apart/%d", i)))
		}
		equal(t, answer(over, status(over, 10, hour, 0)), c.ask("share", "files=files/b.csv"))
	})
}

func TestDurationUntilReset(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		awayFromTurns(10*time.Second, day)
		c := dial(t, kind.New(t, basic).GRPC, nil)
		asks := func() int64 {
			answer, err := c.try(request("another", "daily=foo"))
			require.NoError(t, err)
			return answer.Statuses[0].DurationUntilReset.GetSeconds()
		}
		before := asks()
		time.Sleep(2 * time.Second)
		require.Contains(t, []int64{before - 2, before - 3}, asks())
	})
}
