package main

import (
	"fmt"
	"html/template"
	"image/color"
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a share at each size of the sweep. Where it is 0 it stands at the smallest
// share that would have shown.
type curve struct {
	name       string
	color      color.Color
	shape      draw.GlyphDrawer
	size       vg.Length
	seen, none plotter.XYs
	all        plotter.XYs   // both, in order
	runs       []plotter.XYs // of what was seen, without a gap
}

func (k *curve) add(memory int, share float64, n uint64) {
	p := plotter.XY{X: float64(memory), Y: share}
	switch {
	case share > 0:
		if len(k.runs) == 0 {
			k.runs = append(k.runs, nil)
		}
		k.seen, k.all = append(k.seen, p), append(k.all, p)
		k.runs[len(k.runs)-1] = append(k.runs[len(k.runs)-1], p)
	case n > 0:
		p.Y = 1 / float64(n)
		k.none, k.all = append(k.none, p), append(k.all, p)
		k.runs = append(k.runs, nil)
	}
}

// plotSweep draws error against memory, both logarithmic.
func (r *report) plotSweep() (template.HTML, error) {
	denied := &curve{name: "false-denial rate of innocent keys", color: red, shape: draw.CircleGlyph{}, size: 4}
	withheld := &curve{name: "withheld share", color: blue, shape: draw.PyramidGlyph{}, size: 6}
	for _, s := range r.Sweep {
		denied.add(s.AskedBytes, s.FalseDenialRate, s.InnocentRequests)
		withheld.add(s.AskedBytes, s.WithheldShare, exactUnits(s.Verdict))
	}
	p := newPlot("memory of the limiter, everything included (log scale)")
	lo, hi := bounds(denied.seen, denied.none, withheld.seen, withheld.none)
	here := line(blue, 1, plotter.XYs{{X: float64(r.Config.MemoryBytes), Y: lo}, {X: float64(r.Config.MemoryBytes), Y: hi}})
	here.Color, here.Dashes = grey, []vg.Length{5, 4}
	p.Add(here)
	entries := []entry{}
	for _, k := range []*curve{withheld, denied} {
		entries = append(entries, k.plot(p))
	}
	entries = append(entries, entry{"hollow: not one seen", []plot.Thumbnailer{
		glyphs(grey, 4, draw.CircleGlyph{}, nil), glyphs(color.White, 2.4, draw.CircleGlyph{}, nil)}},
		entry{"size of this report", []plot.Thumbnailer{here}})

	first, last := float64(r.Sweep[0].AskedBytes), float64(r.Sweep[len(r.Sweep)-1].AskedBytes)
	p.X.Min, p.X.Max, p.X.Scale = first/1.1, last*1.1, plot.LogScale{}
	p.Y.Min, p.Y.Max, p.Y.Scale = lo, hi, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powersOfTwo), plot.TickerFunc(powersOfTen)
	c, area := drawing(340)
	p.Draw(headed(drawLegend(area, entries), area.Min.X, "share of requests or units (log scale)"))
	return svg(c, "False-denial rate and withheld share against memory")
}

// plot draws what was seen along a line, and what was not hollow and along a broken
// one.
func (k *curve) plot(p *plot.Plot) entry {
	below := line(k.color, 1, k.all)
	below.Dashes = []vg.Length{2, 3}
	p.Add(below)
	for _, run := range k.runs {
		p.Add(line(k.color, 2, run))
	}
	marks := glyphs(k.color, k.size, k.shape, k.seen)
	p.Add(marks, glyphs(k.color, k.size, k.shape, k.none), glyphs(color.White, k.size*.6, k.shape, k.none))
	return entry{k.name, []plot.Thumbnailer{line(k.color, 2, nil), marks}}
}

// bounds are powers of ten around all points, at least one apart.
func bounds(all ...plotter.XYs) (lo, hi float64) {
	lo, hi = 1, 0
	for _, points := range all {
		for _, p := range points {
			lo, hi = min(lo, p.Y), max(hi, p.Y)
		}
	}
	lo = math.Pow(10, math.Floor(math.Log10(lo/1.5)))
	hi = math.Pow(10, math.Ceil(math.Log10(hi*1.5)))
	return lo, max(hi, 10*lo)
}

func line(c color.Color, width vg.Length, points plotter.XYs) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: c, Width: width}}
}

func glyphs(c color.Color, size vg.Length, shape draw.GlyphDrawer, points plotter.XYs) *plotter.Scatter {
	return &plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: c, Radius: size, Shape: shape}}
}

// plotEstimates draws how far the estimates were above the truth, a bar for each bin.
func (r *report) plotEstimates() (template.HTML, error) {
	h := &r.Replay.EstimateError
	p := newPlot("units that the limiter held against a key beyond what it had used")
	n := float64(h.Count())
	lo, top := 0.5/n, 0.0
	for _, b := range h.Bins() {
		width := float64(b.To - b.From + 1)
		share := float64(b.Count) / width / n
		lo = min(lo, share/2) // a wide bin may hold less than one a unit
		top = max(top, share)
	}
	lo = math.Pow(10, math.Floor(math.Log10(lo)))
	for _, b := range h.Bins() {
		width := float64(b.To - b.From + 1)
		bar, err := plotter.NewPolygon(box(float64(b.From)-.42, lo, float64(b.To)+.42, float64(b.Count)/width/n))
		if err != nil {
			return "", err
		}
		bar.Color, bar.LineStyle.Width = blue, 0
		p.Add(bar)
	}
	p.X.Min, p.X.Max = -.6, math.Max(float64(h.Max()), 4)+.6
	p.Y.Min, p.Y.Max, p.Y.Scale = lo, 1, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(whole), plot.TickerFunc(powersOfTen)
	c, area := drawing(280)
	p.Draw(headed(area, area.Min.X, "share of requests for each unit (log scale)"))
	return svg(c, "Distribution of the estimate error")
}

