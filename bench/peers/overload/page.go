package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// text renders results as Markdown: a table, and what is not as promised.
func (b *bench) text(results []result) (text string, grave []string) {
	var out strings.Builder
	fmt.Fprintf(&out, "Scale 1/%.4g; seeds: %d", 1/b.scale, b.seeds)
	if !b.alone {
		out.WriteString(", the limiters of others play with the first")
	}
	out.WriteString(".\n\n")
	out.WriteString("| overload (units ÷ plan) | limiter | before | first tenth | then | after | of clients | abusers get " +
		"| p99 | worst window | abusers an entry | over-admitted | spares from | memory |\n" +
		strings.Repeat("|---", 14) + "|\n")
	var others []string
	for i := range results {
		r := &results[i]
		r.write(&out)
		g, o := r.broken()
		grave, others = append(grave, g...), append(others, o...)
	}
	out.WriteString("\n")
	for _, line := range append(grave, others...) {
		fmt.Fprintf(&out, "- Not as promised: %s.\n", line)
	}
	if len(grave)+len(others) == 0 {
		out.WriteString("Everything is as promised.\n")
	}
	return out.String(), grave
}

// write writes the lines of a row, one for each limiter.
func (r *result) write(out *strings.Builder) {
	where := fmt.Sprintf("%v (%.2g)", r.row, r.load)
	for i, outcomes := range r.outcomes {
		name := nameOf(i)
		if i < len(ours) {
			name = "**" + name + "**"
		}
		fmt.Fprintf(out, "| %s | %s |", where, name)
		for p := range phases {
			fmt.Fprintf(out, " %s |", rateText(denials(outcomes, p)))
		}
		fmt.Fprintf(out, " %s | %.2f | %.2f | %.2f |", rateText(refusals(outcomes)),
			mean(outcomes, func(o *outcome) float64 { return o.excess.mean }),
			most(outcomes, func(o *outcome) float64 { return o.excess.p99 }),
			most(outcomes, func(o *outcome) float64 { return o.excess.window }))
		if i < len(ours) {
			perEntry := most(outcomes, (*outcome).abusersPerEntry)
			fmt.Fprintf(out, " %.2f | %s | %s |", perEntry, overAdmitted(outcomes), since(outcomes))
		} else {
			out.WriteString(" | | |")
		}
		fmt.Fprintf(out, " %s |\n", bytesText(most(outcomes, func(o *outcome) float64 { return float64(o.memory) })))
		where = ""
	}
}

// overAdmitted says how many units were admitted beyond the limit, and how many by a
// limiter that spared keys.
func overAdmitted(outcomes []outcome) string {
	over := most(outcomes, func(o *outcome) float64 { return float64(o.over) })
	spared := mean(outcomes, func(o *outcome) float64 { return float64(o.spared) })
	if spared == 0 {
		return fmt.Sprint(over)
	}
	return fmt.Sprintf("%g, spared %.2g", over, spared)
}

// since says when the limiters was over capacity, in the run that took longest.
func since(outcomes []outcome) string {
	latest, seen := &outcomes[0], 0
	for i := range outcomes {
		if o := &outcomes[i]; !math.IsNaN(o.switched) {
			if seen++; !(o.switched <= latest.switched) {
				latest = o
			}
		}
	}
	if seen == 0 {
		return ""
	}
	text := fmt.Sprintf("%.2f windows, %.2g requests", latest.switched, float64(latest.requests))
	if seen < len(outcomes) {
		text += fmt.Sprintf(" (%d of %d seeds)", seen, len(outcomes))
	}
	return text
}

// rateText writes a share with two digits.
func rateText(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.001:
		return strconv.FormatFloat(v, 'e', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func bytesText(v float64) string {
	switch {
	case v < 1<<20:
		return fmt.Sprintf("%.0f KiB", v/(1<<10))
	case v < 1<<30:
		return fmt.Sprintf("%.3g MiB", v/(1<<20))
	}
	return fmt.Sprintf("%.3g GiB", v/(1<<30))
}
