package accesslog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: whatever a log holds, reading it neither panics nor loses a line, and says
// the same in one block and in lines.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"common.log", "combined.log", "envoy.log", "nested.json", "named.csv", "keys.tsv"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(text)
	}
	for _, m := range madeLogs() {
		f.Add([]byte(m.text[:min(len(m.text), 1000)]))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Open([]string{"-"}, bytes.NewReader(text), Options{})
		if err != nil {
			return
		}
		read, newest := 0, int64(0)
		err = l.Read(t.Context(), func(b Batch) error {
			for _, r := range b.Requests {
				require.NotEmpty(t, r.Key)
				require.GreaterOrEqual(t, r.At, newest)
				require.Positive(t, r.Cost)
				newest = r.At
				read++
			}
			return nil
		})
		if err != nil { // most lines have no client
			require.ErrorAs(t, err, new(Unreadable))
		}
		got := l.Files[0]
		require.Equal(t, read, got.Requests)
		for _, n := range got.Skipped {
			read += n
		}
		require.LessOrEqual(t, read, got.Lines)
	})
}

// FuzzCSV: a line that encoding/csv reads as so many columns is read alike.
func FuzzCSV(f *testing.F) {
	f.Add(`a,"b ""c""",d`)
	f.Add(`,,`)
	f.Add(`"a,b",c,"`)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n") {
			return
		}
		want, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil {
			return
		}
		fields := make([][]byte, len(want))
		require.Empty(t, splitCSV(',', len(want))([]byte(line), fields), "%q", line)
		for i := range want {
			require.Equal(t, want[i], string(fields[i]), "%q", line)
		}
	})
}

// FuzzJSON: a line is an object exactly if encoding/json says so, and a text in it is
// the same.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":"x\u00e9\"","b":{"c":"y"}}`)
	f.Add(`{"a":1,"b":{"c":[{}]},"d":{}}`)
	f.Add(`{"b":null} {}`)
	f.Fuzz(func(t *testing.T, line string) {
		var want map[string]json.RawMessage
		err := json.Unmarshal(elementOf([]byte(line)), &want)
		if strings.TrimSpace(line) == "null" {
			return
		}
		fields := make([][]byte, 2)
		reason := splitJSON([]string{"a", "b.c"}, false)([]byte(line), fields)
		require.Equal(t, err == nil, reason == "", "%q: %v", line, err)
		if reason != "" || strings.Count(line, `"`) > 4 { // names may come twice, or be written with escapes
			return
		}
		var text string
		if json.Unmarshal(want["a"], &text) == nil && len(want["a"]) > 0 {
			require.Equal(t, text, string(fields[0]), "%q", line)
		}
	})
}

// FuzzPattern: whatever a pattern and a line are, a line that fits has its fields in
// order.
func FuzzPattern(f *testing.F) {
	f.Add(`$remote_addr - $remote_user [$time_local] "$request" $status`, `203.0.113.7 - - [10/Nov/2026:07:00:00 +0000] "GET "/" HTTP/1.1" 200`)
	f.Add(`%h %l %u %t "%r" %>s "%{Referer}i"`, `203.0.113.7 - - [10/Nov/2026:07:00:00 +0000] "GET / HTTP/1.1" 200 "\""`)
	f.Add(`%ts.%03tu %6tr %>a`, `1794294000.779    180 203.0.113.7`)
	f.Add(`[%START_TIME%] %REQ(X?:PATH)% %{%Y-%m-%d}t`, `[x] y z`)
	f.Fuzz(func(t *testing.T, pattern, line string) {
		if _, err := ParseFormat(pattern); err != nil || strings.ContainsAny(line, "\r\n") || !Format(pattern).isPattern() {
			return
		}
		l := layoutOf(Format(pattern), nil)
		fields := make([][]byte, len(l.fields))
		if l.open()([]byte(line), fields) != "" {
			return
		}
		p, _, err := parsePattern(unquotedPattern(pattern))
		require.NoError(t, err)
		rest := line
		for _, field := range fields[:len(p.fields)] {
			at := strings.Index(rest, string(field))
			require.GreaterOrEqual(t, at, 0, "%q in %q", field, rest)
			rest = rest[at+len(field):]
		}
	})
}
