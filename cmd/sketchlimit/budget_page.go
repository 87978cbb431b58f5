package main

import (
	"fmt"
	"html/template"

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

func (r *budgetReport) plotWays() template.HTML {
	colors := []string{"blue", "red", "orange"}
	over, worst, denied := barChart{title: "units overspent"}, barChart{title: "worst user in a window, × the limit"},
		barChart{title: "requests denied (would have fit)"}
	for i, w := range r.Budget.Ways {
		b := bar{name: w.Way, color: colors[i]}
		b.value, b.text = float64(w.Overspent), integer(w.Overspent)
		over.bars = append(over.bars, b)
		b.value, b.text = w.WorstLoad, fmt.Sprintf("%.2f", w.WorstLoad)
		worst.bars = append(worst.bars, b)
		b.value, b.pale = float64(w.DeniedRequests), float64(w.DeniedFitting)
		b.text = fmt.Sprintf("%s (%s)", integer(w.DeniedRequests), integer(w.DeniedFitting))
		denied.bars = append(denied.bars, b)
	}
	return barCharts("What three ways overspend and deny", over, worst, denied)
}