func box(x0, y0, x1, y1 float64) plotter.XYs {
	return plotter.XYs{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

// plotTime draws what came, and above it what limiter and oracle made of it. Where they
// agree, the thin line of the limiter runs inside the broad one of the oracle.
func (r *report) plotTime() (template.HTML, error) {
	series := r.Replay.Series
	span := series[len(series)-1].Start.Add(series[0].Length).Sub(series[0].Start)
	tick, tickName := timeUnit(span / 4)
	per, perName := timeUnit(max(time.Duration(float64(span)/float64(r.Replay.Requests)*10), time.Second))
	steps := func(c color.Color, width vg.Length, count func(b accuracy.Bucket) uint64) *plotter.Line {
		var points plotter.XYs
		for _, b := range series {
			at := float64(b.Start.Sub(series[0].Start)) / float64(tick)
			points = append(points, plotter.XY{X: at, Y: float64(count(b)) * float64(per) / float64(b.Length)})
		}
		points = append(points, plotter.XY{X: float64(span) / float64(tick), Y: points[len(points)-1].Y})
		l := line(c, width, points)
		l.StepStyle = plotter.PostStep
		return l
	}
	requests := steps(grey, .8, func(b accuracy.Bucket) uint64 { return b.Requests })
	upper := newPlot("")
	oracle := steps(orange, 4, func(b accuracy.Bucket) uint64 { return b.OracleAdmitted })
	limiter := steps(blue, 1.3, func(b accuracy.Bucket) uint64 { return b.Admitted })
	upper.Add(requests, oracle, limiter)
	lower := newPlot(fmt.Sprintf("%ss from the start", tickName))
	lower.Add(steps(orange, 4, func(b accuracy.Bucket) uint64 { return b.OracleDenied }),
		steps(blue, 1.3, func(b accuracy.Bucket) uint64 { return b.Denied }))
	for _, p := range []*plot.Plot{upper, lower} {
		or(&p.Y.Max, 1) // nothing was denied
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(span)/float64(tick), 0, p.Y.Max*1.05
		p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(evenly), plot.TickerFunc(evenly)
	}
	c, area := drawing(420)
	area = drawLegend(area, []entry{
		{"all requests", []plot.Thumbnailer{requests}},
		{"exact algorithm", []plot.Thumbnailer{oracle}},
		{"limiter", []plot.Thumbnailer{limiter}},
	})
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: 10}
	canvases := plot.Align([][]*plot.Plot{{upper}, {lower}}, tiles, area)
	upper.Draw(headed(canvases[0][0], area.Min.X, "requests admitted per "+perName))
	lower.Draw(headed(canvases[1][0], area.Min.X, "requests denied per "+perName))
	return svg(c, "Requests admitted and denied over time")
}

// timeUnit is the largest unit that fits into d.
func timeUnit(d time.Duration) (time.Duration, string) {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return day, "day"
	case d >= time.Hour:
		return time.Hour, "hour"
	case d >= time.Minute:
		return time.Minute, "minute"
	}
	return time.Second, "second"
}

// plotMemory draws what limiter and exact algorithm take, from zero: on a logarithmic
// scale the lengths of bars would mean nothing.
func (r *report) plotMemory() (template.HTML, error) {
	m := r.Replay.Memory
	bars := []struct {
		name  string
		bytes int
		color color.Color
	}{
		{"exact, measured", m.OracleHeap, orange},
		{"limiter, measured", m.Heap, blue},
		{"limiter, as it states", m.Stated, blue},
	}
	p := newPlot("memory (linear scale)")
	var names []string
	most := 0
	for i, b := range bars {
		bar, err := plotter.NewPolygon(box(0, float64(i)-.3, float64(max(b.bytes, 0)), float64(i)+.3))
		if err != nil {
			return "", err
		}
		bar.Color, bar.LineStyle.Width = b.color, 0
		label := &plotter.Labels{XYs: plotter.XYs{{X: float64(max(b.bytes, 0)), Y: float64(i)}}, Labels: []string{bytesText(b.bytes)}, Offset: vg.Point{X: 6}}
		label.TextStyle = append(label.TextStyle, textStyle(ink))
		p.Add(bar, label)
		names, most = append(names, b.name), max(most, b.bytes)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max, p.Y.Tick.Length = -.6, float64(len(bars))-.4, 0
	p.Y.Padding = 30 // the page's font may be wider than the one that names are measured in
	p.X.Min, p.X.Max = 0, 1.12*float64(most)
	p.X.Tick.Marker = plot.TickerFunc(evenBytes)
	c, area := drawing(190)
	p.Draw(area)
	return svg(c, "Memory of the limiter and of the exact algorithm")
}

// evenBytes are round ticks for a linear axis of bytes.
func evenBytes(lo, hi float64) []plot.Tick {
	unit := math.Pow(1024, math.Floor(math.Log(hi)/math.Log(1024)))
	ticks := evenly(lo, hi/unit)
	for i := range ticks {
		ticks[i].Value *= unit
		ticks[i].Label = "0"
		if ticks[i].Value > 0 {
			ticks[i].Label = bytesText(int(math.Round(ticks[i].Value)))
		}
	}
	return ticks
}
