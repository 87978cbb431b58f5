package otellimit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/metrics"
	"github.com/sketchlimit/sketchlimit/otellimit"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 1_000_000})
	if err != nil {
		panic(err)
	}
	limiters := map[string]*sketchlimit.Limiter{"default": limiter}
	meter := otel.Meter("example.com/service")
	registration, err := otellimit.Register(meter, metrics.Limiters(maps.All(limiters)))
	if err != nil {
		panic(err)
	}
	defer registration.Unregister()
	count, err := otellimit.Refusals(meter)
	if err != nil {
		panic(err)
	}
	limit, err := httplimit.New(limiter, &httplimit.Clients{}, count)
	if err != nil {
		panic(err)
	}
	fmt.Println(limit != nil)
	// Output: true
}

func newMeter() (*sdk.ManualReader, metric.Meter) {
	reader := sdk.NewManualReader()
	return reader, sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
}

// collected is what a reader collects, by names.
func collected(t *testing.T, reader *sdk.ManualReader) (map[string]metricdata.Metrics, error) {
	t.Helper()
	var all metricdata.ResourceMetrics
	err := reader.Collect(t.Context(), &all)
	list := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			list[m.Name] = m
		}
	}
	return list, err
}

// lines returns the points of a metric, one a line: kind, attributes and value.
func lines(t *testing.T, m metricdata.Metrics) (list []string) {
	t.Helper()
	add := func(kind string, points []metricdata.DataPoint[float64]) {
		for _, p := range points {
			list = append(list, fmt.Sprint(kind, " ", p.Attributes.Encoded(attribute.DefaultEncoder()), " ", p.Value))
		}
	}
	switch data := m.Data.(type) {
	case metricdata.Gauge[float64]:
		add("gauge", data.DataPoints)
	case metricdata.Sum[float64]:
		add(map[bool]string{true: "counter", false: "sum"}[data.IsMonotonic], data.DataPoints)
	case metricdata.Sum[int64]:
		require.True(t, data.IsMonotonic)
		for _, p := range data.DataPoints {
			list = append(list, fmt.Sprint("counter ", p.Attributes.Encoded(attribute.DefaultEncoder()), " ", p.Value))
		}
	default:
		t.Fatalf("%s is a %T", m.Name, data)
	}
	slices.Sort(list)
	return list
}

// Every metric of the sources that promlimit exports, too, has its instrument, of its
// kind, with its labels as attributes and its values; and the refusals have theirs.
func TestAllMetrics(t *testing.T) {
	now := time.Unix(0, 0)
	config := sketchlimit.Config{
		Limit: 3, Window: time.Minute, MemoryBytes: 64 << 10, Seed: 1, Clock: func() time.Time { return now },
	}
	limiters := map[string]*sketchlimit.Limiter{}
	for i, name := range []string{"api", "login"} {
		l, err := sketchlimit.New(config)
		require.NoError(t, err)
		l.Take("ann", 2+i)
		l.Take("ann", 3)
		limiters[name] = l
	}
	b, err := budget.New(budget.Config{Limits: []sketchlimit.Config{config, config}, InFlight: 1, HoldFor: time.Second})
	require.NoError(t, err)
	hold, _ := b.Hold("ann", 2)
	hold.Settle(5)
	b.Hold("bob", 1)
	top, err := topkeys.New(10, time.Hour)
	require.NoError(t, err)
	keys, err := metrics.TopKeys(top, 2, func(key []byte) string { return strings.ToUpper(string(key)) })
	require.NoError(t, err)

	reader, meter := newMeter()
	count, err := otellimit.Refusals(meter)
	require.NoError(t, err)
	for _, option := range []httplimit.Option{httplimit.Name("api"), httplimit.Shadow()} {
		limit, err := httplimit.New(limiters["api"], httplimit.Header("X-User"), option, count,
			httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) { top.Add(p.Name, []byte("ann"), 1) }))
		require.NoError(t, err)
		for range 5 {
			limit(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}
	}
	sources := []*metrics.Source{
		metrics.Limiters(maps.All(limiters)), metrics.Budgets(maps.All(map[string]*budget.Budget{"tokens": b})), keys,
	}
	_, err = otellimit.Register(meter, sources...)
	require.NoError(t, err)
	got, err := collected(t, reader)
	require.NoError(t, err)
	require.Equal(t, []string{"counter limiter=api,shadow=false 2", "counter limiter=default,shadow=true 5"},
		lines(t, got["sketchlimit.refused_requests"]))
	require.Len(t, got, 23+12+4+1)

	want := map[*metrics.Metric][]string{}
	for _, s := range sources {
		samples, err := s.Read(t.Context())
		require.NoError(t, err)
		for _, sample := range samples {
			var labels []string
			for i, l := range sample.Labels {
				labels = append(labels, sample.Metric.Labels[i]+"="+l)
			}
			slices.Sort(labels)
			kind := []string{metrics.Gauge: "gauge", metrics.Sum: "sum", metrics.Counter: "counter"}[sample.Metric.Kind]
			line := fmt.Sprint(kind, " ", strings.Join(labels, ","), " ", sample.Value)
			want[sample.Metric] = append(want[sample.Metric], line)
		}
	}
	require.Len(t, want, 23+12+4)
	for m, list := range want {
		slices.Sort(list)
		instrument := got["sketchlimit."+m.Name]
		require.Equal(t, list, lines(t, instrument), m.Name)
		require.Equal(t, []string{m.Help, m.Unit}, []string{instrument.Description, instrument.Unit}, m.Name)
	}
	require.Contains(t, lines(t, got["sketchlimit.budget.open_holds"]), "sum budget=tokens 1")
	require.Contains(t, lines(t, got["sketchlimit.top_keys.refusals"]), "gauge key=ANN,limiter=default 5")
}

