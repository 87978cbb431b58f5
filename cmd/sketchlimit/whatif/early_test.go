package whatif

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExactBelow: below so many requests the report is that of Options.Exact, and from
// there on as if it had not been set.
func TestExactBelow(t *testing.T) {
	const most = 50_000
	r := rand.New(rand.NewPCG(1, 2))
	var requests []Request
	for i := range most {
		key := fmt.Sprintf("k%d", int(40_000*r.Float64()*r.Float64()))
		if i == 7 {
			key = ""
		}
		requests = append(requests, Request{At: int64(i) * int64(20*time.Millisecond), Key: []byte(key), Cost: uint32(1 + r.IntN(3))})
	}
	report := func(o Options, n int) string {
		a, err := New(o)
		require.NoError(t, err)
		for from := 0; from < n; from += 999 {
			a.Add(requests[from:min(from+999, n)])
		}
		text, err := json.Marshal(a.Report())
		require.NoError(t, err)
		return string(text)
	}
	bounded := Options{Memory: minMemory, Windows: []time.Duration{time.Minute, 10 * time.Minute}, Sample: 64}
	few := bounded
	few.ExactBelow = most
	exact := bounded
	exact.Exact = true
	require.Equal(t, report(exact, most-1), report(few, most-1))
	require.NotEqual(t, report(bounded, most-1), report(few, most-1))
	require.Equal(t, report(bounded, most), report(few, most))
}
