package httplimit_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/inflight"
)

// The first example of docs/http.md.
func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit:  2,
		Window: time.Minute,
		Keys:   1_000_000, // distinct clients expected in a minute
	})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(limiter, &httplimit.Clients{})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/hello", limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
	})))
	log.Fatal(http.ListenAndServe("localhost:8080", nil))
}

// Behind a proxy whose address is known, at most so many bytes of uploads an hour and
// client and route, first only watched.
func ExampleNew() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1 << 30, Window: time.Hour, Keys: 100_000})
	if err != nil {
		log.Fatal(err)
	}
	clients := &httplimit.Clients{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
	limit, err := httplimit.New(limiter, httplimit.Join{clients, httplimit.Pattern{}},
		httplimit.Name("uploads"),
		httplimit.Cost(func(r *http.Request) int { return max(1, int(r.ContentLength)) }),
		httplimit.Exempt(clients, netip.MustParsePrefix("192.0.2.0/24")),
		httplimit.Shadow(),
		httplimit.OnRefusal(func(r *http.Request, p httplimit.Policy) {
			log.Print(p.Name, ": would refuse ", clients.Addr(r), " for ", p.RetryAfter)
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /files/{name}", limit(http.NotFoundHandler()))
}

// The example of the README.
func Example_readme() {
	mux := http.NewServeMux()

	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Minute,
		Keys:           1_000_000,              // clients in a minute, on an ordinary day
		MaxMemoryBytes: 64 << 20,               // grow up to this,
		Overload:       sketchlimit.DenyProven, // and then deny only clients proven over their limit
	})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(limiter, &httplimit.Clients{})
	if err != nil {
		log.Fatal(err)
	}
	http.ListenAndServe(":8080", limit(mux))
}

// A key of one's own, here the first label of the host.
func ExampleKeyFunc() {
	tenant := httplimit.KeyFunc(func(dst []byte, r *http.Request) []byte {
		name, _, _ := strings.Cut(r.Host, ".")
		return append(dst, name...)
	})
	limiter, _ := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: time.Minute, Keys: 1000})
	limit, _ := httplimit.New(limiter, tenant)
	handler := limit(http.NotFoundHandler())
	for _, host := range []string{"ann.example.com", "bob.example.com", "ann.example.com"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "http://"+host, nil))
		fmt.Println(host, w.Code)
	}
	// Output:
	// ann.example.com 404
	// bob.example.com 404
	// ann.example.com 429
}

