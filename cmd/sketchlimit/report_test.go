package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type output struct {
	status   int
	out, err string
}

func command(in io.Reader, args ...string) output {
	var out, errOut bytes.Buffer
	status := run(context.Background(), args, in, &out, &errOut)
	return output{status, out.String(), errOut.String()}
}

// small is traffic that is replayed in a moment and yet brings keys past their limit.
var small = []string{"report", "--workload", "zipf:1.2,keys=2000,requests=20000,windows=3", "--limit", "20", "--memory", "8KiB"}

// TestDefaultReport pins what is printed about the embedded trace, but no figure that
// another version of the limiter might change. Under the race detector the smaller
// reports below do.
func TestDefaultReport(t *testing.T) {
	if raced {
		t.Skip("much to compute: without the race detector")
	}
	page := filepath.Join(t.TempDir(), "report.html")
	o := command(nil, "report", "--html", page)
	require.Equal(t, 0, o.status, o.err)
	assert.Equal(t, "sketchlimit: wrote "+page+"\n", o.err, "and no progress bar without a terminal")
	for _, text := range []string{
		"A limiter of 59 KiB beside an exact one that took ",
		"source    Mooncake conversation trace",
		"Apache-2.0",
		"requests  288,500 in 58m57s, 6 windows",
		"keys      182,790, of which 36,620 in the fullest window",
		"limit     10 units per key in 10m, sliding window",
		"seed      1",
		"over-admissions                   0 of 288,500 requests (must be 0)",
		"The limiter beside the exact algorithm\n══════",
		"What the limiter got wrong: sketch error\n══════",
		"Error against memory\n══════",
		"What each part is good for, in at most 64 KiB\n══════",
		"limiter   59 KiB of at most 64 KiB: ",
		"  at most  bytes/key  ",
		"None of them admitted too much.",
		"The algorithms themselves: algorithm error, not sketch error\n══════",
	} {
		assert.Contains(t, o.out, text)
	}
	rows := []string{
		`it admitted nothing that had to be\sdenied`,
		`(?m)^  published +Bloom filter test`,
		`(?m)^  sketchlimit +this library's limiter`,
		`(?m)^ +▸64 KiB +[\d.]+ +0 +\d+ of 2\d\d,\d{3} +(< )?\d`,
		`(?m)^  sliding log +276,191 +12,309 +0 +0 +1.00 × limit +1.00 ×$`,
	}
	assert.NotContains(t, o.out, "one key in")
	for _, row := range rows {
		assert.Regexp(t, row, o.out)
	}
	for line := range strings.Lines(o.out) {
		line = strings.TrimSuffix(line, "\n")
		assert.LessOrEqual(t, utf8.RuneCountInString(line), pageWidth, line)
		assert.Equal(t, strings.TrimRight(line, " "), line)
	}
	checkPage(t, page)
}

// TestSampledReport: what is measured on some keys only says so, and the replay is not.
func TestSampledReport(t *testing.T) {
	usual := sampleAbove
	sampleAbove = 10_000
	t.Cleanup(func() { sampleAbove = usual })
	o := command(nil, "report", "--workload", "uniform,keys=8000,requests=40000,windows=2", "--limit", "3", "--memory", "8KiB")
	require.Equal(t, 0, o.status, o.err)
	text := strings.Join(strings.Fields(o.out), " ")
	of := regexp.MustCompile(`Measured on one key in 4, ([\d,]+ of 40,000 requests); whether a heavy key`).FindStringSubmatch(text)
	require.Len(t, of, 2)
	judged := "Every request went through the limiters, but only one key in 4 was judged, " + of[1] + "; over-admissions, too, were looked for there alone."
	assert.Equal(t, 2, strings.Count(text, judged))
	assert.Equal(t, 3, strings.Count(text, "one key in"), "sweep, ablation, algorithms")
	assert.Contains(t, text, "over-admissions 0 of 40,000 requests (must be 0)")
}

// checkPage: a page needs nothing from anywhere and is drawn by what reads XML.
func checkPage(t *testing.T, file string) {
	t.Helper()
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	rest := strings.NewReplacer(`xmlns="http://www.w3.org/2000/svg"`, "", `xmlns:xlink="http://www.w3.org/1999/xlink"`, "").Replace(string(page))
	assert.NotRegexp(t, `https?://|<script|<link|src=|url\(|@import`, rest)

	pictures := regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(string(page), -1)
	require.Len(t, pictures, 4*len(forms)+1, "bars have one form")
	for _, p := range pictures {
		d := xml.NewDecoder(strings.NewReader(p))
		for {
			if _, err = d.Token(); err != nil {
				break
			}
		}
		assert.ErrorIs(t, err, io.EOF, "well-formed")
		assert.NotContains(t, p, "NaN")
		assert.NotContains(t, p, "Inf")
		assert.NotRegexp(t, `#[0-9A-F]{6}`, p, "colors are the page's")
	}
	assert.Len(t, regexp.MustCompile(`<h2 `).FindAllString(string(page), -1), 6)
}

