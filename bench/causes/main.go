// Command causes tells why what tune.Predict says from a histogram of one window differs from what replays of recorded
// traffic measure. It takes one property at a time away from the traffic or from the plan, and prints by what factor
// the rates change.
//
//	go run ./bench/causes -data FOLDER
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/tune"
)

// speeds are those of traces whose requests lie hours apart.
var speeds = map[string]float64{"aws_honeypot": 10_000, "reconstructr_sessions": 1000}

func main() {
	folder := flag.String("data", "", "`FOLDER` with traces")
	match := flag.String("only", "", "traces whose `NAME` contains it")
	flag.Parse()
	tables(os.Stdout, *folder, *match, []time.Duration{time.Minute, 10 * time.Minute}, []int{5, 20, 100})
}

// change takes something away from a recorded scenario.
type change struct {
	name  string
	apply func(*scenario)
}

// alone are the causes one by one.
var alone = []change{
	{"fullest by keys", (*scenario).heaviestWindow},
	{"shards", (*scenario).oneShard},
	{"buckets", (*scenario).largeTable},
	{"table", (*scenario).noTable},
	{"windows differ", (*scenario).fullestOnly},
	{"keys change", (*scenario).twins},
	{"keys stay", (*scenario).newKeys},
	{"retries", (*scenario).noRetries},
	{"bursts", (*scenario).shuffled},
	{"bursts, uneven", (*scenario).even},
	{"two generations", (*scenario).oneGeneration},
	{"first window", (*scenario).settled},
}

// steps lead from the recorded traffic to the traffic that the prediction assumes, each from the one before.
var steps = []change{
	{"bursts", (*scenario).shuffled},
	{"uneven", (*scenario).even},
	{"unlike neighbours", func(s *scenario) { s.even(); s.strangers() }},
	{"keys change", func(s *scenario) { s.even(); s.twins() }},
	{"other windows", func(s *scenario) { s.even(); s.fullestOnly() }},
}

// rates are told apart by their index.
var rates = [2]string{"false denials", "withheld"}

// tables prints two tables for each rate: the steps, whose factors multiply to the gap between what is measured and
// what is predicted, and the causes one by one.
func tables(out io.Writer, folder, match string, windows []time.Duration, limits []int) {
	var byStep, byCause [len(rates)]strings.Builder
	for _, file := range must(filepath.Glob(filepath.Join(folder, "*.tsv*"))) {
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		if !strings.Contains(name, match) {
			continue
		}
		requests := read(file, name)
		for _, window := range windows {
			for _, limit := range limits {
				s, ok := recorded(requests, window, limit)
				if !ok {
					fmt.Fprintf(os.Stderr, "%s, %v, limit %d: no plan wrongs %d keys below its cliff\n", name, window, limit, wronged)
					continue
				}
				was := s.judge()
				stepped, changed := s.judges(was, steps), s.judges(was, alone)
				head := fmt.Sprintf("| %s | %s | %d |", name, strings.TrimSuffix(window.String(), "0s"), limit)
				for i := range rates {
					s.stepRow(&byStep[i], head, i, was, stepped)
					causeRow(&byCause[i], head, i, was, changed)
				}
			}
		}
	}
	for i, rate := range rates {
		header(out, rate, "memory", "shards", "keys", "measured", "predicted", "gap", "load", steps, "left", "seeds without")
		fmt.Fprintln(out, byStep[i].String())
		header(out, rate, alone)
		fmt.Fprintln(out, byCause[i].String())
	}
}

// header prints the names of columns behind the first three.
func header(out io.Writer, rate string, columns ...any) {
	names := []string{rate, "window", "limit"}
	for _, c := range columns {
		if changes, ok := c.([]change); ok {
			for _, c := range changes {
				names = append(names, c.name)
			}
		} else {
			names = append(names, c.(string))
		}
	}
	fmt.Fprintf(out, "| %s |\n%s|\n", strings.Join(names, " | "), strings.Repeat("|---", len(names)))
}

// stepRow prints a gap, and the factors that it consists of.
func (s *scenario) stepRow(out io.Writer, head string, i int, was outcome, stepped []outcome) {
	measured, predicted := was.measured[i], was.predicted[i]
	fmt.Fprintf(out, "%s %.1f KiB | %d | %.0f | %.1e | %.1e | %s | %.2f |", head, float64(s.memory())/1024, s.plan.Shards, was.keys,
		measured, predicted, short(was.floored(i)/floor(predicted)), s.loadOf(i, measured))
	last := was
	for _, o := range stepped {
		fmt.Fprintf(out, " %s |", short(last.floored(i)/o.floored(i)))
		last = o
	}
	fmt.Fprintf(out, " %s | %d/%d |\n", short(last.floored(i)/floor(predicted)), last.without[i], last.seeds)
}

// causeRow prints by what factor each change alone divides what is measured and, where the prediction is another one
// then, what is predicted.
func causeRow(out io.Writer, head string, i int, was outcome, changed []outcome) {
	fmt.Fprint(out, head)
	for _, o := range changed {
		switch {
		case o.requests == 0 || o == was: // the trace has one window, or there was nothing to take away
			fmt.Fprint(out, " – |")
		case o.predicted == was.predicted:
			fmt.Fprintf(out, " %s |", short(was.floored(i)/o.floored(i)))
		default:
			fmt.Fprintf(out, " %s ÷ %s |", short(was.floored(i)/o.floored(i)), short(floor(was.predicted[i])/floor(o.predicted[i])))
		}
	}
	fmt.Fprintln(out)
}

// floor keeps predictions that mean "never" from ruling a ratio.
func floor(predicted float64) float64 { return max(predicted, 1e-12) }

// short prints a factor with about two digits.
func short(factor float64) string {
	switch {
	case factor < 0.995 || factor >= 9995:
		return fmt.Sprintf("%.2g", factor)
	case factor < 9.95:
		return fmt.Sprintf("%.1f", factor)
	}
	return fmt.Sprintf("%.0f", factor)
}

func read(file, name string) []accuracy.Request {
	f := must(os.Open(file))
	defer f.Close()
	source := must(accuracy.ReadTrace(f, name, accuracy.Auto))
	if speed, ok := speeds[name]; ok {
		source = must(source.Speed(speed))
	}
	return slices.Collect(source.Requests())
}

// wronged is how many keys a limiter is to wrong in the mean, for rates to mean something.
const wronged = 20

// recorded returns a trace under the largest plan that wrongs enough keys: the one that tune.Plan makes for the
// histogram of the fullest window, or less of it. It tells whether there is one.
func recorded(requests []accuracy.Request, window time.Duration, limit int) (*scenario, bool) {
	s := &scenario{requests: requests, window: window, goal: tune.Goal{Limit: limit, FalseDenialRate: 1e-5}}
	s.sample = histogram(s.fullest(keys))
	plan, _, err := tune.Plan(s.traffic(), s.goal)
	if err != nil {
		log.Fatal(err)
	}
	for s.plan = plan; ; {
		o := s.measure(4)
		if o.keys >= wronged {
			return s, o.measured[0] < 0.1
		}
		before := s.plan
		less(&s.plan.Width, 64/s.plan.CellBits)
		less(&s.plan.HeavyEntries, 16)
		less(&s.plan.BloomBytes, 64)
		if s.plan == before {
			return nil, false
		}
	}
}

// less takes a tenth off, at least one step, and leaves one step.
func less(n *int, step int) {
	if *n > step {
		*n = max(1, int(0.9*float64(*n))/step) * step
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
