package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/page"
)

func main() {
	err := execute(os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

// execute runs the program with its arguments.
func execute(args []string, out, errOut io.Writer) error {
	flags := flag.NewFlagSet("memory", flag.ContinueOnError)
	flags.SetOutput(errOut)
	plot := flags.String("plot", "", "draw the picture to this PNG `file`")
	notes := flags.String("notes", "../../notes", "`folder` of tables/peers.md and fourways.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	f, err := readFigures(*notes)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, f.description())
	if *plot == "" {
		return nil
	}
	canvas, err := f.draw()
	if err != nil {
		return err
	}
	return page.WritePNG(*plot, canvas)
}
