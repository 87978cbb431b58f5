package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// TestTuneCode: the statement compiles, and the limiter it makes has the plan of --json.
func TestTuneCode(t *testing.T) {
	args := []string{"tune", "--keys", "2000", "--limit", "20", "--memory", "16KiB"}
	o := command(nil, args...)
	require.Equal(t, 0, o.status, o.err)
	for _, title := range []string{"The plan\n═", "What to expect\n═"} {
		assert.Contains(t, o.out, title)
	}
	at := strings.Index(o.out, "limiter, err := ")
	require.Positive(t, at)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(`package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

func main() {
	`+o.out[at:]+`
	if err != nil {
		panic(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(limiter.Plan())
}
`), 0o600))
	made, err := exec.Command("go", "run", file).Output()
	require.NoError(t, err)
	o = command(nil, append(args, "--json")...)
	require.Equal(t, 0, o.status, o.err)
	var plan sketchlimit.Plan
	require.NoError(t, json.Unmarshal([]byte(o.out), &plan))
	require.NotNil(t, plan.Forecast)
	assert.JSONEq(t, o.out, string(made))
}

func TestTuneWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                      "--keys: is missing, must be given unless --trace is",
		"--keys 0":                              "--keys 0, must be a whole number 1 … 2,147,483,647",
		"--keys 9 --withheld-share 1":           "--withheld-share 1, must be a number 1e-12 … 0.5",
		"--keys 9 --one-hit 1":                  "--one-hit 1, must be 0 … below 1",
		"--trace x --zipf 1":                    "--trace with --zipf, only one of them may be given",
		"--keys 9 --sub-windows 61":             "--sub-windows 61, must be a whole number 1 … 60",
		"--keys 9 --window 1ms --sub-windows 2": "--sub-windows 2, must leave at least 1ms each of --window 1ms",
		"--keys 9 --algorithm fixed --sub-windows 2": "--sub-windows 2, goes with --algorithm sliding only",
		"--keys 100 --abusers 1 --requests 5":        "--requests 5, must be at least 30000 for 1 × 100 abusers at 3 times the limit of 100",
		"x":                                          "tune x, takes flags only; a trace is given as --trace x",
	} {
		o := command(nil, append([]string{"tune"}, strings.Fields(args)...)...)
		assert.Equal(t, output{2, "", "sketchlimit: " + want + "\n"}, o, args)
	}
}

// TestFullest: of the windows of a minute the second has the most keys; costs count.
func TestFullest(t *testing.T) {
	in := strings.NewReader("0\ta\n1\ta\n60\tb\n61\tc\t4\n62\tb\n120\tb\n")
	u := tuning{window: time.Minute, trace: "-", given: func(flag string) bool { return flag == "trace" }}
	require.NoError(t, u.readTrace(t.Context(), in))
	assert.Equal(t, sketchlimit.Traffic{Keys: 2, Sample: []int{2, 4}}, u.traffic)
}

func TestInGo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "time.Minute", 48 * time.Hour: "48 * time.Hour", 90 * time.Second: "90 * time.Second", 1500001: "1500001 * time.Nanosecond",
	} {
		assert.Equal(t, want, inGo(d))
	}
}

// TestTuneHelp: every flag comes with an example that is accepted, and no line is wider than the tables.
func TestTuneHelp(t *testing.T) {
	o := command(nil, "tune", "--help")
	require.Equal(t, 0, o.status)
	for line := range strings.Lines(o.out) {
		assert.LessOrEqual(t, len([]rune(line)), pageWidth+1, line)
	}
	newTune().Flags().VisitAll(func(f *pflag.Flag) {
		_, example, found := strings.Cut(f.Usage, "e.g. --"+f.Name)
		assert.True(t, found, f.Name)
		if f.Value.Type() != "bool" {
			assert.NoError(t, f.Value.Set(strings.TrimSpace(example)), f.Name)
		}
	})
}
