package main

import (
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/page"
)

// The colours of Okabe and Ito, which people with any kind of colour vision can tell
// apart.
var (
	blue = color.RGBA{0x00, 0x62, 0xa3, 0xff} // this library
	red  = color.RGBA{0xb8, 0x3e, 0x00, 0xff} // others
	rose = color.RGBA{0xf9, 0xdf, 0xd0, 0xff} // between the least and the most of others
)

// A page may show the picture 400 pixels wide. A point is one of these then.
const (
	width, height = 400, 490
	chartHeight   = 312 // with its title
	dpi           = 144
)

// draw returns the picture: the chart, and the attack in words below it.
func (f figures) draw() (*vgimg.Canvas, error) {
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	area := draw.Crop(draw.New(canvas), 10, -10, 8, -8)
	upper, lower := area, area
	upper.Min.Y = area.Max.Y - chartHeight
	lower.Max.Y = upper.Min.Y - 10
	if err := f.drawChart(upper); err != nil {
		return nil, err
	}
	f.drawAttack(lower)
	return canvas, nil
}

func (f figures) drawChart(area draw.Canvas) error {
	top := area.Max.Y
	area.FillText(style(17, true, page.Ink), vg.Point{X: area.Min.X, Y: top}, "Memory, by the number of keys")
	area.FillText(style(13, false, page.Ink), vg.Point{X: area.Min.X, Y: top - 22}, "100 requests a minute for each key")

	p := axes()
	least, most := f.perKeyRange()
	band, err := plotter.NewPolygon(plotter.XYs{
		{X: minKeys, Y: least * minKeys}, {X: minKeys, Y: most * minKeys},
		{X: maxKeys, Y: most * maxKeys}, {X: maxKeys, Y: least * maxKeys},
	})
	if err != nil {
		return err
	}
	band.Color, band.LineStyle = rose, draw.LineStyle{}
	p.Add(band)
	for _, perKey := range slices.Sorted(maps.Values(f.perKey)) {
		line, err := plotter.NewLine(plotter.XYs{{X: minKeys, Y: perKey * minKeys}, {X: maxKeys, Y: perKey * maxKeys}})
		if err != nil {
			return err
		}
		line.LineStyle = draw.LineStyle{Color: red, Width: 1}
		p.Add(line)
	}
	var ours plotter.XYs
	for keys := minKeys; keys <= maxKeys; keys *= 10 {
		bytes, err := sketchBytes(keys)
		if err != nil {
			return err
		}
		ours = append(ours, plotter.XY{X: float64(keys), Y: bytes})
	}
	line, err := plotter.NewLine(ours)
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: blue, Width: 4}
	p.Add(line)

	inner := draw.Crop(area, 0, -14, 0, -46)
	p.Draw(inner)
	data := p.DataCanvas(inner)
	x, y := p.Transforms(&data)
	label := func(keys, bytes float64, s text.Style, words string) {
		data.FillText(s, vg.Point{X: x(keys), Y: y(bytes)}, words)
	}
	label(12e3, 12e9, style(14, true, red), "one entry for each key")
	label(12e3, 4.2e9, style(13, false, red), "ulule, x/time/rate, go-limiter,")
	label(12e3, 1.6e9, style(13, false, red), "throttled, httprate")
	bold := style(16, true, blue)
	bold.XAlign = draw.XRight
	label(95e6, 600e3, bold, "sketchlimit")
	plain := style(13, false, blue)
	plain.XAlign = draw.XRight
	million := at(ours, 1e6)
	label(95e6, 180e3, plain, fmt.Sprintf("%.0f … %.0f times less:", least*1e6/million, most*1e6/million))
	label(95e6, 68e3, plain, fmt.Sprintf("%.0f MiB for a million keys", million/(1<<20)))
	return nil
}

// at returns the Y of the point with this X.
func at(points plotter.XYs, x float64) float64 {
	for _, p := range points {
		if p.X == x {
			return p.Y
		}
	}
	return math.NaN()
}

// axes returns a plot without curves.
func axes() *plot.Plot {
	p := plot.New()
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Scale = plot.LogScale{}
		a.Tick.Label.Font, a.Tick.Label.Color = page.Sans(13), page.Ink
		a.Color, a.Tick.Color = page.Grey, page.Grey
		a.Tick.Length, a.Padding = 4, 0
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = minKeys, maxKeys, 16<<10, 24<<30
	p.X.Tick.Marker = plot.ConstantTicks{
		{Value: 1e4, Label: "10 k"}, {Value: 1e5, Label: "100 k"}, {Value: 1e6, Label: "1 M"},
		{Value: 1e7, Label: "10 M"}, {Value: 1e8, Label: "100 M"},
	}
	p.Y.Tick.Marker = plot.ConstantTicks{
		{Value: 100 << 10, Label: "100 KiB"}, {Value: 1 << 20, Label: "1 MiB"}, {Value: 10 << 20, Label: "10 MiB"},
		{Value: 100 << 20, Label: "100 MiB"}, {Value: 1 << 30, Label: "1 GiB"}, {Value: 10 << 30, Label: "10 GiB"},
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = page.Pale, page.Pale
	p.Add(grid)
	return p
}

func (f figures) drawAttack(area draw.Canvas) {
	a := f.attack
	y := area.Max.Y
	area.FillText(style(17, true, page.Ink), vg.Point{X: area.Min.X, Y: y}, "In an attack from 65,536 networks")
	y -= 28
	for _, row := range []struct {
		color       color.Color
		name, words string
	}{
		{blue, "sketchlimit", fmt.Sprintf("stays at %.1f MiB, %.0f %% gets through", a[attackedSketch].end, a[attackedSketch].passed)},
		{blue, "+ limit on /48", fmt.Sprintf("stays at %.1f MiB, %g %% gets through", a[attackedLadder].end, a[attackedLadder].passed)},
		{red, "map of keys", fmt.Sprintf("%.0f → %.0f MiB, %.0f %% gets through", a[attackedMap].quiet, a[attackedMap].end, a[attackedMap].passed)},
		{red, "LRU cache", fmt.Sprintf("%.0f %% gets through", a[attackedLRU].passed)},
		{red, "full table", fmt.Sprintf("refuses %.0f %% of light requests", a[attackedTable].refused)},
	} {
		area.FillText(style(14, true, row.color), vg.Point{X: area.Min.X, Y: y}, row.name)
		area.FillText(style(14, false, page.Ink), vg.Point{X: area.Min.X + 118, Y: y}, row.words)
		y -= 25
	}
}

// style is that of text that hangs from its point.
func style(size vg.Length, bold bool, c color.Color) text.Style {
	f := page.Sans(size)
	if bold {
		f.Weight = 3 // as golang.org/x/image/font has it
	}
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler, YAlign: draw.YTop}
}
