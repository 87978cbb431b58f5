package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
)

// tellSkipped tells in a line each what was left out of a file, where it ends too early, and where its clock steps back.
func tellSkipped(errOut io.Writer, log *accesslog.Log) {
	tell := func(format string, args ...any) { fmt.Fprintf(errOut, "sketchlimit: "+format+"\n", args...) }
	for _, name := range log.Empty {
		tell("%s: is empty", name)
	}
	for _, f := range log.Files {
		if f.CutOff != "" {
			tell("%s: %s", f.Name, cutText(f))
		}
		if len(f.Skipped) > 0 {
			tell("%s: skipped %s; first, line %d: %s", f.Name, skippedText(f), f.FirstBad.Line, f.FirstBad.Text)
		}
		if f.Backward > 0 {
			tell("%s: %s", f.Name, backwardText(f))
		}
	}
}

// cutText tells where a file ends too early.
func cutText(f *accesslog.File) string {
	return fmt.Sprintf("read to line %s only: %s", integer(f.Lines), f.CutOff)
}

// backwardText tells of times that were moved.
func backwardText(f *accesslog.File) string {
	return fmt.Sprintf("%s earlier than one before, by up to %s; taken as at the latest time so far",
		plural(f.Backward, "request is", "requests are"), span(f.BackwardBy))
}

// skippedText is 3 of 1,000 lines (2 no request, 1 longer than 1 MiB).
func skippedText(f *accesslog.File) string {
	reasons := slices.SortedFunc(maps.Keys(f.Skipped), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Skipped[b], f.Skipped[a]), cmp.Compare(a, b))
	})
	total := 0
	var counts []string
	for _, reason := range reasons {
		total += f.Skipped[reason]
		counts = append(counts, integer(f.Skipped[reason])+" "+reason)
	}
	return fmt.Sprintf("%s of %s (%s)", integer(total), plural(f.Lines, "line", "lines"), strings.Join(counts, ", "))
}
