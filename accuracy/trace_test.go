package accuracy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, text string, f Format) *Trace {
	t.Helper()
	trace, err := ReadTrace(strings.NewReader(text), "test", f)
	require.NoError(t, err)
	return trace
}

func TestParseTSVLine(t *testing.T) {
	for _, c := range []struct {
		line   string
		time   int64
		key    string
		cost   uint32
		reason string
	}{
		{"0\ta", 0, "a", 1, ""},
		{"12.5\ta b", 12_500_000_000, "a b", 1, ""},
		{"1.000000001\ta\t3", 1_000_000_001, "a", 3, ""},
		{"1.0000000019\ta", 1_000_000_001, "a", 1, ""},
		{"1700000000.25\tk\t2147483647", 1_700_000_000_250_000_000, "k", math.MaxInt32, ""},
		{"1700000000123\tk", 1_700_000_000_123_000_000, "k", 1, ""}, // ms
		{"1700000000123.25\tk", 1_700_000_000_123_250_000, "k", 1, ""},
		{"1700000000123456\tk", 1_700_000_000_123_456_000, "k", 1, ""}, // µs
		{"1700000000123456789\tk", 1_700_000_000_123_456_789, "k", 1, ""},
		{"9999999999999999999\tk", 0, "", 0, "time is not unix_time[.fraction] up to the year 2262"},
		{"17000000001\tk", 0, "", 0, "time is not unix_time[.fraction] up to the year 2262"}, // neither seconds nor ms
		{"1", 0, "", 0, "no tab"},
		{"\ta", 0, "", 0, "time is not unix_time[.fraction] up to the year 2262"},
		{"-1\ta", 0, "", 0, "time is not unix_time[.fraction] up to the year 2262"},
		{"1.\ta", 0, "", 0, "time is not unix_time[.fraction] up to the year 2262"},
		{"1e3\ta", 0, "", 0, "time is not unix_time[.fraction] up to the year 2262"},
		{"1.2x\ta", 0, "", 0, "time is not unix_time[.fraction] up to the year 2262"},
		{"9223372036\ta", 0, "", 0, "time is not unix_time[.fraction] up to the year 2262"},
		{"1\t", 0, "", 0, "empty key"},
		{"1\ta\t0", 0, "", 0, "cost is not a whole number 1 … 1<<31-1"},
		{"1\ta\t", 0, "", 0, "cost is not a whole number 1 … 1<<31-1"},
		{"1\ta\t2147483648", 0, "", 0, "cost is not a whole number 1 … 1<<31-1"},
		{"1\ta\t1\tmore", 0, "", 0, "cost is not a whole number 1 … 1<<31-1"},
	} {
		l, reason := parseTSV([]byte(c.line))
		require.Equal(t, c.reason, reason, "%q", c.line)
		if reason == "" {
			assert.Equal(t, c.time, l.time, "%q", c.line)
			assert.Equal(t, c.key, string(l.key), "%q", c.line)
			assert.Equal(t, c.cost, l.cost, "%q", c.line)
		}
	}
}

func TestParseLogLine(t *testing.T) {
	const rest = ` "GET / HTTP/1.1" 200 1`
	for _, c := range []struct{ line, time, key, reason string }{
		{`h - - [10/Oct/2000:13:55:36 -0700]` + rest, "2000-10-10T20:55:36Z", "h", ""},
		{`h - - [31/Dec/2016:23:59:60 +0000]` + rest, "2017-01-01T00:00:00Z", "h", ""}, // leap second
		{`h - - [01/Jan/2024:00:30:00 +0530]` + rest, "2023-12-31T19:00:00Z", "h", ""},
		{`::1 - a [b [10/Oct/2000:13:55:36 -0700]` + rest, "", "", "no time in brackets"},
		{`h - - [31/Jun/2000:13:55:36 -0700]` + rest, "", "", "time is not 02/Jan/2006:15:04:05 -0700"},
		{`h - - [10/anF/2000:13:55:36 -0700]` + rest, "", "", "time is not 02/Jan/2006:15:04:05 -0700"},
		{`h - - [10/Oct/2000:24:55:36 -0700]` + rest, "", "", "time is not 02/Jan/2006:15:04:05 -0700"},
		{`h - - [10/Oct/2000:13:55:36 00700]` + rest, "", "", "time is not 02/Jan/2006:15:04:05 -0700"},
		{`h - - [10/Oct/2000:13:55:36]` + rest, "", "", "no time in brackets"},
		{` - - [10/Oct/2000:13:55:36 -0700]` + rest, "", "", "no client host"},
		{`h`, "", "", "no client host"},
		{`h - - [10/Oct/2000:13:55:36 -0700] GET`, "", "", "no request"},
		{`h - - [10/Oct/2000:13:55:36 -0700] "GET`, "", "", "no status and bytes"},
		{`h - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 20 1`, "", "", "no status and bytes"},
		{`h - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 x`, "", "", "no status and bytes"},
	} {
		l, reason := parseCommon([]byte(c.line))
		require.Equal(t, c.reason, reason, "%q", c.line)
		if reason == "" {
			assert.Equal(t, c.time, time.Unix(0, l.time).UTC().Format(time.RFC3339Nano), "%q", c.line)
			assert.Equal(t, c.key, string(l.key))
		}
	}
	for line, want := range map[string]string{
		`h - - [10/Oct/2000:13:55:36 -0700]` + rest + ` "r" "u"`: "",
		`h - - [10/Oct/2000:13:55:36 -0700]` + rest:              "no referrer",
		`h - - [10/Oct/2000:13:55:36 -0700]` + rest + ` "r"`:     "no user agent",
		`h - - [10/Oct/2000:13:55:36 -0700]` + rest + ` "r" "u`:  "no user agent",
	} {
		_, reason := parseCombined([]byte(line))
		assert.Equal(t, want, reason, "%q", line)
	}
}

