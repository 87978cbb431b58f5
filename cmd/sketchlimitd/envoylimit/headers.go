package envoylimit

import (
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/sketchlimit/sketchlimit/rules"
)

// headerNames are the names of the headers that clients get; none if limit is "".
type headerNames struct{ limit, remaining, reset string }

// addHeaders adds the headers for one descriptor of the request: the last one that
// refuses it, or else the one with the least remaining.
func (s *Service) addHeaders(r *response, answer *rules.Answer) {
	if s.headers.limit == "" {
		return
	}
	var shown *status
	for i, d := range r.Statuses {
		switch {
		case d.CurrentLimit == nil:
		case d.Code == overLimit && !answer.Quota && !quota(answer.Statuses[i].Rule):
			shown = d
		case shown == nil || d.LimitRemaining < shown.LimitRemaining:
			shown = d
		}
	}
	if shown == nil {
		return
	}
	r.ResponseHeadersToAdd = []*corev3.HeaderValue{
		header(s.headers.limit, int64(shown.CurrentLimit.RequestsPerUnit)),
		header(s.headers.remaining, int64(shown.LimitRemaining)),
		header(s.headers.reset, shown.DurationUntilReset.GetSeconds()),
	}
}

func header(name string, value int64) *corev3.HeaderValue {
	return &corev3.HeaderValue{Key: name, Value: strconv.FormatInt(value, 10)}
}

func quota(rule *rules.Rule) bool { return rule != nil && rule.Quota }
