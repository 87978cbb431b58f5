package main

import (
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

// plotSweep draws error against memory, both logarithmic.
func (r *report) plotSweep() (template.HTML, error) {
	denied, lost := twoShares()
	for _, s := range r.Sweep {
		denied.add(float64(s.AskedBytes), s.FalseDenialRate, 1/float64(s.LightRequests))
		lost.add(float64(s.AskedBytes), s.LostShare, 1/float64(exactUnits(s.Verdict)))
	}
	p := newPlot()
	p.X.Min, p.X.Max = float64(r.Sweep[0].AskedBytes)/1.1, float64(r.Sweep[len(r.Sweep)-1].AskedBytes)*1.1
	p.Y.Min, p.Y.Max = bounds(denied.all, lost.all)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	here := upright(grey, float64(r.Config.MemoryBytes), p.Y.Min, p.Y.Max)
	p.Add(here)
	entries := []entry{lost.plot(p), denied.plot(p), hollow("hollow: not one seen"),
		{"this report", []plot.Thumbnailer{here}}}
	p.Y.Tick.Marker = plot.TickerFunc(powersOfTen)
	return picture("False-denial rate and lost share against memory", 380, func(c draw.Canvas) {
		p.X.Tick.Marker = fitting(c, powersOfTwo)
		rest := footed(drawLegend(c, entries), "memory of the limiter, at most (log scale)")
		p.Draw(headed(rest, c.Min.X, "share of requests or units (log scale)"))
	})
}

// plotEstimates draws how far the estimates were above the truth, a bar for each bin.
func (r *report) plotEstimates() (template.HTML, error) {
	h := &r.Replay.EstimateError
	p := newPlot()
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
	p.Y.Tick.Marker = plot.TickerFunc(powersOfTen)
	return picture("Distribution of the estimate error", 290, func(c draw.Canvas) {
		p.X.Tick.Marker = fitting(c, whole)
		rest := footed(c, "units counted beyond what a key had used")
		p.Draw(headed(rest, c.Min.X, "share of requests for each unit (log scale)"))
	})
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
	requests, err := area(steps(pale, 0, func(b accuracy.Bucket) uint64 { return b.Requests }))
	if err != nil {
		return "", err
	}
	upper := newPlot()
	oracle := steps(orange, 5, func(b accuracy.Bucket) uint64 { return b.OracleAdmitted })
	limiter := steps(blue, 1.6, func(b accuracy.Bucket) uint64 { return b.Admitted })
	upper.Add(requests, oracle, limiter)
	lower := newPlot()
	lower.Add(steps(orange, 5, func(b accuracy.Bucket) uint64 { return b.OracleDenied }),
		steps(blue, 1.6, func(b accuracy.Bucket) uint64 { return b.Denied }))
	for _, p := range []*plot.Plot{upper, lower} {
		or(&p.Y.Max, 1) // nothing was denied
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(span)/float64(tick), 0, p.Y.Max*1.05
		p.Y.Tick.Marker = plot.TickerFunc(evenly)
	}
	entries := []entry{
		{"all requests", []plot.Thumbnailer{requests}},
		{"exact algorithm", []plot.Thumbnailer{oracle}},
		{"limiter", []plot.Thumbnailer{limiter}},
	}
	return picture("Requests admitted and denied over time", 440, func(c draw.Canvas) {
		upper.X.Tick.Marker, lower.X.Tick.Marker = fitting(c, evenly), fitting(c, evenly)
		rest := footed(drawLegend(c, entries), tickName+"s from the start")
		tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: 10}
		canvases := plot.Align([][]*plot.Plot{{upper}, {lower}}, tiles, rest)
		upper.Draw(headed(canvases[0][0], c.Min.X, "requests admitted per "+perName))
		lower.Draw(headed(canvases[1][0], c.Min.X, "requests denied per "+perName))
	})
}

// area is what lies below steps.
func area(steps *plotter.Line) (*plotter.Polygon, error) {
	first, last := steps.XYs[0], steps.XYs[len(steps.XYs)-1]
	outline := plotter.XYs{{X: first.X}}
	for i, p := range steps.XYs {
		if i > 0 {
			outline = append(outline, plotter.XY{X: p.X, Y: steps.XYs[i-1].Y})
		}
		outline = append(outline, p)
	}
	below, err := plotter.NewPolygon(append(outline, plotter.XY{X: last.X}))
	if err != nil {
		return nil, err
	}
	below.Color, below.LineStyle.Width = steps.Color, 0
	return below, nil
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
	bars := []bar{
		{"exact algorithm, measured", float64(max(m.OracleHeap, 0)), 0, measured(m.OracleHeap), "orange"},
		{"limiter, measured", float64(max(m.Heap, 0)), 0, measured(m.Heap), "blue"},
		{"limiter, as it states", float64(m.Stated), 0, bytesText(m.Stated), "blue"},
	}
	return barCharts("Memory of the limiter and of the exact algorithm", barChart{"memory", bars}), nil
}
