package envoylimit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sketchlimit/sketchlimit/rules"
)

func TestJSON(t *testing.T) {
	handler := newService(t, rules.Options{}).JSON()
	const one = `{"domain": "api", "descriptors": [{"entries": [{"key": "client", "value": "a"}]}], "hitsAddend": 4}`
	for _, c := range []struct {
		method, body string
		code         int
		want         string
	}{
		{"POST", one, 200, `"limitRemaining":1`},
		{"GET", one, 429, `"OVER_LIMIT"`},
		{"PUT", `{"domain": "api", "descriptors": [{"isNegativeHits": true}]}`, 200, `"OK"`},
		{"POST", `{}`, 400, "Bad Request\n"},
		{"POST", `{"domain": 1}`, 400, "Bad Request\n"},
		{"POST", `{"unknown": 1}`, 400, "Bad Request\n"},
		{"POST", strings.Repeat(" ", maxBody+1), 413, "Request Entity Too Large\n"},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(c.method, "/json", strings.NewReader(c.body)))
		require.Equal(t, c.code, w.Code, c.body)
		require.Contains(t, w.Body.String(), c.want)
		if c.code == 200 || c.code == 429 {
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		}
	}
}

// Whatever bytes come, the answer is one of the protocol, with a status for each
// descriptor.
func FuzzRequest(f *testing.F) {
	s := newService(f, rules.Options{}, DynamicMetadata(), Headers("limit", "left", "reset"))
	for _, r := range []*ratelimitv3.RateLimitRequest{
		{}, request(7, nil, descriptor(), descriptor("client", "a", "path", "/search"), negative(hits(1<<63, descriptor("quota", "ä\x00")))),
		request(0, withLimit(1<<31, 1, descriptor("client", "a")), withLimit(0, 0, descriptor("client", "a"))),
	} {
		data, err := proto.Marshal(r)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := new(ratelimitv3.RateLimitRequest)
		if proto.Unmarshal(data, r) != nil {
			return
		}
		got, err := s.ShouldRateLimit(t.Context(), r)
		if err != nil {
			require.Nil(t, got)
			return
		}
		require.Len(t, got.Statuses, len(r.Descriptors))
		_, err = proto.Marshal(got)
		require.NoError(t, err)
		over := false
		for _, status := range got.Statuses {
			require.Contains(t, []ratelimitv3.RateLimitResponse_Code{ok, overLimit}, status.Code)
			over = over || status.Code == overLimit
		}
		require.True(t, over || got.OverallCode == ok)
	})
}

// Bodies of JSON that are a request get its answer, all others 400.
func FuzzJSON(f *testing.F) {
	handler := newService(f, rules.Options{}).JSON()
	for _, body := range []string{``, `{}`, `null`, `{"domain":"api","descriptors":[{},{"limit":{"unit":"DAY"}}]}`, `{"domain":"api","descriptors":[{"hitsAddend":"7","entries":[{"key":"bucket"}]}]}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(body)))
		switch w.Code {
		case http.StatusOK, http.StatusTooManyRequests:
			text, err := io.ReadAll(w.Body)
			require.NoError(t, err)
			require.NoError(t, protojson.Unmarshal(text, new(ratelimitv3.RateLimitResponse)))
		default:
			require.Equal(t, http.StatusBadRequest, w.Code)
		}
	})
}
