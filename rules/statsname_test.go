package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/rules"
)

func TestStatsName(t *testing.T) {
	l := load(t, `
domain: d
descriptors:
  - key: plain
    rate_limit: {unit: hour, requests_per_unit: 1}
    descriptors:
      - {key: sub, value: x, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: deep, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: route
    value_to_metric: true
    rate_limit: {unit: hour, requests_per_unit: 1}
    descriptors:
      - {key: method, value: GET, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: ip, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: wild, value: a*, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: wild, value: b*, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: wild, value: c*, value_to_metric: true, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: file
    value: /x*
    share_threshold: true
    descriptors: [{key: user, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}]
  - {key: fixed, value: v, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
`)
	for _, c := range []struct {
		descriptor, want string
		byRequest        bool
	}{
		{"plain=1", "d.plain", false},
		{"plain=1 sub=x", "d.plain.sub_x", false},
		{"plain=1 deep=2", "d.plain_1.deep_2", true},
		{"plain=1 deep=", "d.plain_1.deep_", true},
		{"route=/a", "d.route_/a", true},
		{"route=", "d.route", true},
		{"route=/a method=GET", "d.route_/a.method_GET", true},
		{"route=/a ip=1.2.3.4", "d.route_/a.ip", true},
		{"wild=abc", "d.wild_a*", false},
		{"wild=bcd", "d.wild_bcd", true},
		{"wild=cde", "d.wild_c*", false},
		{"file=/xy user=ann", "d.file_/x*.user_ann", true},
		{"file=/xy user=", "d.file_/x*.user", true},
		{"fixed=v", "d.fixed_v", false},
	} {
		rule := l.Match("d", descriptor(c.descriptor))
		require.Equal(t, c.want, rule.StatsName(descriptor(c.descriptor)), c.descriptor)
		require.Equal(t, c.byRequest, rule.NamedByRequest, c.descriptor)
	}
}

func TestMetadata(t *testing.T) {
	l := load(t, `
domain: d
descriptors:
  - {key: a, metadata: {tier: gold, n: 5, "yes": {list: [1.5, ~, 2024-01-01]}}, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: b, metadata: ~, rate_limit: {unlimited: true}}
`)
	require.Equal(t, map[string]any{"tier": "gold", "n": 5.0, "yes": map[string]any{"list": []any{1.5, nil, "2024-01-01T00:00:00Z"}}}, l.All()[0].Metadata)
	require.Nil(t, l.All()[1].Metadata)
	for _, wrong := range []string{"[a]", "x", ".inf", "{a: .nan}", "{a: {1: 2}}"} {
		_, _, err := rules.Parse("f", []byte("domain: d\ndescriptors:\n- {key: a, metadata: "+wrong+"}"))
		require.ErrorContains(t, err, "f:3: error loading config file: metadata: ", wrong)
	}
}
