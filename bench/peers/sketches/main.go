package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/page"
)

func main() {
	err := execute(os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sketches:", err)
		os.Exit(1)
	}
}

// firstSearchSeed is far from the seeds that count.
const firstSearchSeed = 1001

// execute runs the program with its arguments.
func execute(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("sketches", flag.ContinueOnError)
	flags.SetOutput(progress)
	t := &tournament{
		contestants: slices.Clone(literature), loads: loads, rounds: 5,
		progress: &page.Stamped{Writer: progress, Start: time.Now()},
	}
	var (
		quick   = flags.Bool("quick", false, "play little, in some seconds: to see that it works")
		seeds   = flags.Int("seeds", 10, "play each load with so many `seeds`")
		search  = flags.Int("search", 4, "search for settings with so many `seeds`, which are others")
		windows = flags.Int("windows", 2, "play so many `windows`")
		sizes   = flags.String("sizes", "256,384,512,1024", "memory of a limiter, `KiB`, separated by commas")
		divisor = flags.Int("divisor", 1, "divide keys, requests and memory by this `number`")
		workers = flags.Int("workers", 2, "replay so many `streams` at a time")
		write   = flags.String("write", "", "write the results between the markers of this Markdown `file`")
		plot    = flags.String("plot", "", "draw the picture to this PNG `file`")
	)
	flags.Func("pin", "use this setting of a contestant everywhere, `NAME:NUMBERS` as in the table", func(text string) error {
		return pin(t.contestants, text)
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *seeds < 1 || *search < 1 || *windows < 1 || *workers < 1 || *divisor < 1 {
		return errors.New("seeds, search, windows, workers and divisor must be at least 1")
	}
	if *quick {
		*divisor, *seeds, *search, *sizes = 64, 2, 1, "512"
	}
	t.divisor, t.windows, t.workers = *divisor, *windows, *workers
	for i := range *seeds {
		t.seeds = append(t.seeds, uint64(i+1))
	}
	for i := range *search {
		t.search = append(t.search, uint64(firstSearchSeed+i))
	}
	for _, text := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 4**divisor || n > 1<<20 {
			return fmt.Errorf("size %q, must be %d … %d KiB", text, 4**divisor, 1<<20)
		}
		t.sizes = append(t.sizes, n<<10/t.divisor)
	}
	head := page.Provenance(strings.Join(append([]string{"go run -C bench/peers ./sketches"}, args...), " "), time.Now())
	return t.publish(head, *write, *plot, out)
}

// publish holds the tournament, prints its results and puts them where the file has its
// markers.
func (t *tournament) publish(head, file, plot string, out io.Writer) error {
	record, err := page.Open(file, "results")
	if err != nil {
		return err
	}
	arenas, err := t.run()
	if err != nil {
		return err
	}
	if plot != "" {
		if err := picture(plot, arenas); err != nil {
			return err
		}
	}
	text := head + "\n" + record.Picture("Errors by memory", plot) + t.tables(arenas)
	fmt.Fprintln(out, text)
	return record.Write("results", text)
}
