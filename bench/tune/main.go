// Command tune holds what sketchlimit.Predict says of limiters against what replays of
// the same traffic show, at full size, and writes the table of docs/tuning.md:
//
//	go run ./bench/tune -write docs/tuning.md
//
// It takes about an hour. With -keys 1e5 it takes minutes and says about the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
)

// mostRequests bounds a window: where abusers send more, there are fewer keys.
const mostRequests = 12e6

const windows = 3 // of which the first is not counted

type load struct {
	name    string
	traffic sketchlimit.Traffic // of one key
}

var loads = []load{
	{"uniform", sketchlimit.Traffic{}},
	{"Zipf 0.7", sketchlimit.Traffic{Exponent: 0.7}},
	{"Zipf 1.0", sketchlimit.Traffic{Exponent: 1}},
	{"Zipf 1.2", sketchlimit.Traffic{Exponent: 1.2}},
	{"0.1 % abusers", sketchlimit.Traffic{Abusers: 0.001}},
	{"1 % abusers", sketchlimit.Traffic{Abusers: 0.01}},
	{"5 % abusers", sketchlimit.Traffic{Abusers: 0.05}},
	{"scan", sketchlimit.Traffic{Exponent: 1, OneHit: 0.9}},
}

func main() {
	log.SetFlags(0)
	keys := flag.Float64("keys", 1e6, "`keys` of a window")
	only := flag.String("only", "", "the loads whose `name` begins so")
	write := flag.String("write", "", "put the table into `FILE`, between its markers")
	flag.Parse()
	out := new(strings.Builder)
	fmt.Fprintf(out, "%s, %s/%s, %d CPUs, %s: `go run ./bench/tune -keys %g`\n\n", runtime.Version(), runtime.GOOS,
		runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"), *keys)
	fmt.Fprintln(out, "| load | limit | keys | bytes a key | false denials: predicted | measured | ratio | withheld: predicted | measured | ratio |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|")
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.TokenBucket} {
		for _, limit := range []int{5, 100, 1000} {
			for _, l := range loads {
				if l.name = named(l, algorithm); strings.HasPrefix(l.name, *only) && l.name != "" {
					goal := sketchlimit.Goal{Limit: limit, Algorithm: algorithm, FalseDenialRate: 1e-4}
					for _, row := range rows(l, goal, *keys) {
						fmt.Fprintln(out, row)
						log.Println(row)
					}
				}
			}
		}
	}
	if *write == "" {
		fmt.Print(out)
		return
	}
	if err := between(*write, out.String()); err != nil {
		log.Fatal(err)
	}
}

// named returns the name of a row, none where a bucket is not measured.
func named(l load, a sketchlimit.Algorithm) string {
	switch {
	case a != sketchlimit.TokenBucket:
		return l.name
	case l.name == "uniform" || l.name == "Zipf 1.0" || l.name == "1 % abusers":
		return "bucket, " + l.name
	}
	return ""
}

// rows measures plans of two sizes: those whose predicted false-denial rate and withheld share are
// closest to 1e-4.
func rows(l load, goal sketchlimit.Goal, keys float64) []string {
	t, limit := l.traffic, goal.Limit
	keys = math.Min(keys, mostRequests/(5+3*t.Abusers*float64(limit)))
	t.Keys = int(keys)
	t.Requests = 5*t.Keys + 3*limit*int(t.Abusers*keys)
	tuned, err := sketchlimit.Tune(t, goal)
	if err != nil {
		log.Fatal(err)
	}
	var rows []string
	for _, rate := range []func(e sketchlimit.Expected) float64{
		func(e sketchlimit.Expected) float64 { return e.FalseDenialRate },
		func(e sketchlimit.Expected) float64 { return e.WithheldShare },
	} {
		plan, forecast := sized(t, goal, tuned, rate)
		rows = append(rows, measure(l.name, t, goal, plan, forecast))
	}
	return rows
}

// sized changes the number of shards until the rate is about 1e-4.
func sized(t sketchlimit.Traffic, g sketchlimit.Goal, p sketchlimit.Plan, rate func(sketchlimit.Expected) float64) (sketchlimit.Plan, sketchlimit.Forecast) {
	lo, hi := 1, 2*p.Shards
	for lo < hi {
		p.Shards = (lo + hi) / 2
		f, err := sketchlimit.Predict(t, g, p)
		if err != nil {
			log.Fatal(err)
		}
		if rate(f.Stated()) > 1e-4 {
			lo = p.Shards + 1
		} else {
			hi = p.Shards
		}
	}
	p.Shards = lo
	f, err := sketchlimit.Predict(t, g, p)
	if err != nil {
		log.Fatal(err)
	}
	return p, f
}

func measure(name string, t sketchlimit.Traffic, goal sketchlimit.Goal, plan sketchlimit.Plan, f sketchlimit.Forecast) string {
	limit := goal.Limit
	w := accuracy.Workload{Kind: accuracy.Uniform, Keys: t.Keys, Requests: windows * t.Requests, Windows: windows, Seed: 1}
	switch {
	case t.OneHit > 0:
		w.Kind, w.OneHit, w.Exponent = accuracy.Scan, t.OneHit, t.Exponent
	case t.Abusers > 0:
		w.Kind, w.Limit, w.Factor, w.Abusers = accuracy.Attack, limit, 3, int(t.Abusers*float64(t.Keys))
		w.Keys -= w.Abusers
	case t.Exponent > 0:
		w.Kind, w.Exponent = accuracy.Zipf, t.Exponent
	}
	src, err := w.Source()
	if err != nil {
		log.Fatal(err)
	}
	r, err := accuracy.Replay(context.Background(), src, sketchlimit.Config{
		Limit: limit, Window: time.Minute, Algorithm: goal.Algorithm, Plan: &plan, Seed: 1,
	}, accuracy.Options{WarmUp: 1})
	if err != nil {
		log.Fatal(err)
	}
	e := f.Stated()
	return fmt.Sprintf("| %s | %d | %d | %.2f | %s | %s |", name, limit, t.Keys, float64(f.MemoryBytes)/float64(t.Keys),
		compared(e.FalseDenialRate, r.FalseDenialRate, r.InnocentRequests), compared(e.WithheldShare, r.WithheldShare, r.OracleAdmittedUnits))
}

// compared is predicted, measured and measured by predicted; what was not seen once in n is 0.
func compared(predicted, measured float64, n uint64) string {
	if measured <= 0 {
		return fmt.Sprintf("%.1e | 0 of %.0e | ", predicted, float64(n))
	}
	return fmt.Sprintf("%.1e | %.1e | %.2g", predicted, measured, measured/predicted)
}

// between puts text between the markers of a file.
func between(file, text string) error {
	const begin, end = "<!-- table -->\n", "<!-- end of table -->"
	all, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(all), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s: no markers %q and %q", file, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+text+"\n"+end+after), 0o644)
}
