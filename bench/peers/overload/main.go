package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
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
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

// collectAt is for peers whose heaps are full of pointers: to look through them took a
// quarter of the time.
const collectAt = 800

// execute runs the program with its arguments.
func execute(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("overload", flag.ContinueOnError)
	flags.SetOutput(progress)
	var (
		quick   = flags.Bool("quick", false, "play a few rows at 1/64 with one seed, in seconds: to see that it works")
		all     = flags.Bool("all", false, "play every combination of a row's parts: for days")
		only    = flags.String("only", "", "play only rows whose names, as in the table, contain this `text`")
		burst   = flags.Int("burst", 1, "innocent keys send so many `requests` in a row")
		abusers = flags.Int("abusers-burst", 1, "abusers send so many `requests` in a row")
		scale   = flags.String("scale", "1/16", "multiply keys by this `fraction`")
		seeds   = flags.Int("seeds", 10, "play each row with so many `seeds`")
		workers = flags.Int("workers", 2, "play so many `runs` at a time")
		alone   = flags.Bool("alone", false, "without the limiters of others, which take most of the time of a seed")
		keep    = flags.String("keep", "", "keep the runs that have ended in this `file`, and play none of those that are in it")
		write   = flags.String("write", "", "write the results between the markers of this Markdown `file`")
		plot    = flags.String("plot", "", "draw the picture to this PNG `file`")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if min(*seeds, *workers, *burst, *abusers) < 1 {
		return errors.New("seeds, workers and bursts must be at least 1")
	}
	stamped := &page.Stamped{Writer: progress, Start: time.Now()}
	ctx, end := signal.NotifyContext(context.Background(), os.Interrupt)
	defer end()
	b := &bench{rows: mainRows(), seeds: *seeds, alone: *alone, workers: *workers, ctx: ctx, progress: stamped}
	switch {
	case *quick:
		b.rows, b.seeds, *scale = quickRows(), 1, "1/64"
	case *all:
		b.rows = allRows()
	}
	for i := range b.rows {
		b.rows[i].burst = bursts{*burst, *abusers}
	}
	b.rows = slices.DeleteFunc(b.rows, func(r row) bool { return !strings.Contains(r.String(), *only) })
	if len(b.rows) == 0 {
		return fmt.Errorf("only %q, must be part of a row's name", *only)
	}
	var err error
	if b.scale, err = fraction(*scale); err != nil {
		return err
	}
	if *keep != "" {
		if b.stored, err = openStore(*keep); err != nil {
			return err
		}
		defer b.stored.file.Close()
	}
	command := strings.Join(append([]string{"go run -C bench/peers ./overload"}, args...), " ")
	return b.report(page.Provenance(command, time.Now()), *write, *plot, out)
}

// fraction reads 1/16, or 1.
func fraction(text string) (float64, error) {
	const least = 1. / 1024
	above, below, _ := strings.Cut(text, "/")
	if below == "" {
		below = "1"
	}
	a, errA := strconv.ParseFloat(above, 64)
	b, errB := strconv.ParseFloat(below, 64)
	if scale := a / b; errA == nil && errB == nil && scale >= least && scale <= 1 {
		return scale, nil
	}
	return 0, fmt.Errorf("scale %q, must be 1/1024 … 1", text)
}

// report plays, and writes what came of it. Grave faults are an error.
func (b *bench) report(head, file, picture string, out io.Writer) error {
	record, err := page.Open(file, "overload")
	if err != nil {
		return err
	}
	if err := measureBytes(); err != nil {
		return err
	}
	debug.SetGCPercent(collectAt)
	results, err := b.play()
	if err != nil {
		return err
	}
	text, grave := b.text(results)
	if picture != "" {
		if err := drawTo(results, picture); err != nil {
			return err
		}
		text = record.Picture("Innocents denied and abusers' excess by load", picture) + text
	}
	text = head + "\n" + text
	fmt.Fprint(out, text)
	if err := record.Write("overload", text); err != nil {
		return err
	}
	if len(grave) > 0 {
		return errors.New(strings.Join(grave, "\n"))
	}
	return nil
}
