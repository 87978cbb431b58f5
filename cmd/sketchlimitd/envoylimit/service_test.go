package envoylimit

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sketchlimit/sketchlimit/rules"
)

const file = `
domain: api
descriptors:
  - key: client
    rate_limit: {unit: minute, requests_per_unit: 5, name: clients}
    metadata: {tier: {name: basic, color: red}}
    descriptors:
      - {key: path, value: /search*, rate_limit: {unit: 10s, requests_per_unit: 3}}
  - {key: client, value: free, rate_limit: {unlimited: true}}
  - {key: client, value: none, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}, metadata: {tier: {name: other, size: 1}, list: [a]}}
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 4, algorithm: token_bucket}}
  - {key: quota, quota_mode: true, rate_limit: {unit: week, requests_per_unit: 1}}
  - {key: tokens, rate_limit: {unit: day, requests_per_unit: 100, charge: true}}
  - {key: vip, rate_limit: {unit: minute, requests_per_unit: 100, replaces: [{name: clients}]}}
`

// start is 12 seconds into a minute.
var start = time.Date(2026, time.November, 23, 12, 0, 12, 300e6, time.UTC)

// newService returns a service whose time stands still.
func newService(t testing.TB, o rules.Options, opts ...Option) *Service {
	t.Helper()
	o.MaxMemoryBytes, o.OverrideBytes = 64<<20, 1<<20
	o.Clock = func() time.Time { return start }
	limits, err := o.New(rules.File{Name: "api.yaml", Data: []byte(file)})
	require.NoError(t, err)
	s, err := New(limits, opts...)
	require.NoError(t, err)
	s.clock = o.Clock
	return s
}

// descriptor has keys and values in turn.
func descriptor(entries ...string) *commonv3.RateLimitDescriptor {
	d := new(commonv3.RateLimitDescriptor)
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

func hits(n uint64, d *commonv3.RateLimitDescriptor) *commonv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func negative(d *commonv3.RateLimitDescriptor) *commonv3.RateLimitDescriptor {
	d.IsNegativeHits = true
	return d
}

func withLimit(n uint32, unit typev3.RateLimitUnit, d *commonv3.RateLimitDescriptor) *commonv3.RateLimitDescriptor {
	d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit, UnitMultiplier: wrapperspb.UInt32(7)}
	return d
}

func request(addend uint32, descriptors ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: descriptors, HitsAddend: addend}
}

// same compares messages by their JSON, which tells what is not set.
func same(t *testing.T, want string, got proto.Message) {
	t.Helper()
	text, err := protojson.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, want, string(text))
}

