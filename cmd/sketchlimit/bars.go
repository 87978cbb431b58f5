package main

import (
	"fmt"
	"html/template"
	"strings"
)

// bar is one of a chart: what it is of, how long it is, how much of that is pale, and
// the number beside it.
type bar struct {
	name        string
	value, pale float64
	text        string
	color       string // as the page names it
}

type barChart struct {
	title string
	bars  []bar
}

// barCharts draws charts below each other, in units of the page, not in those of a
// picture: so the text keeps its size on a telephone.
func barCharts(label string, charts ...barChart) template.HTML {
	var s strings.Builder
	y := 0
	for _, c := range charts {
		y = c.draw(&s, y)
	}
	head := fmt.Sprintf(`<svg role="img" aria-label="%s" class="bars" width="100%%" height="%d">`, label, y)
	return template.HTML(head + s.String() + "</svg>")
}

// draw draws the chart from y on, and answers where it ends.
func (c barChart) draw(s *strings.Builder, y int) int {
	const full = 50.0 // % of the width; the number stands behind
	most := 0.0
	for _, b := range c.bars {
		most = max(most, b.value)
	}
	or(&most, 1)
	y += 22
	fmt.Fprintf(s, `<text y="%d" class="title">%s</text>`, y-4, c.title)
	for _, b := range c.bars {
		width := full * b.value / most
		solid := width - full*b.pale/most
		y += 20
		fmt.Fprintf(s, `<text y="%d">%s</text>`, y, b.name)
		fmt.Fprintf(s, `<rect y="%d" width="%.2f%%" height="16" style="fill:var(--%s)"/>`, y+6, solid, b.color)
		fmt.Fprintf(s, `<rect x="%.2f%%" y="%d" width="%.2f%%" height="16" style="fill:var(--%s)" opacity=".4"/>`,
			solid, y+6, width-solid, b.color)
		fmt.Fprintf(s, `<text x="%.2f%%" dx="6" y="%d">%s</text>`, width, y+19, b.text)
		y += 22
	}
	return y + 14
}
