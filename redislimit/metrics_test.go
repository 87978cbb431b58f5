package redislimit

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/metrics"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// told returns the samples of a Source by the names of their metrics; all are of a limiter named api.
func told(t *testing.T, s *metrics.Source) (map[string]float64, error) {
	samples, err := s.Read(t.Context())
	list := map[string]float64{}
	for _, s := range samples {
		require.Equal(t, []string{"api"}, s.Labels)
		list[s.Metric.Name] = s.Value
	}
	return list, err
}

func TestStrictMetrics(t *testing.T) {
	server := redistest.New(t)
	s := strict(t, newTestClient(t, server.Addr), Config{Limit: 2, Window: time.Hour, MemoryBytes: 64 << 10})
	for range 3 {
		_, err := s.Take(t.Context(), "ann", 1)
		require.NoError(t, err)
	}
	_, err := s.Do(t.Context(), sketchlimit.Request{Key: "ann", Limit: 1})
	require.NoError(t, err)
	source := func() *metrics.Source { return StrictMetrics(maps.All(map[string]*Strict{"api": s})) }
	got, err := told(t, source())
	require.NoError(t, err)
	stats, err := s.Stats(t.Context())
	require.NoError(t, err)
	require.Positive(t, stats.SketchFill)
	require.Equal(t, map[string]float64{
		"strict.admitted_units": 2, "strict.denied_units": 2, "strict.too_low_requests": 1, "strict.memory": float64(s.MemoryBytes()),
		"strict.false_denial_rate": stats.FalseDenialRate, "strict.sketch_fill_ratio": stats.SketchFill,
		"strict.away": 0, "strict.away_changes": 0, "strict.evicting": 0,
	}, got)

	server.Kill()
	redistest.Eventually(t, "Redis is away", func() bool {
		s.Take(t.Context(), "ann", 1)
		return s.Health().Away
	})
	got, err = told(t, source())
	require.Error(t, err)
	require.EqualValues(t, 1, got["strict.away"])
	require.EqualValues(t, s.Health().Changes, got["strict.away_changes"])
	require.NotContains(t, got, "strict.false_denial_rate")
	require.NotContains(t, got, "strict.sketch_fill_ratio")
}

func TestSyncedMetrics(t *testing.T) {
	server := redistest.New(t)
	s := newTestNode(t, newTestClient(t, server.Addr), testConfig(new(atomic.Int64)))
	admit(t, s, 3)
	source := func() *metrics.Source { return SyncedMetrics(maps.All(map[string]*Synced{"api": s})) }
	exchange(t, s)
	redistest.Eventually(t, "Redis has told what it does when full", func() bool { return s.Stats().Eviction != EvictionUnknown })
	got, err := told(t, source())
	require.NoError(t, err)
	stats := s.Stats()
	want := map[string]float64{
		"synced.exchanges": float64(stats.Exchanges), "synced.failed_exchanges": 0, "synced.losses": float64(stats.Lost),
		"synced.latest_exchange_timestamp": float64(stats.Latest.UnixMicro()) / 1e6,
		"synced.sent":                      float64(stats.SentBytes), "synced.received": float64(stats.ReceivedBytes),
		"synced.clock_skew": stats.ClockSkew.Seconds(), "synced.away": 0, "synced.away_changes": 0, "synced.evicting": 0,
	}
	require.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
	require.Positive(t, stats.Exchanges)
}

// What is not known is left out, and names are in the form of all others.
func TestMetricsOfNothing(t *testing.T) {
	var list []metrics.Sample
	list = metrics.Append(list, syncedTable, &SyncedStats{Eviction: EvictionUnknown})
	list = metrics.Append(list, strictTable, &strictReading{StrictStats: StrictStats{Eviction: "allkeys-lru"}})
	require.Len(t, list, len(syncedTable)-2+len(strictTable)-2)
	for _, s := range list {
		require.True(t, strings.HasPrefix(s.Metric.Name, "synced.") || strings.HasPrefix(s.Metric.Name, "strict."))
		if s.Metric.Name == "strict.evicting" {
			require.EqualValues(t, 1, s.Value)
		}
	}
}
