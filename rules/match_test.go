package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/rules"
)

// descriptor parses "key=value key=value".
func descriptor(s string) (d rules.Descriptor) {
	for _, pair := range strings.Fields(s) {
		key, value, _ := strings.Cut(pair, "=")
		d = append(d, rules.Entry{Key: key, Value: value})
	}
	return d
}

// shown is a rule as the tables below have it.
func shown(r *rules.Rule) string {
	switch {
	case r == nil:
		return "-"
	case r.Unlimited:
		return "unlimited"
	}
	s := fmt.Sprintf("%d/%v %s", r.Limit, r.Window, r.Path)
	if r.Name != "" {
		s += " " + r.Name
	}
	if r.Shadow {
		s += " shadow"
	}
	if r.Quota {
		s += " quota"
	}
	return s
}

// matches requires that descriptors match the rules of a file that are wanted, by
// descriptor.
func matches(t *testing.T, file string, want map[string]string) {
	t.Helper()
	_, match, err := rules.Parse("file.yaml", []byte(file))
	require.NoError(t, err)
	for d, want := range want {
		rule, _ := match(descriptor(d))
		require.Equal(t, want, shown(rule), d)
	}
}

// What the documented examples of envoyproxy/ratelimit match.
func TestEnvoysExamples(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       map[string]string
	}{
		{"two values", `
domain: mongo_cps
descriptors:
  - {key: database, value: users, rate_limit: {unit: second, requests_per_unit: 500}}
  - {key: database, value: default, rate_limit: {unit: second, requests_per_unit: 400}}
`, map[string]string{
			"database=users":            "500/1s database_users",
			"database=default":          "400/1s database_default",
			"database=other":            "-",
			"table=users":               "-",
			"database":                  "-",
			"":                          "-",
			"database=users table=user": "-",
		}},
		{"levels", `
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - {key: to_number, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: to_number, rate_limit: {unit: Day, requests_per_unit: 100}}
`, map[string]string{
			"message_type=marketing to_number=2061111111": "5/24h0m0s message_type_marketing.to_number",
			"to_number=2061111111":                        "100/24h0m0s to_number",
			"message_type=marketing":                      "-",
			"message_type=other to_number=2061111111":     "-",
			"to_number=2061111111 message_type=marketing": "-",
		}},
		{"the most specific first, whatever the order", `
domain: edge_proxy_per_ip
descriptors:
  - {key: remote_address, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: remote_address, value: 50.0.0.5, rate_limit: {unit: second, requests_per_unit: 0}}
`, map[string]string{
			"remote_address=50.0.0.1": "10/1s remote_address",
			"remote_address=50.0.0.5": "0/1s remote_address_50.0.0.5",
		}},
		{"at full depth only", `
domain: example4
descriptors:
  - {key: key, value: value, rate_limit: {requests_per_unit: 300, unit: second}}
  - {key: deep, value: value, descriptors: [{key: subkey, rate_limit: {requests_per_unit: 300, unit: second}}]}
`, map[string]string{
			"key=value subkey=subvalue":  "-",
			"deep=value subkey=subvalue": "300/1s deep_value.subkey",
			"deep=value":                 "-",
		}},
		{"unlimited", `
domain: internal
descriptors:
  - {key: ldap, rate_limit: {unlimited: true}}
  - {key: azure, rate_limit: {unit: minute, requests_per_unit: 100}}
`, map[string]string{"ldap=x": "unlimited", "azure=x": "100/1m0s azure"}},
		{"shadow", `
domain: example6
descriptors:
  - key: service
    descriptors:
      - {key: user, value: user-a, rate_limit: {requests_per_unit: 10, unit: second}, shadow_mode: true}
      - {key: user, value: user-b, rate_limit: {requests_per_unit: 20, unit: second}}
`, map[string]string{
			"service=auth-service user=user-a": "10/1s service.user_user-a shadow",
			"service=auth-service user=user-b": "20/1s service.user_user-b",
			"service=auth-service user=user-c": "-",
		}},
		{"names", `
domain: example7
descriptors:
  - {key: key_1, value: value_1, descriptors: [{key: user, value: b, rate_limit: {name: specific_limit, requests_per_unit: 5, unit: second}}]}
  - {key: key_2, value: value_2, descriptors: [{key: user, value: b, rate_limit: {replaces: [{name: specific_limit}], requests_per_unit: 10, unit: second}}]}
`, map[string]string{
			"key_1=value_1 user=b":               "5/1s key_1_value_1.user_b specific_limit",
			"key_2=value_2 user=b":               "10/1s key_2_value_2.user_b",
			"key_1=value_1 key_2=value_2 user=b": "-",
		}},
		{"metrics", `
domain: example8
descriptors:
  - {key: key1, detailed_metric: true, value_to_metric: true, metadata: {a: [1.5, {b: ~}]}, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: key1, value: value1, rate_limit: {unit: minute, requests_per_unit: 20}}
`, map[string]string{"key1=other": "10/1m0s key1", "key1=value1": "20/1m0s key1_value1"}},
		{"a wildcard", `
domain: example9
descriptors:
  - {key: key1, value: value*, rate_limit: {unit: minute, requests_per_unit: 20}}
`, map[string]string{"key1=value1": "20/1m0s key1_value*", "key1=value": "20/1m0s key1_value*", "key1=valu": "-", "key1": "-"}},
		{"quota", `
domain: quota
descriptors:
  - {key: service, value: service_1, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
`, map[string]string{"service=service_1": "1/1m0s service_service_1 quota"}},
	} {
		t.Run(c.name, func(t *testing.T) { matches(t, c.file, c.want) })
	}
}