// parseCLFTime stands in for time.Parse: over 3,000 dates they must agree.
func TestCLFTimeAgreesWithTimeParse(t *testing.T) {
	at := time.Date(1995, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3000 {
		zone := time.FixedZone("", (i%27-12)*3600+i%4*900)
		text := at.In(zone).Format(clfTime)
		want, err := time.Parse(clfTime, text)
		require.NoError(t, err)
		got, ok := parseCLFTime([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want.UnixNano(), got, text)
		at = at.Add(95*time.Hour + 1234567*time.Millisecond)
	}
}

func TestReadTestdata(t *testing.T) {
	for _, c := range []struct {
		file                     string
		format                   Format
		requests, keys, bad, uns int
		start, end               string
	}{
		{"testdata/elastic_apache.tsv", TSV, 50, 0, 0, 0, "2015-05-17T10:05:00Z", ""},
		{"testdata/nasa_19950801.tsv.gz", TSV, 50, 0, 0, 0, "1995-08-01T06:00:00Z", ""},
		{"testdata/common.log", Common, 4, 3, 1, 1, "2025-10-10T11:55:36Z", "2025-10-10T11:55:38Z"},
		{"testdata/combined.log", Combined, 3, 2, 0, 0, "2024-02-28T23:59:59Z", "2024-02-29T00:00:01Z"},
	} {
		t.Run(c.file, func(t *testing.T) {
			for _, f := range []Format{Auto, c.format} {
				trace, err := OpenTrace(c.file, f)
				require.NoError(t, err)
				i := trace.Info
				assert.Equal(t, c.file, trace.Name())
				assert.Equal(t, c.format, i.Format)
				assert.Equal(t, c.requests, i.Requests)
				assert.Equal(t, c.requests, trace.Len())
				assert.Equal(t, c.bad, i.Malformed)
				assert.Equal(t, c.uns, i.Unsorted)
				assert.Equal(t, c.start, i.Start.Format(time.RFC3339))
				if c.end != "" {
					assert.Equal(t, c.keys, i.Keys)
					assert.Equal(t, c.end, i.End.Format(time.RFC3339))
				}
				requests := slices.Collect(trace.Requests())
				require.Len(t, requests, c.requests)
				assert.True(t, slices.IsSortedFunc(requests, func(a, b Request) int { return a.Time.Compare(b.Time) }))
			}
		})
	}
	common, err := OpenTrace("testdata/common.log", Auto)
	require.NoError(t, err)
	assert.Equal(t, &BadLine{3, `"this line was written by a process that died"`, "no time in brackets"}, common.Info.FirstBad)
	var keys []string
	for r := range common.Requests() {
		keys = append(keys, r.Key)
	}
	assert.Equal(t, []string{"192.0.2.7", "2001:db8::1", "198.51.100.23", "192.0.2.7"}, keys, "sorted in, equal times in the order of the lines")
}

func TestReadTraceOddities(t *testing.T) {
	long := "5\t" + strings.Repeat("x", maxLine) + "\n"
	trace := read(t, "\xef\xbb\xbf# a comment\r\n\r\n1\ta\r\n"+long+"2\tb\t4\r\n\n3 no tab\n3\ta", Auto)
	assert.Equal(t, TraceInfo{
		Name: "test", Format: TSV, Lines: 8, Requests: 3, Keys: 2, Speed: 1,
		Start: time.Unix(1, 0).UTC(), End: time.Unix(3, 0).UTC(),
		Malformed: 2,
		FirstBad:  &BadLine{4, `"5\t` + strings.Repeat("x", 78) + `"…`, "longer than 64 KiB"},
	}, trace.Info)
	assert.Equal(t, []Request{
		{time.Unix(1, 0).UTC(), "a", 1}, {time.Unix(2, 0).UTC(), "b", 4}, {time.Unix(3, 0).UTC(), "a", 1},
	}, slices.Collect(trace.Requests()))

	// The longest line that is read, and one byte more.
	fits := "1\t" + strings.Repeat("x", maxLine-3) + "\n"
	assert.Zero(t, read(t, fits+"2\ta\n", TSV).Info.Malformed)
	assert.Equal(t, 1, read(t, "1\tx"+fits[2:]+"2\ta\n", TSV).Info.Malformed)
}

// A gzip file is known by its bytes, whatever it is called, and may have several
// members, as log rotation makes them by concatenation.
func TestGzipIsToldByItsBytes(t *testing.T) {
	var b bytes.Buffer
	for _, part := range []string{"1\ta\n2\tb\n", "3\ta\n"} {
		z := gzip.NewWriter(&b)
		_, err := io.WriteString(z, part)
		require.NoError(t, err)
		require.NoError(t, z.Close())
	}
	whole := b.Bytes()
	for _, r := range []io.Reader{bytes.NewReader(whole), iotest.OneByteReader(bytes.NewReader(whole))} {
		trace, err := ReadTrace(r, "plain.txt", Auto)
		require.NoError(t, err)
		assert.Equal(t, 3, trace.Len())
	}
	_, err := ReadTrace(bytes.NewReader(whole[:len(whole)-6]), "cut.gz", Auto)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.ErrorContains(t, err, "accuracy: trace cut.gz, line ")
	_, err = ReadTrace(strings.NewReader("\x1f\x8bnot really"), "fake.gz", Auto)
	assert.ErrorContains(t, err, "accuracy: trace fake.gz: ")
}

func TestReadTraceErrors(t *testing.T) {
	for _, c := range []struct {
		text   string
		format Format
		want   string
	}{
		{"", Auto, "accuracy: trace x.log: no usable line among 0 (format tried: tsv, combined, common)"},
		{"\n\n", TSV, "accuracy: trace x.log: no usable line among 2 (format tried: tsv)"},
		{"\nhello\nworld\n", Auto, `accuracy: trace x.log: no usable line among 3 (format tried: tsv, combined, common); line 2: in none of the formats: "hello"`},
		{"1\ta\n", Combined, `accuracy: trace x.log: no usable line among 1 (format tried: combined); line 1: no client host: "1\ta"`},
		{"1\ta\n", "csv", `accuracy: trace format "csv": unknown, must be auto, tsv, common or combined`},
	} {
		_, err := ReadTrace(strings.NewReader(c.text), "x.log", c.format)
		require.EqualError(t, err, c.want)
		assert.Equal(t, c.format != "csv", errors.Is(err, ErrNoUsableLine))
	}
	_, err := OpenTrace("testdata/missing.log", Auto)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "accuracy: trace: open testdata/missing.log")
	broken := errors.New("disk on fire")
	_, err = ReadTrace(io.MultiReader(strings.NewReader("1\ta\n"), iotest.ErrReader(broken)), "x", Auto)
	assert.ErrorIs(t, err, broken)
}

func TestTraceSpeed(t *testing.T) {
	trace := read(t, "1000\ta\n1010\tb\n1020.5\ta\n", TSV)
	fast, err := trace.Speed(4)
	require.NoError(t, err)
	var at []float64
	for r := range fast.Requests() {
		at = append(at, float64(r.Time.UnixNano())/1e9)
	}
	assert.Equal(t, []float64{1000, 1002.5, 1005.125}, at)
	assert.Equal(t, "test ×4", fast.Name())
	again, err := fast.Speed(0.25)
	require.NoError(t, err)
	assert.Equal(t, slices.Collect(trace.Requests()), slices.Collect(again.Requests()))

	for _, factor := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-7} {
		_, err := trace.Speed(factor)
		assert.ErrorContains(t, err, "must be 1e-06 … 1e+09")
	}
	slow := read(t, "1\ta\n9000000000\tb\n", TSV)
	_, err = slow.Speed(0.5)
	assert.ErrorContains(t, err, "after the year 2262")
}

