package accesslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// logLines is a log of so many lines that it takes several blocks, with lines that
// cannot be read among them.
func logLines(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 11, 10, 7, 0, 0, 0, time.UTC)
	var lines []string
	for range n {
		at = at.Add(time.Duration(r.IntN(3)) * time.Second)
		switch r.IntN(50) {
		case 0:
			lines = append(lines, "rubbish "+strings.Repeat("x", r.IntN(1000)))
		case 1:
			lines = append(lines, "")
		}
		lines = append(lines, fmt.Sprintf(`10.0.%d.%d - - [%s] "GET /%s HTTP/1.1" 200 %d "-" "agent"`, r.IntN(3), r.IntN(256), at.Format(clfTime),
			strings.Repeat("p", r.IntN(300)), r.IntN(1e6)))
	}
	return lines
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func zstandard(t testing.TB, text string) string {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return string(z.EncodeAll([]byte(text), nil))
}

// TestSameRequestsHoweverStored: plain, compressed, piped, in halves or with the other
// end of line, a log is the same.
func TestSameRequestsHoweverStored(t *testing.T) {
	lines := logLines(20_000)
	text := strings.Join(lines, "\n") + "\n"
	half := strings.Index(text[len(text)/2:], "\n") + len(text)/2 + 1
	plain, want := read(t, Options{Cost: "bytes"}, write(t, "access.log", text))
	require.Len(t, want, 20_000)
	skipped := plain.Files[0].Skipped
	require.NotEmpty(t, skipped)
	first, second := write(t, "1.log", text[:half]), write(t, "2.log.gz", gzipped(t, text[half:]))
	for name, paths := range map[string][]string{
		"gzip":            {write(t, "access.log.gz", gzipped(t, text))},
		"two gzips":       {write(t, "access.log.gz", gzipped(t, text[:half])+gzipped(t, text[half:]))},
		"zstd":            {write(t, "access.log.zst", zstandard(t, text))},
		"two zstds":       {write(t, "access.log.zst", zstandard(t, text[:half])+zstandard(t, text[half:]))},
		"CRLF":            {write(t, "access.log", strings.ReplaceAll(text, "\n", "\r\n"))},
		"byte order mark": {write(t, "access.log", "\xef\xbb\xbf"+text)},
		"no last newline": {write(t, "access.log", strings.TrimSuffix(text, "\n"))},
		"halves":          {first, second},
		"halves, swapped": {second, first},
		"an empty one":    {first, write(t, "empty.log", ""), second},
	} {
		l, got := read(t, Options{Cost: "bytes"}, paths...)
		require.Equal(t, want, got, name)
		bad := map[string]int{}
		for _, f := range l.Files {
			for reason, n := range f.Skipped {
				bad[reason] += n
			}
		}
		assert.Equal(t, skipped, bad, name)
		assert.Equal(t, name == "an empty one", len(l.Empty) == 1, name)
		assert.LessOrEqual(t, l.BytesRead(), l.Size(), name)
	}
	for name, text := range map[string]string{"plain": text, "gzip": gzipped(t, text), "zstd": zstandard(t, text)} {
		l, err := Open([]string{"-"}, strings.NewReader(text), Options{Cost: "bytes"})
		require.NoError(t, err)
		require.Equal(t, want, requests(t, l), "standard input, "+name)
		assert.Equal(t, "standard input", l.Files[0].Name)
		assert.Zero(t, l.Size())
	}
}