// The example of docs/groups.md.
func ExampleNewAll() {
	limiter := func(limit int, window time.Duration) *sketchlimit.Limiter {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, LowestLimit: min(limit, 500), Window: window, Keys: 100_000})
		if err != nil {
			log.Fatal(err)
		}
		return l
	}
	perSecond, perHour, total := limiter(10, time.Second), limiter(1000, time.Hour), limiter(50_000, time.Second)
	atOnce, err := inflight.New(inflight.Config{Limit: 4, Requests: 10_000})
	if err != nil {
		log.Fatal(err)
	}
	user := httplimit.Header("X-User") // which something in front has checked
	planOf := func(*http.Request) int { return 500 }

	clients := &httplimit.Clients{}
	limit, err := httplimit.NewAll([]httplimit.Quota{
		{Name: "second", Limiter: perSecond, Key: clients},
		{Name: "hour", Limiter: perHour, Key: user, Limit: planOf},
		{Name: "at once", InFlight: atOnce, Key: clients},
		{Name: "service", Limiter: total, Key: httplimit.AllRequests{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println("Ratelimit-Policy:", w.Header().Get("Ratelimit-Policy"))
	// Output:
	// Ratelimit-Policy: "second";q=10;w=1, "hour";q=500;w=3600, "at once";q=4;qu="concurrent-requests", "service";q=50000;w=1
}

// At most 100,000 tokens a minute for each user. A handler tells what it has used in a
// field, which clients do not see.
func ExampleNewBudget() {
	tokens, err := budget.New(budget.Config{
		Limits:   []sketchlimit.Config{{Limit: 100_000, Window: time.Minute, Keys: 1000}},
		InFlight: 1000,
		HoldFor:  5 * time.Minute, // longer than any handler takes
	})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.NewBudget(httplimit.Spending{
		Budget:    tokens,
		Key:       httplimit.Header("X-User"),
		AtMost:    func(*http.Request) int { return 60_000 },
		Field:     "X-Tokens-Used",
		HideField: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("meanwhile:", tokens.Held(""), "held")
		w.Header().Set("X-Tokens-Used", "1234")
		fmt.Fprintln(w, "hello")
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println("Ratelimit:", w.Header().Get("RateLimit"))
	fmt.Println("settled:", tokens.Stats().Settled)
	// Output:
	// meanwhile: 60000 held
	// Ratelimit: "default";r=40000;t=1
	// settled: 1234
}

// section returns what stands in a file after begin and before end.
func section(t *testing.T, file, begin, end string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, "%s has no %q", file, begin)
	section, _, found := strings.Cut(rest, end)
	require.True(t, found)
	return section
}

func TestDocsShowTheExample(t *testing.T) {
	readme := strings.ReplaceAll("\n"+section(t, "../README.md", "```go\n", "```"), "\n", "\n\t")
	require.Equal(t, section(t, "example_test.go", "func Example_readme() {\n\tmux := http.NewServeMux()\n", "\n}\n")+"\n\t", readme)
	all := strings.ReplaceAll("\n"+section(t, "../docs/groups.md", "clients together get 50,000 a second:\n\n```go\n", "})\n```"), "\n", "\n\t")
	require.Contains(t, section(t, "example_test.go", "func ExampleNewAll() {", "\n}\n"), all+"})\n")
	policies := section(t, "../docs/groups.md", "Ratelimit-Policy:", "\n")
	require.Contains(t, section(t, "example_test.go", "func ExampleNewAll() {", "\n}\n"), "// Ratelimit-Policy:"+policies)
	require.Equal(t, section(t, "example_test.go", "func Example() {", "\n}\n"), section(t, "../docs/http.md", "func main() {", "\n}\n"))
}

// served is the handler of an example behind its limit, at the instant of the first
// Date that a document shows.
func served(t *testing.T, shown string, limit int) (server *httptest.Server, date string) {
	t.Helper()
	_, rest, _ := strings.Cut(shown, "Date: ")
	date, _, _ = strings.Cut(rest, "\n")
	then, err := http.ParseTime(date)
	require.NoError(t, err)
	wrap, err := httplimit.New(build(t, sketchlimit.Config{Limit: limit}, &clock{then}), &httplimit.Clients{})
	require.NoError(t, err)
	server = httptest.NewServer(wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})))
	t.Cleanup(server.Close)
	return server, date
}

// What docs/http.md shows is what the service sent at the instant of its Date field.
func TestDocsShowWhatIsSent(t *testing.T) {
	shown := section(t, "../docs/http.md", "```console\n", "```")
	server, date := served(t, shown, 2)
	first := exchange(t, server, date, "*/*")
	exchange(t, server, date, "*/*")
	third := exchange(t, server, date, "text/plain")
	require.Equal(t, shown, "$ curl -si localhost:8080/hello\n"+first+"\n"+
		"$ curl -si -H 'Accept: text/plain' localhost:8080/hello\n"+third)
	require.Contains(t, exchange(t, server, date, "*/*"), "Content-Type: application/problem+json\n")
}

// exchange sends a request and returns the answer as curl shows it, but for the date.
func exchange(t *testing.T, server *httptest.Server, date, accept string) string {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /hello HTTP/1.1\r\nHost: localhost:8080\r\nAccept: %s\r\n\r\n", accept)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^Date: .*$`).ReplaceAllString(strings.ReplaceAll(string(answer), "\r\n", "\n"), "Date: "+date)
}