// Whatever the bytes: no panic, the counts add up, the requests are in order.
func FuzzReadTrace(f *testing.F) {
	for _, file := range []string{"elastic_apache.tsv", "nasa_19950801.tsv.gz", "common.log", "combined.log"} {
		b, err := os.ReadFile("testdata/" + file)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte("# c\n1.5\ta\t2\n1\tb\r\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, format := range []Format{Auto, TSV, Common, Combined} {
			trace, err := ReadTrace(bytes.NewReader(b), "fuzz", format)
			if err != nil {
				require.ErrorContains(t, err, "accuracy: trace fuzz")
				continue
			}
			i := trace.Info
			require.LessOrEqual(t, i.Requests+i.Malformed, i.Lines)
			require.Equal(t, i.Malformed > 0, i.FirstBad != nil)
			var n int
			var last time.Time
			for r := range trace.Requests() {
				require.False(t, n > 0 && r.Time.Before(last))
				require.NotEmpty(t, r.Key)
				require.Positive(t, r.Cost)
				n, last = n+1, r.Time
			}
			require.Equal(t, i.Requests, n)
		}
	})
}

func BenchmarkReadTrace(b *testing.B) {
	line := `203.0.113.5 - - [28/Feb/2024:23:59:59 +0000] "GET / HTTP/2.0" 200 5120 "-" "Mozilla/5.0 (X11; Linux x86_64)"` + "\n"
	text := strings.Repeat(line, 10_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, err := ReadTrace(strings.NewReader(text), "x", Auto)
		require.NoError(b, err)
	}
}
