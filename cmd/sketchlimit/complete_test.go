package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/accuracy"
)

func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"report --algorithm ": "sliding\nfixed\nbucket\n:4\n",
		"tune --algorithm ":   "sliding\nfixed\nbucket\n:4\n",
		"report --format ":    "auto\njson\nenvoy\ncombined\ncommon\ntsv\ncsv\nw3c\nwords\n:4\n",
		"report --workload ":  "uniform\nzipf:1.0\nflash:5\nattack:3\nscan:0.9\nlognormal:1\npareto:1.2\n:6\n",
		"report --trace ":     ":0\n", // files
		"tune --html ":        ":0\n",
		"tune --limit ":       ":4\n", // nothing
		"report ":             ":4\n",
		"check ":              "yaml\n:8\n", // files of that kind
		"man ":                ":16\n",      // folders
		"tune --keys 5 --zip": "--zipf\t`EXPONENT` by which some keys come more often than others (default 0: all alike)\n:4\n",
	} {
		o := command(nil, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		require.Equal(t, 0, o.status, args)
		assert.Equal(t, want, o.out, args)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		o := command(nil, "completion", shell)
		require.Equal(t, 0, o.status, o.err)
		assert.Contains(t, o.out, "sketchlimit")
	}
	for _, args := range [][]string{{"completion"}, {"help", "completion"}, {"help", "completion", "zsh"}} {
		o := command(nil, args...)
		require.Equal(t, 0, o.status, o.err)
		assert.Contains(t, o.out, "Generate the autocompletion script for ", args)
	}
}

// TestWorkloadExamples: what help texts and shells offer can be replayed.
func TestWorkloadExamples(t *testing.T) {
	for _, spec := range accuracy.Workloads() {
		w, err := accuracy.ParseWorkload(spec, accuracy.Workload{Limit: 100})
		require.NoError(t, err)
		assert.NoError(t, boundWorkload(w), spec)
	}
	for _, spec := range accuracy.CostKinds() {
		c, err := accuracy.ParseCosts(spec, accuracy.Costs{})
		require.NoError(t, err)
		assert.NoError(t, boundCosts(c), spec)
	}
}

// TestManualPages: every command has one, with its flags and examples.
func TestManualPages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man1")
	require.Equal(t, output{}, command(nil, "man", folder))
	for name, want := range map[string]string{
		"sketchlimit.1": "sketchlimit-report(1)", "sketchlimit-report.1": `\fB--workload\fP`, "sketchlimit-tune.1": "sketchlimit tune --keys",
		"sketchlimit-check.1": "sketchlimit check rules.yaml", "sketchlimit-man.1": "DIRECTORY",
	} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		assert.Contains(t, string(text), want, name)
	}
}
