package main

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/sketchlimit/sketchlimit/accuracy"
)

func (r *budgetReport) page() (*page, error) {
	p := &page{Kind: "report", Of: r.Source.Title, Summary: r.summary(), Tiles: r.tiles()}
	for _, s := range r.sections() {
		figures := []figure{}
		if s.ID == "compared" {
			figures = append(figures, figure{r.plotWays(), "What the three ways did with the same requests. The pale part " +
				"of a bar is denials " +
				"of requests that would have fit."})
		}
		p.Sections = append(p.Sections, pageSection{section: s, Figures: figures})
	}
	return p, nil
}

func (r *budgetReport) tiles() []tile {
	hold, check, debit := r.ways()
	var tiles []tile
	for _, w := range []*accuracy.BudgetWay{hold, check, debit} {
		tiles = append(tiles, tile{integer(w.Overspent), fmt.Sprintf("units overspent: %s; the worst user got %.2f × the "+
			"limit", w.Way, w.WorstLoad)})
	}
	return append(tiles, tile{integer(hold.DeniedFitting), "of " + integer(r.Budget.Requests) + " requests denied " +
		"that would have fit, with holds"})
}

// bar is one of a chart: what it is of, how long it is, how much of that is pale, and the number beside it.
type bar struct {
	name        string
	value, pale float64
	text        string
	color       string
}

// plotWays draws bars in units of the page, not in those of a picture: so the text stays readable on a telephone.
func (r *budgetReport) plotWays() template.HTML {
	colors := []string{"#0072b2", "#d55e00", "#e69f00"} // blue, red and orange of the plots
	var over, worst, denied []bar
	for i, w := range r.Budget.Ways {
		b := bar{name: w.Way, color: colors[i]}
		b.value, b.text = float64(w.Overspent), integer(w.Overspent)
		over = append(over, b)
		b.value, b.text = w.WorstLoad, fmt.Sprintf("%.2f", w.WorstLoad)
		worst = append(worst, b)
		b.value, b.pale = float64(w.DeniedRequests), float64(w.DeniedFitting)
		b.text = fmt.Sprintf("%s (%s)", integer(w.DeniedRequests), integer(w.DeniedFitting))
		denied = append(denied, b)
	}
	var s strings.Builder
	y := drawBars(&s, 0, "units overspent", over)
	y = drawBars(&s, y, "worst user in a window, × the limit", worst)
	y = drawBars(&s, y, "requests denied (would have fit)", denied)
	head := fmt.Sprintf(`<svg role="img" aria-label="What three ways overspend and deny" class="bars" width="100%%" height="%d">`, y)
	return template.HTML(head + s.String() + "</svg>")
}

// drawBars draws a chart from y on, and answers where it ends.
func drawBars(s *strings.Builder, y int, title string, bars []bar) int {
	const full = 50.0 // % of the width; the number stands behind
	most := 0.0
	for _, b := range bars {
		most = max(most, b.value)
	}
	or(&most, 1)
	y += 22
	fmt.Fprintf(s, `<text y="%d" class="title">%s</text>`, y-4, title)
	for _, b := range bars {
		width := full * b.value / most
		solid := width - full*b.pale/most
		y += 20
		fmt.Fprintf(s, `<text y="%d">%s</text>`, y, b.name)
		fmt.Fprintf(s, `<rect y="%d" width="%.2f%%" height="16" fill="%s"/>`, y+6, solid, b.color)
		fmt.Fprintf(s, `<rect x="%.2f%%" y="%d" width="%.2f%%" height="16" fill="%s" opacity=".4"/>`,
			solid, y+6, width-solid, b.color)
		fmt.Fprintf(s, `<text x="%.2f%%" dx="6" y="%d">%s</text>`, width, y+19, b.text)
		y += 22
	}
	return y + 14
}
