package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
)

// print prints everything at the end, so that a run that fails leaves nothing half done.
func (w *whatIf) print(r *answer, out io.Writer) error {
	var text bytes.Buffer
	if w.json {
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return failure{err}
		}
	} else {
		writeText(&text, behind(damage(r.Files), r.summary()), r.sections())
		if r.Size != nil && r.Size.Problem == "" {
			fmt.Fprintf(&text, "\n%s\n%s", r.Size.Go, r.Size.Rules)
		}
	}
	if _, err := text.WriteTo(out); err != nil {
		return failure{err}
	}
	if w.html == "" {
		return nil
	}
	page, err := r.page()
	if err != nil {
		return failure{err}
	}
	return page.write(w.html)
}

// summary is the suggestion, with what it leaves out.
func (r *answer) summary() string {
	text := r.Suggestion.Reason
	if w, l := r.at(); l != nil && r.Suggestion.Found {
		text = r.Refusals(w, l, r.whom("client", "key"), r.whom("clients", "keys"))
	}
	return text + " " + r.Suggestion.Caveat
}

// percent is a share in two digits, 0.02 % or 31 %.
func percent(v float64) string { return decimal(100*v) + " %" }

// whom is what keys are: addresses unless the key is another field.
func (r *answer) whom(address, key string) string {
	for _, f := range r.Files {
		if len(f.Parts) != 1 || !f.Parts[0].Address {
			return key
		}
	}
	return address
}

func (r *answer) sections() []section {
	s := []section{r.read(), r.limits(), r.windows(), r.hours(), r.heaviest()}
	if _, l := r.at(); l != nil && len(l.Top) > 0 {
		s = append(s, r.mostRefused(l))
	}
	if r.Rules != nil {
		s = append(s, r.Rules.section(r.costs()))
	}
	if r.Size != nil {
		s = append(s, r.Size.section(r.unitsName()))
	}
	return s
}

// read is what was read.
func (r *answer) read() section {
	rows, notes := [][]string{}, []string(nil)
	for _, f := range r.Files {
		for _, note := range clientTexts(f) {
			notes = append(notes, f.Name+": "+note+".")
		}
		rows = append(rows, []string{"file", f.Name + "; " + logText(f, r.costs())})
	}
	rows = append(rows,
		[]string{"time", fmt.Sprintf("%s … %s, %s", r.First.Format(time.DateTime), r.Last.Format(time.DateTime), span(r.Last.Sub(r.First)))},
		[]string{"requests", integer(r.Requests)},
	)
	if r.costs() {
		rows = append(rows, []string{"units", integer(r.Units)})
	}
	rows = append(rows, []string{"keys", estimate(r.Keys)})
	prose := "All keys were followed: no figure is sampled."
	if r.Rules != nil {
		prose = "All keys were followed: no figure is sampled. Those of the rules are told by limiters of the files' sizes."
	}
	if !r.Exact {
		prose = "Counted in bounded memory. A figure behind ± is how far an estimate may be off. Its share is an estimate, too, and so is " +
			"what is called about or at least. All others are exact counts. With --exact every key is followed, whatever memory that takes."
	}
	prose += " Refusals are those of a sliding window of two counters: this window and the weighted last one. One that keeps every " +
		"timestamp may refuse fewer or more."
	return section{ID: "log", Title: "The log", Prose: prose, Table: grid{Rows: rows, Mark: -1}, Notes: notes}
}

// costs reports whether requests cost more than a unit each.
func (r *answer) costs() bool { return r.Units != r.Requests }

// unitsName is what keys use of a limit.
func (r *answer) unitsName() string {
	if r.costs() {
		return "units"
	}
	return "requests"
}

// estimate is 1,234 ± 56.
func estimate(e whatif.Estimate) string {
	text := integer(uint64(math.Round(e.Value)))
	if e.Error > 0 {
		text += " ± " + integer(uint64(math.Ceil(e.Error)))
	}
	return text
}

// limits is the window of the suggestion, limit by limit.
func (r *answer) limits() section {
	w, suggested := r.at()
	if w == nil {
		w = &r.Windows[0]
	}
	g := grid{Head: []string{"limit", "requests\nrefused", "keys\nrefused", "share of\nrequests", "share of\nkeys", "90 % are\nfrom", "96 % are\nfrom"}, Mark: -1}
	for i := range reached(w) {
		l := &w.Limits[i]
		if l == suggested {
			g.Mark = i
		}
		g.Rows = append(g.Rows, []string{integer(l.Limit), estimate(l.Requests), estimate(l.Keys), percent(l.RequestShare),
			percent(l.KeyShare), keysText(l.Keys90), keysText(l.Keys96)})
	}
	s := section{ID: "limits", Title: "Limits in " + whatif.Span(w.Window), Table: g,
		Prose: "What a sliding window with each limit would have refused. The last columns tell how few keys have most of that. " +
			r.caveats()}
	if w.Knee >= 0 && !r.Suggestion.Found {
		s.Notes = append(s.Notes, fmt.Sprintf("This is no advice: at %s the share of requests refused is the furthest above the share of keys refused.",
			integer(w.Limits[w.Knee].Limit)))
	}
	if w.Longer {
		s.Notes = append(s.Notes, "The window is longer than the log: what a second window would bring is not in it.")
	}
	return s
}