// TestLinesLongerThanABlock: they are skipped and counted, wherever they stand, and so
// are those around them.
func TestLinesLongerThanABlock(t *testing.T) {
	line := func(second int) string {
		return fmt.Sprintf(`h%d - - [10/Nov/2026:07:00:%02d +0000] "GET / HTTP/1.1" 200 1`+"\n", second, second)
	}
	long := func(n int) string { return strings.Repeat("x", n) + "\n" }
	for name, c := range map[string]struct {
		text  string
		first int // line that is told
	}{
		"first":            {long(80<<20) + line(1) + line(2), 1},
		"between":          {line(1) + long(maxLine+1) + line(2), 2},
		"last":             {line(1) + line(2) + strings.Repeat("x", 3*maxLine), 3},
		"the first of two": {line(1) + long(maxLine) + line(2), 2},
	} {
		l, got := read(t, Options{}, write(t, "access.log", c.text))
		assert.Equal(t, []string{"07:00:01 h1 1", "07:00:02 h2 1"}, got, name)
		f := l.Files[0]
		assert.Equal(t, map[string]int{tooLong: 1}, f.Skipped, name)
		assert.Equal(t, 3, f.Lines, name)
		assert.Equal(t, c.first, f.FirstBad.Line, name)
	}
	fits := `h1 - - [10/Nov/2026:07:00:01 +0000] "GET / HTTP/1.1" 200 1 `
	_, got := read(t, Options{}, write(t, "access.log", fits+long(maxLine-len(fits)-1)))
	assert.Equal(t, []string{"07:00:01 h1 1"}, got, "a line of exactly a block")
}

// TestErrors: each says what is wrong with which file.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	path := func(name, text string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
		return p
	}
	random := make([]byte, 1<<16)
	for i := range random {
		random[i] = byte(rand.New(rand.NewPCG(1, uint64(i))).Uint32())
	}
	const tsv = "1794294000\tann\n"
	for _, c := range []struct {
		path    string
		options Options
		want    string
	}{
		{filepath.Join(dir, "missing.log"), Options{}, "no such file or directory"},
		{dir, Options{}, "is a folder, must be a file"},
		{path("empty.log", ""), Options{}, "is empty"},
		{path("blank.log", "\n\n# nothing\n"), Options{},
			"no usable line, must be json, envoy, combined, common, tsv, csv, w3c or words: it has empty lines and comments only"},
		{path("random.log", string(random)), Options{}, "is binary, must be text, gzip or zstd"},
		{path("binary.gz", gzipped(t, string(random))), Options{}, "is binary, must be text, gzip or zstd"},
		{path("prose.log", "to be or not\nto be\n"), Options{}, "no usable line, must be json, envoy, combined, " +
			`common, tsv, csv, w3c or words; line 1: in another format: "to be or not"`},
		{path("prose.log", "to be or not\nto be\n"), Options{Format: Combined},
			`no usable line, must be combined; line 1: no time in brackets: "to be or not"`},
		{path("keys.log", tsv), Options{Key: "usr"}, `no field "usr" for the key, tsv has time, key, cost`},
		{path("many.csv", "time,\x1b[1m,"+strings.Repeat("a,", 30)+"b\n"), Options{Key: "usr", Format: CSV},
			`the first line must name the columns of csv, is "time,\x1b[1m,` + strings.Repeat("a,", 30) + `b"`},
		{path("many.json", manyFields(50)), Options{Key: "usr"}, `no field "usr" for the key, json has f0, f1, f10, f11, f12, f13, f14, f15, ` +
			`f16, f17, f18, f19, f2, f20, f21, f22, … 52 in all`},
		{path("keys.log", tsv), Options{Cost: "size"}, `no field "size" for the cost, tsv has time, key, cost`},
		{path("a.csv", "when,who\nsoon,ann\n"), Options{},
			"CSV, but no time of 1995 … 2100 can be read in `when`: \"soon\"; " +
				"--time names another field, and --format can describe the whole line in a pattern, as '%{%d/%m/%Y %H:%M:%S}t,%a,%r' for a time, an address and a request"},
		{path("b.csv", "when,who\n1794294000,ann\n"), Options{Time: "when"}, "CSV, but no field holds addresses: --key names what to count by, it has when, who"},
		{path("c.csv", "when,who\nsoon,ann\n"), Options{Time: "when", Key: "who", Format: CSV},
			`no usable line, must be csv; line 2: no time that can be read: "soon,ann"`},
		{path("a.json", `{"time":1794294000,"user":null}`), Options{Key: "user"},
			`no usable line, must be json; line 1: no user: "{\"time\":1794294000,\"user\":null}"`},
		{path("cut.gz", gzipped(t, strings.Repeat(tsv, 10))[:15]), Options{}, "cannot be read: it ends in the midst of compressed data"},
		{path("2.gz", "\x1f\x8b"), Options{}, "cannot be read: it ends in the midst of compressed data"},
		{path("4.gz", "\x1f\x8b\b\x00"), Options{}, "cannot be read: it ends in the midst of compressed data"},
		{path("4.zst", "\x28\xb5\x2f\xfd"), Options{}, "cannot be read: it ends in the midst of compressed data"},
		{path("bad.gz", "\x1f\x8b"+strings.Repeat("x", 20)), Options{}, "cannot be read: gzip: invalid header"},
		{path("header.csv", "time,ip\n"), Options{}, "no usable line, must be csv: it has a header only"},
		{path("header.csv", "time,ip\n"), Options{Format: CSV}, "no usable line, must be csv: it has a header only"},
		{path("random.log", string(random)), Options{Format: CSV}, `the first line must name the columns of csv, is ` + shown(bytes.Split(random, []byte("\n"))[0])},
		{path("random.log", string(random)), Options{Format: Combined}, "is binary, must be text, gzip or zstd"},
		{path("b.json", `{"time":"soon","key":"a"}`), Options{Format: JSON},
			`no usable line, must be json; line 1: no time that can be read: "{\"time\":\"soon\",\"key\":\"a\"}"`},
		{path("prose.log", "to be or not\n"), Options{Format: JSON}, `no usable line, must be json; line 1: no JSON object: "to be or not"`},
		{path("long.log", strings.Repeat("to be or not\n", maxLine/8)), Options{}, "no usable line in the first 1 MiB, must be json, envoy, combined, " +
			`common, tsv, csv, w3c or words; line 1: in another format: "to be or not"`},
		{path("a.xz", "\xfd7zXZ\x00..."), Options{}, "is xz, which is not read: use xzcat FILE | sketchlimit whatif -"},
	} {
		_, err := Open([]string{c.path}, nil, c.options)
		assert.EqualError(t, err, c.path+": "+c.want)
	}
}