// Each step is one request, after those before it.
func TestAnswers(t *testing.T) {
	const clients = `"currentLimit":{"name":"clients","requestsPerUnit":5,"unit":"MINUTE"},"durationUntilReset":"48s"`
	type step struct {
		request *ratelimitv3.RateLimitRequest
		want    string
	}
	for name, steps := range map[string][]step{
		"hits": {
			{request(0, descriptor("client", "a")), `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":4,` + clients + `}]}`},
			{request(2, descriptor("client", "a")), `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":2,` + clients + `}]}`},
			{request(3, descriptor("client", "a")), `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",` + clients + `}]}`},
			{request(9, hits(2, descriptor("client", "a"))), `{"overallCode":"OK","statuses":[{"code":"OK",` + clients + `}]}`},
			{request(9, hits(0, descriptor("client", "b"))), `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":5,` + clients + `}]}`},
			{request(9, hits(math.MaxUint64, descriptor("client", "b"))), `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",` + clients + `}]}`},
			{request(0, negative(hits(4, descriptor("client", "a")))), `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",` + clients + `}]}`},
		},
		"a refused request takes nothing, in whatever place": {
			{request(0, descriptor("client", "a"), hits(9, descriptor("bucket", "a"))), `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OK","limitRemaining":5,` + clients + `},{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":4,"unit":"SECOND"},"durationUntilReset":"0s"}]}`},
			{request(0, hits(4, descriptor("bucket", "a"))), `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":4,"unit":"SECOND"},"durationUntilReset":"1s"}]}`},
		},
		"no limit": {
			{request(0, descriptor("client", "free")), `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":4294967295}]}`},
			{request(0, descriptor("nobody", "a"), descriptor("client", "a", "size", "b"), descriptor(), nil), `{"overallCode":"OK","statuses":[{"code":"OK"},{"code":"OK"},{"code":"OK"},{"code":"OK"}]}`},
			{&ratelimitv3.RateLimitRequest{Domain: "nowhere", Descriptors: []*commonv3.RateLimitDescriptor{withLimit(0, typev3.RateLimitUnit_DAY, descriptor("client", "a"))}}, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
		},
		"nothing": {
			{request(0, descriptor("client", "none")), `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"unit":"DAY"},"durationUntilReset":"43188s"}]}`},
		},
		"a window of several units": {
			{request(0, descriptor("client", "a", "path", "/search/x")), `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":2,"currentLimit":{"requestsPerUnit":3,"unit":"SECOND","unitMultiplier":10},"durationUntilReset":"8s"}]}`},
		},
		"shadow": {
			{request(3, descriptor("watched", "a")), `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":2,"unit":"HOUR"},"durationUntilReset":"3588s"}]}`},
		},
		"quotas refuse if all do": {
			{request(0, descriptor("quota", "a")), `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":1,"unit":"WEEK"},"durationUntilReset":"215988s"}]}`},
			{request(0, descriptor("quota", "a"), descriptor("quota", "b")), `{"overallCode":"OK","statuses":[
				{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":1,"unit":"WEEK"},"durationUntilReset":"215988s"},
				{"code":"OK","currentLimit":{"requestsPerUnit":1,"unit":"WEEK"},"durationUntilReset":"215988s"}]}`},
			{request(0, descriptor("quota", "a"), descriptor("quota", "b")), `{"overallCode":"OVER_LIMIT","statuses":[
				{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":1,"unit":"WEEK"},"durationUntilReset":"215988s"},
				{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":1,"unit":"WEEK"},"durationUntilReset":"215988s"}]}`},
		},
		"replaced": {
			{request(6, descriptor("client", "a"), descriptor("vip", "a")), `{"overallCode":"OK","statuses":[{"code":"OK"},{"code":"OK","limitRemaining":94,"currentLimit":{"requestsPerUnit":100,"unit":"MINUTE"},"durationUntilReset":"48s"}]}`},
		},
		"a limit of the request's own": {
			{request(0, withLimit(2, typev3.RateLimitUnit_HOUR, descriptor("client", "none"))), `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":1,"currentLimit":{"requestsPerUnit":2,"unit":"HOUR"},"durationUntilReset":"3588s"}]}`},
			{request(2, withLimit(2, typev3.RateLimitUnit_HOUR, descriptor("client", "none"))), `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":2,"unit":"HOUR"},"durationUntilReset":"3588s"}]}`},
			{request(2, withLimit(0, typev3.RateLimitUnit_MONTH, descriptor("client", "free"))), `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"unit":"MONTH"},"durationUntilReset":"820788s"}]}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, rules.Options{})
			for _, step := range steps {
				got, err := s.ShouldRateLimit(t.Context(), step.request)
				require.NoError(t, err)
				same(t, step.want, got)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	loaded := false
	s := newService(t, rules.Options{}, Loaded(func() bool { return loaded }))
	one := descriptor("client", "a")
	for _, c := range []struct {
		request *ratelimitv3.RateLimitRequest
		want    string
	}{
		{nil, "rate limit domain must not be empty"},
		{&ratelimitv3.RateLimitRequest{Descriptors: []*commonv3.RateLimitDescriptor{one}}, "rate limit domain must not be empty"},
		{&ratelimitv3.RateLimitRequest{Domain: "api"}, "rate limit descriptor list must not be empty"},
		{request(0, one, withLimit(1, 0, descriptor("client", "a"))), "rate limit override of descriptor 1 has unit UNKNOWN, must be SECOND, MINUTE, HOUR, DAY, MONTH or YEAR"},
		{request(0, withLimit(1, 77, descriptor("client", "a"))), "rate limit override of descriptor 0 has unit 77, must be SECOND, MINUTE, HOUR, DAY, MONTH or YEAR"},
		{request(0, one), "no rate limit configuration loaded"},
	} {
		_, err := s.ShouldRateLimit(t.Context(), c.request)
		require.EqualError(t, err, c.want)
	}
	loaded = true
	_, err := s.ShouldRateLimit(t.Context(), request(0, one, negative(hits(3, descriptor("client", "a")))))
	require.NoError(t, err)
	require.Equal(t, Stats{ServiceErrors: 6, NegativeHits: 1}, s.Stats())
}

func TestOptionErrors(t *testing.T) {
	limits, err := rules.Options{MaxMemoryBytes: 1}.New()
	require.NoError(t, err)
	for want, option := range map[string]Option{
		"envoylimit: option 0 nil, must be one":                 nil,
		`envoylimit: Headers "a", "", "c", must be three names`: Headers("a", "", "c"),
		"envoylimit: Loaded nil, must be a function":            Loaded(nil),
		"envoylimit: Observe nil, must be a function":           Observe(nil),
	} {
		_, err := New(limits, option)
		require.EqualError(t, err, want)
	}
	_, err = New(nil)
	require.EqualError(t, err, "envoylimit: rules nil, must be some")
}

func TestHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		descriptors []*commonv3.RateLimitDescriptor
		want        []string // limit, remaining, reset
	}{
		"the least remaining":              {list(descriptor("vip", "a"), descriptor("watched", "a"), descriptor("bucket", "a")), []string{"2", "1", "3588"}},
		"the one that refuses":             {list(descriptor("vip", "a"), hits(9, descriptor("bucket", "a")), descriptor("quota", "a")), []string{"4", "0", "0"}},
		"the last one that refuses":        {list(hits(9, descriptor("bucket", "a")), hits(9, descriptor("client", "x", "path", "/search"))), []string{"3", "0", "8"}},
		"a quota, as any other":            {list(hits(2, descriptor("quota", "a")), descriptor("vip", "b")), []string{"1", "0", "215988"}},
		"none without a limit that counts": {list(descriptor("client", "free"), descriptor("nobody", "a")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, rules.Options{}, Headers("limit", "left", "reset"))
			got, err := s.ShouldRateLimit(t.Context(), request(0, c.descriptors...))
			require.NoError(t, err)
			if c.want == nil {
				require.Empty(t, got.ResponseHeadersToAdd)
				return
			}
			require.Len(t, got.ResponseHeadersToAdd, 3)
			for i, name := range []string{"limit", "left", "reset"} {
				require.Equal(t, name, got.ResponseHeadersToAdd[i].Key)
				require.Equal(t, c.want[i], got.ResponseHeadersToAdd[i].Value)
			}
		})
	}
}

func list(d ...*commonv3.RateLimitDescriptor) []*commonv3.RateLimitDescriptor { return d }

func TestShadow(t *testing.T) {
	s := newService(t, rules.Options{}, Shadow())
	got, err := s.ShouldRateLimit(t.Context(), request(0, descriptor("client", "none")))
	require.NoError(t, err)
	same(t, `{"overallCode":"OK","statuses":[{"code":"OVER_LIMIT","currentLimit":{"unit":"DAY"},"durationUntilReset":"43188s"}]}`, got)
	require.Equal(t, Stats{Shadowed: 1}, s.Stats())
}

// Refused hits are counted if the rules say so, as envoyproxy/ratelimit does: what is
// reported after the fact may be more than was left.
func TestCountRefused(t *testing.T) {
	s := newService(t, rules.Options{CountRefused: true})
	for _, want := range []ratelimitv3.RateLimitResponse_Code{ok, overLimit, overLimit} {
		got, err := s.ShouldRateLimit(t.Context(), request(0, hits(0, descriptor("client", "a"))))
		require.NoError(t, err)
		require.Equal(t, want, got.OverallCode)
		_, err = s.ShouldRateLimit(t.Context(), request(0, hits(7, descriptor("client", "a"))))
		require.NoError(t, err)
	}
}

// What is reported after the fact of a rule that charges is never refused, and the next
// request is.
func TestCharge(t *testing.T) {
	const answer = `,"currentLimit":{"requestsPerUnit":100,"unit":"DAY"},"durationUntilReset":"43188s"}]}`
	s := newService(t, rules.Options{})
	for _, step := range []struct {
		hits uint64
		want string
	}{
		{0, `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":100` + answer},
		{70, `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":30` + answer},
		{0, `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":30` + answer},
		{70, `{"overallCode":"OK","statuses":[{"code":"OK"` + answer},
		{0, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT"` + answer},
		{1, `{"overallCode":"OK","statuses":[{"code":"OK"` + answer},
	} {
		got, err := s.ShouldRateLimit(t.Context(), request(0, hits(step.hits, descriptor("tokens", "a"))))
		require.NoError(t, err)
		same(t, step.want, got)
	}
}

func TestDynamicMetadata(t *testing.T) {
	s := newService(t, rules.Options{}, DynamicMetadata())
	got, err := s.ShouldRateLimit(t.Context(), request(2, nil, descriptor("client", "a"), hits(1, descriptor("watched", "b")),
		withLimit(9, typev3.RateLimitUnit_DAY, descriptor("client", "c"))))
	require.NoError(t, err)
	m := got.DynamicMetadata.AsMap()
	require.Equal(t, map[string]any{"tier": map[string]any{"name": "basic", "color": "red", "size": 1.0}, "list": []any{"a"}}, m["metadata"])
	require.Equal(t, "api", m["domain"])
	require.Equal(t, 2.0, m["hitsAddend"])
	descriptors := m["descriptors"].([]any)
	require.Len(t, descriptors, 3)
	require.Equal(t, map[string]any{"entries": []any{"watched=b"}, "hitsAddend": 1.0}, descriptors[1])
	require.Contains(t, descriptors[2], "limit")

	// Not of rules that refuse. Merging has not changed the rules.
	got, err = s.ShouldRateLimit(t.Context(), request(9, descriptor("client", "a"), descriptor("watched", "x")))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"tier": map[string]any{"name": "other", "size": 1.0}, "list": []any{"a"}}, got.DynamicMetadata.AsMap()["metadata"])
	got, err = s.ShouldRateLimit(t.Context(), request(9, descriptor("client", "a")))
	require.NoError(t, err)
	require.NotContains(t, got.DynamicMetadata.AsMap(), "metadata")
}

