// Command floor holds decisions against their floors. It runs benchmarks of package
// bench again and again, each time in a process of its own, and prints medians: of the
// times, and of their ratios within one process.
//
//	go run ./bench/floor -turns 20
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	uniform = "algorithm=%s/dist=uniform/keys=1e+06/goroutines=%d"
	denied  = "algorithm=sliding/dist=hot-denied/goroutines=1"
	control = "BenchmarkControl"
)

var (
	memories   = []string{"4MiB", "64MiB"}
	goroutines = []int{1, 2}
	calls      = []string{"Allow", "Take"}
)

// contestant is a row of the table: a name, and that of its benchmark in an amount of
// memory.
type contestant struct {
	name  string
	bench func(memory string, goroutines int) string
}

// floorRow is the first row, which the others are held against.
var floorRow = contestant{"floor", func(memory string, goroutines int) string {
	return fmt.Sprintf("BenchmarkFloor/dist=uniform/keys=1e+06/memory=%s/goroutines=%d", memory, goroutines)
}}

func rows() []contestant {
	all := []contestant{floorRow}
	for _, algorithm := range []string{"sliding", "bucket"} {
		for _, call := range calls {
			all = append(all, contestant{call + ", " + algorithm, func(memory string, goroutines int) string {
				return fmt.Sprintf("BenchmarkTake/impl=sketch/call=%s/memory=%s/"+uniform, call, memory, algorithm, goroutines)
			}})
		}
	}
	return all
}

func hot(call string) string { return "BenchmarkTakeHot/impl=sketch/call=" + call + "/" + denied }

// names are the benchmarks that the tables need.
func names() []string {
	all := []string{control}
	for _, call := range calls {
		all = append(all, hot(call))
	}
	for _, r := range rows() {
		for _, memory := range memories {
			for _, p := range goroutines {
				all = append(all, r.bench(memory, p))
			}
		}
	}
	return all
}

// pattern is what -test.bench takes to run benchmarks, and no others.
func pattern(names []string) string {
	var all []string
	for _, name := range names {
		parts := strings.Split(name, "/")
		for i, part := range parts {
			parts[i] = "^" + regexp.QuoteMeta(part) + "$"
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return strings.Join(all, "|")
}

// turn is what the benchmarks of one process took, ns, by name.
type turn map[string]float64

var result = regexp.MustCompile(`(?m)^(Benchmark\S*?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)

// parse reads what a process printed. It must have run all benchmarks.
func parse(output []byte) (turn, error) {
	t := turn{}
	for _, m := range result.FindAllSubmatch(output, -1) {
		ns, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return nil, err
		}
		t[string(m[1])] = ns
	}
	for _, name := range names() {
		if t[name] == 0 {
			return nil, fmt.Errorf("no result of %s in:\n%s", name, output)
		}
	}
	return t, nil
}

// median returns the middle of what a function makes of the turns.
func median(turns []turn, of func(turn) float64) float64 {
	values := make([]float64, len(turns))
	for i, t := range turns {
		values[i] = of(t)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// ratio is the median of the times of one benchmark over those of another in the same
// process.
func ratio(turns []turn, a, b string) float64 {
	return median(turns, func(t turn) float64 { return t[a] / t[b] })
}

// tables writes what the turns say.
func tables(turns []turn) string {
	var b bytes.Buffer
	fmt.Fprint(&b, "| a million uniform keys |")
	for _, memory := range memories {
		fmt.Fprintf(&b, " %s, ns | × floor | one goroutine / two |", memory)
	}
	fmt.Fprintf(&b, "\n|---%s|\n", strings.Repeat("|---", 3*len(memories)))
	for _, r := range rows() {
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, memory := range memories {
			one, two := r.bench(memory, 1), r.bench(memory, 2)
			fmt.Fprintf(&b, " %.1f | %.2f | %.2f |", median(turns, func(t turn) float64 { return t[one] }),
				ratio(turns, one, floorRow.bench(memory, 1)), ratio(turns, one, two))
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprint(&b, "\n| a key that is denied over and over | ns | × control |\n|---|---|---|\n")
	for _, name := range []string{control, hot("Allow"), hot("Take")} {
		short := strings.TrimPrefix(strings.TrimSuffix(name, "/"+denied), "BenchmarkTakeHot/impl=sketch/call=")
		fmt.Fprintf(&b, "| %s | %.1f | %.2f |\n", strings.ToLower(strings.TrimPrefix(short, "Benchmark")),
			median(turns, func(t turn) float64 { return t[name] }), ratio(turns, name, control))
	}
	return b.String()
}

func run(turns, decisions int) error {
	dir, err := os.MkdirTemp("", "floor")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "github.com/sketchlimit/sketchlimit/bench").CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	var all []turn
	for range turns {
		out, err := exec.Command(binary, "-test.run", "^$", "-test.bench", pattern(names()),
			"-test.benchtime", fmt.Sprint(decisions, "x")).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		t, err := parse(out)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	fmt.Print(tables(all))
	return nil
}

func main() {
	log.SetFlags(0)
	turns := flag.Int("turns", 9, "processes, one after another")
	decisions := flag.Int("decisions", 4_000_000, "decisions of one benchmark")
	flag.Parse()
	if err := run(max(1, *turns), max(1, *decisions)); err != nil {
		log.Fatal("bench/floor: ", err)
	}
}