func TestNameOfNothing(t *testing.T) {
	_, err := Open([]string{""}, nil, Options{})
	assert.EqualError(t, err, `"": must be the name of a file, or - for standard input`)
}

// TestNoiseBeforeTheFirstUsableLine: it is skipped and counted. If the format is named
// it may be of any length.
func TestNoiseBeforeTheFirstUsableLine(t *testing.T) {
	const good = 5_000
	lines := map[Format]string{
		Common: `h%[1]d - - [10/Nov/2026:07:00:01 +0000] "GET / HTTP/1.1" 200 1`, TSV: "1794294001\th%[1]d", JSON: `{"time":1794294001,"ip":"h%[1]d"}`,
		CSV: "1794294001,h%[1]d",
	}
	for format, line := range lines {
		for name, noise := range map[string]struct {
			text  string
			lines int
			auto  bool
		}{
			"250 lines": {"WARN: to be, or not\n", 250, true},
			"3 MiB":     {strings.Repeat("WARN: to be, or not ", 50) + "\n", 3 * maxLine / 1000, false},
		} {
			var b strings.Builder
			if format == CSV {
				b.WriteString("time,ip\n")
			}
			b.WriteString(strings.Repeat(noise.text, noise.lines))
			for i := range good {
				fmt.Fprintf(&b, line+"\n", i)
			}
			formats := []Format{format}
			if noise.auto {
				formats = append(formats, Auto)
			}
			for _, asked := range formats {
				what := fmt.Sprintf("%s, %s, asked for %s", name, format, asked)
				file, got := read(t, Options{Format: asked}, write(t, "access.log", b.String()))
				require.Len(t, got, good, what)
				assert.Equal(t, "07:00:01 h0 1", got[0], what)
				l, err := Open([]string{"-"}, strings.NewReader(b.String()), Options{Format: asked})
				require.NoError(t, err, what)
				require.Equal(t, got, requests(t, l), what)
				for _, f := range []*File{file.Files[0], l.Files[0]} {
					assert.Len(t, f.Skipped, 1, what)
					for reason, n := range f.Skipped {
						assert.Equal(t, noise.lines, n, what+": "+reason)
					}
					assert.Equal(t, strings.Count(b.String(), "\n"), f.Lines, what)
					assert.Contains(t, []int{1, 2}, f.FirstBad.Line, what)
				}
			}
		}
	}
}