// The file of the example service of envoyproxy/ratelimit.
func TestEnvoysServiceFile(t *testing.T) {
	matches(t, `
---
domain: rl
descriptors:
  - {key: source_cluster, value: proxy, descriptors: [{key: destination_cluster, value: mock, rate_limit: {unit: minute, requests_per_unit: 1}}]}
  - key: foo
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors:
      - {key: bar, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: bar, value: banned, rate_limit: {unit: minute, requests_per_unit: 0}}
      - {key: baz, rate_limit: {unit: second, requests_per_unit: 1}}
      - {key: bay, rate_limit: {unlimited: true}}
      - {key: baz, value: shady, rate_limit: {unit: minute, requests_per_unit: 1}, shadow_mode: true}
  - {key: qux, rate_limit: {unlimited: true}}
`, map[string]string{
		"source_cluster=proxy destination_cluster=mock": "1/1m0s source_cluster_proxy.destination_cluster_mock",
		"foo=foo":            "2/1m0s foo",
		"foo=foo bar=bar":    "3/1m0s foo.bar",
		"foo=foo bar=banned": "0/1m0s foo.bar_banned",
		"foo=foo baz=baz":    "1/1s foo.baz",
		"foo=foo baz=shady":  "1/1m0s foo.baz_shady shadow",
		"foo=foo bay=x":      "unlimited",
		"foo=foo nix=x":      "-",
		"qux=x":              "unlimited",
	})
}

// The file that the loader of envoyproxy/ratelimit is tested with: levels, open and
// given values, names.
func TestEnvoysBasicFile(t *testing.T) {
	matches(t, `
domain: test-domain
descriptors:
  - key: key1
    value: value1
    descriptors:
      - {key: subkey1, rate_limit: {unit: second, requests_per_unit: 5}}
      - {key: subkey1, value: subvalue1, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: key2, value: value2, rate_limit: {unit: minute, requests_per_unit: 30}}
  - {key: key2, value: value3}
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: key4, rate_limit: {name: key4_rate_limit, unit: day, requests_per_unit: 1}}
  - key: key5
    value: value5
    rate_limit: {unit: day, requests_per_unit: 15}
    descriptors: [{key: subkey5, value: subvalue5, rate_limit: {unit: day, requests_per_unit: 25}}]
  - {key: key6, rate_limit: {unlimited: true}}
`, map[string]string{
		"key1=something":                  "-",
		"key1=value1":                     "-",
		"key1=value1 subkey1=something":   "5/1s key1_value1.subkey1",
		"key1=value1 subkey1=subvalue1":   "10/1s key1_value1.subkey1_subvalue1",
		"key2=value2":                     "30/1m0s key2_value2",
		"key2=other":                      "20/1m0s key2",
		"key2=value3":                     "-",
		"key2=value2 subkey=subvalue":     "-",
		"key3=foo":                        "1/1h0m0s key3",
		"key4=foo":                        "1/24h0m0s key4 key4_rate_limit",
		"key5=value5":                     "15/24h0m0s key5_value5",
		"key5=value5 subkey5=subvalue":    "-",
		"key5=value5 subkey5=subvalue5":   "25/24h0m0s key5_value5.subkey5_subvalue5",
		"key6=foo":                        "unlimited",
		"key1=value1 subkey1=x subkey2=x": "-",
	})
}