func TestSameReportEveryTime(t *testing.T) {
	measured := regexp.MustCompile(`(?m)^.*(took|on the heap|bytes for each key).*\n`)
	first := command(nil, small...)
	require.Equal(t, 0, first.status, first.err)
	second := command(nil, small...)
	assert.Equal(t, measured.ReplaceAllString(first.out, ""), measured.ReplaceAllString(second.out, ""))
}

func TestJSON(t *testing.T) {
	o := command(nil, append(small, "--json")...)
	require.Equal(t, 0, o.status, o.err)
	var r struct {
		Source struct{ Kind, Name, Workload string }
		Config struct {
			Limit       int
			WindowNs    int64 `json:"window_ns"`
			Algorithm   string
			MemoryBytes int `json:"memory_bytes"`
			Seed        uint64
			Plan        struct{ Shards int }
		}
		Replay map[string]any
		Sweep  []struct {
			AskedBytes      int     `json:"asked_bytes"`
			OverAdmissions  int     `json:"over_admissions"`
			LightRequests   int     `json:"light_requests"`
			FalseDenialRate float64 `json:"false_denial_rate"`
		}
		Ablation struct {
			MemoryBytes int `json:"memory_bytes"`
			Rows        []struct{ Step, Layout string }
		}
		Algorithms []struct {
			Algorithm  string
			LetThrough int `json:"let_through"`
			Sample     struct {
				OneKeyIn   int `json:"one_key_in"`
				Requests   int
				OfRequests int `json:"of_requests"`
			}
		}
	}
	d := json.NewDecoder(strings.NewReader(o.out))
	require.NoError(t, d.Decode(&r))
	_, err := d.Token()
	assert.ErrorIs(t, err, io.EOF, "one object and nothing else")

	assert.Equal(t, "workload", r.Source.Kind)
	assert.Contains(t, r.Source.Workload, "zipf:1.2,keys=2000,requests=20000,windows=3,window=1m0s")
	assert.Equal(t, 20, r.Config.Limit)
	assert.Equal(t, int64(time.Minute), r.Config.WindowNs)
	assert.Equal(t, "sliding", r.Config.Algorithm)
	assert.Equal(t, 8<<10, r.Config.MemoryBytes)
	assert.Equal(t, uint64(1), r.Config.Seed)
	assert.Positive(t, r.Config.Plan.Shards)
	for _, field := range []string{
		"requests", "keys", "peak_keys", "windows", "admitted_units", "oracle_admitted_units", "light_requests",
		"light_false_denials", "false_denials", "false_denial_rate", "lost_share", "wronged_keys",
		"units_early", "estimate_error", "live_false_denial_rate_max", "memory", "series",
	} {
		assert.Contains(t, r.Replay, field)
	}
	assert.EqualValues(t, 20000, r.Replay["requests"])
	assert.Zero(t, r.Replay["over_admissions"])
	require.NotEmpty(t, r.Sweep)
	assert.Less(t, r.Sweep[0].AskedBytes, 8<<10)
	for _, p := range r.Sweep {
		assert.Zero(t, p.OverAdmissions, "%d bytes", p.AskedBytes)
		assert.Positive(t, p.LightRequests)
	}
	assert.Equal(t, 8<<10, r.Ablation.MemoryBytes)
	assert.Equal(t, "published", r.Ablation.Rows[0].Step)
	assert.Equal(t, "sliding log", r.Algorithms[0].Algorithm)
	assert.Zero(t, r.Algorithms[0].LetThrough)
	assert.Equal(t, 1, r.Algorithms[0].Sample.OneKeyIn)
	assert.Equal(t, 20000, r.Algorithms[0].Sample.Requests)
	assert.Equal(t, 20000, r.Algorithms[0].Sample.OfRequests)
}

