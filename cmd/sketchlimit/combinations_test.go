package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// asCommand is the environment variable that makes the test binary run as the command, so
// that its peak of memory is its own.
const asCommand = "SKETCHLIMIT_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	sayEvery = time.Hour // what commands tell of their progress depends on the machine
	os.Exit(m.Run())
}

const (
	mostResident = 1 << 30          // bytes
	neverEnds    = 10 * time.Minute // on a busy machine as well
)

// combination is a run of the command, and what became of it.
type combination struct {
	args     []string
	status   int
	out, err string
	took     time.Duration // of processors
	resident int           // bytes at most
}

func (c *combination) String() string {
	text := fmt.Sprintf("%6.1f s %5d MiB  status %d  %s", c.took.Seconds(), c.resident>>20, c.status, strings.Join(c.args, " "))
	if c.status > 0 {
		text += "\n" + lastLine(c.err)
	}
	return text
}

// TestCombinations runs every command with flags drawn at random.
// SKETCHLIMIT_COMBINATIONS says how many of each command, see make combinations; time
// is reported, since it depends on the machine.
func TestCombinations(t *testing.T) {
	predicting(t)
	n, full := 4, false
	if text := os.Getenv("SKETCHLIMIT_COMBINATIONS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
		full = true
	}
	for _, c := range newRoot().Commands() {
		if c.Name() == "man" { // it has no work of its own
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			require.Contains(t, drawn, c.Name(), "values of a new command")
			d, all := newDealer(t, full), []*combination{}
			for range n {
				one := &combination{args: d.args(t, c)}
				one.run(t, d.files["TRACE"])
				if full {
					t.Log(one)
				}
				all = append(all, one)
			}
			most(t, "time of all processors", all, func(c *combination) int { return int(c.took) })
			most(t, "memory", all, func(c *combination) int { return c.resident })
		})
	}
}

// most lists the ten combinations that took the most.
func most(t *testing.T, what string, all []*combination, of func(*combination) int) {
	slices.SortFunc(all, func(a, b *combination) int { return cmp.Compare(of(b), of(a)) })
	for _, c := range all[:min(10, len(all))] {
		t.Logf("most %s: %s", what, c)
	}
}

func (c *combination) run(t *testing.T, stdin string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), neverEnds)
	defer cancel()
	var out, errOut bytes.Buffer
	p := exec.CommandContext(ctx, os.Args[0], c.args...)
	if slices.Contains(c.args, "-") {
		trace, err := os.Open(stdin)
		require.NoError(t, err)
		defer trace.Close()
		p.Stdin = trace
	}
	p.Env = append(os.Environ(), asCommand+"=1")
	p.Stdout, p.Stderr = &out, &errOut
	_ = p.Run()
	require.NoError(t, ctx.Err(), "never ends: %s", c)
	c.status, c.out, c.err = p.ProcessState.ExitCode(), out.String(), errOut.String()
	c.took = p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	c.resident = int(p.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS == "linux" {
		c.resident <<= 10
	}
	if wrong := c.wrong(); wrong != "" {
		t.Errorf("%s: %s\n%.2000s\n%.2000s", c, wrong, c.out, c.err)
	}
}

var (
	broken = regexp.MustCompile(`(?i)\b(NaN|Inf|infinity)\b|[^a-z]−\d|panic|goroutine`)
	share  = regexp.MustCompile(`([\d.]+) %`)
	stated = regexp.MustCompile(`for ([\d,]+) keys? `)
)

