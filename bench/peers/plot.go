package main

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/page"
)

// The colours of Okabe and Ito, which people with any kind of colour vision can tell
// apart: one for each size.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, // blue
	color.RGBA{0xe6, 0x9f, 0x00, 0xff}, // orange
	color.RGBA{0xcc, 0x00, 0x5a, 0xff}, // red
}

// plot draws the latencies by percentile to a PNG file.
func (l latencies) plot(path string, turning time.Duration) error {
	p := newPlot()
	if err := l.addCurves(p, turning); err != nil {
		return err
	}
	return page.WritePNG(path, drawn(p))
}

// newPlot returns logarithmic axes and a legend, without curves.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Scale = plot.LogScale{}
		a.Tick.Label.Font, a.Tick.Label.Color = page.Sans(11), page.Ink
		a.Color, a.Tick.Color = page.Grey, page.Grey
		a.Padding = 0
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(nines), plot.TickerFunc(powersOfTen)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = page.Pale, page.Pale
	p.Add(grid)

	// Curves rise to the right, so the upper left is free.
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = 10, -6
	p.Legend.Padding = 3
	p.Legend.ThumbnailWidth = 32
	p.Legend.TextStyle.Font = page.Sans(11)
	p.Legend.TextStyle.Color = page.Ink
	return p
}

// addCurves adds a curve for each latency, and sets the axes to where they lie.
func (l latencies) addCurves(p *plot.Plot, turning time.Duration) error {
	lowest, highest, last := math.Inf(1), 0.0, 0.0
	add := func(name string, t timings, style draw.LineStyle) error {
		points := curve(t)
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.LineStyle = style
		p.Add(line)
		p.Legend.Add(name, line)
		end := points[len(points)-1]
		lowest, highest, last = min(lowest, points[0].Y), max(highest, end.Y), max(last, end.X)
		return nil
	}
	dashes := []vg.Length{5, 3}
	for i, c := range l.cases {
		color := palette[i%len(palette)]
		if err := add(fmt.Sprintf("%s, turning every %g s", c.label(), turning.Seconds()), c.turning, draw.LineStyle{Color: color, Width: 2}); err != nil {
			return err
		}
		if err := add(c.label()+", not turning", c.still, draw.LineStyle{Color: color, Width: 1.5, Dashes: dashes}); err != nil {
			return err
		}
	}
	if err := add("the timer alone", l.timer, draw.LineStyle{Color: page.Grey, Width: 1.5, Dashes: []vg.Length{1.5, 2.5}}); err != nil {
		return err
	}
	p.X.Min, p.X.Max = 2, last
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(lowest))), math.Pow(10, math.Ceil(math.Log10(highest)))
	return nil
}

// drawn returns the picture of a plot, with the names of its axes. They are drawn here
// because plot reserves their room in the wrong places where axes are logarithmic.
func drawn(p *plot.Plot) *vgimg.Canvas {
	canvas := vgimg.NewWith(vgimg.UseWH(720, 440), vgimg.UseDPI(144), vgimg.UseBackgroundColor(color.White))
	area := draw.Crop(draw.New(canvas), 12, -16, 8, -10)
	label := text.Style{Color: page.Ink, Font: page.Sans(12), Handler: plot.DefaultTextHandler, YAlign: draw.YTop}
	area.FillText(label, area.Rectangle.Min.Add(vg.Point{Y: area.Size().Y}), "time of a decision, the timer's included")
	label.XAlign, label.YAlign = draw.XCenter, draw.YBottom
	area.FillText(label, area.Rectangle.Min.Add(vg.Point{X: area.Size().X / 2}), "share of decisions that took no longer (percentile)")
	p.Draw(draw.Crop(area, 0, 0, 22, -24))
	return canvas
}

// curve is the time below which all but one in x decisions stayed, from x = 2, the
// median, to the number of decisions.
func curve(t timings) plotter.XYs {
	var points plotter.XYs
	n := float64(t.all.TotalCount())
	const steps = 24 // to a factor of ten
	for i := 0; ; i++ {
		x := min(2*math.Pow(10, float64(i)/steps), n)
		y := t.all.ValueAtQuantile(100 * (1 - 1/x))
		points = append(points, plotter.XY{X: x, Y: float64(max(y, 1))})
		if x == n {
			return points
		}
	}
}

// nines are the percentiles on an axis of 1/(1−q): 50 %, 90 %, 99 %, …
func nines(lo, hi float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 2, Label: "50 %"}}
	for x, digits := 10.0, -1; x <= hi; x, digits = x*10, digits+1 {
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(100-100/x, 'f', max(digits, 0), 64) + " %"})
	}
	return ticks
}

// powersOfTen are labelled times, and marks at 2 … 9 times each.
func powersOfTen(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	units := []string{"ns", "µs", "ms", "s"}
	for e := int(math.Floor(math.Log10(lo))); e <= int(math.Ceil(math.Log10(hi))); e++ {
		x := math.Pow(10, float64(e))
		ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprintf("%.0f %s", math.Pow(10, float64(e%3)), units[min(e/3, 3)])})
		for m := 2.0; m < 10; m++ {
			ticks = append(ticks, plot.Tick{Value: m * x})
		}
	}
	return ticks
}
