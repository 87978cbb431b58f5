package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
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
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// execute runs the program with its arguments.
func execute(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(progress)
	var (
		small   = flags.Bool("quick", false, "measure little, in some 15 seconds: to see that it works")
		compare = flags.Bool("peers", true, "compare limiters")
		latency = flags.Bool("latency", true, "time decisions one by one")
		write   = flags.String("write", "", "write the tables between the markers of this Markdown `file`")
		plot    = flags.String("plot", "", "draw the latencies to this PNG `file`")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	s := full
	if *small {
		s = quick
	}
	r := report{
		scale: s, write: *write, plot: *plot, out: out, progress: &page.Stamped{Writer: progress, Start: time.Now()},
		head: page.Provenance(strings.Join(append([]string{"go run -C bench/peers ."}, args...), " "), time.Now()),
	}
	return r.make(*compare, *latency)
}

// report is where results go.
type report struct {
	scale
	head          string // what was measured on, and how
	write, plot   string // files; "" = none
	out, progress io.Writer
}

func (r report) make(peers, latency bool) error {
	var sections []string
	if peers {
		sections = append(sections, "peers")
	}
	if latency {
		sections = append(sections, "latency")
	}
	record, err := page.Open(r.write, sections...)
	if err != nil {
		return err
	}
	if peers {
		c, err := compare(r.scale, r.progress)
		if err != nil {
			return err
		}
		if err := r.publish(record, "peers", c.table(r.scale)); err != nil {
			return err
		}
	}
	if !latency {
		return nil
	}
	l, err := latencyOf(r.scale, r.progress)
	if err != nil {
		return err
	}
	text := l.table(r.scale)
	if r.plot != "" {
		if err := l.plot(r.plot, r.turning); err != nil {
			return err
		}
	}
	return r.publish(record, "latency", record.Picture("Latency of decisions by percentile", r.plot)+text)
}

// publish prints a section and writes it to the record.
func (r report) publish(record page.Record, name, text string) error {
	text = r.head + "\n" + text
	fmt.Fprintf(r.out, "%s\n", text)
	return record.Write(name, text)
}
