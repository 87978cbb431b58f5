package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWrongUsage: one line that names the flag, the value and what is allowed.
func TestWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--limit 0":                              "--limit 0, must be a whole number 1 … 2,147,483,647",
		"--limit 1.5":                            "--limit 1.5, must be a whole number 1 … 2,147,483,647",
		"--limit NaN":                            "--limit NaN, must be a whole number 1 … 2,147,483,647",
		"--limit":                                "--limit: its value is missing",
		"--window 0s":                            "--window 0s, must be a duration 1ms … 640000h such as 30s or 10m",
		"--window 10":                            "--window 10, must be a duration 1ms … 640000h such as 30s or 10m",
		"--window 700000h":                       "--window 700000h, must be a duration 1ms … 640000h such as 30s or 10m",
		"--algorithm token":                      "--algorithm token, must be sliding, fixed or bucket",
		"--sub-windows 0":                        "--sub-windows 0, must be a whole number 1 … 60",
		"--sub-windows 2 --algorithm fixed":      "--sub-windows 2, goes with --algorithm sliding only",
		"--sub-windows 2 --algorithm bucket":     "--sub-windows 2, goes with --algorithm sliding only",
		"--burst 5":                              "--burst 5, goes with --algorithm bucket only",
		"--sub-windows 7 --window 1s":            "--sub-windows 7, must cut --window 1s into whole nanoseconds",
		"--memory 1KB":                           "--memory 1KB, must be a size of 4 KiB … 64 MiB such as 256KiB",
		"--memory lots":                          "--memory lots, must be a size of 4 KiB … 64 MiB such as 256KiB",
		"--memory 1MiB --keys 9":                 "--memory with --keys, only one of them may be given",
		"--memory 1MiB --false-denial-rate 1e-6": "--memory with --false-denial-rate, only one of them may be given",
		"--keys -1":                              "--keys -1, must be a whole number 1 … 100,000,000",
		"--false-denial-rate 1":                  "--false-denial-rate 1, must be a number above 0 and below 1 such as 1e-5",
		"--false-denial-rate NaN":                "--false-denial-rate NaN, must be a number above 0 and below 1 such as 1e-5",
		"--seed -1":                              "--seed -1, must be a whole number 0 … 1<<64-1",
		"--speed 0":                              "--speed 0, must be a number 1e-06 … 1e+09",
		"--speed 2 --workload zipf":              "--speed 2, goes with a trace, not with --workload",
		"--format xml --trace x":                 "--format xml, must be auto, json, envoy, combined, common, tsv, csv, w3c or words, or a pattern such as '$remote_addr [$time_local]'",
		"--format tsv":                           "--format tsv, goes with --trace only",
		"--trace x --workload zipf":              "--trace with --workload, only one of them may be given",
		"--trace=":                               `--trace "", must not be empty`,
		"--workload zip":                         `--workload "zip": unknown, must be one of uniform, zipf, flash, attack, scan`,
		"--workload zipf:1,keys=0":               `--workload zipf: keys "0", must be a whole number 1 … 1,000,000`,
		"--workload flash:5,crowd=1e9":           `--workload flash: crowd "1e9", must be a whole number 1 … 1,000,000`,
		"--workload attack:3,abusers=x":          `--workload attack: abusers "x", must be a whole number 1 … 1,000,000`,
		"--workload zipf:1,requests=0":           `--workload zipf: requests "0", must be a whole number 1 … 2,000,000`,
		"--workload zipf:1,windows=0":            `--workload zipf: windows "0", must be a whole number 1 … 1000000`,
		"--budget --workload pareto:1,keys=0":    `--workload pareto: keys "0", must be a whole number 1 … 1,000,000`,
		"--json=maybe":                           "--json=maybe, must be true or false",
		"--jsno":                                 "--jsno: no such flag, did you mean --json? See --help",
		"-x":                                     "-x: no such flag, see --help",
		"access.log":                             "report access.log, takes flags only; a trace is given as --trace access.log",
	} {
		t.Run(args, func(t *testing.T) {
			o := command(nil, append([]string{"report"}, strings.Fields(args)...)...)
			assert.Equal(t, 2, o.status)
			assert.Equal(t, "sketchlimit: "+want+"\n", o.err)
			assert.Empty(t, o.out)
		})
	}
}

