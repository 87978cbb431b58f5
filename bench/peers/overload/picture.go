package main

import (
	"errors"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/page"
)

// styles are the limiters', ours first. The colours are those of Okabe and Ito, which
// people with any kind of colour vision can tell apart.
var styles = []struct {
	color  color.Color
	dashes []vg.Length
	shape  draw.GlyphDrawer
}{
	{color.RGBA{0x00, 0x00, 0x00, 0xff}, []vg.Length{6, 4}, draw.CircleGlyph{}},
	{color.RGBA{0x00, 0x00, 0x00, 0xff}, nil, draw.CircleGlyph{}},
	{color.RGBA{0x00, 0x72, 0xb2, 0xff}, nil, draw.SquareGlyph{}},
	{color.RGBA{0xe6, 0x9f, 0x00, 0xff}, nil, draw.PyramidGlyph{}},
	{color.RGBA{0x00, 0x9e, 0x73, 0xff}, nil, draw.CrossGlyph{}},
	{color.RGBA{0xcc, 0x79, 0xa7, 0xff}, nil, draw.RingGlyph{}},
}

// none is where the picture shows a rate of 0.
const none = 1e-7

// panel is one of the two plots.
type panel struct {
	title  string
	figure func([]outcome) float64
	scale  plot.Normalizer
	ticks  plot.TickerFunc
	lo, hi float64
}

var panels = []panel{
	{
		"share of innocents' requests that are denied, after the first tenth of a window",
		func(o []outcome) float64 { return max(denials(o, late), none) }, plot.LogScale{}, powersOfTen, none, 1,
	},
	{
		"units that abusers get, × what the exact algorithm gives them (they ask for 3 ×)",
		func(o []outcome) float64 { return mean(o, func(o *outcome) float64 { return o.excess.mean }) },
		plot.LinearScale{}, halves, 0, 3.25,
	},
}

// drawTo draws the rows in which there are more keys than planned, by load: one below
// the other, to be read on a phone.
func drawTo(results []result, path string) error {
	results = drawnOf(results)
	if len(results) == 0 {
		return errors.New("none of these rows is one of the picture's")
	}
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding, legend.ThumbnailWidth = true, true, 4, 34
	legend.TextStyle.Font, legend.TextStyle.Color = page.Sans(15), page.Ink
	plots := make([][]*plot.Plot, len(panels))
	for i, p := range panels {
		plots[i] = []*plot.Plot{p.axes()}
		for l, style := range styles {
			line, points, err := plotter.NewLinePoints(p.curve(results, l))
			if err != nil {
				return err
			}
			line.Color, line.Width, line.Dashes = style.color, 2.2, style.dashes
			points.Color, points.Shape, points.Radius = style.color, style.shape, 4.5
			plots[i][0].Add(line, points)
			if i == 0 {
				legend.Add(nameOf(l)+", "+memories(results, l), line, points)
			}
		}
	}
	return page.WritePNG(path, arranged(plots, legend))
}

// nameOf is the name of a limiter, ours first.
func nameOf(l int) string {
	if l < len(ours) {
		return ours[l].name
	}
	return peers[l-len(ours)].name
}

// drawnOf returns the results that the picture shows.
func drawnOf(results []result) (drawn []result) {
	for _, r := range results {
		if r.row == (row{load: r.row.load, abusers: 0.01, times: 3, start: 30}) {
			drawn = append(drawn, r)
		}
	}
	return drawn
}

// curve is the figure of a limiter by load.
func (p *panel) curve(results []result, limiter int) (points plotter.XYs) {
	for _, r := range results {
		points = append(points, plotter.XY{X: r.row.load, Y: p.figure(r.outcomes[limiter])})
	}
	return points
}

// memories says what a limiter takes at the lowest and at the highest load.
func memories(results []result, limiter int) string {
	least, highest := math.Inf(1), 0.
	for _, r := range results {
		bytes := most(r.outcomes[limiter], func(o *outcome) float64 { return float64(o.memory) })
		least, highest = min(least, bytes), max(highest, bytes)
	}
	if from, to := bytesText(least), bytesText(highest); from != to {
		return from + " … " + to
	}
	return bytesText(least)
}

// axes returns a plot without curves.
func (p *panel) axes() *plot.Plot {
	empty := plot.New()
	empty.Title.Text, empty.Title.TextStyle.Font, empty.Title.TextStyle.Color = p.title, page.Sans(14), page.Ink
	empty.Title.Padding = 8
	for _, a := range []*plot.Axis{&empty.X, &empty.Y} {
		a.Tick.Label.Font, a.Tick.Label.Color = page.Sans(15), page.Ink
		a.Color, a.Tick.Color = page.Grey, page.Grey
		a.Padding = 4
	}
	empty.X.Scale, empty.Y.Scale = plot.LogScale{}, p.scale
	empty.X.Tick.Marker, empty.Y.Tick.Marker = plot.TickerFunc(loads), p.ticks
	empty.X.Min, empty.X.Max, empty.Y.Min, empty.Y.Max = 1, 10, p.lo, p.hi
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = page.Pale, page.Pale
	empty.Add(grid)
	return empty
}

// arranged returns the picture: the legend above the plots.
func arranged(plots [][]*plot.Plot, legend plot.Legend) *vgimg.Canvas {
	const width, key, each = 600, 140, 330
	canvas := vgimg.NewWith(vgimg.UseWH(width, vg.Length(key+each*len(plots))), vgimg.UseDPI(120),
		vgimg.UseBackgroundColor(color.White))
	area := draw.Crop(draw.New(canvas), 10, -16, 10, -10)
	legend.Draw(area)
	label := text.Style{Color: page.Ink, Font: page.Sans(14), Handler: plot.DefaultTextHandler, XAlign: draw.XCenter}
	area.FillText(label, vg.Point{X: area.Center().X, Y: area.Min.Y + 3}, "load, × the units of the plan, by more keys")
	tiles := draw.Tiles{Rows: len(plots), Cols: 1, PadTop: key - 10, PadBottom: 24, PadY: 24}
	for i, row := range plot.Align(plots, tiles, area) {
		plots[i][0].Draw(row[0])
	}
	return canvas
}

// loads are those of the rows.
func loads(float64, float64) (ticks []plot.Tick) {
	for _, load := range []float64{1, 2, 4, 10} {
		ticks = append(ticks, plot.Tick{Value: load, Label: strconv.FormatFloat(load, 'g', -1, 64)})
	}
	return ticks
}

// powersOfTen are every other one of them, and none.
func powersOfTen(lo, hi float64) (ticks []plot.Tick) {
	for e := math.Round(math.Log10(lo)); e <= math.Round(math.Log10(hi)); e++ {
		label := "1e" + strconv.FormatFloat(e, 'f', -1, 64)
		switch e {
		case math.Round(math.Log10(none)):
			label = "none"
		case 0:
			label = "1"
		}
		ticks = append(ticks, plot.Tick{Value: math.Pow(10, e), Label: label})
	}
	return ticks
}

// halves are the halves on an axis.
func halves(lo, hi float64) (ticks []plot.Tick) {
	for x := lo; x <= hi; x += 0.5 {
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)})
	}
	return ticks
}
