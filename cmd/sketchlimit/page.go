package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"strings"
	"unicode/utf8"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"unbroken": unbroken, "titled": titled, "coded": coded}).Parse(pageText))

// unbroken keeps a browser from breaking 4.5e-4 in two.
func unbroken(number string) string { return strings.ReplaceAll(number, "-", "\u2011") }

// coded shows what is in backticks as code. Short code is not broken over lines.
func coded(text string) template.HTML {
	const short = 24
	var b strings.Builder
	parts := strings.Split(text, "`")
	for i, part := range parts {
		escaped := template.HTMLEscapeString(part)
		switch {
		case i%2 == 0:
			b.WriteString(escaped)
		case i == len(parts)-1: // a backtick alone
			b.WriteString("`" + escaped)
		case utf8.RuneCountInString(part) <= short:
			b.WriteString(`<code class="short">` + escaped + "</code>")
		default:
			b.WriteString("<code>" + escaped + "</code>")
		}
	}
	return template.HTML(b.String())
}

// titledGrid is a table with its title.
type titledGrid struct {
	Title string
	Grid  grid
}

func titled(title string, g grid) titledGrid { return titledGrid{title, g} }

// page is a page that needs nothing else.
type page struct {
	Kind     string // "report" or "plan"
	Of       string
	Warning  string // what has to be seen first
	Summary  string
	Tiles    []tile
	Sections []pageSection
}

// tile is a number that a page begins with.
type tile struct{ Value, Text string }

// pageSection is a section with what only a page has.
type pageSection struct {
	section
	Figures []figure
	Code    string
}

type figure struct {
	SVG     template.HTML
	Caption string
}

// write writes the page to a file, of which --html is the name.
func (p *page) write(file string) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return failure{err}
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return failure{fmt.Errorf("--html %w", err)}
	}
	return nil
}

func (r *report) page() (*page, error) {
	figures, err := r.figures()
	if err != nil {
		return nil, err
	}
	p := &page{Kind: "report", Of: r.Source.Title, Warning: r.warning(), Summary: r.sentence(), Tiles: r.tiles()}
	for _, s := range r.sections() {
		p.Sections = append(p.Sections, pageSection{section: s, Figures: figures[s.ID]})
	}
	return p, nil
}

// figures are the plots by the section that they belong to.
func (r *report) figures() (map[string][]figure, error) {
	figures := make(map[string][]figure)
	for _, f := range []struct {
		section string
		draw    func() (template.HTML, error)
		caption string
	}{
		{"decisions", r.plotTime, "Requests admitted and denied over time. The broad line is the exact algorithm, the thin one the limiter: " +
			"where they agree, one runs inside the other. The area behind them is all requests."},
		{"decisions", r.plotMemory, fmt.Sprintf("What the two keep in memory. The exact algorithm's part grows with the keys; "+
			"here there were %s of them in the fullest window.", integer(r.Replay.PeakKeys))},
		{"errors", r.plotEstimates, fmt.Sprintf("How far the limiter's count of a key was above the truth, before each of %s requests. "+
			"An estimate is never too small, and to be a few units too large is harmless as long as that is little against the limit of %s.",
			integer(r.Replay.EstimateError.Count()), integer(r.Config.Limit))},
		{"errors", r.plotRates, ratesCaption + " The line of what it was made for is missing where its memory was given."},
		{"sweep", r.plotSweep, fmt.Sprintf("Each point is the same traffic through a limiter of that size. A hollow mark means that not one was seen: "+
			"the share is 0 of some %s requests or units, and drawn where one of them would be.", integer(r.Sweep[len(r.Sweep)-1].LightRequests))},
	} {
		picture, err := f.draw()
		if err != nil {
			return nil, err
		}
		figures[f.section] = append(figures[f.section], figure{picture, f.caption})
	}
	return figures, nil
}

func (r *report) tiles() []tile {
	p := r.Replay
	return []tile{
		{bytesText(p.MemoryBytes), "for the limiter; the exact algorithm took " + measured(p.Memory.OracleHeap)},
		{integer(p.OverAdmissions), "over-admissions in " + integer(p.Requests) + " requests"},
		{integer(p.LightFalseDenials), "of " + integer(p.LightRequests) + " requests of light keys denied wrongly"},
		{resolved(p.LostShare, p.OracleAdmittedUnits), "of the units that the exact algorithm admits, lost"},
	}
}
