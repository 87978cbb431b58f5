package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/pageview"
	"github.com/sketchlimit/sketchlimit/rules/operators"
)

func build(t *testing.T, file string) *service {
	t.Helper()
	s, err := newService(config{
		file: file, bytes: 64 << 20, proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, top: 1000 * time.Hour,
	}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { s.lines.Close() })
	return s
}

// get sends a request of a client behind a proxy.
func (s *service) get(client, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = "192.0.2.1:80"
	r.Header.Set("X-Forwarded-For", client)
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	return w
}

// seen returns what the page shows.
func (s *service) seen(t *testing.T) (st operators.Status) {
	w := httptest.NewRecorder()
	s.operators.ServeHTTP(w, httptest.NewRequest("GET", "/status", nil))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &st))
	return st
}

func TestLimits(t *testing.T) { synctest.Test(t, testLimits) } // in one minute

func testLimits(t *testing.T) {
	s := build(t, "rules.yaml")
	w := s.get("203.0.113.7", "/search?q=ann")
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"query":"ann","found":["/items/1","/items/2"]}`, w.Body.String())
	require.Equal(t, `"client";q=100;w=60, "search";q=20;w=10`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, `"search";r=19;t=`, w.Header().Get("RateLimit")[:16])
	require.JSONEq(t, `{"id":"7","name":"An item"}`, s.get("203.0.113.7", "/items/7").Body.String())

	// A whole network counts as one client, and what is only watched refuses nobody.
	refused := 0
	for i := range 120 {
		if s.get("2001:db8:1:2::"+strconv.Itoa(i), "/items/1").Code == http.StatusTooManyRequests {
			refused++
		}
	}
	require.Equal(t, 20, refused)
	st := s.seen(t)
	require.EqualValues(t, 122, st.Requests)
	require.EqualValues(t, 20, st.Refused)
	require.Equal(t, s.rules.MemoryBytes(), st.MemoryBytes)
	require.Len(t, st.Rules, 3)
	require.Equal(t, "items", st.Rules[2].Name)
	require.True(t, st.Rules[2].Shadow)
	require.Equal(t, []operators.Key{{Policy: "client", Key: "2001:db8:1:2::/64", Count: 20}}, st.Top.Keys)

	w = httptest.NewRecorder()
	s.operators.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`sketchlimit_admitted_units_total{limiter="client"} 102`,
		`sketchlimit_denied_units_total{limiter="client"} 20`,
		`sketchlimit_refused_requests_total{limiter="client",shadow="false"} 20`,
		`sketchlimit_refused_requests_total{limiter="items",shadow="true"} 80`,
		"limits_failed_loads_total 0",
	} {
		require.Contains(t, w.Body.String(), line+"\n")
	}
	require.NotContains(t, w.Body.String(), "2001:db8", "never by key")

	w = httptest.NewRecorder()
	s.operators.ServeHTTP(w, httptest.NewRequest("GET", "/debug/vars", nil))
	var vars struct {
		Limits map[string]operators.Status `json:"limits"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &vars))
	require.Equal(t, map[string]operators.Status{"rules.yaml": st}, vars.Limits)
}

// lines runs the service and returns what it logs, line by line.
func lines(t *testing.T, args ...string) (ctx context.CancelFunc, next func(part string) string, end func() error) {
	reader, writer := io.Pipe()
	c, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		err := run(c, args, writer)
		writer.Close()
		done <- err
	}()
	scanner := bufio.NewScanner(reader)
	next = func(part string) string { // waits for a line that has the part
		for scanner.Scan() {
			if strings.Contains(scanner.Text(), part) {
				return scanner.Text()
			}
		}
		require.FailNow(t, "ended before it logged "+part)
		return ""
	}
	return cancel, next, func() error {
		go io.Copy(io.Discard, reader)
		return <-done
	}
}

var addressOf = regexp.MustCompile(`address=(\S+)`)

// written writes a file with the rules, in which something is replaced.
func written(t *testing.T, oldnew ...string) string {
	t.Helper()
	text, err := os.ReadFile("rules.yaml")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(oldnew...).Replace(string(text))), 0o600))
	return file
}

