package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
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

// spent is traffic that is replayed in a moment and yet brings users past their limit,
// some by more than they hold.
var spent = []string{"report", "--budget", "--workload", "lognormal:1.5,keys=100,requests=5000,windows=3,cap=300,most=5000"}

func TestBudgetReport(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
		rows []string
	}{
		"trace carried along": {
			[]string{"report", "--budget"},
			[]string{
				"Who holds estimates overspent nothing; who checks estimates and debits afterwards overspent",
				"source            Mooncake conversation trace",
				"Apache-2.0",
				"users             100, drawn for each conversation",
				"answers           lognormal:1, median=300, cap=1000, most=1000, pace=50, keys=100, exponent=1,",
				"requests          12,031 of 100 users in 59 windows",
				"; 0 requests cost more than",
				"limit             200,000 units per user in 1m, fixed window",
				"keys in a window",
				"Stats().Overdraft     0 units",
				"by exact books        0 units",
				"overspent in the end  0 units",
				"its limiter never counted",
			},
			[]string{
				`(?m)^  hold and settle +0 +0 +(0\.\d\d|1\.00) × +[\d,]+ +[\d,]+ +(\d+,\d+,\d+) +`,
				`(?m)^  check, then debit +\d[\d,]+ +[\d.]+ % +[1-9]\.\d\d × `,
				`(?m)^  debit afterwards +\d[\d,]+ +[\d.]+ % +[1-9]\.\d\d × `,
			},
		},
		"workload": {
			append(spent, "--memory", "64KiB", "--limit", "9000", "--window", "30s"),
			[]string{
				"source            lognormal:1.5, median=300, cap=300, most=5000, pace=50, keys=100, exponent=1,",
				"window=30s",
				"requests          5,000 of 100 users in 3 windows",
				"limit             9,000 units per user in 30s, fixed window",
				"seed              1",
			},
			[]string{
				`(?m)^  hold and settle +[1-9][\d,]+ +[\d.]+ % `,
				`Stats\(\)\.Overdraft +[1-9][\d,]+ units`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "report.html")
			o := command(nil, append(c.args, "--html", page)...)
			require.Equal(t, 0, o.status, o.err)
			assert.Equal(t, "sketchlimit: wrote "+page+"\n", o.err)
			for _, text := range c.want {
				assert.Contains(t, o.out, text)
			}
			for _, row := range c.rows {
				assert.Regexp(t, row, o.out)
			}
			for line := range strings.Lines(o.out) {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), pageWidth, line)
			}
			checkBudgetPage(t, page)
			assert.Equal(t, o.out, command(nil, c.args...).out, "the same every time")
		})
	}
}

// checkBudgetPage: the picture is drawn by what reads XML, and has three charts of
// three bars.
func checkBudgetPage(t *testing.T, file string) {
	t.Helper()
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotRegexp(t, `https?://|<script|<link|src=|url\(|@import`, string(page))
	pictures := regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(string(page), -1)
	require.Len(t, pictures, 1)
	d := xml.NewDecoder(strings.NewReader(pictures[0]))
	rects := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	assert.Equal(t, 3*3*2, rects)
	assert.NotContains(t, pictures[0], "NaN")
	assert.NotContains(t, pictures[0], "Inf")
	assert.Contains(t, string(page), "prefers-color-scheme: dark")
}

func TestBudgetJSON(t *testing.T) {
	o := command(nil, append(spent, "--json", "--keys", "500", "--seed", "3")...)
	require.Equal(t, 0, o.status, o.err)
	var r struct {
		Source struct{ Kind, Name, Workload string }
		Config struct {
			Limit        int
			WindowNs     int64 `json:"window_ns"`
			Algorithm    string
			SizedForKeys int `json:"sized_for_keys"`
			Seed         uint64
		}
		Costs  map[string]any
		Budget struct {
			Requests, Keys int
			AboveEstimate  int `json:"above_estimate"`
			Ways           []map[string]any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(o.out), &r))
	assert.Equal(t, "workload", r.Source.Kind)
	assert.Equal(t, r.Source.Name, r.Source.Workload)
	assert.Equal(t, 20_000, r.Config.Limit)
	assert.Equal(t, int64(time.Minute), r.Config.WindowNs)
	assert.Equal(t, "fixed", r.Config.Algorithm)
	assert.Equal(t, 500, r.Config.SizedForKeys)
	assert.EqualValues(t, 3, r.Config.Seed)
	assert.EqualValues(t, 300, r.Costs["cap"])
	assert.Equal(t, 5000, r.Budget.Requests)
	assert.Positive(t, r.Budget.AboveEstimate)
	require.Len(t, r.Budget.Ways, 3)
	for i, name := range []string{"hold and settle", "check, then debit", "debit afterwards"} {
		w := r.Budget.Ways[i]
		assert.Equal(t, name, w["way"])
		assert.EqualValues(t, 5000, w["admitted_requests"].(float64)+w["denied_requests"].(float64))
		for _, field := range []string{"denied_fitting", "served_units", "overspent_units", "overspent_keys",
			"worst_load", "uncounted_units", "over_held_units", "overdraft_units", "memory_bytes"} {
			assert.Contains(t, w, field)
		}
	}
	assert.LessOrEqual(t, r.Budget.Ways[0]["overspent_units"], r.Budget.Ways[0]["over_held_units"])
	assert.LessOrEqual(t, r.Budget.Ways[0]["over_held_units"], r.Budget.Ways[0]["overdraft_units"])
}

