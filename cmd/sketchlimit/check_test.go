package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// predicting skips what waits for predictions.
func predicting(t *testing.T) {
	if raced {
		t.Skip("the race detector would find nothing, slowly; the gate runs this without it")
	}
}

// TestCheckTellsWhatLimitsNothing: there is no rule that could be in the table.
func TestCheckTellsWhatLimitsNothing(t *testing.T) {
	file := write(t, "domain: api\ndescriptors:\n  - key: a\n    rate_limit:\n")
	o := command(nil, "check", file)
	require.Equal(t, output{out: "0 rules, 0 B of counts\n\n" + file + ":4: empty rate_limit, limits nothing\n"}, o)
}

func TestCheck(t *testing.T) {
	predicting(t)
	o := command(nil, "check", write(t, `
domain: api
descriptors:
  - key: client
    rate_limit: {unit: minute, requests_per_unit: 100, keys: 1000000}
    descriptors:
      - {key: path, value: /search*, rate_limit: {unit: 10m, requests_per_unit: 40, algorithm: sliding_window, false_denial_rate: 1e-7}}
  - {key: all, value: of it, rate_limit: {unit: second, requests_per_unit: 10000}, shadow_mode: true, quota_mode: true}
  - {key: given, rate_limit: {unit: hour, requests_per_unit: 100, memory: 512KiB}}
  - {key: large, rate_limit: {unit: hour, requests_per_unit: 100, memory: 512KiB, keys: 1000}}
  - {key: small, rate_limit: {unit: hour, requests_per_unit: 100, memory: 8KiB, keys: 100000}}
  - {key: worst, rate_limit: {unit: hour, requests_per_unit: 100, keys: 1000, overload: deny_proven}}
  - {key: bucket, rate_limit: {unit: hour, requests_per_unit: 100, algorithm: token_bucket, burst: 200, keys: 10000}}
  - {key: path, value: /free, rate_limit: {unlimited: true}}
  - {key: client, value: mallory, rate_limit: {unit: hour, requests_per_unit: 0}, shadow_mode: true}
  - {key: client, value: friend}
`))
	require.Equal(t, 0, o.status, o.err)
	assert.Empty(t, o.err)
	assert.Regexp(t, `^10 rules, [\d.]+ MiB of counts\n\n  rule `, o.out)
	for _, row := range []string{
		`(?m)^  api\.client +100 per 1m +fixed +1,000,000 +[\d.]+ [KM]iB +([\d.]+e-\d+|below 1e-9) +[\d.]+ ×$`,
		`(?m)^  api\.client\.path_/search\* +40 per 10m +sliding +100,000 +\d+ KiB +([\d.]+e-\d+|below 1e-9) +[\d.]+ ×$`,
		`(?m)^  api\.all_of it +10,000 per 1s +fixed, shadow, quota +1 +[\d.]+ KiB +none +none$`,
		`(?m)^  api\.given +100 per 1h +fixed +not said +\d+ KiB +unknown +unknown$`,
		`(?m)^  api\.large +100 per 1h +fixed +1,000 +\d+ KiB +below 1e-9 +(≥ 64|[\d.]+) ×$`,
		`(?m)^  api\.small +100 per 1h +fixed +100,000 +[\d.]+ KiB +\d+ % +0\.\d+ ×$`,
		`(?m)^  api\.worst +100 per 1h +fixed, deny_proven +1,000 +[\d.]+ KiB +below 1e-9 +[\d.]+ ×$`,
		`(?m)^  api\.bucket +100 per 1h, burst 200 +bucket +10,000 +\d+ KiB +([\d.]+e-\d+|below 1e-9) +[\d.]+ ×$`,
		`(?m)^  api\.path_/free +unlimited$`,
		`(?m)^  api\.client_mallory +blocked +shadow$`,
	} {
		assert.Regexp(t, row, o.out)
	}
	assert.NotContains(t, o.out, "friend")
	o = command(nil, "check", write(t, "domain: api"))
	assert.Equal(t, output{0, "0 rules, 0 B of counts\n", ""}, o)
}

func TestCheckFails(t *testing.T) {
	file := write(t, "domain: api\ndescriptors:\n- key: k\n  rate_limit: {unit: fortnight}")
	assert.Equal(t, output{1, "", "sketchlimit: " + file + ":4: invalid rate limit unit 'fortnight'\n"}, command(nil, "check", file))
	assert.Equal(t, output{2, "", "sketchlimit: check: FILE is missing, must be at least 1\n"}, command(nil, "check"))
	assert.Equal(t, 1, command(nil, "check", file+"x").status)
}

// docs/rules.md shows what is printed, but for sizes and predictions, which change with
// the limiter and the tuner.
func TestDocsShowTheCheck(t *testing.T) {
	predicting(t)
	page, err := os.ReadFile("../../docs/rules.md")
	require.NoError(t, err)
	block := func(begin string) string {
		_, rest, found := strings.Cut(string(page), begin)
		require.True(t, found)
		text, _, _ := strings.Cut(rest, "```")
		return text
	}
	figures := regexp.MustCompile(` *([\d.]+ [KM]iB|[\d.]+e-\d+|below 1e-9|(≥ )?[\d.]+ ×)|─`)
	o := command(nil, "check", write(t, block("```yaml\n")))
	require.Equal(t, 0, o.status, o.err)
	require.Equal(t, figures.ReplaceAllString(block("$ sketchlimit check rules.yaml\n"), ""), figures.ReplaceAllString(o.out, ""))
	wrong := strings.Replace(block("```yaml\n"), "unit: minute", "unit: mintue", 1)
	o = command(nil, "check", write(t, wrong))
	require.Contains(t, o.err, "rules.yaml:5: invalid rate limit unit 'mintue'")
}