func TestRun(t *testing.T) {
	file := written(t)
	write := func(old, new string) {
		text, err := os.ReadFile(written(t, old, new))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
	stop, next, end := lines(t, "-address", "localhost:0", "-operators", "localhost:0", "-rules", file)
	address := addressOf.FindStringSubmatch(next("endpoint=api"))[1]
	operators := addressOf.FindStringSubmatch(next("endpoint=operators"))[1]
	policy := func() string {
		response, err := http.Get("http://" + address + "/search")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.Header.Get("RateLimit-Policy")
	}
	require.Equal(t, `"client";q=100;w=60, "search";q=20;w=10`, policy())

	write("requests_per_unit: 20,", "requests_per_unit: 3000,") // of another size: seen at the next look
	next("rules read again")
	require.Equal(t, `"client";q=100;w=60, "search";q=3000;w=10`, policy())
	write("domain: api", "doman: api")
	require.Contains(t, next("rules stay as they are"), file+`:2: config error, unknown key 'doman'`)
	require.Equal(t, `"client";q=100;w=60, "search";q=3000;w=10`, policy())

	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	next("rules stay as they are")

	response, err := http.Get("http://" + operators + "/")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)

	stop()
	require.NoError(t, end())
	_, err = http.Get("http://" + address + "/search")
	require.Error(t, err)
}

func TestRunErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-proxies 10.0.0.1":            `-proxies: netip.ParsePrefix("10.0.0.1"): no '/'`,
		"-rules nowhere.yaml":          "rules: stat nowhere.yaml: no such file or directory",
		"-rules rules.yaml -bytes 100": "must be at most 100",
		"-rules rules.yaml -address localhost:1:1 -operators localhost:0": "too many colons",
	} {
		require.ErrorContains(t, run(t.Context(), strings.Fields(args), io.Discard), want)
	}
}

// Ten times the clients that a rule is made for: the page, the metrics and the log say
// so, and later that it has ended.
func TestBeyondThePlan(t *testing.T) { synctest.Test(t, testBeyondThePlan) }

func testBeyondThePlan(t *testing.T) {
	s := build(t, written(t, "keys: 1000000, overload", "units_per_key: 5, keys: 100, overload"))
	var log strings.Builder
	o := operators.NewLog(slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 60_000 {
		time.Sleep(time.Millisecond / 2)
		s.get(fmt.Sprintf("203.0.%d.%d", i/20/250, i/20%250), "/items/1")
	}
	o.Look(s.rules)
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "rule=client ")
	client := s.seen(t).Rules[0]
	require.Equal(t, "client", client.Name)
	require.True(t, client.OverCapacity.Active)
	require.WithinRange(t, client.OverCapacity.Since, time.Now().Add(-30*time.Second), time.Now())
	require.Positive(t, client.OverCapacity.Units)
	require.EqualValues(t, 1, client.OverCapacity.Times)
	w := httptest.NewRecorder()
	s.operators.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Contains(t, w.Body.String(), `sketchlimit_over_capacity{limiter="client"} 1`+"\n")

	time.Sleep(3 * time.Minute)
	s.get("203.0.113.7", "/items/1")
	log.Reset()
	o.Look(s.rules)
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "level=INFO")
	ended := s.seen(t).Rules[0].OverCapacity
	require.False(t, ended.Active)
	require.True(t, ended.Exact.Before(time.Now()))
	require.EqualValues(t, 1, ended.Times)
}

// The page in a browser, which asks for the status again and shows what has changed.
func TestPage(t *testing.T) {
	s := build(t, written(t, "unit: minute", "unit: year")) // none ends while a browser starts
	for range 110 {
		s.get("203.0.113.7", "/items/1")
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status" {
			if asked++; asked == 2 { // the browser waits for each answer before it asks again
				for range 1000 {
					s.get("203.0.113.7", "/items/1")
				}
				s.get("<b>markup</b>, 203.0.113.8", "/items/1")
			}
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(s.page.Status())
			return
		}
		s.operators.ServeHTTP(w, r)
	}))
	defer server.Close()
	dom := pageview.Browse(t, "--dump-dom", "--virtual-time-budget=5000", server.URL+"/")
	require.Contains(t, dom, `<b id="requests">1,111</b>`)
	require.Contains(t, dom, `<b id="refused">1,010</b>`)
	require.Contains(t, dom, `<th scope="row">items (only watched)</th>`)
	require.Regexp(t, `<b id="error">(0|\d\.\de-\d+)</b>`, dom)
	require.Contains(t, dom, `<tr><th scope="row">client</th><td class="">203.0.113.7</td><td class="number">1,010</td><td class="number">1,010</td></tr>`)
	require.Regexp(t, `<polyline id="line-refused" class="refused" points="[\d., ]+">`, dom)
	require.Contains(t, dom, `<span id="lost" role="status" hidden="">`)
	require.Greater(t, asked, 1)
}