func TestObserve(t *testing.T) {
	var seen []Observation
	s := newService(t, rules.Options{}, Observe(func(o *Observation) { seen = append(seen, *o) }))
	_, err := s.ShouldRateLimit(context.Background(), request(0, descriptor("client", "a"), descriptor("client", "none")))
	require.NoError(t, err)
	require.Len(t, seen, 1)
	require.Equal(t, "api", seen[0].Domain)
	require.Equal(t, rules.Descriptor{{Key: "client", Value: "none"}}, seen[0].Asks[1].Descriptor)
	require.False(t, seen[0].Answer.Admitted)
	require.Equal(t, "api.client", seen[0].Answer.Statuses[0].Rule.String())
}

func TestUnit(t *testing.T) {
	for window, want := range map[time.Duration]string{
		time.Second: "SECOND 1", 90 * time.Second: "SECOND 90", 2 * time.Hour: "HOUR 2", 7 * 24 * time.Hour: "WEEK 1", 14 * 24 * time.Hour: "WEEK 2",
		30 * 24 * time.Hour: "MONTH 1", 365 * 24 * time.Hour: "YEAR 1", 1500 * time.Millisecond: "UNKNOWN 0", 0: "UNKNOWN 0",
	} {
		unit, times := Unit(window)
		require.Equal(t, want, fmt.Sprint(unit, " ", times), window)
	}
}