// TestWrongCommands: the same for tune, check, and what is no command.
func TestWrongCommands(t *testing.T) {
	const limits = "must be a whole number 1 … 2,147,483,647"
	for args, want := range map[string]string{
		"reprot":                              `unknown command "reprot", did you mean report? It must be check or man or report or tune or whatif`,
		"frobnicate":                          `unknown command "frobnicate", must be check or man or report or tune or whatif`,
		"help frobnicate":                     `unknown command "frobnicate", must be check or man or report or tune or whatif`,
		"help report x":                       `unknown command "x", report has none`,
		"help completion x":                   `unknown command "x", must be bash or fish or powershell or zsh`,
		"completion zs":                       `unknown command "zs", did you mean zsh? It must be bash or fish or powershell or zsh`,
		"tune":                                "--keys: is missing, must be given unless --trace is",
		"tune 5e6":                            "tune 5e6, takes flags only; a trace is given as --trace 5e6",
		"tune --kesy 5":                       "--kesy: no such flag, did you mean --keys? See --help",
		"tune --frobnicate":                   "--frobnicate: no such flag, see --help",
		"tune --keys 1e6 --limit 1e400":       "--limit 1e400, " + limits,
		"tune --keys 1e6 --limit NaN":         "--limit NaN, " + limits,
		"tune --keys 1e6 --limit -1":          "--limit -1, " + limits,
		"tune --keys 9 --lowest-limit 0":      "--lowest-limit 0, " + limits,
		"tune --keys 1e6 --requests 5":        "--requests 5, must be at least 1,000,000: each of the keys in a window sends one",
		"tune --keys 1000 --requests 1":       "--requests 1, must be at least 1,000: each of the keys in a window sends one",
		"tune --keys 1e6 --memory 8KiB":       "--memory 8192, must be at least 125000 for 1000000 keys in a window",
		"tune --keys 1e6 --memory 1":          "--memory 1, must be a size of 4 KiB … 1 GiB such as 256KiB",
		"tune --keys 1e6 --memory 1TB":        "--memory 1TB, must be a size of 4 KiB … 1 GiB such as 256KiB",
		"tune --keys 1e6 --window -1m":        "--window -1m, must be a duration 1ms … 640000h such as 30s or 10m",
		"tune --keys 1e6 --window 8766000h":   "--window 8766000h, must be a duration 1ms … 640000h such as 30s or 10m",
		"tune --keys 1e7 --verify":            "--verify: replays 3 windows of all requests, must be at most 2,000,000 of 1,000,000 keys in all",
		"tune --trace x --keys 5 --zipf 1":    "--trace with --zipf, only one of them may be given",
		"report --workload uniform,keys=1e8":  "--workload: keys 100,000,000, must be at most 1,000,000",
		"report --workload scan,requests=1e9": "--workload: requests 1,000,000,000, must be at most 2,000,000",
		"report --keys 1e8 --limit 1":         "a limiter for 100,000,000 keys: takes 805 MiB, must be at most 64 MiB to be replayed",
		"report --budget --burst 5":           "--budget with --algorithm, --sub-windows or --burst, its windows are fixed",
		"check":                               "check: FILE is missing, must be at least 1",
		"man":                                 "man: 0 directories, must be 1",
	} {
		assert.Equal(t, output{2, "", "sketchlimit: " + want + "\n"}, command(nil, strings.Fields(args)...), args)
	}
}