// The page warns while a rule is over capacity, and says since when the others are
// exact again.
func TestPageBeyondThePlan(t *testing.T) {
	s := build(t, "rules.yaml")
	at := time.Date(2026, time.November, 23, 12, 0, 0, 0, time.UTC)
	ended := operators.OverCapacity{Since: at, Exact: at.Add(2 * time.Minute), Times: 1, Units: 7}
	var rules atomic.Pointer[[]operators.OverCapacity]
	rules.Store(&[]operators.OverCapacity{{Active: true, Since: at, Times: 1234, Units: 56789}, ended, {}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status" {
			s.operators.ServeHTTP(w, r)
			return
		}
		st := s.page.Status()
		st.Time = at.Add(time.Minute)
		for i, over := range *rules.Load() {
			st.Rules[i].OverCapacity = over
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(st)
	}))
	defer server.Close()
	dom := func() string { return pageview.Browse(t, "--dump-dom", "--virtual-time-budget=1500", server.URL+"/") }
	const when = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`
	shown := dom()
	require.Contains(t, shown, `<section id="overload" aria-labelledby="overload-title" class="warning">`)
	require.Regexp(t, `<li>client is over capacity since `+when+`. It was over capacity 1,234 times, and admitted 56,789 units meanwhile.</li>`, shown)
	require.Regexp(t, `<li>search is exact from `+when+`. It was over capacity once, and admitted 7 units meanwhile.</li></ul>`, shown)

	ended.Exact = at
	rules.Store(&[]operators.OverCapacity{ended, {}, {}})
	shown = dom()
	require.Contains(t, shown, `<section id="overload" aria-labelledby="overload-title" class="">`)
	require.Regexp(t, `<li>client is exact again since `+when+`.`, shown)

	rules.Store(new([]operators.OverCapacity))
	require.Contains(t, dom(), `<section id="overload" aria-labelledby="overload-title" hidden="" class="">`)
}

// The page can be read on a telephone, in the dark and on paper, quiet and beyond the
// plan, and a reload does not lose what it has drawn.
func TestPageInABrowser(t *testing.T) {
	s := build(t, "rules.yaml")
	at := time.Now()
	asked := atomic.Int64{}
	status := func(beyond bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			n := asked.Add(1)
			for range 20 {
				s.get(fmt.Sprintf("2001:db8:1:%x::1", n%5), "/items/1")
			}
			st := s.page.Status()
			st.Time = at.Add(time.Duration(n) * time.Second)
			if beyond {
				st.Rules[0].OverCapacity = operators.OverCapacity{Active: true, Since: at, Times: 1234, Units: 56789}
				st.Rules[1].OutsidePlan, st.Rules[1].AuditedRate = true, 0.3
			}
			json.NewEncoder(w).Encode(st)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/quiet/", http.StripPrefix("/quiet", s.operators))
	mux.HandleFunc("/quiet/status", status(false))
	mux.Handle("/beyond/", http.StripPrefix("/beyond", s.operators))
	mux.HandleFunc("/beyond/status", status(true))
	pageview.Check(t, mux, "/quiet/", "/beyond/")

	mux.HandleFunc("/again", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `<iframe src="/quiet/"></iframe><p id="points"></p><script>
const frame = document.querySelector("iframe");
setTimeout(() => frame.contentWindow.location.reload(), 5500);
setTimeout(() => points.textContent = frame.contentDocument.getElementById("line-requests").getAttribute("points"), 6400);
</script>`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	dom := pageview.Browse(t, "--dump-dom", "--virtual-time-budget=7000", server.URL+"/again")
	require.Regexp(t, `<p id="points">([\d.]+,[\d.]+ ){3}`, dom, "asked once since, and drawn more")
	dom = pageview.Browse(t, "--dump-dom", "--virtual-time-budget=1500", server.URL+"/beyond/")
	require.Contains(t, dom, "<li>search is not used as it was made for: 30 % of the requests of light clients were "+
		"denied wrongly.</li>")
	require.Regexp(t, `<text [^>]*>requests a second</text>`, dom)
	require.Regexp(t, `<text [^>]*>\d\d:\d\d:[03]0</text>`, dom)
}