// caveats says what the marked row is, if there is one.
func (r *answer) caveats() string {
	w, l := r.at()
	if l == nil {
		return ""
	}
	if r.Suggestion.Found {
		row := "The marked row is the suggestion. "
		if r.Suggestion.Demand {
			row = "The marked row is suggested only if its keys are known as abusers: it refuses more than 10 % of the requests. "
		}
		return row + whatif.Conditions + " " + whatif.Choice + " "
	}
	busiest := "had"
	if !r.Exact {
		busiest = "had at least"
	}
	return fmt.Sprintf("The marked row is no suggestion: it %s; the busiest key %s %s in one window. ", lowestText(l), busiest, integer(w.Use.Max))
}

// lowestText is what a limit is that is told in place of a suggestion.
func lowestText(l *whatif.Limit) string {
	if l.Requests.Error > 0 {
		return "is the lowest limit tried that is not known to refuse anybody"
	}
	return "is the lowest limit tried that refuses nobody"
}

// reached are the limits up to the lowest one that nobody reaches.
func reached(w *whatif.Window) []whatif.Limit {
	for i, l := range w.Limits {
		if l.Requests.Value == 0 && l.Requests.Error == 0 {
			return w.Limits[:i+1]
		}
	}
	return w.Limits
}

func keysText(n int) string {
	if n == 0 {
		return "–"
	}
	return plural(n, "key", "keys")
}

// windows is how keys use the windows, and what each limit refuses in each.
func (r *answer) windows() section {
	g := grid{Head: []string{""}, Text: 1, Mark: -1}
	windows, shorter := r.filled()
	units := r.unitsName()
	rows := [][]string{{units + " of a key: median"}, {"90 %"}, {"99 %"}, {"99.9 %"}, {"most"}, {"keys, fullest window"}, {units + ", fullest window"}}
	prose := "The " + units + " that a key uses in one window, over keys and windows with at least one. Windows begin at multiples " +
		"of their length: those of 1m at each full minute."
	if !r.Exact {
		rows[4] = []string{"most, at least"}
		prose = fmt.Sprintf("About how many %s a key uses in one window, over keys and windows with at least one, from %s drawn at "+
			"random. Windows begin at multiples of their length: those of 1m at each full minute. The most is of these keys and of those that are followed.", units, plural(r.SampledKeys, "key", "keys"))
	}
	for i, w := range windows {
		g.Head = append(g.Head, whatif.Span(w.Window))
		for k, v := range []uint64{w.Use.P50, w.Use.P90, w.Use.P99, w.Use.P999, w.Use.Max, uint64(math.Round(w.PeakKeys)), w.PeakUnits} {
			rows[k] = append(rows[k], integer(v))
		}
		if w.Sampled < 1 {
			rows[5][i+1] = "about " + rows[5][i+1]
		}
	}
	g.Rows = rows
	most := 0
	for _, w := range windows {
		most = max(most, len(reached(w)))
	}
	for k := range most {
		row := []string{"refused at " + integer(r.Windows[0].Limits[k].Limit)}
		for _, w := range windows {
			row = append(row, percent(w.Limits[k].RequestShare))
		}
		g.Rows = append(g.Rows, row)
	}
	prose += " Then the share of all requests that each limit would have refused in each window."
	if len(shorter) > 0 {
		prose += " The log is shorter than " + strings.Join(shorter, " and ") + ", left out here."
	}
	return section{ID: "windows", Title: "Windows", Table: g, Prose: prose}
}

// filled returns the windows that the log fills, and that of the suggestion. The others
// would all have the same figures.
func (r *answer) filled() (windows []*whatif.Window, shorter []string) {
	at, _ := r.at()
	for i := range r.Windows {
		if w := &r.Windows[i]; !w.Longer || w == at || at == nil && i == 0 {
			windows = append(windows, w)
		} else {
			shorter = append(shorter, whatif.Span(w.Window))
		}
	}
	return windows, shorter
}

// hours is the log step by step. A long one is told by days, with the steps folded.
func (r *answer) hours() section {
	steps := r.steps()
	s := section{ID: "hours", Title: "By " + stretchName(r.StepLength), Table: steps, Prose: "How the traffic changes over the log, in UTC."}
	if r.byDay() {
		s.Title, s.Table = "By day", r.days()
		if n := len(s.Table.Rows); n > mostDays {
			s.Title = fmt.Sprintf("The %d busiest of %s", busiestDays, plural(n, "day", "days"))
			s.Table.Rows = busiest(s.Table.Rows, r.spans(day), r)
		}
		s.Folded, s.FoldedTitle = steps, "By "+stretchName(r.StepLength)
	}
	return s
}