// A wildcard stands for any text, also for none, anywhere in a value or a key.
func TestWildcardsInKeysAndValues(t *testing.T) {
	matches(t, `
domain: test-domain
descriptors:
  - {key: wild, value: foo*, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: noWild, value: foo, rate_limit: {unit: minute, requests_per_unit: 30}}
  - key: level
    descriptors:
      - {key: wild, value: bar*b, rate_limit: {unit: minute, requests_per_unit: 40}}
      - {key: wild, value: foo*bar*baz, rate_limit: {unit: minute, requests_per_unit: 50}}
  - {key: file, value: file_test*, rate_limit: {unit: minute, requests_per_unit: 60}}
  - {key: file, value: file_t*, rate_limit: {unit: minute, requests_per_unit: 61}}
  - {key: file, value: file_test1, rate_limit: {unit: minute, requests_per_unit: 70}}
  - {key: file, rate_limit: {unit: minute, requests_per_unit: 80}}
  - {key: any, value: "*", rate_limit: {unit: minute, requests_per_unit: 90}}
  - {key: twice, value: aba*ba, rate_limit: {unit: minute, requests_per_unit: 91}}
  - {key: "k*", rate_limit: {unit: minute, requests_per_unit: 92}}
  - {key: double, value: x*yy*yy*z, rate_limit: {unit: minute, requests_per_unit: 93}}
`, map[string]string{
		"wild=foo1":                    "20/1m0s wild_foo*",
		"wild=foo":                     "20/1m0s wild_foo*",
		"wild=bar":                     "-",
		"noWild=foo":                   "30/1m0s noWild_foo",
		"noWild=foo1":                  "-",
		"level=x wild=barab":           "40/1m0s level.wild_bar*b",
		"level=x wild=bar123b":         "40/1m0s level.wild_bar*b",
		"level=x wild=barb":            "40/1m0s level.wild_bar*b",
		"level=x wild=bara":            "-",
		"level=x wild=xbarb":           "-",
		"level=x wild=bab":             "-",
		"level=x wild=foobarbaz":       "50/1m0s level.wild_foo*bar*baz",
		"level=x wild=foo123bar456baz": "50/1m0s level.wild_foo*bar*baz",
		"level=x wild=foobarbarbaz":    "50/1m0s level.wild_foo*bar*baz",
		"level=x wild=foo123baz":       "-",
		"level=x wild=foobaz":          "-",
		"file=file_test1":              "70/1m0s file_file_test1",
		"file=file_test2":              "60/1m0s file_file_test*",
		"file=file_tesla":              "61/1m0s file_file_t*",
		"file=other":                   "80/1m0s file",
		"any":                          "90/1m0s any_*",
		"any=thing":                    "90/1m0s any_*",
		"twice=aba":                    "-",
		"twice=ababa":                  "91/1m0s twice_aba*ba",
		"key=x":                        "92/1m0s k*",
		"double=xyyyz":                 "-",
		"double=xyyyyz":                "93/1m0s double_x*yy*yy*z",
	})
}

// A window is a unit, any duration, and a multiple of either.
func TestWindowsOfRules(t *testing.T) {
	matches(t, `
domain: windows
descriptors:
  - {key: a, rate_limit: {unit: minute, unit_multiplier: 5, requests_per_unit: 20}}
  - {key: b, rate_limit: {unit: 10m, requests_per_unit: 20}}
  - {key: c, rate_limit: {unit: 1.5s, unit_multiplier: 2, requests_per_unit: 20}}
  - {key: d, rate_limit: {unit: WEEK, requests_per_unit: 20}}
  - {key: e, rate_limit: {unit: Month, requests_per_unit: 20}}
  - {key: f, rate_limit: {unit: year, requests_per_unit: 20}}
`, map[string]string{
		"a=": "20/5m0s a", "b=": "20/10m0s b", "c=": "20/3s c",
		"d=": "20/168h0m0s d", "e=": "20/720h0m0s e", "f=": "20/8760h0m0s f",
	})
}

