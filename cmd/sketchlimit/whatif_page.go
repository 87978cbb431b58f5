package main

import (
	"html/template"
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
)

func (r *answer) page() (*page, error) {
	r.withoutFolders()
	p := &page{Kind: "what if", Of: r.Files[0].Name, Warning: damage(r.Files), Summary: r.summary(), Tiles: r.tiles()}
	figures, err := r.figures()
	if err != nil {
		return nil, err
	}
	for _, s := range r.sections() {
		p.Sections = append(p.Sections, pageSection{section: s, Figures: figures[s.ID]})
	}
	if r.Size != nil {
		p.Sections[len(p.Sections)-1].Code = r.Size.Go + "\n" + r.Size.Rules
	}
	return p, nil
}

// withoutFolders leaves of the names of files what others may see: a page is sent on.
func (r *answer) withoutFolders() {
	for i, f := range r.Files {
		named := *f
		named.Name = filepath.Base(f.Name)
		r.Files[i] = &named
	}
	if c := r.Rules; c != nil {
		c.Today = filepath.Base(c.Today)
		if c.New != "" {
			c.New = filepath.Base(c.New)
		}
	}
}

func (r *answer) tiles() []tile {
	tiles := []tile{
		{integer(r.Requests), "requests in " + span(r.Last.Sub(r.First))},
		{estimate(r.Keys), r.whom("clients", "keys")},
	}
	if w, l := r.at(); l != nil {
		tiles = append(tiles,
			tile{whatif.Rate(l.Limit, w.Window), r.suggested("is suggested", "is suggested only if its keys are known as abusers", lowestText(l))},
			tile{percent(l.RequestShare), "of the requests, and " + percent(l.KeyShare) + " of the keys, it would have refused"})
	}
	return tiles
}

// suggested returns the text that fits the limit: a suggestion, one that refuses demand
// unless its keys are known, or none.
func (r *answer) suggested(is, demand, none string) string {
	switch {
	case !r.Suggestion.Found:
		return none
	case r.Suggestion.Demand:
		return demand
	}
	return is
}

// figures are the pictures by the section that they belong to.
func (r *answer) figures() (map[string][]figure, error) {
	figures := make(map[string][]figure)
	w, l := r.at()
	if l == nil {
		return figures, nil
	}
	knee, err := plotKnee(w, l, r.suggested(", as suggested", ", only for known abusers", ", not suggested"))
	if err != nil {
		return nil, err
	}
	if len(l.Top) > 0 {
		figures["refused"] = []figure{{plotTop(l), "The requests that the limit would have refused of the keys that it refuses the most."}}
	}
	figures["limits"] = []figure{{knee, "The share of the requests that a limit refuses, and the share of the keys. A good limit stands where " +
		"the first is high and the second is low." + r.suggested("", " Here it refuses demand, unless its keys are known as abusers.", "")}}
	if len(r.spans(r.binLength())) == 1 { // a single bar says no more than the table
		return figures, nil
	}
	traffic, err := r.plotTraffic(l)
	if err != nil {
		return nil, err
	}
	heat, err := r.plotHeat(w)
	if err != nil {
		return nil, err
	}
	figures["log"] = []figure{{traffic, "Requests over time, and those that " + whatif.Rate(l.Limit, w.Window) + " would have refused."}}
	figures["hours"] = []figure{{heat, "The share of the requests that each limit refuses over time: the stronger the colour, the more."}}
	return figures, nil
}

// plotTraffic draws the requests of each stretch, and on top of each other what is
// admitted and refused.
func (r *answer) plotTraffic(l *whatif.Limit) (template.HTML, error) {
	p := newPlot()
	most := 1.0
	length := r.binLength()
	bins := r.spans(length)
	width, start := length.Hours(), bins[0].start
	for _, s := range bins {
		from, all := s.start.Sub(start).Hours(), float64(s.requests(r))
		refused := min(float64(s.refused(l)), all)
		most = max(most, all)
		for _, b := range []struct {
			lo, hi float64
			color  color.Color
		}{{0, all - refused, blue}, {all - refused, all, red}} {
			if b.lo == b.hi {
				continue
			}
			bar, err := plotter.NewPolygon(box(from+.06*width, b.lo, from+.94*width, b.hi))
			if err != nil {
				return "", err
			}
			bar.Color, bar.LineStyle.Width = b.color, 0
			p.Add(bar)
		}
	}
	hours := r.Steps[len(r.Steps)-1].Start.Add(r.StepLength).Sub(start).Hours()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, max(hours, width), 0, most*1.05
	p.Y.Tick.Marker = plot.TickerFunc(evenly)
	return picture("Requests admitted and refused over time", 300, func(c draw.Canvas) {
		p.X.Tick.Marker = r.dates(c, start, p.X.Max)
		rest := footed(drawLegend(c, []entry{
			{"admitted", []plot.Thumbnailer{line(blue, 6, nil)}},
			{"refused at " + integer(l.Limit), []plot.Thumbnailer{line(red, 6, nil)}},
		}), r.timeLabel())
		p.Draw(headed(rest, c.Min.X, "requests in each "+stretchName(length)))
	})
}

