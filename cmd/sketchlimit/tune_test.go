package main

import (
	"encoding/json"
	"io"
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
	"github.com/sketchlimit/sketchlimit/tune"
)

// few is traffic that is planned for in a moment.
var few = []string{"tune", "--keys", "2000", "--limit", "20", "--memory", "16KiB"}

// TestTuneCode: the statement compiles, and the limiter it makes has the plan of --json.
func TestTuneCode(t *testing.T) {
	predicting(t)
	crowded := append(few, "--keys", "20000") // so that the rate is above what a limiter is for otherwise
	o := command(nil, crowded...)
	require.Equal(t, 0, o.status, o.err)
	for _, title := range []string{"The plan\n═", "Plans\n═"} {
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
	text, err := exec.Command("go", "run", file).Output()
	require.NoError(t, err)
	var made sketchlimit.Plan
	require.NoError(t, json.Unmarshal(text, &made))

	p := planOf(t, crowded...)
	require.Greater(t, p.Half.Forecast.MemoryBytes, 0)
	require.Greater(t, p.Double.Forecast.MemoryBytes, p.Half.Forecast.MemoryBytes)
	require.Greater(t, p.Plan.FalseDenialRate, 1e-5)
	require.Equal(t, p.Forecast.Stated().FalseDenialRate, p.Plan.FalseDenialRate)
	require.InEpsilon(t, p.Plan.FalseDenialRate, made.FalseDenialRate, 0.005, "three digits")
	require.InEpsilon(t, p.Plan.Keys, made.Keys, 0.005, "three digits")
	made.Keys, made.FalseDenialRate = p.Plan.Keys, p.Plan.FalseDenialRate
	made.SubWindows = p.Plan.SubWindows // 1, which the statement leaves out
	require.Equal(t, p.Plan, made)
}

// TestTuneRepeatsKeys: as many as were stated, though some of them may not come in a
// window.
func TestTuneRepeatsKeys(t *testing.T) {
	predicting(t)
	const size = `^A limiter of [\d.]+ KiB for `
	o := command(nil, append(few, "--requests", "3000")...)
	require.Equal(t, 0, o.status, o.err)
	assert.Regexp(t, size+"2,000 keys in 1m, 20 units each: ", o.out)
	o = command(nil, append(few, "--one-hit", "0.5")...)
	require.Equal(t, 0, o.status, o.err)
	assert.Regexp(t, size+"2,000 keys and those that come once in 1m, 20 units each: ", o.out)
}

// TestTuneAssumes: what a plan assumes stands at its head, with the flags for what was
// not said.
func TestTuneAssumes(t *testing.T) {
	predicting(t)
	file := filepath.Join(t.TempDir(), "plan.html")
	for i, c := range []struct{ args, want string }{
		{"--false-denial-rate 1e-4", "5 requests a key (--requests), no abusers (--abusers), in bursts (--even), " +
			"no headroom (--headroom)."},
		{"--memory 16KiB", "5 requests a key (--requests), no abusers (--abusers), in bursts (--even)."},
		{"--memory 32KiB --lost-share 0.1 --requests 9000 --abusers 0.01 --even --headroom 1.5",
			"4.5 requests a key in all, 1.0 % of the keys abusers of 3 × the limit (--excess), spread over the window, " +
				"headroom up to 1.5 × that."},
		{"--memory 16KiB --abusers 0.01 --excess 5", "5 requests a key (--requests), 1.0 % of the keys abusers of 5 × the " +
			"limit, in bursts (--even)."},
	} {
		args := append(strings.Fields("tune --keys 2000 --limit 20"), strings.Fields(c.args)...)
		if i == 0 { // curves take seconds
			args = append(args, "--html", file)
		}
		o := command(nil, args...)
		require.Equal(t, 0, o.status, o.err)
		assert.Contains(t, strings.Join(strings.Fields(o.out), " "), " bytes a key. Assumed: "+c.want+" Plans ")
		if i == 0 {
			page, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Contains(t, string(page), " bytes a key. Assumed: "+c.want+"</p>")
		}
	}
	o := command(strings.NewReader("0\ta\n60\tb\n60\tc\n"), "tune", "--trace", "-", "--memory", "16KiB")
	require.Equal(t, 0, o.status, o.err)
	assert.NotContains(t, o.out, "Assumed", "a trace says it all")
}

func planOf(t *testing.T, args ...string) (p plans) {
	o := command(nil, append(args, "--json")...)
	require.Equal(t, 0, o.status, o.err)
	require.NoError(t, json.Unmarshal([]byte(o.out), &p))
	return p
}

// TestTunePage: the page has all that is printed, and a curve of each share against
// load and memory.
func TestTunePage(t *testing.T) {
	predicting(t)
	file := filepath.Join(t.TempDir(), "plan.html")
	p := planOf(t, append(few, "--memory", "20KiB", "--html", file)...)
	require.Len(t, p.Loads, 25)
	require.Equal(t, leastLoad, p.Loads[0].Load)
	require.Greater(t, p.Loads[24].Load, p.Forecast.BreakingPoint)
	require.Greater(t, p.Loads[24].FalseDenialRate, 0.1, "beyond the breaking point")
	require.Len(t, p.Sizes, 9)
	require.Equal(t, p.planned, p.Sizes[4])

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	body := string(text)
	assert.Equal(t, 2*len(forms), strings.Count(body, "<svg "))
	assert.Contains(t, body, "<title>sketchlimit plan: 20 KiB</title>")
	assert.Contains(t, body, "limiter, err := sketchlimit.New(")
	assert.Contains(t, body, "<span class=\"hint\" aria-hidden=\"true\">← the code scrolls sideways →</span>\n<pre>")
	assert.Contains(t, body, "</b>the stated traffic: from there on it denies more than one in ten requests of light keys</li>")
	assert.NotContains(t, body, "everybody")
	for _, external := range []string{"http:", "https:", "<script"} {
		assert.NotContains(t, strings.ReplaceAll(body, "http://www.w3.org/", ""), external)
	}
}

// TestTuneBucket: a plan of times has neither Bloom filter nor heavy table, in its code
// neither.
func TestTuneBucket(t *testing.T) {
	predicting(t)
	o := command(nil, append(few, "--algorithm", "bucket", "--burst", "10")...)
	require.Equal(t, 0, o.status, o.err)
	assert.Regexp(t, `table +\d+ lines × \d+ entries`, o.out)
	const bucket = `Limit: +20,\s+Algorithm: sketchlimit.TokenBucket,\s+Burst: +10,\s+`
	assert.Regexp(t, bucket+`Window: +time.Minute,\s+Plan: &sketchlimit.Plan{\s+Shards: 1,\s+Depth: [^{}]*`+bucket+`Keys: `, o.out)
}

// TestTuneVerify: made-up traffic and a trace go through a limiter of the plan.
func TestTuneVerify(t *testing.T) {
	predicting(t)
	p := planOf(t, append(few, "--abusers", "0.01", "--verify")...)
	require.Equal(t, 2000, p.Verified.Keys)
	require.Equal(t, uint64(2*(5*2000+20*3*20)), p.Verified.Requests, "two windows count")
	require.Zero(t, p.Verified.OverAdmissions)
	require.Equal(t, p.Forecast.MemoryBytes, p.Verified.MemoryBytes)

	o := command(strings.NewReader("0\ta\n60\tb\n60\tc\n"), "tune", "--trace", "-", "--memory", "16KiB", "--verify")
	require.Equal(t, 0, o.status, o.err)
	assert.Contains(t, o.out, "Replayed and measured\n═")
	assert.Contains(t, o.out, "standard input: 3 units of 3 keys in 2 windows through")
}

func TestTuneWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                      "--keys: is missing, must be given unless --trace is",
		"--keys 0":                              "--keys 0, must be a whole number 1 … 2,147,483,647",
		"--keys 9 --lost-share 1":               "--lost-share 1, must be a number 1e-12 … 0.5",
		"--keys 9 --one-hit 1":                  "--one-hit 1, must be a number 0 … 0.999999",
		"--trace x --zipf 1":                    "--trace with --zipf, only one of them may be given",
		"--keys 9 --limit 5 --lowest-limit 6":   "--lowest-limit 6, must be 1 … --limit 5",
		"--keys 9 --sub-windows 61":             "--sub-windows 61, must be a whole number 1 … 60",
		"--keys 9 --window 1ms --sub-windows 2": "--sub-windows 2, must leave at least 1ms each of --window 1ms",
		"--keys 9 --algorithm fixed --sub-windows 2": "--sub-windows 2, goes with --algorithm sliding only",
		"--keys 9 --burst 5":                         "--burst 5, goes with --algorithm bucket only",
		"--keys 100 --abusers 1 --requests 5":        "--requests 5, must be at least 30,000: each of the keys in a window sends one, abusers more",
		"--trace x --keys 9 --verify":                "--verify with --trace and --keys, replays the keys of the trace, no other number of them",
		"--keys 9 --zipf 1 --abusers 0.4 --verify":   "--verify: --abusers 0.4, goes with even traffic only, not with --zipf or --one-hit",
		"--keys 9 --abusers 1 --verify":              "--verify: --abusers 1, must leave other keys",
		"--keys 2e9 --verify":                        "--verify: replays 3 windows of all requests, must be at most 2,000,000 of 1,000,000 keys in all",
		"x":                                          "tune x, takes flags only; a trace is given as --trace x",
	} {
		o := command(nil, append([]string{"tune"}, strings.Fields(args)...)...)
		assert.Equal(t, output{2, "", "sketchlimit: " + want + "\n"}, o, args)
	}
}

