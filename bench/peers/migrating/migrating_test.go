package migrating

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/redisserver"
)

// pairs are the functions behind each heading of the page, before and after; "" is the
// file of the two limiters that replace most.
var pairs = []struct{ heading, before, after string }{
	{"golang.org/x/time/rate, one limiter a key", "xTimeBefore", "xTimeAfter"},
	{"httprate", "httprateBefore", "window"},
	{"ulule/limiter", "ululeBefore", "window"},
	{"go-limiter", "golimiterBefore", "window"},
	{"throttled", "throttledBefore", "bucket"},
	{"tollbooth", "tollboothBefore", "bucket"},
	{"redis_rate", "redisRateBefore", "redisRateAfter"},
}

// Each block of the page is code that these tests compile.
func TestPageShowsThePairs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/migrating.md")
	require.NoError(t, err)
	sections := strings.Split(string(text), "\n## ")
	require.Len(t, sections, len(pairs)+1)

	blocks := fenced(sections[0], "go")
	require.Len(t, blocks, 1)
	inOrder(t, blocks[0], body(t, "window"))
	for i, pair := range pairs {
		heading, section, _ := strings.Cut(sections[i+1], "\n")
		require.Equal(t, pair.heading, heading)
		blocks := fenced(section, "diff")
		require.Len(t, blocks, 1, heading)
		before, after := side(blocks[0], '-'), side(blocks[0], '+')
		require.NotEqual(t, before, after, heading)
		inOrder(t, before, body(t, pair.before))
		inOrder(t, after, body(t, pair.after))
	}
}

// fenced returns the lines of the blocks of a language.
func fenced(text, language string) (blocks [][]string) {
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)\n```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, strings.Split(m[1], "\n"))
	}
	return blocks
}

// side returns the lines of a difference that stand on one side.
func side(lines []string, mark byte) (code []string) {
	for _, line := range lines {
		if line[0] == mark || line[0] == ' ' {
			code = append(code, line[1:])
		}
	}
	return code
}

// body returns the lines of a function of these tests.
func body(t *testing.T, name string) []string {
	t.Helper()
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		if _, rest, found := strings.Cut(string(text), "\nfunc "+name+"("); found {
			function, _, _ := strings.Cut(rest, "\n}\n")
			return strings.Split(function, "\n")
		}
	}
	require.Fail(t, "no function "+name)
	return nil
}

// inOrder checks that the lines of a block are lines of a function, in its order. An
// ellipsis stands for the return of an error.
func inOrder(t *testing.T, block, function []string) {
	t.Helper()
	at := 0
	for _, line := range block {
		line = strings.TrimSpace(line)
		if line == "..." {
			line = "if err != nil {"
		}
		start := at
		for ; at < len(function) && strings.TrimSpace(function[at]) != line; at++ {
		}
		require.Less(t, at, len(function), "%q is not in, from line %d on:\n%s", line, start, strings.Join(function, "\n"))
		at++
	}
}

var served = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// answers sends 150 requests of a client. It returns how many were admitted, and the
// header of the last answer.
func answers(t *testing.T, make func(http.Handler) (http.Handler, error), client string) (admitted int, last http.Header) {
	t.Helper()
	handler, err := make(served)
	require.NoError(t, err)
	for range 150 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = client
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusOK {
			admitted++
		} else {
			require.Equal(t, http.StatusTooManyRequests, w.Code)
		}
		last = w.Header()
	}
	return admitted, last
}

// steady calls f until it has not crossed a minute, in which windows have 100 units more.
func steady(t *testing.T, f func()) {
	t.Helper()
	for range 5 {
		begin := time.Now().Truncate(time.Minute)
		if f(); time.Now().Truncate(time.Minute).Equal(begin) {
			return
		}
	}
	require.Fail(t, "requests take a minute")
}

// Of a burst, both sides of a pair admit the same: 100 where a window is meant.
func TestWindowsAdmitTheSame(t *testing.T) {
	before := map[string]func(http.Handler) (http.Handler, error){
		"httprate": httprateBefore, "ulule": ululeBefore, "go-limiter": golimiterBefore,
	}
	for name, make := range before {
		t.Run(name, func(t *testing.T) {
			var theirs, ours int
			var last http.Header
			steady(t, func() {
				theirs, last = answers(t, make, "192.0.2.1:1000")
				ours, _ = answers(t, window, "192.0.2.1:1000")
			})
			require.Equal(t, 100, theirs)
			require.Equal(t, 100, ours)

			// What the page says of the time to wait.
			switch wait := last.Get("Retry-After"); name {
			case "httprate":
				require.Equal(t, "60", wait, "the length of the window")
			case "ulule":
				require.Empty(t, wait)
			case "go-limiter":
				_, err := http.ParseTime(wait)
				require.Error(t, err, "a date in no form of RFC 9110: %s", wait)
			}
		})
	}
	_, last := answers(t, window, "192.0.2.1:1000")
	seconds, err := strconv.Atoi(last.Get("Retry-After"))
	require.NoError(t, err)
	require.Positive(t, seconds)
}

// Of a burst, both sides admit 20, and what has flowed back meanwhile.
func TestBucketsAdmitTheSame(t *testing.T) {
	bounded := func(count func() int) {
		t.Helper()
		begin := time.Now()
		admitted := count()
		back := int(time.Since(begin) * 100 / time.Minute)
		require.GreaterOrEqual(t, admitted, 20)
		require.LessOrEqual(t, admitted, 20+1+back)
	}
	for _, make := range []func(http.Handler) (http.Handler, error){throttledBefore, tollboothBefore, bucket} {
		bounded(func() int {
			admitted, _ := answers(t, make, "192.0.2.1:1000")
			return admitted
		})
	}
	for _, make := range []func() (func(string) bool, error){xTimeBefore, xTimeAfter} {
		bounded(func() (admitted int) {
			allow, err := make()
			require.NoError(t, err)
			for range 150 {
				if allow("192.0.2.1") {
					admitted++
				}
			}
			return admitted
		})
	}
}

// Strict admits what redis_rate does, by a server.
func TestRedisAdmitsTheSame(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("SKETCHLIMIT_REDIS_REQUIRED") != "1" {
		t.Skip("redis-server is not installed")
	}
	addr, stop, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(stop)
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { rdb.Close() })
	for _, make := range []func(*redis.Client) (func(context.Context, string) (bool, error), error){redisRateBefore, redisRateAfter} {
		allow, err := make(rdb)
		require.NoError(t, err)
		begin, admitted := time.Now(), 0
		for range 150 {
			ok, err := allow(t.Context(), "192.0.2.1")
			require.NoError(t, err)
			if ok {
				admitted++
			}
		}
		require.GreaterOrEqual(t, admitted, 100)
		require.LessOrEqual(t, admitted, 100+1+int(time.Since(begin)*100/time.Minute))
	}
}