// plotTop draws a bar for each of the keys that are refused the most.
func plotTop(l *whatif.Limit) template.HTML {
	const shown = 10
	var bars []bar
	for i := range l.Top[:min(len(l.Top), shown)] {
		k := &l.Top[i]
		bars = append(bars, bar{template.HTMLEscapeString(middleCut(whatif.KeyText(k.Key))), float64(k.Requests), 0, integer(k.Requests), "red"})
	}
	return barCharts("The keys that are refused the most", barChart{"requests refused", bars})
}

// middleCut leaves out the middle of a name that is too long for a telephone.
func middleCut(name string) string {
	const longest, end = 38, 16
	runes := []rune(name)
	if len(runes) <= longest {
		return name
	}
	return string(runes[:longest-end-1]) + "…" + string(runes[len(runes)-end:])
}

// plotKnee draws what limits refuse, both axes logarithmic.
func plotKnee(w *whatif.Window, chosen *whatif.Limit, as string) (template.HTML, error) {
	var requests, keys plotter.XYs
	floor := .01
	for i := range reached(w) {
		l := &w.Limits[i]
		for _, share := range []float64{l.RequestShare, l.KeyShare} {
			for share > 0 && floor >= share {
				floor /= 10
			}
		}
	}
	for i := range reached(w) {
		l := &w.Limits[i]
		requests = append(requests, plotter.XY{X: float64(l.Limit), Y: max(floor, l.RequestShare)})
		keys = append(keys, plotter.XY{X: float64(l.Limit), Y: max(floor, l.KeyShare)})
	}
	p := newPlot()
	p.X.Min, p.X.Max = requests[0].X/1.2, requests[len(requests)-1].X*1.2
	p.Y.Min, p.Y.Max = floor, 1
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	here := line(grey, 1.2, plotter.XYs{{X: float64(chosen.Limit), Y: floor}, {X: float64(chosen.Limit), Y: 1}})
	here.Dashes = []vg.Length{5, 4}
	ofRequests, ofKeys := line(blue, 4, requests), line(orange, 2, keys)
	p.Add(here, ofRequests, ofKeys, glyphs(blue, 4, draw.CircleGlyph{}, requests), glyphs(orange, 3, draw.CircleGlyph{}, keys))
	p.Y.Tick.Marker = percents(floor)
	return picture("Share of requests and of keys refused, by limit", 350, func(c draw.Canvas) {
		p.X.Tick.Marker = fitting(c, plainPowers)
		rest := footed(drawLegend(c, []entry{
			{"requests", []plot.Thumbnailer{ofRequests}},
			{"keys", []plot.Thumbnailer{ofKeys}},
			{integer(chosen.Limit) + as, []plot.Thumbnailer{here}},
		}), "limit in "+whatif.Span(w.Window)+" (log scale)")
		p.Draw(headed(rest, c.Min.X, "share refused (log scale)"))
	})
}

// shade is how opaque a share is drawn: the least must be seen on a dark page.
func shade(share float64) uint8 { return uint8(255 * (.2 + .8*math.Sqrt(share))) }

// plotHeat draws a field for each stretch and limit.
func (r *answer) plotHeat(w *whatif.Window) (template.HTML, error) {
	p := newPlot()
	length := r.binLength()
	bins := r.spans(length)
	width, start := length.Hours(), bins[0].start
	var names []string
	for k := range reached(w) {
		l := &w.Limits[k]
		names = append(names, integer(l.Limit))
		for _, s := range bins {
			share := min(1, float64(s.refused(l))/math.Max(float64(s.requests(r)), 1))
			if share == 0 {
				continue
			}
			from := s.start.Sub(start).Hours()
			field, err := plotter.NewPolygon(box(from, float64(k)-.48, from+width, float64(k)+.48))
			if err != nil {
				return "", err
			}
			field.Color, field.LineStyle.Width = color.NRGBA{red.R, red.G, red.B, shade(share)}, 0
			p.Add(field)
		}
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, float64(len(bins))*width
	if last := bins[len(bins)-1].start.Add(length).Sub(start).Hours(); last > p.X.Max { // stretches without requests at all
		p.X.Max = last
	}
	p.Y.Min, p.Y.Max, p.Y.Tick.Length = -.6, float64(len(names))-.4, 0
	shades := []entry{}
	for _, share := range []float64{.01, .1, .5, 1} {
		shades = append(shades, entry{percent(share), []plot.Thumbnailer{line(color.NRGBA{red.R, red.G, red.B, shade(share)}, 10, nil)}})
	}
	return picture("Share of requests refused, by time and limit", vg.Length(120+20*len(names)), func(c draw.Canvas) {
		p.X.Tick.Marker = r.dates(c, start, p.X.Max)
		rest := footed(drawLegend(c, shades), r.timeLabel())
		p.Draw(headed(rest, c.Min.X, "limit in "+whatif.Span(w.Window)))
	})
}
