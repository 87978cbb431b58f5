package frameworks

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/metrics"
	"github.com/sketchlimit/sketchlimit/otellimit"
	"github.com/sketchlimit/sketchlimit/promlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

// sources has one of each kind. No Redis listens where the shared limiters look for it:
// they decide alone.
func sources(t *testing.T) []*metrics.Source {
	config := config(1000)
	config.Seed = 1
	limiter := must[*sketchlimit.Limiter](t)(sketchlimit.New(config))
	b := must[*budget.Budget](t)(budget.New(budget.Config{
		Limits: []sketchlimit.Config{config, config}, InFlight: 10, HoldFor: time.Hour,
	}))
	b.Hold("ann", 5)
	top := must[*topkeys.Top](t)(topkeys.New(10, window))
	top.Add("api", []byte("ann"), 3)
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	strict := must[*redislimit.Strict](t)(redislimit.NewStrict(client, redislimit.Config{
		Limit: limit, Window: window, Keys: 1000, Log: log,
	}))
	strict.Take(t.Context(), "ann", 7)
	synced := must[*redislimit.Synced](t)(redislimit.NewSynced(client, limiter, time.Hour, redislimit.Log(log)))
	t.Cleanup(func() { synced.Close() })
	synced.Take("ann", 6)
	return []*metrics.Source{
		metrics.Limiters(maps.All(map[string]*sketchlimit.Limiter{"api": limiter})),
		metrics.Budgets(maps.All(map[string]*budget.Budget{"tokens": b})),
		must[*metrics.Source](t)(metrics.TopKeys(top, 5, func(key []byte) string { return string(key) })),
		redislimit.StrictMetrics(maps.All(map[string]*redislimit.Strict{"api": strict})),
		redislimit.SyncedMetrics(maps.All(map[string]*redislimit.Synced{"api": synced})),
	}
}

// OpenTelemetry's exporter for Prometheus tells what promlimit tells: the same names,
// kinds, labels and values.
func TestBothExportersTellTheSame(t *testing.T) {
	direct, translated := prometheus.NewRegistry(), prometheus.NewRegistry()
	reader, err := exporter.New(
		exporter.WithRegisterer(translated), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	require.NoError(t, err)
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
	refusals, count := promlimit.Refusals()
	direct.MustRegister(refusals)
	translatedCount, err := otellimit.Refusals(meter)
	require.NoError(t, err)
	limited, err := httplimit.New(build(t, 1000), httplimit.Header(user), count, translatedCount,
		httplimit.Cost(func(r *http.Request) int { return 2 * limit }))
	require.NoError(t, err)
	require.False(t, over(limited(http.HandlerFunc(hello)))("ann"))

	all := sources(t)
	for _, s := range all {
		direct.MustRegister(promlimit.Collector(s))
	}
	_, err = otellimit.Register(meter, all...)
	require.NoError(t, err)
	want, got := gathered(t, direct), gathered(t, translated)
	require.Equal(t, want, got)
	for _, line := range []string{
		`sketchlimit_admitted_units_total COUNTER limiter="api" 6`,
		`sketchlimit_budget_held_units GAUGE budget="tokens" 5`,
		`sketchlimit_top_keys_refusals GAUGE key="ann" limiter="api" 3`,
		`sketchlimit_strict_admitted_units_total COUNTER limiter="api" 7`,
		`sketchlimit_synced_exchanges_total COUNTER limiter="api" 0`,
		`sketchlimit_refused_requests_total COUNTER limiter="default" shadow="false" 1`,
	} {
		require.Contains(t, got, line)
	}
	require.Len(t, want, 23+8+2*5+3+6+8+1) // without rates and times that nobody knows while Redis is away
}

// gathered returns samples as lines.
func gathered(t *testing.T, registry *prometheus.Registry) (list []string) {
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			value := m.Gauge.GetValue()
			if f.GetType() == dto.MetricType_COUNTER {
				value = m.Counter.GetValue()
			}
			var labels strings.Builder
			for _, l := range m.Label {
				fmt.Fprintf(&labels, "%s=%q ", l.GetName(), l.GetValue())
			}
			list = append(list, fmt.Sprint(f.GetName(), " ", f.GetType(), " ", labels.String(), value))
		}
	}
	slices.Sort(list)
	return list
}
