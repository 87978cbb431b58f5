package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

var counted = servers.Rules{"counted.yaml": `
domain: counted
descriptors:
  - key: plain
    rate_limit: {unit: day, requests_per_unit: 10}
  - key: plain
    value: a:b|127.0.0.1
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: detailed
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: outer
    value_to_metric: true
    descriptors:
      - key: inner
        rate_limit: {unit: day, requests_per_unit: 5}
  - key: star
    value: v*
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: shared
    value: v*
    share_threshold: true
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: free
    rate_limit: {unlimited: true}
`}

// TestStatistics holds the metrics for Prometheus against each other, series by series,
// after the same requests of one descriptor each.
func TestStatistics(t *testing.T) {
	awayFromTurns(30*time.Second, day)
	theirs, ours := servers.Reference.New(t, counted), servers.Sketchlimit.New(t, counted)
	for _, s := range []*servers.Service{theirs, ours} {
		askCounted(dial(t, s.GRPC, nil))
	}
	requireMetric(t, theirs, "ratelimit_service_total_requests", 12*14)
	require.NoError(t, servers.Eventually(10*time.Second, func() error {
		want, err := series(theirs)
		if err != nil {
			return err
		}
		got, err := series(ours)
		if err == nil && got != want {
			err = fmt.Errorf("want\n%s\ngot\n%s", want, got)
		}
		return err
	}))
}

// askCounted asks 12 times 14 requests, with hits below limits, near them and above.
func askCounted(c client) {
	for range 12 {
		for _, d := range []string{"plain=x", "plain=a:b|127.0.0.1", "detailed=x", "detailed=y", "outer=o,inner=i", "outer=p,inner=i",
			"star=v1", "star=v2", "shared=v1", "shared=v2", "shadow=x", "free=x", "unmatched=x"} {
			c.ask("counted", d)
		}
		c.ask("unknown", "a=b")
	}
}

// series are those that tell of requests and rules, but for how long answers took.
func series(s *servers.Service) (string, error) {
	var all []string
	metrics, err := s.Metrics()
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "ratelimit_service_") && !strings.Contains(line, "response_time") {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ""), err
}
