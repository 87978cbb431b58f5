package promlimit_test

import (
	"expvar"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/promlimit"
)

func build(t *testing.T, limit int, now *time.Time) *sketchlimit.Limiter {
	t.Helper()
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: limit, Window: time.Minute, MemoryBytes: 64 << 10, Seed: 1, Clock: func() time.Time { return *now },
	})
	require.NoError(t, err)
	return l
}

func TestStats(t *testing.T) {
	now := time.Unix(0, 0)
	l := build(t, 2, &now)
	l.Take("ann", 2)
	now = now.Add(time.Minute)
	for _, key := range []string{"bob", "eve"} {
		l.Take(key, 1)
		l.Take(key, 2)
	}
	s := l.Stats()
	require.Equal(t, []uint64{4, 4, 1}, []uint64{s.Admitted, s.Denied, s.Rotations})
	require.InDelta(t, 2, s.DistinctKeys, 0.1)
	want := ""
	for _, m := range []struct {
		name, kind string
		value      any
	}{
		{"admitted_units_total", "counter", 4},
		{"denied_units_total", "counter", 4},
		{"overdraft_units_total", "counter", 0},
		{"too_low_requests_total", "counter", 0},
		{"dropped_counts_total", "counter", 0},
		{"rotations_total", "counter", 1},
		{"false_denial_rate", "gauge", s.FalseDenialRate},
		{"audited_requests_total", "counter", s.Audit.Requests},
		{"audited_units_total", "counter", s.Audit.Units},
		{"audited_false_denials_total", "counter", 0},
		{"audited_admitted_units_total", "counter", s.Audit.Admitted},
		{"audited_exact_units_total", "counter", s.Audit.Exact},
		{"audited_over_admitted_units_total", "counter", 0},
		{"audited_share_ratio", "gauge", 1},
		{"mean_cost_units", "gauge", s.MeanCost},
		{"distinct_keys", "gauge", s.DistinctKeys},
		{"bloom_fill_ratio", "gauge", s.BloomFill},
		{"sketch_fill_ratio", "gauge", s.SketchFill},
		{"outside_plan", "gauge", 0},
		{"over_capacity", "gauge", 0},
		{"over_capacity_times_total", "counter", 0},
		{"over_capacity_units_total", "counter", 0},
		{"memory_bytes", "gauge", l.MemoryBytes()},
	} {
		want += fmt.Sprintf("# TYPE sketchlimit_%s %s\nsketchlimit_%s{limiter=\"api\"} %v\n", m.name, m.kind, m.name, m.value)
	}
	c := promlimit.New(maps.All(map[string]*sketchlimit.Limiter{"api": l}))
	require.Equal(t, 23, testutil.CollectAndCount(c))
	require.Equal(t, want, exposed(t, c))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, prometheus.NewPedanticRegistry().Register(c))
}

// exposed returns what a collector tells, without help, in the order of its metrics.
func exposed(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	names := []string{"admitted_units_total", "denied_units_total", "overdraft_units_total", "too_low_requests_total", "dropped_counts_total", "rotations_total", "false_denial_rate",
		"audited_requests_total", "audited_units_total", "audited_false_denials_total", "audited_admitted_units_total",
		"audited_exact_units_total", "audited_over_admitted_units_total", "audited_share_ratio", "mean_cost_units", "distinct_keys",
		"bloom_fill_ratio", "sketch_fill_ratio", "outside_plan", "over_capacity", "over_capacity_times_total", "over_capacity_units_total", "memory_bytes", "refused_requests_total"}
	var b strings.Builder
	for _, name := range names {
		text, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain, "sketchlimit_"+name)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "# HELP") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// Limiters come and go, as rules do when files are read again.
func TestLimitersOfTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where a reading takes no time
		now := time.Unix(0, 0)
		limiters := map[string]promlimit.Limiter{"a": build(t, 1, &now)}
		c := promlimit.New(maps.All(limiters))
		require.Contains(t, exposed(t, c), `rotations_total{limiter="a"} 0`)
		limiters["b"] = limiters["a"]
		delete(limiters, "a")
		require.Contains(t, exposed(t, c), `rotations_total{limiter="b"} 0`)
		require.NotContains(t, exposed(t, c), `limiter="a"`)
	})
}

// A limiter that meets ten times what it was made for is over capacity until that has
// been gone for two windows.
func TestOverCapacity(t *testing.T) {
	now := time.Unix(0, 0)
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Hour, Keys: 1000, Overload: sketchlimit.DenyProven, Seed: 1, Clock: func() time.Time { return now },
	})
	require.NoError(t, err)
	c := promlimit.New(maps.All(map[string]*sketchlimit.Limiter{"api": l}))
	for i := range 20_000 {
		now = now.Add(100 * time.Millisecond)
		l.Take(fmt.Sprint(i), 20)
	}
	s := l.Stats().OverCapacity
	require.Positive(t, s.Units)
	want := "sketchlimit_over_capacity_times_total{limiter=\"api\"} 1\n# TYPE sketchlimit_over_capacity_units_total counter\n" +
		fmt.Sprintf("sketchlimit_over_capacity_units_total{limiter=\"api\"} %v\n", float64(s.Units))
	text := exposed(t, c)
	require.Contains(t, text, "sketchlimit_over_capacity{limiter=\"api\"} 1\n")
	require.Contains(t, text, "sketchlimit_outside_plan{limiter=\"api\"} 1\n")
	require.Contains(t, text, want)

	now = now.Add(3 * time.Hour)
	require.True(t, l.Allow("ann"))
	text = exposed(t, promlimit.New(maps.All(map[string]*sketchlimit.Limiter{"api": l})))
	require.Contains(t, text, "sketchlimit_over_capacity{limiter=\"api\"} 0\n")
	require.Contains(t, text, want)
}