func TestAnchorsAndValuesThatAreNoText(t *testing.T) {
	matches(t, `
domain: 42
descriptors:
  - {key: 1, value: true, rate_limit: &limit {unit: minute, requests_per_unit: 0x10}}
  - &two {key: 2, value: 0042, rate_limit: *limit}
  - {<<: *two, key: 3}
  - {key: 4, rate_limit: {<<: [*limit, {unit: hour, name: x}], name: y}}
`, map[string]string{
		"1=true": "16/1m0s 1_true", "2=0042": "16/1m0s 2_0042", "3=0042": "16/1m0s 3_0042", "4=": "16/1m0s 4 y",
	})
}

func TestKeysAndValuesThatJoinAlike(t *testing.T) {
	matches(t, `
domain: joined
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a_b, value: c, rate_limit: {unit: minute, requests_per_unit: 2}}
`, map[string]string{"a=b_c": "1/1m0s a_b_c", "a_b=c": "2/1m0s a_b_c"})
}

// Open values tell counters apart, given ones do not, and under share_threshold neither
// do those that a wildcard leaves open.
func TestCounters(t *testing.T) {
	_, match, err := rules.Parse("file.yaml", []byte(`
domain: counters
descriptors:
  - key: a
    descriptors:
      - {key: b, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: w, value: x*, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: s, value: x*, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: f
    value: fixed
    descriptors: [{key: g, value: given, rate_limit: {unit: minute, requests_per_unit: 1}}]
  - {key: "k*", rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: "l*", value: given, rate_limit: {unit: minute, requests_per_unit: 1}}
`))
	require.NoError(t, err)
	key := func(d string) string {
		rule, key := match(descriptor(d))
		require.NotNil(t, rule, d)
		return string(key)
	}
	require.NotEqual(t, key("a=1 b=23"), key("a=12 b=3"))
	require.NotEqual(t, key("a=1 b="), key("a= b=1"))
	require.NotEqual(t, key("a=1 w=x1"), key("a=1 w=x2"))
	require.Equal(t, key("a=1 s=x1"), key("a=1 s=x2"))
	require.NotEqual(t, key("a=1 s=x1"), key("a=2 s=x1"))
	require.Empty(t, key("f=fixed g=given"))
	require.NotEqual(t, key("k1=a"), key("k2=a"))
	require.NotEqual(t, key("k1=a"), key("k1=b"))
	require.NotEqual(t, key("l1=given"), key("l2=given"))
}

