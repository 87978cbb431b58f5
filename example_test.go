package sketchlimit_test

import (
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// The example of the README.
func Example_http() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit:  100,
		Window: time.Minute,
		Keys:   1_000_000, // distinct clients expected in a window
	})
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		if d := limiter.Take(client, 1); !d.Allowed {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.RetryAfter.Seconds()))))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		}
	})
}

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit:  3,
		Window: time.Minute,
		Keys:   1_000_000, // distinct clients expected in a window
	})
	if err != nil {
		panic(err)
	}
	for range 4 {
		d := limiter.Take("203.0.113.7", 1)
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// Time is an argument where it should not come from the wall clock: in tests, and
// when a log is replayed.
func ExampleLimiter_TakeAt() {
	limiter, _ := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 1000})
	start := time.Now().Truncate(time.Minute).Add(time.Minute)
	limiter.TakeAt(start, "user:42", 10)
	d := limiter.TakeAt(start.Add(30*time.Second), "user:42", 1)
	fmt.Println(d.Allowed, d.RetryAfter, d.ResetAfter)
	fmt.Println(limiter.TakeAt(start.Add(30*time.Second+d.RetryAfter), "user:42", 1).Allowed)
	// Output:
	// false 36s 1m30s
	// true
}

// Nothing has to be sampled to know how often a limiter errs.
func ExampleLimiter_Stats() {
	limiter, _ := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Hour, MemoryBytes: 64 << 10, Seed: 1,
		Clock: func() time.Time { return time.Unix(0, 0) },
	})
	for i := range 400_000 {
		limiter.Allow(fmt.Sprint("client ", i%20_000))
	}
	s := limiter.Stats()
	fmt.Println(s.Admitted, s.FalseDenialRate < 1e-5)
	fmt.Printf("%.0f thousand keys in %d KiB\n", s.DistinctKeys/1000, limiter.MemoryBytes()>>10)
	// Output:
	// 400000 true
	// 20 thousand keys in 59 KiB
}

func TestReadmeExampleCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(readme), "```go\n")
	block, _, _ = strings.Cut(block, "```")
	_, body, _ := strings.Cut(string(source), "func Example_http() {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	require.Equal(t, body, "\t"+strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n\t"))
}
