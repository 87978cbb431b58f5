package rules_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/machine"
	"github.com/sketchlimit/sketchlimit/rules"
)

// Whatever is wrong in a file, the error begins with the line that it is in.
func TestLinesOfErrors(t *testing.T) {
	const head = "domain: api\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: day\n      requests_per_unit: 3\n"
	for _, c := range []struct {
		line int
		text string
	}{
		{9, head + "  - key: b\n    rate_limit:\n\t  unit: day\n"},
		{8, head + "  - key: b\n   rate_limit: {}\n"},
		{8, head + "  - key: b\n      value: c\n"},
		{7, head + "  - key: b: c\n"},
		{7, head + "  - key: 'b\n"},
		{7, head + "  - {key: b, rate_limit: {unit: day, requests_per_unit: 3}\n"},
		{7, head + "  - key: [b\n"},
		{7, head + "  - ]key: b\n"},
		{7, head + "  - key: *x\n"},
		{7, head + "  - key: %x\n"},
		{7, head + "  - key: \"\\q\"\n"},
		{8, head + "  - key: b\n  key: c\n"},
		{7, head + " - key: b\n"},
		{7, head + "- key: b\n"},
		{8, head + "  - key: b\n    key: c\n"},
		{8, head + "  - key: b\n    rate_limit: {unit: day, unit: hour, requests_per_unit: 3}\n"},
		{9, head + "  - key: b\n    rate_limit\n      unit: day\n"},
		{9, head + "  - key: b\n    rate_limit:\n    unit: day\n"},
		{10, head + "  - key: b\n    rate_limit:\n      unit: day\n     requests_per_unit: 3\n"},
		{10, head + "  - key: b\n    rate_limit:\n      unit: day\n       requests_per_unit: 3\n"},
		{8, head + "---\ndomain: b\n"},
		{7, head + "other: 1\n"},
		{1, "\tdomain: api\n"},
		{2, "domain: api\n\tdescriptors: []\n"},
		{2, "domain: api\ndescriptors: [a\n\n\n"},
		{4, "domain: api\ndescriptors:\n  - key: a\n   value: b\n"},
		{2, "domain: api\n descriptors:\n"},
		{2, "domain: api\ndescriptors: [{key: a, metadata: {[a]: 3}}]\n"},
		{1, "a: &a [*a]\n"},
	} {
		_, err := rules.Options{MaxMemoryBytes: 1 << 20}.New(rules.File{Name: "f.yaml", Data: []byte(c.text)})
		require.Error(t, err, c.text)
		require.True(t, strings.HasPrefix(err.Error(), fmt.Sprintf("f.yaml:%d: ", c.line)), "%q: %v", c.text, err)
		require.NotContains(t, err.Error(), "\n")
	}
}

// What leads to no rule is told as well.
func TestWarnings(t *testing.T) {
	limits, err := rules.Options{MaxMemoryBytes: 1 << 20}.New(rules.File{Name: "f.yaml", Data: []byte(
		"domain: api\ndescriptors:\n  - key: a\n    rate_limit:\n  - {key: b, rate_limit: {unit: day}}\n  - {key: c}\n")})
	require.NoError(t, err)
	require.Equal(t, []string{
		"f.yaml:4: empty rate_limit, limits nothing",
		"f.yaml:5: no requests_per_unit, blocks all requests: 0 says so without this warning",
	}, limits.Warnings())
}

// Rules that would not fit into the machine together are refused before they are made.
func TestMemoryOfTheMachine(t *testing.T) {
	most, _, ok := machine.Memory()
	if !ok || most > 1<<45 || most/5*2 > math.MaxInt {
		t.Skip("the machine does not say, or has enough")
	}
	text := "domain: api\ndescriptors:\n"
	for i := range 3 {
		text += fmt.Sprintf("  - {key: k%d, rate_limit: {unit: day, requests_per_unit: 5, memory: %d}}\n", i, most/5*2)
	}
	_, err := rules.Options{MaxMemoryBytes: math.MaxInt}.New(rules.File{Name: "f.yaml", Data: []byte(text)})
	require.ErrorContains(t, err, "rules: all of them together: ")
}