// busiest are the rows of the days with the most requests, by time.
func busiest(rows [][]string, days []stretch, r *answer) (kept [][]string) {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(days[b].requests(r), days[a].requests(r)) })
	order = order[:busiestDays]
	slices.Sort(order)
	for _, i := range order {
		kept = append(kept, rows[i])
	}
	return kept
}

// steps are those in which something came.
func (r *answer) steps() grid {
	w, l := r.at()
	about := map[bool]string{false: ",\nabout"}[r.Exact]
	g := grid{Head: r.withUnits("from", "requests", "units", "keys"+about), Text: 1, Mark: -1}
	if l != nil {
		g.Head = append(g.Head, r.refusedHead(w, l)...)
		g.Head = append(g.Head, "99 % of keys\nuse at most"+about)
	}
	for i, s := range r.Steps {
		if s.Requests == 0 && r.Last.Sub(r.First) > longLog {
			continue
		}
		row := r.withUnits(s.Start.Format("2006-01-02 15:04"), integer(s.Requests), integer(s.Units), integer(uint64(math.Round(s.Keys))))
		if l != nil {
			refused, use := l.BySteps[i].Requests, "–"
			if u := w.UseBySteps[i]; u.Counted > 0 {
				use = integer(u.P99)
			}
			row = append(row, integer(refused), percent(float64(refused)/math.Max(float64(s.Requests), 1)), use)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// days are the days of the log.
func (r *answer) days() grid {
	w, l := r.at()
	g := grid{Head: r.withUnits("day", "requests", "units"), Text: 1, Mark: -1}
	if l != nil {
		g.Head = append(g.Head, r.refusedHead(w, l)...)
	}
	for _, s := range r.spans(day) {
		row := r.withUnits(s.start.Format(time.DateOnly), integer(s.requests(r)), integer(s.units(r)))
		if l != nil {
			refused := s.refused(l)
			row = append(row, integer(refused), percent(float64(refused)/math.Max(float64(s.requests(r)), 1)))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// withUnits leaves out the third cell of a row where every request is a unit.
func (r *answer) withUnits(cells ...string) []string {
	if r.costs() {
		return cells
	}
	return slices.Delete(cells, 2, 3)
}

func (r *answer) refusedHead(w *whatif.Window, l *whatif.Limit) []string {
	refused, share := "refused at\n"+whatif.Rate(l.Limit, w.Window), "share"
	if l.Requests.Error > 0 {
		refused, share = refused+",\nabout", "share,\nabout"
	}
	return []string{refused, share}
}

const heaviestShown = 15

// ranges returns a sentence on what a range means, or nothing if no figure has one.
func (r *answer) ranges() string {
	if r.Exact {
		return ""
	}
	return " A range is what is known of a key that was not followed from its first request on."
}

// heaviest is the keys with the most requests.
func (r *answer) heaviest() section {
	g := grid{Head: []string{"key", "requests"}, Text: 1, Mark: -1}
	for i := range min(len(r.Heaviest), heaviestShown) {
		name, requests := heavyText(&r.Heaviest[i])
		g.Rows = append(g.Rows, []string{name, requests})
	}
	return section{ID: "heaviest", Title: "The heaviest", Table: g, Prose: "The keys with the most requests." + r.ranges()}
}

// mostRefused is the keys that the limit refuses the most.
func (r *answer) mostRefused(l *whatif.Limit) section {
	requests := make(map[string]string)
	for i := range r.Heaviest {
		if k := &r.Heaviest[i]; k.Key != "" && len(k.Key) < whatif.KeyBytes { // others may be cut, and alike
			_, requests[k.Key] = heavyText(k)
		}
	}
	g := grid{Head: []string{"key", "requests", "refused at " + integer(l.Limit)}, Text: 1, Mark: -1}
	unknown := ""
	for i := range min(len(l.Top), heaviestShown) {
		name, refused := heavyText(&l.Top[i])
		all, ok := requests[l.Top[i].Key]
		if !ok {
			all = "–"
			unknown = fmt.Sprintf(" – stands for a key that is not among the %s heaviest.", integer(len(r.Heaviest)))
		}
		g.Rows = append(g.Rows, []string{name, all, refused})
	}
	return section{ID: "refused", Title: "The most refused", Table: g, Prose: "The keys that the limit would have refused the most." + unknown + r.ranges()}
}

// heavyText is the name and the number of a key.
func heavyText(k *whatif.HeavyKey) (name, number string) {
	if k.Error == 0 {
		return whatif.KeyText(k.Key), integer(k.Requests)
	}
	return whatif.KeyText(k.Key), integer(k.Requests-k.Error) + " … " + integer(k.Requests)
}
