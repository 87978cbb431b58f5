package main

import (
	"fmt"
	"html/template"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func (p *plans) page() (*page, error) {
	code, err := p.code()
	if err != nil {
		return nil, err
	}
	loads, err := p.plotLoads()
	if err != nil {
		return nil, err
	}
	sizes, err := p.plotSizes()
	if err != nil {
		return nil, err
	}
	out := &page{Kind: "plan", Of: bytesText(p.Forecast.MemoryBytes), Summary: p.summary(), Tiles: p.tiles()}
	for _, s := range p.sections() {
		out.Sections = append(out.Sections, pageSection{section: s})
	}
	out.Sections[0].Figures = []figure{
		{loads, "The plan under less and more traffic than stated. Rates below " + scientific(leastRate) + " are drawn at " + scientific(leastRate) + "."},
		{sizes, "The best plans in less and in more memory, each with dimensions of its own, under the traffic as stated."},
	}
	if err := p.verifiedFigure(out.Sections); err != nil {
		return nil, err
	}
	out.Sections = append(out.Sections, pageSection{section: section{ID: "code", Title: "In Go"}, Code: code})
	return out, nil
}

// verifiedFigure adds what was stated before, during and after the replay to the section on it, if there is one.
func (p *plans) verifiedFigure(sections []pageSection) error {
	i := slices.IndexFunc(sections, func(s pageSection) bool { return s.ID == "verified" })
	if i < 0 {
		return nil
	}
	rates, err := plotRates(p.Verified.Series, p.Forecast.Stated().FalseDenialRate, p.how())
	sections[i].Figures = []figure{{rates, ratesCaption}}
	return err
}

func (p *plans) tiles() []tile {
	f := &p.Forecast
	e := f.Stated()
	return []tile{
		{bytesText(f.MemoryBytes), "for the limiter, " + bytesPerKey(f) + " bytes a key"},
		{rangedText(e.FalseDenialRate, e.FalseDenialRange, e.Replayed), "of the requests of innocent keys denied wrongly, as " + p.how()},
		{rangedText(e.WithheldShare, e.WithheldRange, e.ReplayedUnits), "of the units that the exact algorithm admits withheld, as " + p.how()},
		{cliffText(f), "the stated traffic is where it denies everybody"},
	}
}

// plotLoads draws what to expect against the load.
func (p *plans) plotLoads() (template.HTML, error) {
	var denied, withheld plotter.XYs
	for _, l := range p.Loads {
		denied = append(denied, predictedAt(l.Load, l.FalseDenialRate))
		withheld = append(withheld, predictedAt(l.Load, l.WithheldShare))
	}
	marks := []mark{{"traffic as stated", 1, grey}}
	if cliff := p.Forecast.Cliff; cliff < farthest {
		marks = append(marks, mark{"cliff", cliff, orange})
	}
	return plotPredicted("multiple of the stated traffic, keys and requests alike (log scale)", denied, withheld, marks,
		multiples, "False-denial rate and withheld share against load")
}

// plotSizes draws what to expect against the memory.
func (p *plans) plotSizes() (template.HTML, error) {
	var denied, withheld plotter.XYs
	for _, sized := range p.Sizes {
		bytes, e := float64(sized.Forecast.MemoryBytes), sized.Forecast.Stated()
		denied = append(denied, predictedAt(bytes, e.FalseDenialRate))
		withheld = append(withheld, predictedAt(bytes, e.WithheldShare))
	}
	return plotPredicted("memory of the limiter, everything included (log scale)", denied, withheld,
		[]mark{{"the plan", float64(p.Forecast.MemoryBytes), grey}}, powersOfTwo, "False-denial rate and withheld share against memory")
}

// predictedAt is a point of a curve, which no share leaves at the bottom.
func predictedAt(x, share float64) plotter.XY { return plotter.XY{X: x, Y: max(share, leastRate)} }

// mark is a place on the X axis.
type mark struct {
	name  string
	x     float64
	color color.Color
}

// plotPredicted draws the two shares over anything, both axes logarithmic.
func plotPredicted(x string, denied, withheld plotter.XYs, marks []mark, ticks func(lo, hi float64) []plot.Tick, title string) (template.HTML, error) {
	p := newPlot(x)
	var entries []entry
	for _, m := range marks {
		l := line(m.color, 1, plotter.XYs{{X: m.x, Y: leastRate}, {X: m.x, Y: 1}})
		l.Dashes = []vg.Length{5, 4}
		p.Add(l)
		entries = append(entries, entry{m.name, []plot.Thumbnailer{l}})
	}
	a, b := line(blue, 3, withheld), line(red, 1.6, denied)
	dots, rounds := glyphs(blue, 4, draw.PyramidGlyph{}, withheld), glyphs(red, 2.6, draw.CircleGlyph{}, denied)
	p.Add(a, dots, b, rounds)
	entries = append([]entry{{"withheld share", []plot.Thumbnailer{a, dots}}, {"false-denial rate of innocent keys", []plot.Thumbnailer{b, rounds}}}, entries...)
	p.X.Min, p.X.Max, p.X.Scale = denied[0].X/1.05, denied[len(denied)-1].X*1.05, plot.LogScale{}
	p.Y.Min, p.Y.Max, p.Y.Scale = leastRate, 1, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(powersOfTen)
	c, area := drawing(340)
	p.Draw(headed(drawLegend(area, entries), area.Min.X, "share of requests or units, predicted (log scale)"))
	return svg(c, title)
}

// multiples are powers of two as factors.
func multiples(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Ceil(math.Log2(lo)); e <= math.Floor(math.Log2(hi)); e++ {
		ticks = append(ticks, plot.Tick{Value: math.Pow(2, e), Label: fmt.Sprintf("× %g", math.Pow(2, e))})
	}
	return ticks
}
