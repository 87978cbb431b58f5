package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/metrics"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

// lines returns a Source's samples as lines.
func lines(t *testing.T, s *metrics.Source) (list []string) {
	t.Helper()
	samples, err := s.Read(t.Context())
	require.NoError(t, err)
	for _, s := range samples {
		list = append(list, fmt.Sprint(s.Metric.Name, s.Labels, " ", s.Value))
	}
	return list
}

func config() sketchlimit.Config {
	return sketchlimit.Config{
		Limit: 2, Window: time.Minute, MemoryBytes: 64 << 10, Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) },
	}
}

func sources(t *testing.T) map[string]*metrics.Source {
	t.Helper()
	l, err := sketchlimit.New(config())
	require.NoError(t, err)
	l.Take("ann", 2)
	l.Take("ann", 1)
	b, err := budget.New(budget.Config{Limits: []sketchlimit.Config{config(), config()}, InFlight: 2, HoldFor: time.Second})
	require.NoError(t, err)
	b.Hold("ann", 2)
	top, err := topkeys.New(10, time.Hour)
	require.NoError(t, err)
	top.Add("api", []byte("ann"), 3)
	keys, err := metrics.TopKeys(top, 5, func(key []byte) string { return string(key) })
	require.NoError(t, err)
	return map[string]*metrics.Source{
		"limiters": metrics.Limiters(maps.All(map[string]*sketchlimit.Limiter{"api": l})),
		"budgets":  metrics.Budgets(maps.All(map[string]*budget.Budget{"tokens": b})),
		"keys":     keys,
	}
}

// What exporters rely on: names in one form and of one metric each, a label for each
// value, units that they know.
func TestShape(t *testing.T) {
	form := regexp.MustCompile(`^[a-z]+(_[a-z]+)*(\.[a-z]+(_[a-z]+)*)?$`)
	unit := regexp.MustCompile(`^(|1|By|s|\{[a-z]+\}(/\{[a-z]+\})?)$`)
	seen := map[string]bool{}
	for name, s := range sources(t) {
		told := map[*metrics.Metric]bool{}
		samples, err := s.Read(t.Context())
		require.NoError(t, err)
		for _, sample := range samples {
			require.Len(t, sample.Labels, len(sample.Metric.Labels))
			told[sample.Metric] = true
		}
		require.Len(t, told, len(s.Metrics()), name)
		for _, m := range s.Metrics() {
			require.True(t, told[m], m.Name)
			require.Regexp(t, form, m.Name)
			require.Regexp(t, unit, m.Unit, m.Name)
			require.True(t, strings.HasSuffix(m.Help, "."), m.Name)
			require.False(t, seen[m.Name], m.Name)
			seen[m.Name] = true
		}
	}
	got := sources(t)
	require.Subset(t, lines(t, got["limiters"]), []string{
		"admitted_units[api] 2", "denied_units[api] 1", "outside_plan[api] 0",
	})
	require.Subset(t, lines(t, got["budgets"]), []string{
		"budget.open_holds[tokens] 1", "budget.held_units[tokens] 2", "budget.outside_plan[tokens 1] 0",
	})
}

// Keys of one text are told as one, bytes that no exporter takes are replaced, and
// there are no more than were asked for.
func TestTopKeys(t *testing.T) {
	top, err := topkeys.New(4, time.Hour)
	require.NoError(t, err)
	for i, key := range []string{"a\xff", "a\xfe", "b", "c", "d"} {
		top.Add("api", []byte(key), uint64(10-i))
	}
	show := func(key []byte) string { return string(key) }
	s, err := metrics.TopKeys(top, 3, show)
	require.NoError(t, err)
	require.Equal(t, []string{
		"top_keys.all_refusals[] 40",
		"top_keys.refusals[api d] 13", "top_keys.uncertain_refusals[api d] 7", // in the place of c
		"top_keys.refusals[api a\uFFFD] 19", "top_keys.uncertain_refusals[api a\uFFFD] 0",
	}, lines(t, s))
	for want, wrong := range map[string]func() (*metrics.Source, error){
		"metrics: top nil, must be one":         func() (*metrics.Source, error) { return metrics.TopKeys(nil, 1, show) },
		"metrics: n 0, must be 1 to 100":        func() (*metrics.Source, error) { return metrics.TopKeys(top, 0, show) },
		"metrics: n 101, must be 1 to 100":      func() (*metrics.Source, error) { return metrics.TopKeys(top, 101, show) },
		"metrics: text nil, must be a function": func() (*metrics.Source, error) { return metrics.TopKeys(top, 1, nil) },
	} {
		_, err := wrong()
		require.EqualError(t, err, want)
	}
}

// What took a second is told again for nine, also if it failed; and what is not known
// is left out.
func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := []metrics.Of[float64]{
			{Metric: metrics.Metric{Name: "a"}, Value: func(v float64) float64 { return v }},
			{Metric: metrics.Metric{Name: "b"}, Value: func(v float64) float64 { return math.NaN() }},
		}
		reads, failed := 0, errors.New("failed")
		s := metrics.NewSource(metrics.All(table), func(context.Context) ([]metrics.Sample, error) {
			time.Sleep(time.Second)
			reads++
			return metrics.Append(nil, table, float64(reads)), failed
		})
		for range 1000 {
			samples, err := s.Read(t.Context())
			require.Equal(t, failed, err)
			require.Equal(t, []float64{float64(reads)}, values(samples))
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 12, reads) // 90 times 0.1 s between two of 1 s
	})
}

func values(samples []metrics.Sample) (list []float64) {
	for _, s := range samples {
		list = append(list, s.Value)
	}
	return list
}