// wrong says what is not as it must be, "" if nothing is.
func (c *combination) wrong() string {
	lines := strings.Count(c.err, "\n")
	switch {
	case c.resident > mostResident:
		return "more than a gigabyte"
	case c.status < 0 || c.status > 2:
		return "exit status"
	case c.status > 0 && (lastLine(c.err) == "" || c.out != ""):
		return "a failure is one line on standard error"
	case c.status > 0 && lines != 1 && strings.Count(c.err, "sketchlimit: ") != lines:
		return "more than one line"
	case c.status > 0:
		return ""
	case broken.MatchString(strings.ReplaceAll(c.out, "<−", "")):
		return "says " + broken.FindString(c.out)
	}
	if s := stated.FindStringSubmatch(c.out); c.args[0] == "tune" && s != nil && c.flag("keys") != "" && !slices.Contains(c.args, "--json") {
		if keys, _ := count(1, 1e18)(c.flag("keys")); integer(keys) != s[1] {
			return "states other keys"
		}
	}
	for _, p := range share.FindAllStringSubmatch(c.out, -1) {
		if v, _ := strconv.ParseFloat(p[1], 64); v > 100 && c.args[0] != "check" {
			return "a share of " + p[0]
		}
	}
	return ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// flag is the value of a flag, the last one if there are several.
func (c *combination) flag(name string) (value string) {
	for i, arg := range c.args[:len(c.args)-1] {
		if arg == "--"+name {
			value = c.args[i+1]
		}
	}
	return value
}

// dealer draws combinations, the same ones every time.
type dealer struct {
	*rand.Rand
	full  bool // large ones as well
	files map[string]string
}

func newDealer(t *testing.T, full bool) *dealer {
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	r := rand.New(rand.NewPCG(1, 24))
	var tsv, millis, csv, log strings.Builder
	for i := range 20_000 {
		key := int(2000 * r.Float64() * r.Float64())
		at := time.Unix(1_700_000_000, 0).Add(time.Duration(i) * 10 * time.Millisecond).UTC()
		fmt.Fprintf(&tsv, "%.3f\tk%d\n", float64(at.UnixMilli())/1e3, key)
		fmt.Fprintf(&millis, "%d\tk%d\n", at.UnixMilli(), key)
		fmt.Fprintf(&csv, "%d,k%d\n", at.Unix(), key)
		fmt.Fprintf(&log, "10.0.%d.%d - - [%s] \"GET / HTTP/1.1\" 200 5\n", key/256, key%256, at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	return &dealer{r, full, map[string]string{
		"TRACE": write("trace.tsv", tsv.String()), "MILLIS": write("millis.tsv", millis.String()), "CSV": write("trace.csv", "time,key\n"+csv.String()),
		"LOG": write("access.log", log.String()), "EMPTY": write("empty", ""), "MISSING": filepath.Join(folder, "missing"), "FOLDER": folder,
		"PAGE": filepath.Join(folder, "page.html"),
	}}
}

// args draws what a command is given.
func (d *dealer) args(t *testing.T, c *cobra.Command) []string {
	args := []string{c.Name()}
	switch c.Name() {
	case "check":
		return append(args, d.rules(t))
	case "whatif":
		d.files["RULES"] = d.rules(t)
		logs := d.kind(traces)
		args = append(args, d.file(logs[d.IntN(len(logs))]))
	}
	known, given := drawn[c.Name()], map[string]string{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		v, ok := known[f.Name]
		require.True(t, ok, "values of --%s of %s", f.Name, c.Name())
		from := d.kind(v)
		if often := map[bool]float64{true: 0.9, false: 0.25}[f.Name == "keys" && c.Name() == "tune"]; d.Float64() < often && len(from) > 0 {
			given[f.Name] = from[d.IntN(len(from))]
		}
	})
	if d.Float64() < 0.85 {
		agree(c.Name(), given)
	}
	if !d.full {
		lighten(c.Name(), given)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := d.file(given[name])
		if c.Flags().Lookup(name).Value.Type() == "bool" {
			args = append(args, "--"+name+"="+value)
		} else {
			args = append(args, "--"+name, value)
		}
	}
	return args
}

// file is a value, or the file that it names.
func (d *dealer) file(value string) string { return cmp.Or(d.files[value], value) }

// agree takes out flags that contradict others.
func agree(command string, given map[string]string) {
	without := func(when bool, names ...string) {
		for _, name := range names {
			if when {
				delete(given, name)
			}
		}
	}
	has := func(name string) bool { return given[name] != "" }
	without(has("budget") != strings.Contains(given["workload"], "cap="), "budget", "workload")
	without(has("budget"), "algorithm", "sub-windows", "burst", "format", "key", "time", "cost", "speed")
	without(given["algorithm"] != "bucket", "burst")
	without(given["algorithm"] != "" && given["algorithm"] != "sliding", "sub-windows")
	without(has("trace"), "workload", "requests", "zipf", "abusers", "excess", "one-hit", "even", "steady", "verify")
	without(!has("trace") && command != "whatif", "format", "key", "time", "cost")
	without(given["exact"] == "true", "memory", "sample")
	without(!has("rules"), "against")
	without(has("workload"), "speed")
	without(has("memory") && command == "report", "keys", "false-denial-rate")
}

// lighten takes out what makes a combination take long.
func lighten(command string, given map[string]string) {
	delete(given, "html")
	if w := drawn["report"]["workload"]; slices.Contains(strings.Fields(w.extreme), given["workload"]) {
		given["workload"] = strings.Fields(w.usual)[0]
	}
	if command == "report" && given["workload"] == "" && given["trace"] == "" {
		given["trace"] = "TRACE" // and not the one that is carried along
	}
}

// kind draws usual values mostly, and extreme and wrong ones now and then.
func (d *dealer) kind(v values) []string {
	switch p := d.Float64(); {
	case p < 0.02:
		return strings.Fields(v.wrong)
	case p < 0.25:
		return strings.Fields(v.extreme)
	}
	return strings.Fields(v.usual)
}

// rules draws a file of one to forty rules, of which one in five has a mistake.
func (d *dealer) rules(t *testing.T) string {
	pick := func(v values) string {
		from := d.kind(values{v.usual, v.extreme + " " + v.usual, v.usual})
		return from[d.IntN(len(from))]
	}
	most := 4
	if d.full {
		most = 40
	}
	var b strings.Builder
	b.WriteString("domain: drawn\ndescriptors:\n")
	units, wrong := values{"second minute hour", "day 1ms 10m", ""}, d.Float64() < 0.2
	for i := range 1 + d.IntN(most) {
		fmt.Fprintf(&b, "  - {key: k%d, rate_limit: {unit: %s, requests_per_unit: %s", i, pick(units), pick(limits))
		for _, f := range [][]struct {
			name string
			v    values
		}{
			{{"algorithm", values{"sliding_window fixed_window token_bucket", "", ""}}},
			{{"memory", sizes}, {"keys", values{"1000 100000 1000000", "1 2000000000", ""}}},
			{{"keys", values{"1000 100000 1000000", "1 30000000", ""}},
				{"false_denial_rate", values{"1e-3 1e-6", "1e-10", ""}}},
			{{"keys", values{"1000 100000", "1", ""}}, {"units_per_key", values{"2 0.5", "0.01", ""}}},
		}[d.IntN(4)] {
			fmt.Fprintf(&b, ", %s: %s", f.name, pick(f.v))
		}
		b.WriteString("}}\n")
	}
	if wrong {
		b.WriteString("  - {key: wrong, rate_limit: {unit: fortnight, requests_per_unit: 1}}\n")
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}
