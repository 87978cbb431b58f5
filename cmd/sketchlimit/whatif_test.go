package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
	"github.com/sketchlimit/sketchlimit/internal/pageview"
	"github.com/sketchlimit/sketchlimit/rules"
)

// madeLog is four hours of a log: a thousand clients with three requests an hour each,
// and two with three hundred a minute in the third hour.
func madeLog() string {
	var b strings.Builder
	line := func(client string, at time.Time) {
		fmt.Fprintf(&b, "%s - ann [%s] \"GET /a HTTP/1.1\" 200 10 \"-\" \"agent\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	start := time.Date(2026, 11, 10, 8, 0, 0, 0, time.UTC)
	for second := range 4 * 3600 {
		at := start.Add(time.Duration(second) * time.Second)
		if second%6 != 0 {
			line(fmt.Sprintf("10.0.%d.%d", second%1000/256, second%1000%256), at)
		}
		if second/3600 == 2 {
			for i := range 10 {
				line(fmt.Sprintf("192.0.2.%d", i%2), at)
			}
		}
	}
	return b.String()
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestWhatIf(t *testing.T) {
	log := file(t, "access.log", madeLog())
	page := filepath.Join(t.TempDir(), "whatif.html")
	o := command(nil, "whatif", log, "--windows", "1m", "--limits", "10,20,50,100,1000,50000", "--html", page)
	require.Equal(t, 0, o.status, o.err)
	assert.Equal(t, "sketchlimit: wrote "+page+"\n", o.err)
	text := strings.Join(strings.Fields(o.out), " ")
	for _, want := range []string{
		"2 clients may be abusers: 20 a minute refuses 2 of 1,002 clients (0.20 %) and 33,718 of 48,000 requests (70 %); " +
			"96 % of the refused requests are from 2 clients: `192.0.2.",
		"That is more than 10 % of all requests: demand rather than abuse, unless you know these 2 clients. Look at them first. This is what the log would have met, unchanged.",
		"All keys were followed: no figure is sampled. Refusals are those of a sliding window of two counters: this window and the weighted last " +
			"one. One that keeps every timestamp may refuse fewer or more.",
		"combined; 48,000 requests; key: remote_addr, IPv6 by /64; time: time",
		"time 2026-11-10 08:00:01 … 2026-11-10 11:59:59, 3h59m58s",
		"The keys with the most requests.", "key requests", "192.0.2.0 18,000 ",
		"key requests refused at 20", "192.0.2.0 18,000 16,859", "192.0.2.1 18,000 16,859",
		"2026-11-10 10:00 39,000 1,002",
		": a rule is always sized for 1 % of abusers with three times the limit, whatever the log has.",
		"The marked row is suggested only if its keys are known as abusers: it refuses more than 10 % of the requests.",
		"limiter, err := sketchlimit.New(sketchlimit.Config{",
		"domain: api descriptors: - key: remote_address prefixes: {ipv4: 32, ipv6: 64} rate_limit: unit: 1m requests_per_unit: 20 algorithm: sliding_window",
	} {
		assert.Contains(t, text, want)
	}
	assert.Regexp(t, `(?m)^ +▸[\d,]+ `, o.out)
	for line := range strings.Lines(o.out) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.Contains(line, log) { // a path cannot be broken
			assert.LessOrEqual(t, utf8.RuneCountInString(line), pageWidth, line)
		}
	}

	html, err := os.ReadFile(page)
	require.NoError(t, err)
	pictures := regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(string(html), -1)
	assert.GreaterOrEqual(t, len(pictures), 4)
	for _, p := range pictures {
		d := xml.NewDecoder(strings.NewReader(p))
		for err = nil; err == nil; {
			_, err = d.Token()
		}
		assert.ErrorIs(t, err, io.EOF, "well-formed")
		assert.NotRegexp(t, "NaN|Inf", p)
	}
	for _, want := range []string{
		"Requests admitted and refused over time", "Share of requests and of keys refused, by limit",
		"Share of requests refused, by time and limit", "The keys that are refused the most", "96 % of the refused requests are from 2 clients: <code class=\"short\">192.0.2.", "requests_per_unit",
		"is suggested only if its keys are known as abusers", "20, only for known abusers", ">1.0 %<", ">1,000<",
	} {
		assert.Contains(t, string(html), want)
	}
}

// TestWhatIfPageInABrowser: it can be read on a telephone, in the dark and on paper.
func TestWhatIfPageInABrowser(t *testing.T) {
	log, folder := file(t, "access.log", madeLog()), t.TempDir()
	o := command(nil, "whatif", log, "--windows", "1m", "--html", filepath.Join(folder, "whatif.html"))
	require.Equal(t, 0, o.status, o.err)
	pageview.Check(t, http.FileServer(http.Dir(folder)), "/whatif.html")
}

// TestWhatIfJSON: one object, whose rules are what a file of rules may hold.
func TestWhatIfJSON(t *testing.T) {
	o := command(strings.NewReader(madeLog()), "whatif", "-", "--json", "--exact")
	require.Equal(t, 0, o.status, o.err)
	assert.Empty(t, o.err)
	var r struct {
		Exact bool
		Files []struct {
			Name, Format string
			Requests     int
		}
		Requests   int
		Keys       struct{ Value, Error float64 }
		Suggestion struct {
			Limit  int
			Caveat string
		}
		Size struct {
			Keys        int
			Rules       string
			MemoryBytes int `json:"memory_bytes"`
			RulesBytes  int `json:"rules_memory_bytes"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(o.out), &r))
	assert.Equal(t, "standard input", r.Files[0].Name)
	assert.Equal(t, 48_000, r.Files[0].Requests)
	assert.Equal(t, 48_000, r.Requests)
	assert.Equal(t, 1002.0, r.Keys.Value)
	assert.Zero(t, r.Keys.Error)
	assert.NotEmpty(t, r.Suggestion.Caveat)
	checked, err := rules.Check(file(t, "rules.yaml", r.Size.Rules))
	require.NoError(t, err)
	assert.Equal(t, r.Suggestion.Limit, checked[0].Limit)
	assert.Equal(t, r.Size.Keys, checked[0].Keys)
	assert.Equal(t, r.Size.RulesBytes, checked[0].MemoryBytes())
	assert.NotZero(t, r.Size.MemoryBytes)
}

// TestWhatIfWarnsOfManyUnitsPerKey: the file of rules that it prints would miss its goal.
func TestWhatIfWarnsOfManyUnitsPerKey(t *testing.T) {
	size := func(used uint64) *sizing {
		s := &sizing{Keys: 1000, Headroom: sizeHeadroom}
		s.ruled([]accesslog.Part{{Name: "user"}}, &whatif.Window{Window: time.Minute}, &whatif.Limit{Limit: 20}, float64(used))
		require.NotEmpty(t, s.Rules)
		return s
	}
	require.Empty(t, size(12).Warning)
	const warning = "Keys use 13 units of a limit of 20, above 0.6 times it: so sized, rules deny first requests of new keys. " +
		"State a lower units_per_key and a higher headroom."
	s := size(13)
	require.Equal(t, warning, s.Warning)
	require.Contains(t, s.section("requests").Prose, ". "+warning)
	checked, err := rules.Check(file(t, "rules.yaml", s.Rules))
	require.NoError(t, err)
	require.Contains(t, checked[0].Warning, "units_per_key 13, above 12")
}

// TestWhatIfRulesOfTwoFields: each field is a level of the file.
func TestWhatIfRulesOfTwoFields(t *testing.T) {
	o := command(nil, "whatif", file(t, "access.log", madeLog()), "--json", "--key", "user,ip/24/48", "--windows", "1m")
	require.Equal(t, 0, o.status, o.err)
	var r struct{ Size struct{ Rules string } }
	require.NoError(t, json.Unmarshal([]byte(o.out), &r))
	checked, err := rules.Check(file(t, "rules.yaml", r.Size.Rules))
	require.NoError(t, err, r.Size.Rules)
	assert.Equal(t, "api.user.remote_address", checked[0].String())
	assert.Contains(t, r.Size.Rules, "prefixes: {ipv4: 24, ipv6: 48}")
}

// TestWhatIfTells: what was left out, and why, in a line each.
func TestWhatIfTells(t *testing.T) {
	good := `h1 - - [10/Nov/2026:07:00:05 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	back := `h1 - - [10/Nov/2026:07:00:02 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := io.WriteString(z, madeLog())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	empty, long := file(t, "empty.log", ""), file(t, "long.log", good+"rubbish\n"+strings.Repeat("x", 80<<20)+"\n"+back+"\x00\x01\n")
	cut := file(t, "cut.log.gz", zipped.String()[:zipped.Len()/2])
	o := command(nil, "whatif", cut, empty, long)
	require.Equal(t, 0, o.status, o.err)
	lines := strings.Split(o.err, "\n")
	require.Len(t, lines, 6, o.err)
	assert.Equal(t, "sketchlimit: "+empty+": is empty", lines[0])
	assert.Equal(t, "sketchlimit: "+long+`: skipped 3 of 5 lines (2 no client host, 1 longer than 1 MiB); first, line 2: "rubbish"`, lines[1])
	assert.Equal(t, "sketchlimit: "+long+": 1 request is earlier than one before, by up to 3s; taken as at the latest time so far", lines[2])
	assert.Equal(t, "sketchlimit: "+long+": the clients of 2 requests are names of hosts", lines[3])
	assert.Regexp(t, `: read to line [\d,]+ only: it ends in the midst of compressed data$`, lines[4])
}

func TestWhatIfSaysHowFarItIs(t *testing.T) {
	before := sayEvery
	sayEvery = time.Millisecond
	t.Cleanup(func() { sayEvery = before })
	o := command(nil, "whatif", file(t, "access.log", madeLog()), "--windows", "1m")
	require.Equal(t, 0, o.status, o.err)
	assert.Regexp(t, `^(sketchlimit: reading, \d+s, \d+ %\n)+$`, o.err)
}

func TestWhatIfRefuses(t *testing.T) {
	log, today := file(t, "access.log", madeLog()), file(t, "today.yaml", "domain: api\ndescriptors:\n  - key: tenant\n    rate_limit: {unit: minute, requests_per_unit: 5}\n")
	broken := file(t, "broken.yaml", "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: fortnight, requests_per_unit: 5}\n")
	starred := file(t, "starred.yaml", "domain: api\ndescriptors:\n  - key: us*\n    rate_limit: {unit: minute, requests_per_unit: 5}\n")
	binary := file(t, "binary.log", "\x00\x01\x02\x03\n\xff\xfe")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 2, "whatif: FILE is missing, must be at least 1, or - for standard input"},
		{[]string{"-", "-"}, 2, "whatif -, is given twice"},
		{[]string{log, "--exact", "--sample", "100"}, 2, "--exact with --sample, only one of them may be given"},
		{[]string{log, "--memory", "8KiB"}, 2, "--memory 8KiB, must be a size of 8 MiB … 512 MiB such as 256MiB"},
		{[]string{log, "--windows", "9000h"}, 2, "--windows 9000h, must be a duration 1ms … 8760h such as 30s or 10m"},
		{[]string{"missing.log"}, 1, "missing.log: no such file or directory"},
		{[]string{binary}, 2, binary + ": is binary, must be text, gzip or zstd"},
		{[]string{log, "--format", "json"}, 2, log + `: no usable line, must be json; line 1: no JSON object: "10.0.0.1 - ann ` +
			`[10/Nov/2026:08:00:01 +0000] \"GET /a HTTP/1.1\" 200 10 \"-\" \"agent\""`},
		{[]string{log, "--key", "token"}, 2, log + `: no field "token" for the key, combined has remote_addr, ident, user, time, request, method, ` +
			`path, protocol, status, bytes, referer, user_agent, x_forwarded_for`},
		{[]string{log, "--key", "ip/x"}, 2, "--key ip/x, the bits of ip must be 1 … 128, as in ip/64, or 1 … 32 and 1 … 128, as in ip/24/48"},
		{[]string{log, "--format", "elf"}, 2, "--format elf, must be auto, json, envoy, combined, common, tsv, csv, w3c or words, or a pattern such as '$remote_addr [$time_local]'"},
		{[]string{log, "--windows", "1m,soon"}, 2, "--windows 1m,soon, must be a duration 1ms … 8760h such as 30s or 10m"},
		{[]string{log, "--windows", "1us"}, 2, "--windows 1us, must be a duration 1ms … 8760h such as 30s or 10m"},
		{[]string{log, "--limits", "0"}, 2, "--limits 0, must be a whole number 1 … 1,073,741,824"},
		{[]string{log, "--against", today}, 2, "--against " + today + ", goes with --rules only"},
		{[]string{log, "--rules", today}, 1, today + `: key "tenant", ` + log + " has no such field"},
		{[]string{log, "--rules", broken}, 1, broken + ":4: invalid rate limit unit 'fortnight'"},
		{[]string{log, "--rules", starred}, 1, starred + `: key "us*", cannot be replayed: it must name a field of the log`},
		{[]string{log, "--html", "missing/page.html"}, 1, "--html missing/page.html: there is no folder missing"},
	} {
		o := command(nil, append([]string{"whatif"}, c.args...)...)
		assert.Equal(t, c.status, o.status, c.args)
		assert.Equal(t, "sketchlimit: "+c.want+"\n", o.err)
		assert.Empty(t, o.out)
	}
}

// TestWhatIfRules: who is refused by today's rules and would not be by new ones, and
// the other way.
func TestWhatIfRules(t *testing.T) {
	var log strings.Builder
	for i := range 60 {
		fmt.Fprintf(&log, "%d,often,/search\n", 1794294000+i)
		if i < 10 {
			fmt.Fprintf(&log, "%d,saver,/save\n", 1794294000+i)
		}
		if i < 3 {
			fmt.Fprintf(&log, "%d,seldom,/search\n", 1794294000+i)
		}
	}
	csv := file(t, "access.csv", "time,user,path\n"+log.String())
	today := file(t, "today.yaml", `domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: path
    value: /save
    descriptors:
      - key: user
        rate_limit: {unit: minute, requests_per_unit: 5}
`)
	next := file(t, "new.yaml", `domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 15}
  - key: generic_key
    value: everything
    rate_limit: {unit: minute, requests_per_unit: 1000}
`)
	args := []string{"whatif", csv, "--key", "user", "--rules", today, "--against", next}
	o := command(nil, append(args, "--json")...)
	require.Equal(t, 0, o.status, o.err)
	var r struct{ Rules *comparison }
	require.NoError(t, json.Unmarshal([]byte(o.out), &r))
	got := map[string]string{}
	for _, f := range r.Rules.Fates {
		got[f.By] = fmt.Sprintf("%d requests, %d keys", f.Requests, f.Keys)
		for _, k := range f.Top {
			got[f.By] += fmt.Sprintf(", %s %d", k.Key, k.Requests)
		}
	}
	assert.Equal(t, map[string]string{
		"today":      "45 requests, 2 keys", // 40 of often, 5 of saver
		"new":        "45 requests, 1 keys",
		"both":       "40 requests, 1 keys",
		"today only": "5 requests, 1 keys, saver 5",
		"new only":   "5 requests, 0 keys, often 5",
	}, got)

	o = command(nil, args...)
	require.Equal(t, 0, o.status, o.err)
	text := strings.Join(strings.Fields(o.out), " ")
	assert.Contains(t, text, "by both 40 1")
	assert.Contains(t, text, "only, the most first: saver (5).")

	o = command(nil, "whatif", csv, "--key", "user", "--rules", today)
	require.Equal(t, 0, o.status, o.err)
	assert.Contains(t, o.out, "refused by "+today)
	assert.NotContains(t, o.out, "by both")
}

// TestPageNotOverInput: a page is not written over a file that is read, whatever its
// name, and nothing is read for it.
func TestPageNotOverInput(t *testing.T) {
	log := file(t, "access.log", madeLog())
	today := file(t, "today.yaml", "domain: api\ndescriptors:\n  - key: ip\n    rate_limit: {unit: minute, requests_per_unit: 5}\n")
	other := filepath.Join(t.TempDir(), "other.log")
	require.NoError(t, os.Symlink(log, other))
	stdin, err := os.Open(log)
	require.NoError(t, err)
	defer stdin.Close()
	for _, c := range []struct {
		page string
		args []string
	}{
		{log, []string{"whatif", log}},
		{other, []string{"whatif", log}},
		{log, []string{"whatif", "-"}},
		{today, []string{"whatif", log, "--rules", today}},
		{today, []string{"whatif", log, "--rules", log, "--against", today}},
		{log, []string{"report", "--trace", log, "--limit", "60"}},
		{log, []string{"tune", "--trace", log, "--limit", "60", "--memory", "1MiB"}},
	} {
		o := command(stdin, append(c.args, "--html", c.page)...)
		assert.Equal(t, 1, o.status, c.args)
		assert.Equal(t, "sketchlimit: --html "+c.page+": is what is read, must be another file\n", o.err, c.args)
		text, err := os.ReadFile(c.page)
		require.NoError(t, err)
		assert.NotContains(t, string(text), "<html", c.args)
	}
}

// TestWhatIfRulesReplayed: the file of rules that is printed has the window that was
// asked for, and refuses on the same log what was told, also where addresses come in
// lists or with ports.
func TestWhatIfRulesReplayed(t *testing.T) {
	var json, envoy, combined, csv strings.Builder
	for i := range 4000 {
		at := time.Unix(1794294000, 0).Add(time.Duration(i) * 50 * time.Millisecond).UTC()
		client := fmt.Sprintf("10.0.%d.%d", i%1000/250, i%1000%250)
		if i%3 == 0 {
			client = "192.0.2.7"
		}
		fmt.Fprintf(&json, `{"time":%q,"remote_addr":"%s:%d"}`+"\n", at.Format(time.RFC3339Nano), client, 1024+i)
		fmt.Fprintf(&csv, "%s,\"198.51.100.%d, %s\"\n", at.Format(time.RFC3339Nano), i%200, client)
		fmt.Fprintf(&envoy, "[%s] \"GET / HTTP/1.1\" 200 - 0 1 2 - \"198.51.100.%d, %s\" \"agent\" \"id\" \"host\" \"10.9.9.9:80\"\n",
			at.Format("2006-01-02T15:04:05.000Z"), i%200, client)
		fmt.Fprintf(&combined, "%s - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"a\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	for _, c := range []struct{ log, key, named, window string }{
		{file(t, "access.json", json.String()), "ip/64", "remote_addr", "1005ms"},
		{file(t, "access.json", json.String()), "ip", "remote_addr", "1m"},
		{file(t, "envoy.log", envoy.String()), "ip/64", "remote_address", "61500ms"},
		{file(t, "access.csv", "time,x_forwarded_for\n"+csv.String()), "ip/32/56", "x_forwarded_for", "1m"},
		{file(t, "access.log", combined.String()), "ip/64", "remote_address", "48h"},
	} {
		args := []string{"whatif", c.log, "--key", c.key, "--windows", c.window, "--limits", "5,10,100000", "--json"}
		told := answered(t, args...)
		_, l := told.at()
		require.NotNil(t, l, "%+v", c)
		printed := file(t, "printed.yaml", told.Size.Rules)
		checked, err := rules.Check(printed)
		require.NoError(t, err, told.Size.Rules)
		window, err := time.ParseDuration(c.window)
		require.NoError(t, err)
		assert.Equal(t, window, checked[0].Window, told.Size.Rules)
		assert.Contains(t, told.Size.Rules, "key: "+c.named+"\n")
		again := answered(t, append(args, "--rules", printed)...)
		assert.Equal(t, l.Requests.Value, float64(again.Rules.Fates[0].Requests), "%+v\n%s", c, told.Size.Rules)
		assert.Equal(t, l.Keys.Value, float64(again.Rules.Fates[0].Keys), "%+v", c)
	}
}

// answered is what a command prints with --json.
func answered(t *testing.T, args ...string) *answer {
	o := command(nil, args...)
	require.Equal(t, 0, o.status, o.err)
	var r answer
	require.NoError(t, json.Unmarshal([]byte(o.out), &r))
	return &r
}

// TestWhatIfSaysWhatIsAnEstimate: figures that are not exact are called about, or at
// least, and none is above what there is.
func TestWhatIfSaysWhatIsAnEstimate(t *testing.T) {
	var b strings.Builder
	for i := range 150_000 {
		fmt.Fprintf(&b, "%.6f\tk%d\n", 1699999200+float64(i)*3600/150_000, i)
		if i%10 == 0 {
			fmt.Fprintf(&b, "%.6f\tabuser\n", 1699999200+float64(i)*3600/150_000)
		}
	}
	for h := range 12 {
		for i := range 12 {
			fmt.Fprintf(&b, "%d\tq%d\n", 1699999200+(h+2)*3600+i, h)
		}
	}
	log := file(t, "log.tsv", b.String())
	o := command(nil, "whatif", log, "--memory", "8MiB", "--sample", "16", "--windows", "1h", "--limits", "1,2,5,10")
	require.Equal(t, 0, o.status, o.err)
	for _, want := range []string{"keys,", "about", "most, at least", "keys, fullest window", "   about 1"} {
		assert.Contains(t, o.out, want)
	}
	for _, share := range regexp.MustCompile(`([\d.]+) %`).FindAllStringSubmatch(o.out, -1) {
		var v float64
		_, err := fmt.Sscan(share[1], &v)
		require.NoError(t, err)
		assert.LessOrEqual(t, v, 100.0)
	}
	assert.Regexp(t, `(?m)^  2023-11-15 00:00 +12 .* –$`, o.out, "no key of the sample came")

	o = command(nil, "whatif", log, "--exact", "--windows", "1h", "--limits", "1,2,5,10")
	require.Equal(t, 0, o.status, o.err)
	assert.NotContains(t, o.out, "about")
	assert.NotContains(t, o.out, "at least,")
	assert.NotContains(t, o.out, "±")
	assert.NotContains(t, o.out, "This is no advice", "a limit is suggested")
}

// TestWhatIfTextOfOtherCases: nothing is told of a suggestion where there is none, nor
// of another file where there is none.
func TestWhatIfTextOfOtherCases(t *testing.T) {
	log := file(t, "access.csv", "time,user\n"+strings.Repeat("1794294000,ann\n", 5)+strings.Repeat("1794294100,ben\n1794294099,ben\n", 5)+
		strings.Repeat("1794294200,ben\n", 5))
	rules := file(t, "rules.yaml", "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 3}\n")
	page := filepath.Join(t.TempDir(), "whatif.html")
	told := func(args ...string) string {
		o := command(nil, append([]string{"whatif", log, "--key", "user"}, args...)...)
		require.Equal(t, 0, o.status, o.err)
		return strings.Join(strings.Fields(o.out), " ")
	}
	unreached := told("--windows", "1m", "--html", page)
	assert.True(t, strings.HasPrefix(unreached, "No clear abusers in windows of 1m: 10 a minute would have refused nobody. The heaviest key, `ben`, sent 75 % of the requests. A limit is suggested if it refuses at least 1 %"), unreached[:199])
	assert.Equal(t, 1, strings.Count(unreached, whatif.Conditions))
	assert.Equal(t, 1, strings.Count(unreached, "they retry, wait or go away"), "the caveat, once")
	assert.Contains(t, unreached, "The marked row is no suggestion: it is the lowest limit tried that refuses nobody; the busiest key had 10 in one window.")
	assert.Regexp(t, `key: user; time: time; [\d,]+ requests are earlier than one before, by up to 1s; taken as at the latest time`, unreached)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.NotContains(t, string(html), "as suggested")
	assert.NotContains(t, string(html), filepath.Dir(log), "no folder")
	assert.Contains(t, string(html), "earlier than one before")

	every := told("--windows", "1m", "--limits", "1")
	assert.Contains(t, every, "No limit to suggest: every one that was tried refuses requests, and 1 a minute still 85 % of them. ")
	assert.NotContains(t, every, "marked row")

	one := told("--rules", rules)
	assert.NotContains(t, one, "A key is refused by one file only")
	both := told("--rules", rules, "--against", rules)
	assert.Contains(t, both, "A key is refused by one file only")
	assert.Contains(t, both, "by "+rules+" (--rules) only")
	assert.Contains(t, both, "by "+rules+" (--against) only")
	assert.NotRegexp(t, `\de[-−]\d+ `, strings.Split(unreached, "The size")[0])
}
