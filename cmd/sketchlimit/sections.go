package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
)

// section is a part of the report, the same on the terminal and on the page.
type section struct {
	ID    string // of the page
	Title string
	Prose string // how to read it
	Table grid
	Notes []string

	Folded      grid // on the page only
	FoldedTitle string
}

// grid is a table. Cells are ready to be shown.
type grid struct {
	Head []string // nil: names and what belongs to them, in two columns
	Text int      // so many columns hold text, those behind them numbers
	Rows [][]string
	Mark int // row that is this very report, -1 if none is
}

func (r *report) sections() []section {
	return []section{
		r.replayed(),
		r.decisions(),
		r.errors(),
		r.sweep(),
		r.ablation(),
		r.algorithms(),
	}
}

// tooMany is the share of the requests of light keys from which on denials are no
// longer rare errors: the breaking point.
const tooMany = 0.1

// warning is what has to be seen first, if anything has.
func (r *report) warning() string {
	return behind(r.Source.damage(), r.wrong())
}

// wrong is a warning of the limiter.
func (r *report) wrong() string {
	p := r.Replay
	switch {
	case p.OverAdmissions > 0:
		return "The limiter admitted what it had to deny, which must not happen."
	case p.FalseDenialRate > tooMany:
		return fmt.Sprintf("The limiter is far too small for this traffic: it denied %s of the requests of light keys. "+
			"It needs more memory.", shareText(p.FalseDenialRate))
	}
	return ""
}

// summary is the report in a sentence, behind a warning if there is one.
func (r *report) summary() string { return behind(r.warning(), r.sentence()) }

// behind puts text behind a warning.
func behind(warning, text string) string { return strings.TrimSpace(warning + " " + text) }

func (r *report) sentence() string {
	p, m := r.Replay, r.Replay.Memory
	text := fmt.Sprintf("A limiter of %s beside an exact one that took %s: ", bytesText(p.MemoryBytes), measured(m.OracleHeap))
	if p.OverAdmissions > 0 {
		text += fmt.Sprintf("it admitted %s that had to be denied, which must not happen, and ", plural(p.OverAdmissions, "request", "requests"))
	} else {
		text += "it admitted nothing that had to be denied, and "
	}
	return text + fmt.Sprintf("wrongly denied %s requests of light keys.", outOf(p.LightFalseDenials, p.LightRequests))
}

func (r *report) replayed() section {
	p, c := r.Replay, r.Config
	rows := [][]string{{"source", r.Source.Title}}
	if r.Source.Workload != "" {
		rows[0][1] = strings.ReplaceAll(r.Source.Workload, ",", ", ") // so that it can be wrapped
	}
	if f := r.Source.File; f != nil {
		rows = append(rows, []string{"log", logText(f, true)})
	}
	if r.Source.About != "" {
		rows = append(rows, []string{"about", r.Source.About})
	}
	requests := integer(p.Requests)
	if p.Units != p.Requests {
		requests += " of " + integer(p.Units) + " units"
	}
	rows = append(rows,
		[]string{"requests", fmt.Sprintf("%s in %s, %s", requests, span(p.End.Sub(p.Start)), plural(p.Windows, "window", "windows"))},
		[]string{"keys", fmt.Sprintf("%s, of which %s in the fullest window", integer(p.Keys), integer(p.PeakKeys))},
		[]string{"limit", fmt.Sprintf("%s per key in %s, %s", plural(c.Limit, "unit", "units"), span(c.Window), r.rule())},
		[]string{"limiter", r.limiter()},
		[]string{"seed", fmt.Sprint(c.Seed)},
	)
	s := section{
		ID:    "replayed",
		Title: "What was replayed",
		Prose: "Every request went, at its own time, to a limiter that counts in sketches and to the exact form of the same " +
			"algorithm. All figures but the measured memory follow from this table alone, on any machine.",
		Table: grid{Rows: rows, Mark: -1},
	}
	if t := r.Source.Trace; t != nil && t.Malformed > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s of %s could not be read and %s left out; the first: %v",
			plural(t.Malformed, "line", "lines"), integer(t.Lines), wasWere(t.Malformed), t.FirstBad))
	}
	if t := r.Source.Trace; t != nil && t.Unsorted > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s came later than one with a later time, and %s sorted in.",
			plural(t.Unsorted, "request", "requests"), wasWere(t.Unsorted)))
	}
	return s
}

func wasWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func (r *report) rule() string {
	switch {
	case r.Config.Algorithm == sketchlimit.FixedWindow.String():
		return "fixed window"
	case r.Config.Burst > 0:
		return fmt.Sprintf("token bucket of %s", plural(r.Config.Burst, "unit", "units"))
	case r.Config.SubWindows > 1:
		return fmt.Sprintf("sliding window of %d parts", r.Config.SubWindows)
	}
	return "sliding window"
}

func (r *report) limiter() string {
	c := r.Config
	text := bytesText(r.Replay.MemoryBytes)
	if most := bytesText(c.MemoryBytes); most != text {
		text += " of at most " + most
	}
	if c.SizedForKeys > 0 {
		text += fmt.Sprintf(" for %s keys in a window and a false-denial rate of %s", integer(c.SizedForKeys), scientific(c.FalseDenialRate))
	}
	if c.Burst > 0 {
		return text + fmt.Sprintf(": %s, each a table of %s × %d fingerprints and times", plural(c.Plan.Shards, "shard", "shards"),
			integer(c.Plan.Width), c.Plan.Depth)
	}
	generations := c.SubWindows + 1
	if c.Algorithm == sketchlimit.FixedWindow.String() {
		generations = 1
	}
	text += fmt.Sprintf(": %s of %s, each a Bloom filter of %s B", plural(c.Plan.Shards, "shard", "shards"),
		plural(generations, "generation", "generations"), integer(c.Plan.BloomBytes))
	if c.Plan.Width > 0 {
		text += fmt.Sprintf(" and a sketch of %d × %s cells of %d bits", c.Plan.Depth, integer(c.Plan.Width), c.Plan.CellBits)
	}
	if c.Plan.HeavyEntries > 0 {
		text += fmt.Sprintf("; and in each shard a table for %s heavy keys, those with %s or more in a window",
			integer(c.Plan.HeavyEntries), plural(c.Plan.PromoteAt, "unit", "units"))
	}
	return text
}

func (r *report) decisions() section {
	p, m := r.Replay, r.Replay.Memory
	rows := [][]string{
		{"requests admitted", integer(p.AdmittedRequests), integer(p.OracleAdmittedRequests)},
		{"requests denied", integer(p.Requests - p.AdmittedRequests), integer(p.Requests - p.OracleAdmittedRequests)},
	}
	if p.Units != p.Requests {
		rows = append(rows, []string{"units admitted", integer(p.AdmittedUnits), integer(p.OracleAdmittedUnits)})
	}
	rows = append(rows,
		[]string{"memory, as it states", bytesText(m.Stated), "–"},
		[]string{"memory, measured on the heap", measured(m.Heap), measured(m.OracleHeap)},
		[]string{"bytes for each key of the fullest window", decimal(max(m.PerPeakKey, 0)), decimal(max(m.OraclePerPeakKey, 0))},
	)
	s := section{
		ID:    "decisions",
		Title: "The limiter beside the exact algorithm",
		Prose: fmt.Sprintf("The exact algorithm keeps a count for every key of the last windows, %s keys in the fullest one; the limiter's memory was "+
			"fixed before the first request. The nearer the two columns are in what they admit, the better.", integer(p.PeakKeys)),
		Table: grid{Head: []string{"", "limiter", "exact"}, Text: 1, Rows: rows, Mark: -1},
	}
	if p.OracleAdmittedRequests == p.Requests {
		s.Notes = append(s.Notes, "The exact algorithm denied nothing: no key came near the limit, and the replay shows little but memory. "+
			"A lower --limit, a longer --window or, for a trace, a higher --speed shows more.")
	}
	return s
}