// slow is a limiter that counts how often it is read, and takes a second for it.
type slow struct {
	reads  atomic.Uint64
	counts uint64
}

func (s *slow) MemoryBytes() int { return 250 << 20 }
func (s *slow) Counters() sketchlimit.Stats {
	s.counts++
	return sketchlimit.Stats{Admitted: s.counts}
}
func (s *slow) Stats() sketchlimit.Stats {
	time.Sleep(time.Second)
	return sketchlimit.Stats{DistinctKeys: float64(s.reads.Add(1))}
}

// A scrape counts at once, and does not wait for what is read of the cells: that takes
// a tenth of the time in the background, however often somebody scrapes.
func TestScrapesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(slow)
		c := promlimit.New(maps.All(map[string]*slow{"slow": s}))
		start := time.Now()
		text := exposed(t, c)
		require.Contains(t, text, "sketchlimit_admitted_units_total{limiter=\"slow\"} 1\n")
		require.NotContains(t, text, "sketchlimit_distinct_keys")
		require.NotContains(t, text, "sketchlimit_outside_plan")
		for range 1000 {
			testutil.CollectAndCount(c)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 100*time.Second, time.Since(start))
		require.EqualValues(t, 10, s.reads.Load())
		text = exposed(t, c)
		require.Regexp(t, `sketchlimit_admitted_units_total{limiter="slow"} 10[0-9]+\n`, text)
		require.Contains(t, text, "sketchlimit_distinct_keys{limiter=\"slow\"} 10\n")
		require.Contains(t, text, "sketchlimit_outside_plan{limiter=\"slow\"} 0\n")
		time.Sleep(time.Minute) // the background ends
	})
}

// 300 limiters of 1 MiB: scraped for the first time, and again.
func BenchmarkScrape(b *testing.B) {
	limiters := map[string]*sketchlimit.Limiter{}
	for i := range 300 {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, MemoryBytes: 1 << 20})
		require.NoError(b, err)
		for key := range 10_000 {
			l.Take(fmt.Sprint(key), 1)
		}
		limiters[fmt.Sprint(i)] = l
	}
	r := prometheus.NewRegistry()
	r.MustRegister(promlimit.New(maps.All(limiters)))
	for _, name := range []string{"first", "again"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := r.Gather()
				require.NoError(b, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	now := time.Unix(0, 0)
	c, count := promlimit.Refusals()
	byUser := httplimit.Header("X-User")
	hard, err := httplimit.New(build(t, 1, &now), byUser, httplimit.Name("hard"), count)
	require.NoError(t, err)
	soft, err := httplimit.New(build(t, 1, &now), byUser, httplimit.Name("soft"), httplimit.Shadow(), count)
	require.NoError(t, err)
	h := soft(hard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for range 4 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	require.Equal(t, "# TYPE sketchlimit_refused_requests_total counter\n"+
		"sketchlimit_refused_requests_total{limiter=\"hard\",shadow=\"false\"} 3\n"+
		"sketchlimit_refused_requests_total{limiter=\"soft\",shadow=\"true\"} 3\n", exposed(t, c))
}

// named is a Decider that refuses by a policy of this name.
type named string

func (n named) Decide(a *httplimit.Answer, _ *http.Request, _ int) {
	a.Policies = append(a.Policies, httplimit.Policy{Name: string(n)})
}

// Names of policies may hold any bytes, where Prometheus panics unless they are UTF-8.
func TestNamesOfAnyBytes(t *testing.T) {
	c, count := promlimit.Refusals()
	limit, err := httplimit.NewPolicies(named("a\xff"), count)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "# TYPE sketchlimit_refused_requests_total counter\n"+
		"sketchlimit_refused_requests_total{limiter=\"a\uFFFD\",shadow=\"false\"} 1\n", exposed(t, c))
	now := time.Unix(0, 0)
	require.Contains(t, exposed(t, promlimit.New(maps.All(map[string]*sketchlimit.Limiter{"\xffb": build(t, 1, &now)}))), "{limiter=\"\uFFFDb\"}")
}

// Without Prometheus, one line tells the same.
func Example_expvar() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: time.Minute, Keys: 1000})
	if err != nil {
		panic(err)
	}
	expvar.Publish("api limiter", expvar.Func(func() any { return limiter.Stats() }))
	limiter.Take("ann", 2)
	fmt.Println(strings.Contains(expvar.Get("api limiter").String(), `"Admitted":2,"Overdraft":0,"Denied":0,"TooLow":0,"Rotations":0`))
	// Output: true
}

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 1_000_000})
	if err != nil {
		panic(err)
	}
	refusals, count := promlimit.Refusals()
	prometheus.MustRegister(refusals, promlimit.New(maps.All(map[string]*sketchlimit.Limiter{"default": limiter})))
	limit, err := httplimit.New(limiter, &httplimit.Clients{}, count)
	if err != nil {
		panic(err)
	}
	http.ListenAndServe(":8080", limit(http.NotFoundHandler()))
}
