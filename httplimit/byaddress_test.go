package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func ExampleByAddress() {
	limit, err := httplimit.ByAddress(2, 24*time.Hour)
	if err != nil {
		panic(err)
	}
	h := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

func TestByAddress(t *testing.T) {
	_, err := httplimit.ByAddress(0, time.Minute)
	require.EqualError(t, err, "httplimit: sketchlimit: Limit 0, must be 1 … 2147483647")
	_, err = httplimit.ByAddress(100, 60)
	require.ErrorContains(t, err, "was 60 * time.Second meant?")
	for _, limit := range []int{1, 5, 100, 10_000} { // the doc's memory
		_, bytes, err := sketchlimit.Config{Limit: limit, Window: time.Minute, Keys: 100_000}.Size()
		require.NoError(t, err)
		require.Less(t, bytes, 5<<20)
	}
}
