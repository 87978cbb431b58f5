package promlimit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/metrics"
	"github.com/sketchlimit/sketchlimit/promlimit"
)

// Any Source is exported: names by the rules of Prometheus, labels as it takes them,
// what could be read although the rest failed.
func TestCollector(t *testing.T) {
	list := []*metrics.Metric{
		{Name: "synced.sent", Help: "A.", Unit: "By", Kind: metrics.Counter, Labels: []string{"limiter"}},
		{Name: "synced.clock_skew", Help: "B.", Unit: "s", Labels: []string{"limiter"}},
		{Name: "fill_ratio", Help: "C.", Unit: "1"},
		{Name: "keys", Help: "D.", Unit: "{key}", Kind: metrics.Sum},
	}
	c := promlimit.Collector(metrics.NewSource(list, func(context.Context) ([]metrics.Sample, error) {
		return []metrics.Sample{
			{Metric: list[0], Labels: []string{"a\xff"}, Value: 5},
			{Metric: list[1], Labels: []string{"b"}, Value: -0.5},
			{Metric: list[2], Value: 0.25},
		}, errors.New("the last one failed")
	}))
	text, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain,
		"sketchlimit_fill_ratio", "sketchlimit_synced_clock_skew_seconds", "sketchlimit_synced_sent_bytes_total")
	require.NoError(t, err)
	require.Equal(t, `# HELP sketchlimit_fill_ratio C.
# TYPE sketchlimit_fill_ratio gauge
sketchlimit_fill_ratio 0.25
# HELP sketchlimit_synced_clock_skew_seconds B.
# TYPE sketchlimit_synced_clock_skew_seconds gauge
sketchlimit_synced_clock_skew_seconds{limiter="b"} -0.5
# HELP sketchlimit_synced_sent_bytes_total A.
# TYPE sketchlimit_synced_sent_bytes_total counter
sketchlimit_synced_sent_bytes_total{limiter="a`+"\uFFFD"+`"} 5
`, string(text))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, prometheus.NewPedanticRegistry().Register(c))
}
