package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// tool runs one of the reference's programs, and returns what it prints.
func tool(t *testing.T, pkg string, args ...string) (string, error) {
	t.Helper()
	file, err := servers.Tool(pkg)
	require.NoError(t, err)
	out, err := exec.Command(file, args...).CombinedOutput()
	return string(out), err
}

func TestReferencesClient(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		s := kind.New(t, basic)
		for range 10 {
			out, err := tool(t, servers.ReferenceClient, "-dial_string", s.GRPC, "-domain", "another", "-descriptors", "hourly=foo")
			require.NoError(t, err, out)
			require.Contains(t, out, "overall_code:OK")
		}
		out, err := tool(t, servers.ReferenceClient, "-dial_string", s.GRPC, "-domain", "another",
			"-descriptors", "daily=foo", "-descriptors", "hourly=foo")
		require.NoError(t, err, out)
		require.Contains(t, out, "overall_code:OVER_LIMIT")
		out, err = tool(t, servers.ReferenceClient, "-dial_string", s.GRPC, "-descriptors", "hourly=foo")
		require.Error(t, err)
		require.Contains(t, out, "rate limit domain must not be empty")
	})
}

// configurations are rule files, right and wrong ones.
var configurations = map[string]string{
	"empty":               "",
	"no domain":           "descriptors: []",
	"domain alone":        "domain: a",
	"nested":              "domain: a\ndescriptors: [{key: k, value: v, descriptors: [{key: l, rate_limit: {unit: minute, requests_per_unit: 3}}]}]",
	"key twice":           "domain: a\ndescriptors: [{key: k}, {key: k}]",
	"key and value twice": "domain: a\ndescriptors: [{key: k, value: v}, {key: k, value: v}]",
	"no key":              "domain: a\ndescriptors: [{value: v}]",
	"unknown word":        "domain: a\ndescriptors: [{key: k, ratelimit: {}}]",
	"unit unknown":        "domain: a\ndescriptors: [{key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}]",
	"unit UNKNOWN":        "domain: a\ndescriptors: [{key: k, rate_limit: {unit: unknown, requests_per_unit: 1}}]",
	"unit in capitals":    "domain: a\ndescriptors: [{key: k, rate_limit: {unit: HOUR, requests_per_unit: 1}}]",
	"no unit":             "domain: a\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1}}]",
	"every unit":          everyUnit(),
	"unlimited":           "domain: a\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]",
	"unlimited with unit": "domain: a\ndescriptors: [{key: k, rate_limit: {unlimited: true, unit: day}}]",
	"none a unit":         "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 0}}]",
	"most a unit":         "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 4294967295}}]",
	"more than the most":  "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}]",
	"negative":            "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: -1}}]",
	"number as text": `domain: a
descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: "1"}}]`,
	"shadow, quota":       "domain: a\ndescriptors: [{key: k, shadow_mode: true, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}]",
	"shadow as yes":       "domain: a\ndescriptors: [{key: k, shadow_mode: yes, rate_limit: {unit: day, requests_per_unit: 1}}]",
	"value as number":     "domain: a\ndescriptors: [{key: k, value: 404}]",
	"replaces":            "domain: a\ndescriptors: [{key: k, rate_limit: {name: n, replaces: [{name: m}], unit: day, requests_per_unit: 1}}]",
	"replaces nothing":    "domain: a\ndescriptors: [{key: k, rate_limit: {replaces: [{name: ''}], unit: day, requests_per_unit: 1}}]",
	"replaces itself":     "domain: a\ndescriptors: [{key: k, rate_limit: {name: n, replaces: [{name: n}], unit: day, requests_per_unit: 1}}]",
	"star":                "domain: a\ndescriptors: [{key: k, value: v*, rate_limit: {unit: day, requests_per_unit: 1}}]",
	"shared":              "domain: a\ndescriptors: [{key: k, value: v*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}]",
	"shared without star": "domain: a\ndescriptors: [{key: k, value: v, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}]",
	"metrics":             "domain: a\ndescriptors: [{key: k, detailed_metric: true, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}]",
	"list of words":       "domain: a\ndescriptors: [k]",
	"no YAML":             "domain: [a",
	"tab":                 "domain: a\n\tdescriptors: []",
}

func everyUnit() string {
	file := "domain: a\ndescriptors:"
	for _, unit := range []string{"second", "minute", "hour", "day", "week", "month", "year"} {
		file += "\n  - {key: " + unit + ", rate_limit: {unit: " + unit + ", requests_per_unit: 1}}"
	}
	return file
}

// TestReferencesChecker holds what the services make of configurations against the
// reference's checker.
func TestReferencesChecker(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		s := kind.New(t, servers.Rules{"one.yaml": "domain: a"})
		requireMetric(t, s, "ratelimit_service_config_load_success", 1)
		for name, content := range configurations {
			out, err := check(t, content)
			assert.Equalf(t, err == nil, loads(t, s, content), "%s: %s", name, out)
		}
	})
}

// check asks the reference's checker about a rule file.
func check(t *testing.T, content string) (string, error) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "one.yaml"), []byte(content), 0o600))
	return tool(t, servers.ReferenceChecker, "-config_dir", dir)
}

// loads reports whether a service takes a rule file.
func loads(t *testing.T, s *servers.Service, content string) (fine bool) {
	counts := func() [2]float64 {
		failed, err := s.Metric("ratelimit_service_config_load_error")
		require.NoError(t, err)
		loaded, err := s.Loads()
		require.NoError(t, err)
		return [2]float64{failed, loaded}
	}
	before := counts()
	require.NoError(t, s.Write("one.yaml", content))
	require.NoError(t, servers.Eventually(10*time.Second, func() error {
		now := counts()
		fine = now[1] > before[1]
		if now == before {
			return errors.New("neither loaded nor refused")
		}
		return nil
	}))
	return fine
}
