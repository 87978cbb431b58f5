package main

import (
	"html/template"
	"image/color"
	"math"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const ratesCaption = "The share of the requests of light keys that is denied wrongly, before, during and after: what was expected of the " +
	"limiter, what it stated now and then, and what the exact algorithm shows. A hollow mark means that not one was seen: it stands " +
	"where one of so many requests would be."

// leastShown is the rate at which lower ones are drawn; the axis says so.
const leastShown = 1e-9

func (r *report) plotRates() (template.HTML, error) {
	return plotRates(r.Replay.Series, r.Config.FalseDenialRate, "made for")
}

// plotRates draws the false-denial rate of light keys over time: as expected, if that
// is above 0, as stated and as measured.
func plotRates(series []accuracy.Bucket, expected float64, expectedName string) (template.HTML, error) {
	span := series[len(series)-1].Start.Add(series[0].Length).Sub(series[0].Start)
	unit, unitName := timeUnit(span / 4)
	at := func(b accuracy.Bucket) float64 {
		return float64(b.Start.Add(b.Length/2).Sub(series[0].Start)) / float64(unit)
	}
	var live, measured, none plotter.XYs
	for _, b := range series {
		if b.Looks > 0 {
			live = append(live, plotter.XY{X: at(b), Y: max(leastShown, b.LiveLightDenialRate)})
		}
		switch {
		case b.LightFalseDenials > 0:
			measured = append(measured, plotter.XY{X: at(b), Y: float64(b.LightFalseDenials) / float64(b.LightRequests)})
		case b.LightRequests > 0:
			none = append(none, plotter.XY{X: at(b), Y: 1 / float64(b.LightRequests)})
		}
	}
	p := newPlot()
	stated := line(blue, 2, live)
	dots, rings := glyphs(orange, 3, draw.CircleGlyph{}, measured), glyphs(orange, 3, draw.CircleGlyph{}, none)
	p.Add(stated, rings, glyphs(color.White, 2, draw.CircleGlyph{}, none), dots)
	entries := []entry{{"the limiter states", []plot.Thumbnailer{stated}}, {"measured", []plot.Thumbnailer{dots}}}
	if len(none) > 0 {
		entries = append(entries, hollow("hollow: not one seen"))
	}
	all := []plotter.XYs{live, measured, none}
	width := float64(span) / float64(unit)
	if expected > 0 {
		before := line(grey, 1, plotter.XYs{{X: 0, Y: max(leastShown, expected)}, {X: width, Y: max(leastShown, expected)}})
		before.Dashes = []vg.Length{5, 4}
		p.Add(before)
		entries, all = append(entries, entry{expectedName, []plot.Thumbnailer{before}}), append(all, before.XYs)
	}
	p.X.Min, p.X.Max = 0, width
	p.Y.Min, p.Y.Max = bounds(all...)
	p.Y.Min, p.Y.Scale = max(leastShown, math.Min(p.Y.Min, p.Y.Max/100)), plot.LogScale{}
	p.Y.Tick.Marker = shares(leastShown)
	return picture("False-denial rate of light keys over time", 340, func(c draw.Canvas) {
		p.X.Tick.Marker = fitting(c, evenly)
		rest := footed(drawLegend(c, entries), unitName+"s from the start")
		p.Draw(headed(rest, c.Min.X, "share of requests of light keys (log scale)"))
	})
}
