package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
)

// tellSkipped prints one line for each kind of line that was left out of a file, one if
// the file ends too early, and one if its clock steps back.
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
		for _, note := range clientTexts(f) {
			tell("%s: %s", f.Name, note)
		}
	}
}

// cutText returns where and why a file ends too early.
func cutText(f *accesslog.File) string {
	return fmt.Sprintf("read to line %s only: %s", integer(f.Lines), f.CutOff)
}

// backwardText returns how many times were moved, and by how much.
func backwardText(f *accesslog.File) string {
	return fmt.Sprintf("%s earlier than one before, by up to %s; taken as at the latest time so far",
		plural(f.Backward, "request is", "requests are"), span(f.BackwardBy))
}

// clientTexts tell how the clients were found, where that may be wrong.
func clientTexts(f *accesslog.File) []string {
	notes := slices.Clone(f.Notes)
	if f.HostNames > 0 {
		notes = append(notes, fmt.Sprintf("the clients of %s are names of hosts", plural(f.HostNames, "request", "requests")))
	}
	if f.OneClient != "" {
		notes = append(notes, fmt.Sprintf("all %s are from %s; if that is a proxy, --key names another field", plural(f.Requests, "request", "requests"),
			whatif.KeyText(f.OneClient)))
	}
	return notes
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
		text := integer(f.Skipped[reason]) + " " + reason
		if strings.HasPrefix(reason, "no address") && f.MostOften != "" {
			text += ", most often " + strconv.Quote(f.MostOften)
		}
		counts = append(counts, text)
	}
	return fmt.Sprintf("%s of %s (%s)", integer(total), plural(f.Lines, "line", "lines"), strings.Join(counts, ", "))
}