// TestBudgetTrace: a trace has prompts, a workload beside it answers.
func TestBudgetTrace(t *testing.T) {
	const trace = "1\tsystem\n1\ta\n1\tb\n1\tsystem\n1\tc\n70\tsystem\n70\ta\n"
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"source            standard input", "3 of ", "answers           lognormal:1, median=300, cap=1000",
			"estimated at 6,584"}},
		{[]string{"--workload", "pareto:2,cap=10,keys=3", "--limit", "5000"},
			[]string{"answers           pareto:2, median=300, cap=10, most=10, pace=50, keys=3", "estimated at 3,614",
				"limit             5,000 units"}},
		{[]string{"--speed", "1000"}, []string{"standard input ×1000", "in 1 window"}},
	} {
		o := command(strings.NewReader(trace), append([]string{"report", "--budget", "--trace", "-"}, c.args...)...)
		require.Equal(t, 0, o.status, o.err)
		for _, w := range c.want {
			assert.Contains(t, o.out, w)
		}
	}
}

func TestBudgetWrongUsage(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	line := "192.0.2.1 - - [10/Oct/2023:13:00:00 +0000] \"GET / HTTP/1.1\" 200 512\n"
	require.NoError(t, os.WriteFile(log, []byte(line), 0o600))
	apart := filepath.Join(t.TempDir(), "apart.tsv")
	require.NoError(t, os.WriteFile(apart, []byte("1\ta\n2\tb\n"), 0o600))
	for args, want := range map[string]string{
		"--algorithm bucket": "--budget with --algorithm, --sub-windows or --burst, its windows are fixed",
		"--burst 5":          "--budget with --algorithm, --sub-windows or --burst, its windows are fixed",
		"--format common --trace x": "--format common, must be tsv with --budget: " +
			"a line for each block of a prompt",
		"--trace " + log:          "--trace " + log + ": is common, must be tsv with --budget: a line for each block of a prompt",
		"--workload zipf":         `--workload "zipf": unknown, must be one of lognormal, pareto`,
		"--workload pareto,cap=0": `--workload pareto: cap "0", must be a whole number 1 … 1000000000`,
		"--trace " + apart + " --workload pareto,burst=2": `--workload pareto: "burst" unknown, ` +
			`must be one of shape, median, cap, most, pace, keys, exponent, seed`,
		"--speed 2 --workload pareto": "--speed 2, goes with a trace, not with --workload",
		"--memory 1MiB --keys 9":      "--memory with --keys, only one of them may be given",
	} {
		t.Run(args, func(t *testing.T) {
			o := command(nil, append([]string{"report", "--budget"}, strings.Fields(args)...)...)
			assert.Equal(t, 2, o.status)
			assert.Equal(t, "sketchlimit: "+want+"\n", o.err)
			assert.Empty(t, o.out)
		})
	}
	o := command(nil, "report", "--budget", "--trace", apart)
	assert.Equal(t, 1, o.status)
	assert.Equal(t, "sketchlimit: trace "+apart+": no time has two lines, but the blocks of a prompt have the same time\n",
		o.err)
}

func TestBudgetInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errOut bytes.Buffer
	assert.Equal(t, 130, run(ctx, spent, nil, &out, &errOut))
	assert.Equal(t, "sketchlimit: interrupted\n", errOut.String())
	assert.Empty(t, out.String())
}