// manyFields is a line with so many fields beside the time and the key.
func manyFields(n int) string {
	var line strings.Builder
	line.WriteString(`{"time":1794294001,"ip":"h1"`)
	for i := range n {
		fmt.Fprintf(&line, `,"f%d":%d`, i, i)
	}
	return line.String() + "}\n"
}

// TestNamesOfTheLogDoNotReachATerminal: what a terminal would obey is in quotes
// wherever the name of a field is told.
func TestNamesOfTheLogDoNotReachATerminal(t *testing.T) {
	name := `a\u001b[2J`
	text := `{"ts":1,"` + name + `":"k","\u202e":2,"b` + strings.Repeat("é", 100) + `":3}` + "\n" + `{"ts":2}` + "\n"
	path := write(t, "access.json", text)
	l, _ := read(t, Options{Key: "a\x1b[2J/24", Time: "ts", Cost: "\u202e"}, path)
	f := l.Files[0]
	assert.Equal(t, `"a\x1b[2J", IPv4 by /24`, f.Key)
	assert.Equal(t, `"\u202e"`, f.Cost)
	assert.Equal(t, map[string]int{`no "a\x1b[2J"`: 1}, f.Skipped)
	assert.Equal(t, "a\x1b[2J", f.Parts[0].Name, "as the log has it")
	_, err := Open([]string{path}, nil, Options{Key: "none", Time: "ts"})
	require.ErrorContains(t, err, `json has "a\x1b[2J", b`+strings.Repeat("é", 49)+`…, ts, "\u202e"`)
	_, err = Open([]string{"\x1b[2J"}, nil, Options{})
	require.EqualError(t, err, `"\x1b[2J": no such file or directory`)
}

// TestJSONOfManyFields: to find the format of a line takes a time that grows with its
// length, not with its square.
func TestJSONOfManyFields(t *testing.T) {
	took := func(fields int) (least time.Duration) {
		path := write(t, "access.json", manyFields(fields))
		for range 3 {
			start := time.Now()
			_, got := read(t, Options{}, path)
			require.Len(t, got, 1)
			if d := time.Since(start); least == 0 || d < least {
				least = d
			}
		}
		return least
	}
	assert.Less(t, took(50_000), 45*took(5_000))
}

// TestCutOff: what comes before the end of a truncated file is read, but not the line
// that was cut.
func TestCutOff(t *testing.T) {
	text := strings.Join(logLines(20_000), "\n") + "\n"
	_, all := read(t, Options{}, write(t, "access.log", text))
	for name, data := range map[string]string{"access.log.gz": gzipped(t, text), "access.log.zst": zstandard(t, text)} {
		l, got := read(t, Options{}, write(t, name, data[:len(data)*2/3]))
		assert.Equal(t, "it ends in the midst of compressed data", l.Files[0].CutOff, name)
		require.NotEmpty(t, got, name)
		assert.Less(t, len(got), len(all), name)
		assert.Equal(t, all[:len(got)], got, name)
	}
	data := []byte(gzipped(t, text))
	data[len(data)/2] ^= 1
	l, _ := read(t, Options{}, write(t, "access.log.gz", string(data)))
	assert.NotEmpty(t, l.Files[0].CutOff, "a checksum that is wrong")
}