// counted counts how often it is read.
type counted struct{ reads int }

func (c *counted) MemoryBytes() int         { return 1 }
func (c *counted) Stats() sketchlimit.Stats { return sketchlimit.Stats{} }
func (c *counted) Counters() sketchlimit.Stats {
	c.reads++
	return sketchlimit.Stats{Admitted: uint64(c.reads)}
}

// A collection reads a limiter once, and none after Unregister.
func TestOneReadingEachCollection(t *testing.T) {
	c := new(counted)
	reader, meter := newMeter()
	registration, err := otellimit.Register(meter, metrics.Limiters(maps.All(map[string]*counted{"api": c})))
	require.NoError(t, err)
	for range 100 {
		before := c.reads
		got, err := collected(t, reader)
		require.NoError(t, err)
		require.LessOrEqual(t, c.reads-before, 1)
		require.Equal(t, []string{fmt.Sprint("counter limiter=api ", c.reads)}, lines(t, got["sketchlimit.admitted_units"]))
	}
	require.NoError(t, registration.Unregister())
	require.NoError(t, registration.Unregister())
	before := c.reads
	got, err := collected(t, reader)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, before, c.reads)
}

// What could be read is told although the rest failed.
func TestErrors(t *testing.T) {
	m := &metrics.Metric{Name: "strict.away", Labels: []string{"limiter"}}
	failed := errors.New("failed")
	reader, meter := newMeter()
	read := func(context.Context) ([]metrics.Sample, error) {
		return []metrics.Sample{{Metric: m, Labels: []string{"api"}, Value: 1}}, failed
	}
	_, err := otellimit.Register(meter, metrics.NewSource([]*metrics.Metric{m}, read))
	require.NoError(t, err)
	got, err := collected(t, reader)
	require.ErrorIs(t, err, failed)
	require.Equal(t, []string{"gauge limiter=api 1"}, lines(t, got["sketchlimit.strict.away"]))
}

// named is a Decider that refuses by a policy of this name.
type named string

func (n named) Decide(a *httplimit.Answer, _ *http.Request, _ int) {
	a.Policies = append(a.Policies, httplimit.Policy{Name: string(n)})
}

// Names of limiters and policies may hold any bytes, of which exporters take UTF-8 alone.
func TestNamesOfAnyBytes(t *testing.T) {
	reader, meter := newMeter()
	count, err := otellimit.Refusals(meter)
	require.NoError(t, err)
	limit, err := httplimit.NewPolicies(named("a\xff"), count)
	require.NoError(t, err)
	limit(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	_, err = otellimit.Register(meter, metrics.Limiters(maps.All(map[string]*counted{"b\xff": new(counted)})))
	require.NoError(t, err)
	got, err := collected(t, reader)
	require.NoError(t, err)
	require.Equal(t, []string{"counter limiter=a\uFFFD,shadow=false 1"}, lines(t, got["sketchlimit.refused_requests"]))
	require.Equal(t, []string{"sum limiter=b\uFFFD 1"}, lines(t, got["sketchlimit.memory"]))
}

func TestWrongArguments(t *testing.T) {
	_, meter := newMeter()
	_, err := otellimit.Register(nil)
	require.EqualError(t, err, "otellimit: meter nil, must be one")
	_, err = otellimit.Refusals(nil)
	require.EqualError(t, err, "otellimit: meter nil, must be one")
	_, err = otellimit.Register(meter, nil)
	require.EqualError(t, err, "otellimit: sources[0] nil, must be one")
	wrong := metrics.NewSource([]*metrics.Metric{{Name: "ä"}}, nil)
	_, err = otellimit.Register(meter, wrong)
	require.ErrorContains(t, err, "otellimit: ")
}