func TestFailures(t *testing.T) {
	folder := t.TempDir()
	wrong := filepath.Join(folder, "wrong.txt")
	require.NoError(t, os.WriteFile(wrong, []byte("just\nwords\n"), 0o600))
	empty := filepath.Join(folder, "empty.tsv")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	csv, objects := filepath.Join(folder, "trace.csv"), filepath.Join(folder, "trace.json")
	require.NoError(t, os.WriteFile(csv, []byte("time,ip\nsoon,a\n"), 0o600))
	require.NoError(t, os.WriteFile(objects, []byte("{\"time\":1}\n"), 0o600))
	missing := filepath.Join(folder, "missing", "file")

	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"no such trace":   {[]string{"--trace", missing}, 1, missing + ": no such file or directory"},
		"empty trace":     {[]string{"--trace", empty}, 2, empty + ": is empty"},
		"wrong trace":     {[]string{"--trace", wrong}, 2, wrong + ": no usable line, must be json, envoy, combined, common, tsv, csv, w3c or words; line 1: in another format: \"just\""},
		"wrong format":    {[]string{"--trace", wrong, "--format", "tsv"}, 2, wrong + ": no usable line, must be tsv; line 1: no tab: \"just\""},
		"folder as trace": {[]string{"--trace", folder}, 1, folder + ": is a folder, must be a file"},
		"CSV":             {[]string{"--trace", csv}, 2, csv + ": CSV, but no time of 1995 … 2100 can be read in `time`: \"soon\"; --time names another field, and --format can describe the whole line in a pattern, as '%{%d/%m/%Y %H:%M:%S}t,%a,%r' for a time, an address and a request"},
		"JSON":            {[]string{"--trace", objects}, 2, objects + ": JSON, but no time of 1995 … 2100 can be read in `time`: \"1\"; --time names a field to take as it is"},
		"no such folder":  {[]string{"--html", missing}, 1, "--html " + missing + ": there is no folder " + filepath.Dir(missing)},
		"page a folder":   {[]string{"--html", folder}, 1, "--html " + folder + ": is a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			o := command(nil, append([]string{"report"}, c.args...)...)
			assert.Equal(t, c.status, o.status)
			assert.Equal(t, "sketchlimit: "+c.want+"\n", o.err)
			assert.Empty(t, o.out)
		})
	}
}

// TestHelp: every flag comes with an example, and no line is wider than the tables.
func TestHelp(t *testing.T) {
	o := command(nil, "report", "--help")
	require.Equal(t, 0, o.status)
	newReport().Flags().VisitAll(func(f *pflag.Flag) {
		assert.Contains(t, o.out, "e.g. --"+f.Name, f.Name)
	})
	for line := range strings.Lines(o.out) {
		assert.LessOrEqual(t, len([]rune(line)), pageWidth+1, line)
	}
	assert.Equal(t, 0, command(nil).status)
	assert.Contains(t, command(nil).out, "report")
}

// TestExampleValues: every example of the help texts is accepted.
func TestExampleValues(t *testing.T) {
	newReport().Flags().VisitAll(func(f *pflag.Flag) {
		_, example, _ := strings.Cut(f.Usage, "e.g. --"+f.Name)
		value := strings.TrimSpace(example)
		if f.Value.Type() != "bool" {
			assert.NoError(t, f.Value.Set(value), f.Name)
		}
	})
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		shareText(0.39):            "39 %",
		shareText(0.0736):          "7.4 %",
		shareText(0.0017):          "0.17 %",
		shareText(0.00066):         "6.6e-4",
		shareText(0):               "0",
		shareText(-3.6e-6):         "−3.6e-6",
		resolved(0, 269_817):       "< 3.7e-6",
		resolved(0.5, 4):           "50 %",
		decimal(183.2):             "183",
		decimal(0.224):             "0.22",
		decimal(-2):                "−2.0",
		bytesText(65192):           "64 KiB",
		bytesText(6 << 20):         "6 MiB",
		span(58*minute + 57*1e9):   "58m57s",
		span(10 * minute):          "10m",
		span(2 * 60 * minute):      "2h",
		span(188*24*60*minute + 1): "188d 0h",
		span(1_234_567):            "1.234567ms",
	} {
		assert.Equal(t, want, got)
	}
}

const minute = 60 * 1e9