// TestBackward: a request that is earlier than one before it is taken at the latest
// time so far, over all files.
func TestBackward(t *testing.T) {
	a := write(t, "a.tsv", "100\ta\n90\tb\n101\tc\n")
	b := write(t, "b.tsv", "100.5\td\n102\te\n")
	l, got := read(t, Options{}, b, a)
	assert.Equal(t, []string{"00:01:40 a 1", "00:01:40 b 1", "00:01:41 c 1", "00:01:41 d 1", "00:01:42 e 1"}, got)
	assert.Equal(t, []int{1, 1}, []int{l.Files[0].Backward, l.Files[1].Backward})
	assert.Equal(t, 10*time.Second, l.Files[0].BackwardBy)
	assert.Equal(t, 500*time.Millisecond, l.Files[1].BackwardBy)
}

// timed are lines of ten clients at such seconds after a day of 2026.
func timed(seconds ...int) string {
	var b strings.Builder
	for i, s := range seconds {
		fmt.Fprintf(&b, "%d\tk%d\n", 1794294000+s, i%10)
	}
	return b.String()
}

// TestLogsOutOfOrder: a log of which most requests are far behind their turn is
// refused, whether times are kept or not. Lines that are late by seconds are as servers
// write them.
func TestLogsOutOfOrder(t *testing.T) {
	var shuffled, late, dst, future, first []int
	for i := range 300 {
		shuffled = append(shuffled, i*97%300*6)
		late = append(late, i+20*(i%2))
		dst = append(dst, i*12-3600*(i/150))
		future = append(future, i*6+2_100_000_000*btoi(i == 20))
		first = append(first, i*6-1_794_294_000*btoi(i == 0))
	}
	for name, c := range map[string]struct {
		times []int
		far   int    // -1: an error
		doubt string // "": none
	}{
		"shuffled":         {shuffled, -1, "are more than a minute earlier than one before them, up to 2026-11-10 07:29:54: the lines must be put in order first"},
		"one of 2093":      {future, -1, "most requests, 279 of 300, are more than a minute earlier than one before them, up to 2093-"},
		"late by seconds":  {late, 0, ""},
		"an hour back":     {dst, 150, ""},
		"the first 1970":   {first, 0, "no request is between 1970-01-01 00:00:00 and 2026-11-10 07:00:06, so a date may be wrong"},
		"the last of 2093": {append(future[:20:20], 2_100_000_000), 0, "no request is between 2026-11-10 07:01:54 and 2093-"},
	} {
		for _, keep := range []bool{false, true} {
			l, err := Open([]string{write(t, "a.tsv", timed(c.times...))}, nil, Options{KeepTimes: keep})
			require.NoError(t, err, name)
			err = l.Read(t.Context(), func(Batch) error { return nil })
			if c.far < 0 {
				assert.ErrorAs(t, err, new(Unreadable), name)
				assert.ErrorContains(t, err, c.doubt, name)
				continue
			}
			require.NoError(t, err, name)
			f := l.Files[0]
			assert.Equal(t, c.far, f.Far, name)
			assert.Equal(t, c.doubt == "", len(f.Doubts) == 0, name)
			assert.Contains(t, strings.Join(f.Doubts, ""), c.doubt, name)
		}
	}
}

// TestListNamedByHand: of a list that --key names the first address is counted, and a
// note says so.
func TestListNamedByHand(t *testing.T) {
	var log strings.Builder
	log.WriteString("time,x_forwarded_for\n")
	for i := range 300 {
		fmt.Fprintf(&log, "%d,\"192.0.2.%d, 172.16.0.%d\"\n", 1794294000+i, i%10, i%255)
	}
	path := write(t, "a.csv", log.String())
	for key, want := range map[string]string{"x_forwarded_for": "192.0.2.7", "x_forwarded_for/64": "172.16.0.7"} {
		l, err := Open([]string{path}, nil, Options{Key: key, Others: []string{"x_forwarded_for"}})
		require.NoError(t, err)
		keys, others := map[string]bool{}, map[string]bool{}
		require.NoError(t, l.Read(t.Context(), func(b Batch) error {
			for i := range b.Requests {
				keys[string(b.Requests[i].Key)], others[string(b.Others[i])] = true, true
			}
			return nil
		}))
		assert.True(t, keys[want], key)
		assert.Equal(t, key == "x_forwarded_for", len(others) == 10, "a rule with that key counts alike")
		told := strings.Contains(strings.Join(l.Files[0].Notes, ""), "x_forwarded_for has lists of addresses: the first of each is counted")
		assert.Equal(t, key == "x_forwarded_for", told, key)
	}
}

