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

// damage returns a sentence with what makes the figures of a log doubtful; "" if nothing
// does.
func damage(files []*accesslog.File) string {
	var all []string
	for _, f := range files {
		for _, text := range damages(f) {
			if len(files) > 1 {
				text = f.Name + ": " + text
			}
			all = append(all, text)
		}
	}
	if all == nil {
		return ""
	}
	return "Doubtful: " + strings.Join(all, "; ") + "."
}

// damages returns those of a file: a tenth of its lines left out, a twentieth of its
// requests far behind their turn, one client, an early end, and the doubts of accesslog.
func damages(f *accesslog.File) (all []string) {
	skipped := 0
	for _, n := range f.Skipped {
		skipped += n
	}
	if 10*skipped >= f.Lines && skipped > 0 {
		all = append(all, fmt.Sprintf("%s of %s could not be read", integer(skipped), plural(f.Lines, "line", "lines")))
	}
	if f.CutOff != "" {
		all = append(all, cutText(f))
	}
	if 20*f.Far >= f.Requests && f.Far > 0 {
		all = append(all, fmt.Sprintf("%s of %s came more than a minute after a later one (%s)", integer(f.Far), plural(f.Requests, "request", "requests"), lateText(f)))
	}
	if f.OneClient != "" {
		all = append(all, oneClientText(f))
	}
	for _, doubt := range f.Doubts {
		all = append(all, strings.ReplaceAll(doubt, "--key", "`--key`"))
	}
	return all
}

// oneClientText names a client that may be a proxy.
func oneClientText(f *accesslog.File) string {
	return fmt.Sprintf("all %s are from %s; if that is a proxy, `--key` names another field", plural(f.Requests, "request", "requests"),
		whatif.KeyText(f.OneClient))
}

// lateText returns what was done with late requests.
func lateText(f *accesslog.File) string {
	if f.Sorted {
		return "sorted in"
	}
	return "taken as at the latest time so far"
}

// logText describes how a file was read, without its name.
func logText(f *accesslog.File, costs bool) string {
	text := fmt.Sprintf("%s; %s; key: %s; time: %s", f.Format, plural(f.Requests, "request", "requests"), f.Key, f.Time)
	if f.Cost != "" && costs {
		text += "; cost: " + f.Cost
	}
	if len(f.Skipped) > 0 {
		text += "; skipped " + skippedText(f)
	}
	if f.CutOff != "" {
		text += "; " + cutText(f)
	}
	if f.Backward > 0 {
		text += "; " + backwardText(f)
	}
	return text
}

// cutText returns where and why a file ends too early.
func cutText(f *accesslog.File) string {
	return fmt.Sprintf("read to line %s only: %s", integer(f.Lines), f.CutOff)
}

// backwardText returns how many times were moved, and by how much.
func backwardText(f *accesslog.File) string {
	return fmt.Sprintf("%s earlier than one before, by up to %s; %s",
		plural(f.Backward, "request is", "requests are"), span(f.BackwardBy), lateText(f))
}

// clientTexts tell how the clients were found, where that may be wrong.
func clientTexts(f *accesslog.File) []string {
	notes := slices.Clone(f.Notes)
	for _, doubt := range f.Doubts {
		if !slices.Contains(notes, doubt) {
			notes = append(notes, doubt)
		}
	}
	if f.HostNames > 0 {
		notes = append(notes, fmt.Sprintf("the clients of %s are names of hosts", plural(f.HostNames, "request", "requests")))
	}
	if f.OneClient != "" {
		notes = append(notes, strings.ReplaceAll(oneClientText(f), "`", ""))
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
