package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatIfTellsLongKeysApart: those that rules refuse, too.
func TestWhatIfTellsLongKeysApart(t *testing.T) {
	var log strings.Builder
	log.WriteString("time,path\n")
	same := "/" + strings.Repeat("x", 100)
	for i := range 40 {
		fmt.Fprintf(&log, "%d,%s%d\n", 1794294000, same, i%2)
	}
	rules := func(limit int) string {
		return file(t, "rules.yaml", fmt.Sprintf("domain: api\ndescriptors:\n  - key: path\n    rate_limit: {unit: minute, requests_per_unit: %d}\n", limit))
	}
	o := command(nil, "whatif", file(t, "access.csv", log.String()), "--key", "path", "--json", "--rules", rules(100), "--against", rules(15))
	require.Equal(t, 0, o.status, o.err)
	var r struct{ Rules *comparison }
	require.NoError(t, json.Unmarshal([]byte(o.out), &r))
	top := r.Rules.Fates[onlyNew].Top
	require.Len(t, top, 2)
	assert.Regexp(t, "^/x{44}…[0-9a-f]{16}$", top[0].Key)
	assert.Regexp(t, "^/x{44}…[0-9a-f]{16}$", top[1].Key)
	assert.NotEqual(t, top[0].Key, top[1].Key)
}

// TestWhatIfPrintsNoControlCharacters: neither where it tells of the log nor in an error.
func TestWhatIfPrintsNoControlCharacters(t *testing.T) {
	log := file(t, "access.json", `{"time":1794294000,"a\u001b[2J":"k\u001b[2J","cost":1}`+"\n"+`{"time":1794294000}`+"\n\x1b[2J\n")
	for _, key := range []string{"a\x1b[2J", "none"} {
		for _, flags := range [][]string{nil, {"--json"}} {
			o := command(nil, append([]string{"whatif", log, "--key", key}, flags...)...)
			assert.NotContains(t, o.out+o.err, "\x1b")
			assert.Contains(t, o.out+o.err, "[2J")
		}
	}
}