// TestStops: an error of the one who counts ends the reading, and so does the context,
// even while a terminal is silent.
func TestStops(t *testing.T) {
	path := write(t, "access.log", strings.Join(logLines(50_000), "\n"))
	l, err := Open([]string{path}, nil, Options{})
	require.NoError(t, err)
	enough := errors.New("enough")
	require.ErrorIs(t, l.Read(t.Context(), func(Batch) error { return enough }), enough)

	in, out := io.Pipe()
	defer out.Close()
	go func() { _, _ = out.Write([]byte(strings.Repeat("100\ta\n", maxLine/6+1))) }()
	l, err = Open([]string{"-"}, in, Options{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	require.ErrorIs(t, l.Read(ctx, func(Batch) error { stop(); return nil }), context.Canceled)
}

// TestBadLineIsShownAsItIs: reading a line does not change it, whatever quotes it has.
func TestBadLineIsShownAsItIs(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"quotes of quotes": {"key,time\nann,1700000000\n\"x\"\"y\"\"z\",1.1.1.1\n", `"\"x\"\"y\"\"z\",1.1.1.1"`},
		"a bad cost":       {"time;key;cost\n1700000000;ann;1\n1700000000;\"k121\";-1\n", `"1700000000;\"k121\";-1"`},
		"JSON":             {"{\"time\":1700000000,\"key\":\"ann\"}\n{\"time\":\"a\\\"b\",\"key\":\"b\\u0062\"}\n", `"{\"time\":\"a\\\"b\",\"key\":\"b\\u0062\"}"`},
	} {
		l, got := read(t, Options{}, write(t, "access.log", c.text))
		assert.Len(t, got, 1, name)
		assert.Equal(t, c.want, l.Files[0].FirstBad.Text, name)
	}
}

// TestQuotedFieldsLast: what a quoted field says is not overwritten by the lines that
// follow.
func TestQuotedFieldsLast(t *testing.T) {
	_, got := read(t, Options{}, write(t, "access.csv", "time,key\n1,\"a\"\"1\"\n2,\"b\"\"2\"\n3,c\n"))
	assert.Equal(t, []string{`00:00:01 a"1 1`, `00:00:02 b"2 1`, "00:00:03 c 1"}, got)
}

// TestAllocations: a line takes none, in any format.
func TestAllocations(t *testing.T) {
	for _, name := range []string{"common.log", "combined.log", "envoy.log", "nested.json", "named.csv", "keys.tsv"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		l, err := Open([]string{filepath.Join("testdata", name)}, nil, Options{})
		require.NoError(t, err)
		p, b := newParser(l.Files[0].plan), newBlock()
		header, good := p.layout.header, text[:0:0]
		for line := range bytes.Lines(text) {
			b.text, b.first = b.buf[:copy(b.buf, line)], header
			if p.parse(b); len(b.skipped) == 0 {
				good = append(good, line...)
			}
			header = false
		}
		require.Greater(t, bytes.Count(good, []byte("\n")), 1, name)
		b.first = p.layout.header
		assert.Zero(t, testing.AllocsPerRun(20, func() {
			b.text = b.buf[:copy(b.buf, good)]
			p.parse(b)
		}), name)
	}
}

// BenchmarkRead reads the log that LOG names, or one of a hundred thousand lines.
func BenchmarkRead(b *testing.B) {
	path := os.Getenv("LOG")
	if path == "" {
		path = write(b, "access.log", strings.Join(logLines(100_000), "\n"))
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := Open([]string{path}, nil, Options{})
		require.NoError(b, err)
		b.SetBytes(l.Size())
		n := 0
		require.NoError(b, l.Read(b.Context(), func(batch Batch) error { n += len(batch.Requests); return nil }))
		b.ReportMetric(float64(n), "requests/op")
		require.Empty(b, l.Files[0].CutOff)
	}
}
