package envoylimit

import (
	"errors"
	"io"
	"net/http"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody is what gRPC takes unless told otherwise.
const maxBody = 4 << 20

// JSON answers the same requests over HTTP, for those who have no gRPC: body and answer
// are the messages in the JSON form of protobuf. The status is 200, 429 if the limit is
// exceeded, and 400 for requests that make no sense. Any method will do.
func (s *Service) JSON() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
			http.Error(w, http.StatusText(http.StatusRequestEntityTooLarge), http.StatusRequestEntityTooLarge)
			return
		}
		request := new(ratelimitv3.RateLimitRequest)
		if err == nil {
			err = protojson.Unmarshal(body, request)
		}
		var answer *response
		if err == nil {
			answer, err = s.ShouldRateLimit(r.Context(), request)
		}
		if err != nil {
			http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
			return
		}
		text, err := protojson.Marshal(answer)
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if answer.OverallCode == overLimit {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		w.Write(text)
	})
}