func TestWrongFiles(t *testing.T) {
	const limit = "rate_limit: {unit: minute, requests_per_unit: 1}"
	for _, c := range []struct{ file, want string }{
		// What envoyproxy/ratelimit finds, in its words.
		{"", "file.yaml: config file cannot have empty domain"},
		{"# nothing", "file.yaml: config file cannot have empty domain"},
		{"descriptors: []", "file.yaml: config file cannot have empty domain"},
		{"domain: a\ndescriptors:\n- value: b", "file.yaml:3: descriptor has empty key"},
		{"domain: a\ndescriptors:\n- key: k\n  value: v\n- key: k\n  value: v", "file.yaml:5: duplicate descriptor composite key 'a.k_v'"},
		{"domain: a\ndescriptors:\n- {key: k}\n- {key: k}", "file.yaml:4: duplicate descriptor composite key 'a.k'"},
		{"domain: a\ndescriptors:\n- {key: k, value: v*}\n- {key: k, value: v*}", "file.yaml:4: duplicate descriptor composite key 'a.k_v*'"},
		{"domain: a\ndescriptors:\n- {key: k, descriptors: [{key: l, value: v},\n   {key: l, value: v}]}", "file.yaml:4: duplicate descriptor composite key 'a.k.l_v'"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: foo, requests_per_unit: 5}", "file.yaml:4: invalid rate limit unit 'foo'"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {requests_per_unit: 5}", "file.yaml:4: invalid rate limit unit ''"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unlimited: true, unit: day}", "file.yaml:4: should not specify rate limit unit when unlimited"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, replaces: [{name: ''}]}", "file.yaml:4: should not have an empty replaces entry"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, name: n, replaces: [{name: n}]}", "file.yaml:4: replaces should not contain name of same descriptor"},
		{"domain: a\ndescriptors:\n- {key: k, value: v,\n   prefixes: {ipv4: 24, ipv6: 48}}", "file.yaml:3: prefixes with value 'v', go with open values only"},
		{"domain: a\ndescriptors:\n- {key: k, value: v*, share_threshold: true, prefixes: {ipv4: 24, ipv6: 48}}", "file.yaml:3: prefixes with share_threshold, only one of them may be given"},
		{"domain: a\ndescriptors:\n- key: k\n  prefixes: {ipv4: 24}", "file.yaml:4: prefixes, must have ipv4 and ipv6"},
		{"domain: a\ndescriptors:\n- key: k\n  prefixes: 24", "file.yaml:4: error loading config file: prefixes is a mapping, found 24"},
		{"domain: a\ndescriptors:\n- key: k\n  prefixes: {ipv4: 33, ipv6: 48}", "file.yaml:4: error loading config file: ipv4 33, must be a whole number 1 … 32"},
		{"domain: a\ndescriptors:\n- key: k\n  prefixes: {ipv4: 24, ipv6: 0}", "file.yaml:4: error loading config file: ipv6 0, must be a whole number 1 … 128"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {prefixes: {ipv4: 24, ipv6: 48}}", "file.yaml:4: config error, key 'prefixes' belongs into a descriptor, not into a rate_limit"},
		{"domain: a\ndescriptors:\n- key: k\n  ipv4: 24", "file.yaml:4: config error, key 'ipv4' belongs into prefixes, not into a descriptor"},
		{"domain: a\ndescriptors:\n- {key: k, value: v, share_threshold: true}", "file.yaml:3: share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'"},
		{"domain: a\ndescriptors:\n- key: k\n  ratelimit: {unit: day}", "file.yaml:4: config error, unknown key 'ratelimit'"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit:\n    unit: day\n    request_per_unit: 5", "file.yaml:6: config error, unknown key 'request_per_unit'"},
		{"domain: a\ndescriptors:\n- key: k\n  0.25: 5", "file.yaml:4: config error, key is not of type string: 0.25"},
		{"domain: a\ndescriptors:\n- a\n- b", "file.yaml:3: config error, yaml file contains list of type other than map: a"},
		{"domain: a\ndescriptors:\n- key: k\n  value: 0.25", "file.yaml:4: error checking config: 0.25 is neither text nor whole number, put it in quotes"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: 0.25}", "file.yaml:4: error checking config: requests_per_unit 0.25, must be a whole number 0 … 4294967295"},
		{"domain: [", "file.yaml:1: error loading config file: yaml: did not find expected node content"},
		{"domain: a\ndomain: b", "file.yaml:2: error loading config file: yaml: mapping key \"domain\" already defined at line 1"},
		{"domain: a\ndescriptors: &x [*x]", "file.yaml:2: error loading config file: yaml: anchor 'x' value contains itself"},
		{"domain: {a: b}", "file.yaml:1: error loading config file: a text was expected, found a mapping"},
		{"domain: a\ndescriptors: b", "file.yaml:2: error loading config file: a list was expected, found b"},
		{"- a", "file.yaml:1: error loading config file: a file is a mapping, found a list"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: 5", "file.yaml:4: error loading config file: a rate_limit is a mapping, found 5"},
		{"domain: a\ndescriptors:\n- key: k\n  shadow_mode: 1", "file.yaml:4: error loading config file: true or false was expected, found 1"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: -1}", "file.yaml:4: error loading config file: requests_per_unit -1, must be a whole number 0 … 4294967295"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: 4294967296}", "file.yaml:4: error loading config file: requests_per_unit 4294967296, must be a whole number 0 … 4294967295"},
		// What it does not know, or lets pass.
		{"domain: a\n---\ndomain: b", "file.yaml:3: error loading config file: more than one document that is not empty, must be one"},
		{"---\ndomain: a\n---\n# nothing\n---\n{}", "file.yaml:6: error loading config file: more than one document that is not empty, must be one"},
		{"domain: a\n---\n[", "file.yaml:3: error loading config file: yaml: did not find expected node content"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: 1e+10}", "file.yaml:4: error loading config file: requests_per_unit 1e+10, must be a whole number 0 … 4294967295"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: .nan}", "file.yaml:4: error checking config: requests_per_unit .nan, must be a whole number 0 … 4294967295"},
		{"domain: a\ndescriptors:\n- key: k\n  shadow_mode: 'yes'", "file.yaml:4: error loading config file: true or false was expected, found yes"},
		{"domain: a\ndescriptors:\n- key: k\n  shadow_mode: maybe", "file.yaml:4: error loading config file: true or false was expected, found maybe"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, shadow_mode: true}", "file.yaml:4: config error, key 'shadow_mode' belongs into a descriptor, not into a rate_limit"},
		{"domain: a\nkey: k", "file.yaml:2: config error, key 'key' belongs into a descriptor, not into a file"},
		{"domain: a\ndescriptors:\n- {key: k, unit: day}", "file.yaml:3: config error, key 'unit' belongs into a rate_limit, not into a descriptor"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, unit_multiplier: 0}", "file.yaml:4: error loading config file: unit_multiplier 0, must be a whole number 1 … 2147483647"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: 10us}", "file.yaml:4: unit '10us' times unit_multiplier 1, must be 1ms … 640511h56m49.213693952s"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: -1m}", "file.yaml:4: unit '-1m' times unit_multiplier 1, must be 1ms … 640511h56m49.213693952s"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: year, unit_multiplier: 74}", "file.yaml:4: unit 'year' times unit_multiplier 74, must be 1ms … 640511h56m49.213693952s"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: year, unit_multiplier: 2000000000}", "file.yaml:4: unit 'year' times unit_multiplier 2000000000, must be 1ms … 640511h56m49.213693952s"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, algorithm: sliding}", "file.yaml:4: algorithm 'sliding', must be fixed_window, sliding_window or token_bucket"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, burst: 5}", "file.yaml:4: burst 5, goes with algorithm token_bucket only"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, algorithm: token_bucket, burst: 0}", "file.yaml:4: error loading config file: burst 0, must be a whole number 1 … 2147483647"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: year, requests_per_unit: 1, algorithm: token_bucket, burst: 74}", "file.yaml:3: burst 74, must fill within 640511h56m49.213693952s at 1 per 8760h0m0s"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unlimited: true, burst: 5}", "file.yaml:4: should not specify burst when unlimited"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, keys: 0}", "file.yaml:4: error loading config file: keys 0, must be a whole number 1 … 2147483647"},
		{"domain: a\ndescriptors:\n- key: k\n  value: v\n  rate_limit: {unit: day, keys: 7}", "file.yaml:3: keys 7, goes with open values only: this rule has one counter"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, false_denial_rate: 1}", "file.yaml:4: false_denial_rate 1, must be a number above 0 and below 1 such as 1e-5"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, false_denial_rate: .nan}", "file.yaml:4: false_denial_rate .nan, must be a number above 0 and below 1 such as 1e-5"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, memory: 8MB}", "file.yaml:4: memory '8MB', must be a number of bytes such as 65536, 512KiB, 8MiB or 1GiB"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, memory: 99999999999GiB}", "file.yaml:4: memory '99999999999GiB', must be a number of bytes such as 65536, 512KiB, 8MiB or 1GiB"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, headroom: 0.5}", "file.yaml:4: headroom 0.5, must be a number above 0, 1 … 1000"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, units_per_key: .nan}", "file.yaml:4: units_per_key .nan, must be a number above 0, 0 … 2147483647"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, memory: 8MiB, headroom: 4}", "file.yaml:4: headroom with memory, only one of them may be given"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, memory: 8MiB, units_per_key: 4}", "file.yaml:4: units_per_key with memory, only one of them may be given"},
		{"domain: a\ndescriptors:\n- key: k\n  value: v\n  rate_limit: {unit: day, headroom: 4}", "file.yaml:3: units_per_key and headroom, go with open values only: this rule has one counter"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, memory: 8MiB, false_denial_rate: 1e-5}", "file.yaml:4: false_denial_rate with memory, only one of them may be given"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, overload: grow}", "file.yaml:4: overload 'grow', must be deny or deny_proven"},
		{"domain: a\ndescriptors:\n- key: k\n  value: v\n  rate_limit: {unit: day, overload: deny_proven}", "file.yaml:3: overload deny_proven, goes with open values only: this rule has one counter"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: 1, overload: deny_proven}", "file.yaml:3: overload deny_proven with requests_per_unit 1, must be 2 … 16383"},
		{"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unlimited: true, keys: 5}", "file.yaml:4: should not specify keys when unlimited"},
	} {
		_, _, err := rules.Parse("file.yaml", []byte(c.file))
		require.EqualError(t, err, c.want, c.file)
	}
	for _, good := range []string{
		"domain: a\ndescriptors:\n- key: k\n  value: v\n  " + limit,
		"domain: a\ndescriptors:\n- key: k\n  " + limit + "\n- key: k\n  value: v\n  shadow_mode: ~",
		"domain: a\ndescriptors: ~",
		"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, false_denial_rate: 1e-5, keys: 10, algorithm: sliding_window}",
		"domain: a\ndescriptors:\n- key: k\n  rate_limit: {burst: 5, algorithm: token_bucket, unit: day, requests_per_unit: 1}",
		"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, memory: 512KiB, keys: 10}",
		"domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, memory: 65536}",
	} {
		_, _, err := rules.Parse("file.yaml", []byte(good))
		require.NoError(t, err, good)
	}
}

