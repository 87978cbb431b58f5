package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestDoubtfulLogs: the first sentence of all commands, and the warning of their pages,
// name what is wrong with a log. All refuse one of which most requests are out of order.
func TestDoubtfulLogs(t *testing.T) {
	made := func(line func(i int) string) string {
		var b strings.Builder
		for i := range 300 {
			b.WriteString(line(i) + "\n")
		}
		return b.String()
	}
	at := func(i, seconds int) string {
		return fmt.Sprintf("192.0.2.%d - - [%s] \"GET / HTTP/1.1\" 200 1", i%100, time.Unix(1794294000+int64(seconds), 0).UTC().Format("02/Jan/2006:15:04:05 -0700"))
	}
	for name, c := range map[string]struct{ text, want string }{
		"an hour back": {made(func(i int) string { return at(i, i*12-3600*(i/150)) }),
			"Doubtful: 150 of 300 requests came more than a minute after a later one ("},
		"one proxy": {made(func(i int) string { return at(7, i) }),
			"Doubtful: all 300 requests are from 192.0.2.7; if that is a proxy, `--key` names another field. "},
		"half of the lines": {made(func(i int) string { return at(i, i) + strings.Repeat("\nrubbish", i%2) }), "Doubtful: 150 of 450 lines could not be read. "},
		"the first of 1970": {made(func(i int) string { return at(i, i-1794294000*max(0, 1-i)) }),
			"Doubtful: no request is between 1970-01-01 00:00:00 and 2026-11-10 07:00:01, so a date may be wrong. "},
		"in order":     {made(func(i int) string { return at(i, i) }), ""},
		"out of order": {made(func(i int) string { return at(i, i*97%300*6) }), "the lines must be put in order first"},
	} {
		log := file(t, "access.log", c.text)
		for _, args := range [][]string{{"whatif", log}, {"report", "--limit", "20", "--trace", log}, {"tune", "--limit", "20", "--trace", log}} {
			page := filepath.Join(t.TempDir(), "page.html")
			o := command(nil, append(args, "--html", page)...)
			if name == "out of order" {
				assert.Equal(t, 2, o.status, args)
				assert.Contains(t, o.err, c.want, args)
				continue
			}
			require.Equal(t, 0, o.status, o.err)
			out := strings.Join(strings.Fields(o.out), " ")
			html, err := os.ReadFile(page)
			require.NoError(t, err)
			assert.Equal(t, c.want != "", strings.HasPrefix(out, "Doubtful"), "%s: %v", name, args)
			assert.Equal(t, c.want != "", strings.Contains(string(html), "Warning.</strong> Doubtful"), "%s: %v", name, args)
			assert.True(t, strings.HasPrefix(out, c.want), "%s: %v: %.200s", name, args, out)
			assert.Contains(t, out, "common; ", args)
			assert.Contains(t, out, "key: remote_addr, IPv6 by /64; time: time", args)
			if name == "half of the lines" {
				assert.Contains(t, out, "; skipped 150 of 450 lines (150 no client host)", args)
			}
			assert.NotContains(t, string(html), filepath.Dir(log), args)
		}
	}
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
