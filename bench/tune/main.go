// Command tune holds what tune.Plan and tune.PredictAt say of limiters, and what
// limiters say of themselves, against replays of the same traffic beside the exact
// algorithm, at full size:
//
//	make bench-tune
//
// writes notes/tables/tuning.md and takes hours. The traces are those of a folder,
// -data. Each row is printed as soon as it is known. The flags -part, -limit and -only
// choose some of them.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strings"
	"time"
)

var parts = []struct {
	name string
	run  func(*bench)
}{{"rates", (*bench).rates}, {"buckets", (*bench).buckets}, {"breaking", (*bench).breakingPoints}, {"live", (*bench).live}, {"memory", (*bench).memory},
	{"arrivals", (*bench).arrivals}, {"costs", (*bench).costs}, {"ranges", (*bench).ranges}, {"traces", (*bench).traces},
	{"days", (*bench).days}}

func main() {
	log.SetFlags(0)
	var b bench
	flag.Float64Var(&b.keys, "keys", 1e6, "`keys` of a window")
	flag.IntVar(&b.limit, "limit", 0, "rates at `limit` only")
	flag.StringVar(&b.load, "only", "", "the loads whose `name` begins so")
	flag.StringVar(&b.algorithm, "algorithm", "", "arrivals for the algorithms whose `name` begins so")
	flag.StringVar(&b.data, "data", "tune/testdata", "the `FOLDER` of traces")
	part := flag.String("part", "", "one `part` only: rates, buckets, breaking, live, memory, arrivals, costs, ranges, traces or days")
	write := flag.String("write", "", "put the tables into `FILE`, between its markers")
	flag.Parse()
	text := new(strings.Builder)
	b.out = io.MultiWriter(text, os.Stdout)
	fmt.Fprintf(b.out, "%s, %s/%s, %d CPUs, %s: `go run ./bench/tune %s`\n", runtime.Version(), runtime.GOOS,
		runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"), strings.Join(os.Args[1:], " "))
	for _, p := range parts {
		if *part == "" || *part == p.name {
			fmt.Fprintln(b.out)
			p.run(&b)
		}
	}
	if *write != "" {
		if err := between(*write, text.String()); err != nil {
			log.Fatal(err)
		}
	}
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