// Whatever a file says: rules or an error that names the file, and what matches a
// descriptor is a rule of the file.
func FuzzParse(f *testing.F) {
	f.Add("domain: a\ndescriptors:\n- {key: k, value: v*, rate_limit: {unit: 10m, requests_per_unit: 5, memory: 1MiB}}", "k", "v1")
	f.Add("domain: a\ndescriptors:\n- &x {key: k, rate_limit: &l {unit: day}}\n- {<<: *x, key: b, rate_limit: {<<: *l, unlimited: true}}", "b", "")
	f.Add("domain: a\ndescriptors: [{key: '*', value: 'a*b*', share_threshold: true, descriptors: [{key: x}]}]", "b", "ab")
	f.Add("---\n# Source: a\n---\ndomain: yes\ndescriptors:\n- {key: k, shadow_mode: off, value_to_metric: y, metadata: {a: [1e+06]}, rate_limit: {unit: day, requests_per_unit: 1e+06}}\n---\n", "k", "v")
	f.Fuzz(func(t *testing.T, file, key, value string) {
		all, match, err := rules.Parse("file.yaml", []byte(file))
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "file.yaml:"), err.Error())
			return
		}
		d := rules.Descriptor{{Key: key, Value: value}}
		rule, _ := match(d)
		if rule != nil {
			require.Contains(t, all, rule)
			require.True(t, strings.HasPrefix(rule.StatsName(d), rule.Domain+"."))
		}
		for _, rule := range all {
			require.True(t, rule.Unlimited || rule.Window > 0)
		}
	})
}