func (r *report) errors() section {
	p := r.Replay
	rows := [][]string{
		{"over-admissions", outOf(p.OverAdmissions, p.Requests) + " requests (must be 0)"},
		{"false denials of light keys", withRate(p.LightFalseDenials, p.LightRequests, "requests")},
		{"false denials of all keys", withRate(p.FalseDenials, p.Requests, "requests")},
		{"lost share", r.lost()},
		{"light keys falsely denied", outOf(uint64(p.DeniedLightKeys), uint64(p.LightKeys))},
		{"keys ever falsely denied", outOf(uint64(p.WrongedKeys), uint64(p.Keys)) + r.unitsEarly()},
		{"estimate error", estimateError(&p.EstimateError)},
		{"rate of light keys by its audit", expectedText(p.LiveLightDenialRate, 0)},
		{"rate it states, a key never seen", fmt.Sprintf("at most %s, %s at the end of all",
			shareText(p.LiveFalseDenialRateMax), shareText(p.LiveFalseDenialRateLast))},
	}
	if p.EstimateTooSmall > 0 {
		rows = append(rows, []string{"estimates below the truth", outOf(p.EstimateTooSmall, p.Requests) + " (must be 0)"})
	}
	return section{
		ID:    "errors",
		Title: "What the limiter got wrong: sketch error",
		Prose: "A sketch can only count too much, so it never admits what the exact algorithm would deny, but now and then denies what that would admit. " +
			"A key is innocent while it has used less than half of its limit by the exact algorithm, which decides for itself. " +
			"Withheld is the share of the admissible units that the limiter refused, mostly to keys that were about to reach their limit.",
		Table: grid{Rows: rows, Mark: -1},
	}
}

// withRate is "17 of 4,000 requests, 0.43 %"; none is left without a rate, which would
// claim more than so many requests can show.
func withRate(k, n uint64, of string) string {
	text := outOf(k, n) + " " + of
	if k > 0 && n > 0 {
		text += ", " + shareText(float64(k)/float64(n))
	}
	return text
}

func (r *report) lost() string {
	p := r.Replay
	if p.AdmittedUnits > p.OracleAdmittedUnits {
		return fmt.Sprintf("none, it admitted %s more: what it denies early it may admit later",
			plural(p.AdmittedUnits-p.OracleAdmittedUnits, "unit", "units"))
	}
	return withRate(p.OracleAdmittedUnits-p.AdmittedUnits, p.OracleAdmittedUnits, "units that the exact algorithm admits")
}

func (r *report) unitsEarly() string {
	h := &r.Replay.UnitsEarly
	if h.Count() == 0 {
		return ""
	}
	return fmt.Sprintf("; the first time with %d (median) … %d (most) of %s left", h.Quantile(.5), h.Max(), plural(r.Config.Limit, "unit", "units"))
}

func estimateError(h *accuracy.Histogram) string {
	return fmt.Sprintf("mean %s, median %d, 99th percentile %d, 99.9th %d, most %d units too high",
		decimal(h.Mean()), h.Quantile(.5), h.Quantile(.99), h.Quantile(.999), h.Max())
}

func (r *report) sweep() section {
	rows, mark := [][]string{}, -1
	for i, p := range r.Sweep {
		if p.AskedBytes == r.Config.MemoryBytes {
			mark = i
		}
		rows = append(rows, []string{
			bytesText(p.AskedBytes),
			decimal(float64(p.MemoryBytes) / float64(r.Replay.PeakKeys)),
			integer(p.OverAdmissions),
			outOf(p.LightFalseDenials, p.LightRequests),
			resolved(p.FalseDenialRate, p.LightRequests),
			integer(p.WrongedKeys),
			resolved(p.LostShare, exactUnits(p.Verdict)),
			shareText(p.LiveFalseDenialRateMax),
		})
	}
	return section{
		ID:    "sweep",
		Title: "Error against memory",
		Prose: "The same limiter with other bounds on its memory, of which it takes what its parts divide into: bytes/key is what it " +
			"took. Its error falls steeply where the memory begins to suffice. " +
			"A rate below (<) one in so many means that not one was seen in so many requests or units. The marked row is the limiter of this report. " +
			"Stated is the rate that the limiter computes from its own cells, the highest at the end of a window. It is that of a key which the limiter " +
			"has never seen; light keys that have used some of their limit meet more." + judged(r.Sweep[0].Sample),
		Table: grid{
			Head: []string{"memory,\nat most", "bytes/key", "over-\nadmissions", "false denials of\nlight keys", "false-denial\nrate", "keys\ndenied", "lost\nshare", "stated\nrate"},
			Rows: rows, Mark: mark,
		},
	}
}

