package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	// What is missing is better told now than in five minutes.
	if r.write != "" {
		document, err := os.ReadFile(r.write)
		if err != nil {
			return err
		}
		for _, s := range []struct {
			name   string
			wanted bool
		}{{"peers", peers}, {"latency", latency}} {
			if _, _, err := page.Section(document, s.name); s.wanted && err != nil {
				return fmt.Errorf("%s: %w", r.write, err)
			}
		}
	}
	if peers {
		c, err := compare(r.scale, r.progress)
		if err != nil {
			return err
		}
		if err := r.publish("peers", c.table(r.scale)); err != nil {
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
	if r.plot != "" && r.write != "" {
		text = r.picture() + text
	}
	return r.publish("latency", text)
}

// picture is the plot as the file that is written shows it.
func (r report) picture() string {
	link, err := filepath.Rel(filepath.Dir(r.write), r.plot)
	if err != nil {
		link = r.plot
	}
	return fmt.Sprintf("![Latency of decisions by percentile](%s)\n\n", filepath.ToSlash(link))
}

// publish prints a section and puts it where the file has its markers.
func (r report) publish(name, text string) error {
	text = r.head + "\n" + text
	fmt.Fprintf(r.out, "%s\n", text)
	if r.write == "" {
		return nil
	}
	document, err := os.ReadFile(r.write)
	if err != nil {
		return err
	}
	if document, err = page.Replace(document, name, text); err != nil {
		return fmt.Errorf("%s: %w", r.write, err)
	}
	return os.WriteFile(r.write, document, 0o644)
}