// TestRateOfZero: what was not seen is told with how often it could have been.
func TestRateOfZero(t *testing.T) {
	o := command(nil, append(small, "--memory", "1MiB")...)
	require.Equal(t, 0, o.status, o.err)
	assert.Regexp(t, `false denials of light keys +0 of [\d,]+ requests\n`, o.out)
	assert.Regexp(t, `▸1 MiB +\d+ +0 +0 of [\d,]+ +< \d\.\de-\d +0 +< \d\.\de-\d `, o.out)
}

func TestTraces(t *testing.T) {
	var tsv, common strings.Builder
	for i := range 600 {
		fmt.Fprintf(&tsv, "%d.5\tkey%d\t2\n", 1_700_000_000+i, i%7)
		fmt.Fprintf(&common, "192.0.2.%d - - [10/Oct/2023:13:%02d:%02d +0000] \"GET /?a b HTTP/1.1\" 200 512\n", i%7, i/60, i%60)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, tsv.String())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	file := filepath.Join(t.TempDir(), "trace.gz")
	require.NoError(t, os.WriteFile(file, packed.Bytes(), 0o600))

	for name, c := range map[string]struct {
		in   string
		args []string
		want []string
	}{
		"standard input": {tsv.String(), []string{"--trace", "-"},
			[]string{"source    standard input", "requests  600 of 1,200 units in 9m59s", "units admitted", "7, of which 7 in the fullest window"}},
		"gzip": {packed.String(), []string{"--trace", "-", "--format", "tsv"}, []string{"requests  600 of 1,200 units"}},
		"file": {"", []string{"--trace", file, "--speed", "2"}, []string{"trace.gz ×2", "in 5m,"}},
		"log":  {common.String(), []string{"--trace", "-", "--format", "common"}, []string{"requests  600 in 9m59s"}},
		"bad lines": {"1\ta\nnonsense\n3\tb\n2\ta\n", []string{"--trace", "-"},
			[]string{`1 line of 4 could not be read and was left out; the first: line 2: no tab: "nonsense"`,
				"1 request came later", "The exact algorithm denied nothing"}},
		"bucket": {tsv.String(), []string{"--trace", "-", "--algorithm", "bucket", "--burst", "7", "--keys", "1e3", "--limit", "5"},
			[]string{"token bucket of 7 units", "for 1,000 keys in a window and a false-denial rate of 1e-5: 1 shard, each a table of 95 × 9 fingerprints and times"}},
		"fixed, sized": {tsv.String(), []string{"--trace", "-", "--algorithm", "fixed", "--keys", "1e3", "--limit", "5"},
			[]string{"fixed window", "for 1,000 keys in a window and a false-denial rate of 1e-5", "of 1 generation,"}},
		"parts": {tsv.String(), []string{"--trace", "-", "--sub-windows", "3", "--memory", "16KiB"}, []string{"sliding window of 3 parts", "of 4 generations,"}},
	} {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "page.html")
			o := command(strings.NewReader(c.in), append([]string{"report", "--html", page}, c.args...)...)
			require.Equal(t, 0, o.status, o.err)
			for _, w := range c.want {
				assert.Contains(t, strings.Join(strings.Fields(o.out), " "), strings.Join(strings.Fields(w), " "))
			}
			checkPage(t, page)
		})
	}
}

// TestPageEscapes: names of traces are anybody's.
func TestPageEscapes(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, `<b>"x"&.tsv`)
	require.NoError(t, os.WriteFile(file, []byte("1\ta\n2\tb\n"), 0o600))
	page := filepath.Join(folder, "page.html")
	o := command(nil, "report", "--trace", file, "--html", page)
	require.Equal(t, 0, o.status, o.err)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.NotContains(t, string(text), `<b>"x"`)
	assert.Contains(t, string(text), "&lt;b&gt;")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, args := range map[string][]string{
		"measuring": small,
		"waiting":   {"report", "--trace", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			never, w := io.Pipe()
			defer w.Close()
			var out, errOut bytes.Buffer
			assert.Equal(t, 130, run(ctx, args, never, &out, &errOut))
			assert.Equal(t, "sketchlimit: interrupted\n", errOut.String())
			assert.Empty(t, out.String())
		})
	}
}

func TestSeedOfZeroIsTold(t *testing.T) {
	seeds := map[string]bool{}
	for range 2 {
		o := command(nil, append(small, "--workload", "uniform,keys=20,requests=200", "--seed", "0")...)
		require.Equal(t, 0, o.status, o.err)
		seeds[regexp.MustCompile(`(?m)^  seed +(\d+)$`).FindStringSubmatch(o.out)[1]] = true
	}
	assert.Len(t, seeds, 2)
	assert.NotContains(t, seeds, "0")
}