// TestTuneReadsATrace: keys and costs of all requests.
func TestTuneReadsATrace(t *testing.T) {
	in := strings.NewReader("0\ta\n1\ta\n60\tb\n61\tc\t4\n62\tb\n120\tb\n")
	u := tuning{window: time.Minute, trace: "-", given: func(flag string) bool { return flag == "trace" }}
	_, err := u.readTrace(t.Context(), in, io.Discard)
	require.NoError(t, err)
	want := tune.NewTrace(time.Minute)
	for _, r := range []struct {
		at  int64
		key string
		n   int
	}{{0, "a", 1}, {1, "a", 1}, {60, "b", 1}, {61, "c", 4}, {62, "b", 1}, {120, "b", 1}} {
		want.Add(time.Unix(r.at, 0), r.key, r.n)
	}
	u.traffic.Trace.Add(time.Unix(130, 0), "a", 1) // which numbers the keys for those who add
	want.Add(time.Unix(130, 0), "a", 1)
	assert.Equal(t, want, u.traffic.Trace)
}

func TestInGo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "time.Minute", 48 * time.Hour: "48 * time.Hour", 90 * time.Second: "90 * time.Second", 1500001: "1500001 * time.Nanosecond",
	} {
		assert.Equal(t, want, inGo(d))
	}
}

// TestTuneHelp: every flag comes with an example that is accepted, and no line is wider
// than the tables.
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