// A month of the calendar is one of the protocol, and its reset is the end of the month.
func TestCalendarMonth(t *testing.T) {
	now := time.Date(2027, 2, 27, 12, 0, 0, 0, time.UTC)
	limits, err := rules.Options{
		MaxMemoryBytes: 64 << 20, OverrideBytes: 1 << 20, CalendarMonths: true, Clock: func() time.Time { return now },
	}.New(rules.File{Name: "f", Data: []byte("domain: api\ndescriptors: [{key: client, rate_limit: {unit: month, requests_per_unit: 2}}]")})
	require.NoError(t, err)
	s, err := New(limits)
	require.NoError(t, err)
	s.clock = func() time.Time { return now }
	got, err := s.ShouldRateLimit(t.Context(), request(1, descriptor("client", "ann"), withLimit(2, typev3.RateLimitUnit_MONTH, descriptor("a", "b"))))
	require.NoError(t, err)
	for _, status := range got.Statuses {
		require.Equal(t, ratelimitv3.RateLimitResponse_RateLimit_MONTH, status.CurrentLimit.Unit)
		require.Nil(t, status.CurrentLimit.UnitMultiplier)
		require.EqualValues(t, 36*60*60, status.DurationUntilReset.Seconds)
		require.EqualValues(t, 1, status.LimitRemaining)
	}
}