// A level finds what has a name whatever their number: the first few are held elsewhere
// than others.
func TestManyNames(t *testing.T) {
	const n = 30
	var file strings.Builder
	file.WriteString("domain: d\ndescriptors:\n")
	for i := range n {
		fmt.Fprintf(&file, "  - {key: key%d, value: only, rate_limit: {unit: second, requests_per_unit: %d}}\n", i, 1+i)
		fmt.Fprintf(&file, "  - {key: same, value: value%d, rate_limit: {unit: second, requests_per_unit: %d}}\n", i, 101+i)
	}
	_, match, err := rules.Parse("f", []byte(file.String()))
	require.NoError(t, err)
	limit := func(d string) int {
		rule, _ := match(descriptor(d))
		if rule == nil {
			return 0
		}
		return rule.Limit
	}
	for i := range n {
		require.Equal(t, 1+i, limit(fmt.Sprintf("key%d=only", i)))
		require.Equal(t, 101+i, limit(fmt.Sprintf("same=value%d", i)))
		require.Zero(t, limit(fmt.Sprintf("key%d=value%d", i, i)))
	}
	require.Zero(t, limit("same=only"))
	require.Zero(t, limit(fmt.Sprintf("key%d=only", n)))
	for _, twice := range []string{"key2, value: only", fmt.Sprintf("key%d, value: only", n-1), fmt.Sprintf("same, value: value%d", n-1)} {
		_, _, err = rules.Parse("f", []byte(file.String()+"  - {key: "+twice+", rate_limit: {unit: second, requests_per_unit: 1}}\n"))
		require.ErrorContains(t, err, "duplicate descriptor composite key")
	}
}
