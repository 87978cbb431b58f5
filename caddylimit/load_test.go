package caddylimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"
)

// HTTP/2 has many requests on one connection.
func TestHTTP2(t *testing.T) {
	s := newServer(t)
	transport := s.client.Transport.(*http.Transport)
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
	transport.DisableKeepAlives = false
	s.load(limit("key {http.request.header.User}\nwindow 1h\nevents 100"))
	statuses := make(chan int)
	for range 300 {
		go func() {
			r, _ := http.NewRequest("GET", "http://caddy/", nil)
			response, err := s.client.Do(r)
			if err != nil || response.ProtoMajor != 2 {
				t.Error(response, err)
				statuses <- 0
				return
			}
			response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	counts := map[int]int{}
	for range 300 {
		counts[<-statuses]++
	}
	require.Equal(t, map[int]int{200: 100, 429: 200}, counts)
}

// provisioned returns a handler without a server.
func provisioned(t testing.TB, h *Handler) *Handler {
	ctx, err := caddy.ProvisionContext(&caddy.Config{Admin: &caddy.AdminConfig{Disabled: true}})
	require.NoError(t, err)
	h.SnapshotInterval = -1
	require.NoError(t, h.Provision(ctx))
	t.Cleanup(func() { require.NoError(t, h.Cleanup()) })
	return h
}

// The keys that a zone is made for if it does not say.
func TestUsualKeys(t *testing.T) {
	for _, c := range []struct {
		zone   Zone
		shared bool
		want   int
	}{
		{Zone{Key: "{client_ip}"}, false, 100_000},
		{Zone{Key: "{client_ip}"}, true, 300_000},
		{Zone{Key: "all"}, false, 1},
		{Zone{Key: "{client_ip}", Keys: 7}, false, 7},
		{Zone{Key: "{client_ip}", Memory: 1 << 20}, false, 0},
	} {
		c.zone.MaxEvents, c.zone.Window = 10, caddy.Duration(time.Minute)
		configs, err := c.zone.configsOf(c.shared)
		require.NoError(t, err)
		require.Equal(t, c.want, configs[0].Keys, c.zone.Key)
	}
}

// request is one with what Caddy adds to it.
func request() (*http.Request, *caddy.Replacer) {
	r := httptest.NewRequest("GET", "/", nil)
	repl := caddyhttp.NewTestReplacer(r)
	return r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)), repl
}

type nothing struct{}

func (nothing) ServeHTTP(http.ResponseWriter, *http.Request) error { return nil }

// A million keys take what is configured for them.
func TestMillionKeys(t *testing.T) {
	const keys = 1_000_000
	heap := func() int {
		var m runtime.MemStats
		for range 10 { // what earlier tests leave goes step by step
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	h := provisioned(t, &Handler{Zones: map[string]*Zone{
		"api": {Key: "{test.key}", MaxEvents: 100, Window: caddy.Duration(time.Hour), Keys: keys},
	}})
	r, repl := request()
	w := httptest.NewRecorder()
	for i := range keys {
		repl.Set("test.key", fmt.Sprintf("2001:db8::%x", i))
		require.NoError(t, h.ServeHTTP(w, r, nothing{}))
	}
	grown, configured := heap()-before, h.zones[0].state.limiters[0].MemoryBytes()
	t.Logf("%d keys: %d bytes configured, %d more on the heap", keys, configured, grown)
	require.LessOrEqual(t, grown, configured+256<<10)
	require.LessOrEqual(t, configured, 2_300_000)
	require.False(t, h.zones[0].state.limiters[0].Stats().OutsidePlan)
	runtime.KeepAlive(h)
}

// A zone that meets more keys than it is made for is told of, once an hour at most.
func TestMoreKeysThanPlanned(t *testing.T) {
	watchEvery = 10 * time.Millisecond
	t.Cleanup(func() { watchEvery = time.Minute })
	s := newServer(t)
	s.load(limit("key {http.request.uri.path}\nwindow 1d\nevents 100\nkeys 10"))
	require.Contains(t, written.text(),
		`"msg":"zone counts","limiter":"api/24h0m0s","events":100,"keys":10,"memory_bytes"`)
	l := current()["api"].limiters[0]
	const told = "zone meets more than it is made for"
	require.NotContains(t, written.text(), told)
	for i := range 1000 {
		l.Allow(fmt.Sprint(i))
	}
	require.Eventually(t, func() bool {
		return strings.Contains(written.text(), told)
	}, 30*time.Second, 10*time.Millisecond)
	time.Sleep(3 * watchEvery)
	require.Equal(t, 1, strings.Count(written.text(), told))
}

// A decision allocates nothing beside what Caddy's placeholders do.
func TestAllocations(t *testing.T) {
	h := provisioned(t, &Handler{Zones: map[string]*Zone{
		"all":  {Key: "all", Limits: []Limit{{1_000_000, caddy.Duration(time.Minute)}, {2_000_000, caddy.Duration(time.Hour)}}},
		"each": {Key: "192.0.2.7", IPv4Prefix: 24, MaxEvents: 1_000_000, Window: caddy.Duration(time.Hour)},
	}})
	r, _ := request()
	w := httptest.NewRecorder()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if h.ServeHTTP(w, r, nothing{}) != nil {
			t.Fatal("refused")
		}
	}))
}

// BenchmarkSnapshot compresses what a million keys have left in a limiter that is made
// for them.
func BenchmarkSnapshot(b *testing.B) {
	h := provisioned(b, &Handler{Zones: map[string]*Zone{
		"api": {Key: "{test.key}", MaxEvents: 100, Window: caddy.Duration(24 * time.Hour), Keys: 1_000_000},
	}})
	l := h.zones[0].state.limiters[0]
	for i := range 5_000_000 {
		l.Allow(fmt.Sprint(i % 1_000_000))
	}
	var packed []byte
	for b.Loop() {
		var err error
		if packed, err = pack(l.Limiter); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(l.MemoryBytes()), "B")
	b.ReportMetric(float64(len(packed)), "packed-B")
}

func BenchmarkServeHTTP(b *testing.B) {
	for _, disabled := range []bool{false, true} {
		b.Run(fmt.Sprintf("metrics=%v", !disabled), func(b *testing.B) {
			h := provisioned(b, &Handler{DisableMetrics: disabled, Zones: map[string]*Zone{
				"api": {Key: "{http.request.header.User}", MaxEvents: 1 << 30, Window: caddy.Duration(time.Hour), Keys: 1000},
			}})
			r, _ := request()
			r.Header.Set("User", "ann")
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				if err := h.ServeHTTP(w, r, nothing{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
