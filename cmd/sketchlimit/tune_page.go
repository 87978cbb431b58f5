package main

import (
	"fmt"
	"html/template"
	"image/color"
	"math"
	"slices"

	"github.com/sketchlimit/sketchlimit/tune"
	"gonum.org/v1/plot"
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
	out := &page{Kind: "plan", Of: bytesText(p.Forecast.MemoryBytes), Warning: p.warning(), Summary: p.sentence(), Tiles: p.tiles()}
	for _, s := range p.sections() {
		out.Sections = append(out.Sections, pageSection{section: s})
	}
	out.Sections[0].Figures = []figure{
		{loads, "The plan under less and more traffic than stated. A hollow mark is a share too small to tell: it stands at " +
			"the smallest that could be told."},
		{sizes, "The best plans in less and in more memory, each with dimensions of its own, under the traffic as stated."},
	}
	if err := p.verifiedFigure(out.Sections); err != nil {
		return nil, err
	}
	out.Sections = append(out.Sections, pageSection{section: section{ID: "code", Title: "In Go"}, Code: code})
	return out, nil
}

// verifiedFigure adds what was stated before, during and after the replay to the
// section on it, if there is one.
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
		{bytesText(f.MemoryBytes), "for the limiter, " + p.bytesPerKey(f) + " bytes a key"},
		{rangedText(e.FalseDenialRate, e.FalseDenialRange, e.Replayed), "of the requests of light keys denied wrongly, as " + p.how()},
		{rangedText(e.LostShare, e.LostRange, e.ReplayedUnits), "of the units that the exact algorithm admits, lost, as " + p.how()},
		{breakingPointText(f), "the stated traffic: from there on it denies more than one in ten requests of light keys"},
	}
}

// plotLoads draws what to expect against the load.
func (p *plans) plotLoads() (template.HTML, error) {
	denied, lost := twoShares()
	for _, l := range p.Loads {
		addExpected(denied, lost, l.Load, &l)
	}
	marks := []mark{{"traffic as stated", 1, grey}}
	if cliff := p.Forecast.BreakingPoint; cliff < farthest {
		marks = append(marks, mark{"breaking point", cliff, orange})
	}
	return p.plotExpected("multiple of the stated traffic (log scale)", denied, lost, marks, multiples,
		"False-denial rate and lost share against load")
}

// plotSizes draws what to expect against the memory.
func (p *plans) plotSizes() (template.HTML, error) {
	denied, lost := twoShares()
	for _, sized := range p.Sizes {
		e := sized.Forecast.Stated()
		addExpected(denied, lost, float64(sized.Forecast.MemoryBytes), &e)
	}
	return p.plotExpected("memory of the limiter (log scale)", denied, lost,
		[]mark{{"the plan", float64(p.Forecast.MemoryBytes), grey}}, powersOfTwo, "False-denial rate and lost share against memory")
}

// addExpected adds what is expected at x. Below the least that a prediction or a replay
// tells, both stand hollow.
func addExpected(denied, lost *curve, x float64, e *tune.Expected) {
	least := func(replayed uint64) float64 {
		if replayed > 0 {
			return 1 / float64(replayed)
		}
		return belowTelling
	}
	denied.add(x, e.FalseDenialRate, least(e.Replayed))
	lost.add(x, e.LostShare, least(e.ReplayedUnits))
}

// mark is a place on the X axis.
type mark struct {
	name  string
	x     float64
	color color.Color
}

// plotExpected draws the two shares over anything, both axes logarithmic.
func (p *plans) plotExpected(x string, denied, lost *curve, marks []mark, ticks plot.TickerFunc,
	title string) (template.HTML, error) {
	chart := newPlot()
	first, last := denied.all[0].X, denied.all[len(denied.all)-1].X
	chart.X.Min, chart.X.Max = first/1.05, last*1.05
	chart.Y.Min, chart.Y.Max = bounds(denied.all, lost.all)
	chart.Y.Min = max(chart.Y.Min, belowTelling)
	chart.X.Scale, chart.Y.Scale = plot.LogScale{}, plot.LogScale{}
	var uprights []entry
	for _, m := range marks {
		l := upright(m.color, m.x, chart.Y.Min, chart.Y.Max)
		chart.Add(l)
		uprights = append(uprights, entry{m.name, []plot.Thumbnailer{l}})
	}
	entries := []entry{lost.plot(chart), denied.plot(chart)}
	if len(denied.none)+len(lost.none) > 0 {
		entries = append(entries, hollow(p.belowText()))
	}
	entries = append(entries, uprights...)
	chart.Y.Tick.Marker = shares(belowTelling)
	return picture(title, 390, func(c draw.Canvas) {
		chart.X.Tick.Marker = fitting(c, ticks)
		rest := footed(drawLegend(c, entries), x)
		chart.Draw(headed(rest, c.Min.X, "share of requests or units, "+p.how()+" (log scale)"))
	})
}

// belowText is what a hollow mark says.
func (p *plans) belowText() string {
	if p.Forecast.Stated().Replayed > 0 {
		return "hollow: not one seen"
	}
	return "hollow: below " + scientific(belowTelling)
}

// multiples are powers of two as factors.
func multiples(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Ceil(math.Log2(lo)); e <= math.Floor(math.Log2(hi)); e++ {
		ticks = append(ticks, plot.Tick{Value: math.Pow(2, e), Label: fmt.Sprintf("× %g", math.Pow(2, e))})
	}
	return ticks
}