// judged says how few of the keys the figures are about, if not all.
func judged(s accuracy.Sample) string {
	if s.OneKeyIn == 1 {
		return ""
	}
	return fmt.Sprintf(" Every request went through the limiters, but only one key in %s was judged, %s requests; over-admissions, too, were looked for there alone.",
		integer(s.OneKeyIn), outOf(s.Requests, s.OfRequests))
}

// exactUnits is what the lone oracle admitted: a verdict tells it through its share.
func exactUnits(v accuracy.Verdict) uint64 {
	if v.LostShare >= 1 {
		return 0
	}
	return uint64(math.Round(float64(v.AdmittedUnits) / (1 - v.LostShare)))
}

func (r *report) ablation() section {
	rows := [][]string{}
	for _, a := range r.Ablation.Rows {
		rows = append(rows, []string{
			strings.ReplaceAll(a.Step, "_", " "),
			a.Change,
			outOf(a.LightFalseDenials, a.LightRequests),
			resolved(a.FalseDenialRate, a.LightRequests),
			resolved(a.LostShare, exactUnits(a.Verdict)),
		})
	}
	return section{
		ID:    "ablation",
		Title: "What each part is good for, in at most " + bytesText(r.Ablation.MemoryBytes),
		Prose: "The arrangement that is often published, then one change after the other, all within the same memory and with fixed windows. " +
			"Each row adds its change to the row above; the last is this library's limiter. " + overAdmitted(r.Ablation.Rows) +
			judged(r.Ablation.Rows[0].Sample),
		Table: grid{
			Head: []string{"step", "change", "false denials of\nlight keys", "false-denial\nrate", "lost\nshare"},
			Text: 2, Rows: rows, Mark: -1,
		},
	}
}

func overAdmitted(rows []accuracy.AblationRow) string {
	var steps []string
	for _, a := range rows {
		if a.OverAdmissions > 0 {
			steps = append(steps, fmt.Sprintf("%s (%s)", strings.ReplaceAll(a.Step, "_", " "), integer(a.OverAdmissions)))
		}
	}
	if steps == nil {
		return "None of them admitted too much."
	}
	return "Requests admitted that had to be denied: " + strings.Join(steps, ", ") + "."
}

func (r *report) algorithms() section {
	rows := [][]string{}
	for _, a := range r.Algorithms {
		rows = append(rows, []string{
			a.Algorithm,
			integer(a.AdmittedRequests),
			integer(a.Requests - a.AdmittedRequests),
			integer(a.LetThrough),
			integer(a.RefusedEarly),
			fmt.Sprintf("%.2f × limit", a.PeakLoad),
			fmt.Sprintf("%.2f ×", a.PeakTenth),
		})
	}
	measured := ""
	if s := r.Algorithms[0].Sample; s.OneKeyIn > 1 {
		measured = fmt.Sprintf(" Measured on one key in %s, %s requests; whether a heavy key is among them is chance.", integer(s.OneKeyIn), outOf(s.Requests, s.OfRequests))
	}
	return section{
		ID:    "algorithms",
		Title: "The algorithms themselves: algorithm error, not sketch error",
		Prose: "No sketch here: exact algorithms, each beside a sliding log of what it has admitted. The log remembers the time of every unit, and so is what " +
			"“at most so many in any window” means. Let through is what an algorithm admits and the log would not, refused early the opposite, " +
			"and the peaks are the most that one key got within any one window and any tenth of one." + measured,
		Table: grid{
			Head: []string{"algorithm", "admitted", "denied", "let through", "refused early", "peak", "in a tenth"},
			Text: 1, Rows: rows, Mark: -1,
		},
	}
}
