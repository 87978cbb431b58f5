package main

import (
	"image/color"
	"math"
	"strconv"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/page"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The colours of Okabe and Ito, which people with any kind of colour vision can tell
// apart. The contestants beyond them have dashes.
var (
	palette = []color.Color{
		color.RGBA{0x00, 0x72, 0xb2, 0xff}, // blue
		color.RGBA{0xe6, 0x9f, 0x00, 0xff}, // orange
		color.RGBA{0x00, 0x9e, 0x73, 0xff}, // green
		color.RGBA{0x56, 0xb4, 0xe9, 0xff}, // light blue
		color.RGBA{0xcc, 0x79, 0xa7, 0xff}, // purple
	}
	black = color.RGBA{0x00, 0x00, 0x00, 0xff}
)

// picture draws the scores by memory to a PNG file: a plot for each algorithm.
func picture(path string, arenas [][]*player) error {
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding, legend.ThumbnailWidth = true, true, 5, 32
	legend.TextStyle.Font, legend.TextStyle.Color = page.Sans(11), page.Ink
	plots := make([]*plot.Plot, len(kinds))
	lowest, highest := math.Inf(1), 0.0
	for _, players := range arenas {
		for _, p := range players {
			lowest, highest = min(lowest, p.score()), max(highest, p.score())
		}
	}
	for _, k := range kinds {
		plots[k] = axes(k)
		plots[k].Y.Min, plots[k].Y.Max = decade(math.Floor, lowest), decade(math.Ceil, highest)
		for i := range arenas[0] {
			line, points, err := plotter.NewLinePoints(scores(arenas, k, i))
			if err != nil {
				return err
			}
			line.LineStyle = style(i)
			points.Shape, points.Color, points.Radius = draw.CircleGlyph{}, line.Color, 1+line.Width
			plots[k].Add(line, points)
			if k == fixed {
				legend.Add(arenas[0][i].title(), line)
			}
		}
	}
	return page.WritePNG(path, drawn(plots, legend))
}

// scores is the curve of the i-th player.
func scores(arenas [][]*player, k kind, i int) (points plotter.XYs) {
	for _, players := range arenas {
		if p := players[i]; p.arena.kind == k {
			points = append(points, plotter.XY{X: float64(p.arena.bytes) / 1024, Y: p.score()})
		}
	}
	return points
}

// style is that of the i-th player's curve. The first is this library.
func style(i int) draw.LineStyle {
	if i == 0 {
		return draw.LineStyle{Color: black, Width: 3}
	}
	s := draw.LineStyle{Color: palette[(i-1)%len(palette)], Width: 1.5}
	if i > len(palette) {
		s.Dashes = []vg.Length{5, 3}
	}
	return s
}

// axes returns a plot without curves.
func axes(k kind) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.TextStyle.Font, p.Title.TextStyle.Color = k.String()+" windows", page.Sans(12), page.Ink
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Scale = plot.LogScale{}
		a.Tick.Label.Font, a.Tick.Label.Color = page.Sans(11), page.Ink
		a.Color, a.Tick.Color = page.Grey, page.Grey
		a.Padding = 0
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(doubled), plot.TickerFunc(powersOfTen)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = page.Pale, page.Pale
	p.Add(grid)
	return p
}

// drawn returns the picture of the plots and their legend, side by side.
func drawn(plots []*plot.Plot, legend plot.Legend) *vgimg.Canvas {
	canvas := vgimg.NewWith(vgimg.UseWH(860, 420), vgimg.UseDPI(144), vgimg.UseBackgroundColor(color.White))
	area := draw.Crop(draw.New(canvas), 12, -10, 8, -10)
	label := text.Style{Color: page.Ink, Font: page.Sans(12), Handler: plot.DefaultTextHandler, YAlign: draw.YTop}
	area.FillText(label, area.Rectangle.Min.Add(vg.Point{Y: area.Size().Y}), "what goes wrong: false denials + withheld + over-admissions, geometric mean of the loads")
	label.XAlign, label.YAlign = draw.XCenter, draw.YBottom
	area.FillText(label, area.Rectangle.Min.Add(vg.Point{X: area.Size().X * 5 / 12}), "memory, KiB")
	width := area.Size().X / 12
	for i, p := range plots {
		p.Draw(draw.Crop(area, vg.Length(5*i)*width, vg.Length(5*i-7)*width-12, 22, -24))
	}
	legend.Draw(draw.Crop(area, 10*width, 0, 22, -44))
	return canvas
}

// decade rounds to a power of ten.
func decade(round func(float64) float64, v float64) float64 {
	return math.Pow(10, round(math.Log10(v)))
}

// doubled are the powers of two on an axis.
func doubled(lo, hi float64) (ticks []plot.Tick) {
	for x := math.Exp2(math.Ceil(math.Log2(lo))); x <= hi; x *= 2 {
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'f', -1, 64)})
	}
	return ticks
}

// powersOfTen are those on an axis.
func powersOfTen(lo, hi float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		ticks = append(ticks, plot.Tick{Value: math.Pow(10, e), Label: "1e" + strconv.FormatFloat(e, 'f', -1, 64)})
	}
	return ticks
}
