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

	"github.com/sketchlimit/sketchlimit/accuracy/internal/tsv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, text string) *Trace {
	t.Helper()
	trace, err := ReadTrace(strings.NewReader(text), "test")
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
		l, reason := tsv.Parse([]byte(c.line))
		require.Equal(t, c.reason, reason, "%q", c.line)
		if reason == "" {
			assert.Equal(t, c.time, l.Time, "%q", c.line)
			assert.Equal(t, c.key, string(l.Key), "%q", c.line)
			assert.Equal(t, c.cost, l.Cost, "%q", c.line)
		}
	}
}

func TestReadTestdata(t *testing.T) {
	for _, c := range []struct {
		file     string
		requests int
		start    string
	}{
		{"testdata/elastic_apache.tsv", 50, "2015-05-17T10:05:00Z"},
		{"testdata/nasa_19950801.tsv.gz", 50, "1995-08-01T06:00:00Z"},
	} {
		t.Run(c.file, func(t *testing.T) {
			trace, err := OpenTrace(c.file)
			require.NoError(t, err)
			i := trace.Info
			assert.Equal(t, c.file, trace.Name())
			assert.Equal(t, "tsv", i.Format)
			assert.Equal(t, c.requests, i.Requests)
			assert.Equal(t, c.requests, trace.Len())
			assert.Zero(t, i.Malformed)
			assert.Zero(t, i.Unsorted)
			assert.Equal(t, c.start, i.Start.Format(time.RFC3339))
			requests := slices.Collect(trace.Requests())
			require.Len(t, requests, c.requests)
			assert.True(t, slices.IsSortedFunc(requests, func(a, b Request) int { return a.Time.Compare(b.Time) }))
		})
	}
}

// TestCollectTrace: requests of any order are sorted, equal times staying in order;
// errors come back as they are.
func TestCollectTrace(t *testing.T) {
	trace, err := CollectTrace("log", func(add func(ns int64, key []byte, units uint32)) error {
		key := []byte("a")
		add(2e9, key, 1)
		add(3e9, []byte("b"), 5)
		key[0] = 'c'
		add(2e9, key, 1)
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, TraceInfo{Name: "log", Requests: 3, Keys: 3, Unsorted: 1, Speed: 1, Start: time.Unix(2, 0).UTC(), End: time.Unix(3, 0).UTC()}, trace.Info)
	assert.Equal(t, []Request{
		{time.Unix(2, 0).UTC(), "a", 1}, {time.Unix(2, 0).UTC(), "c", 1}, {time.Unix(3, 0).UTC(), "b", 5},
	}, slices.Collect(trace.Requests()))

	broken := errors.New("disk on fire")
	_, err = CollectTrace("log", func(func(int64, []byte, uint32)) error { return broken })
	require.Equal(t, broken, err)
	_, err = CollectTrace("log", func(func(int64, []byte, uint32)) error { return nil })
	require.ErrorIs(t, err, ErrNoUsableLine)
}

func TestReadTraceOddities(t *testing.T) {
	long := "5\t" + strings.Repeat("x", tsv.MaxLine) + "\n"
	trace := read(t, "\xef\xbb\xbf# a comment\r\n\r\n1\ta\r\n"+long+"2\tb\t4\r\n\n3 no tab\n3\ta")
	assert.Equal(t, TraceInfo{
		Name: "test", Format: "tsv", Lines: 8, Requests: 3, Keys: 2, Speed: 1,
		Start: time.Unix(1, 0).UTC(), End: time.Unix(3, 0).UTC(),
		Malformed: 2,
		FirstBad:  &BadLine{4, `"5\t` + strings.Repeat("x", 78) + `"…`, "longer than 64 KiB"},
	}, trace.Info)
	assert.Equal(t, []Request{
		{time.Unix(1, 0).UTC(), "a", 1}, {time.Unix(2, 0).UTC(), "b", 4}, {time.Unix(3, 0).UTC(), "a", 1},
	}, slices.Collect(trace.Requests()))

	// The longest line that is read, and one byte more.
	fits := "1\t" + strings.Repeat("x", tsv.MaxLine-3) + "\n"
	assert.Zero(t, read(t, fits+"2\ta\n").Info.Malformed)
	assert.Equal(t, 1, read(t, "1\tx"+fits[2:]+"2\ta\n").Info.Malformed)
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
		trace, err := ReadTrace(r, "plain.txt")
		require.NoError(t, err)
		assert.Equal(t, 3, trace.Len())
	}
	_, err := ReadTrace(bytes.NewReader(whole[:len(whole)-6]), "cut.gz")
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.ErrorContains(t, err, "accuracy: trace cut.gz, line ")
	_, err = ReadTrace(strings.NewReader("\x1f\x8bnot really"), "fake.gz")
	assert.ErrorContains(t, err, "accuracy: trace fake.gz: ")
}

func TestReadTraceErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "accuracy: trace x.log: no usable line among 0",
		"\n\n":             "accuracy: trace x.log: no usable line among 2",
		"\nhello\nworld\n": `accuracy: trace x.log: no usable line among 3; line 2: no tab: "hello"`,
	} {
		_, err := ReadTrace(strings.NewReader(text), "x.log")
		require.EqualError(t, err, want)
		assert.ErrorIs(t, err, ErrNoUsableLine)
	}
	_, err := OpenTrace("testdata/missing.log")
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "accuracy: trace: open testdata/missing.log")
	broken := errors.New("disk on fire")
	_, err = ReadTrace(io.MultiReader(strings.NewReader("1\ta\n"), iotest.ErrReader(broken)), "x")
	assert.ErrorIs(t, err, broken)
}

func TestTraceSpeed(t *testing.T) {
	trace := read(t, "1000\ta\n1010\tb\n1020.5\ta\n")
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
	slow := read(t, "1\ta\n9000000000\tb\n")
	_, err = slow.Speed(0.5)
	assert.ErrorContains(t, err, "after the year 2262")
}

// Whatever the bytes: no panic, the counts add up, the requests are in order.
func FuzzReadTrace(f *testing.F) {
	for _, file := range []string{"elastic_apache.tsv", "nasa_19950801.tsv.gz"} {
		b, err := os.ReadFile("testdata/" + file)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte("# c\n1.5\ta\t2\n1\tb\r\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		trace, err := ReadTrace(bytes.NewReader(b), "fuzz")
		if err != nil {
			require.ErrorContains(t, err, "accuracy: trace fuzz")
			return
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
	})
}

func BenchmarkReadTrace(b *testing.B) {
	line := "1700000000.25\t203.0.113.5\n"
	text := strings.Repeat(line, 10_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, err := ReadTrace(strings.NewReader(text), "x")
		require.NoError(b, err)
	}
}
