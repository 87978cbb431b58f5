package main

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of Okabe and Ito, which people with any kind of colour vision can tell
// apart; limiter and oracle keep theirs in all plots.
var (
	blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff} // the limiter
	orange = color.RGBA{0xe6, 0x9f, 0x00, 0xff} // the exact algorithm
	red    = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	grey   = color.RGBA{0x6b, 0x72, 0x80, 0xff}
	pale   = color.RGBA{0xe5, 0xe7, 0xeb, 0xff}
	ink    = color.RGBA{0x1f, 0x29, 0x37, 0xff}
)

const (
	plotWidth  = 720 // points; the page scales it
	labelSize  = 11
	legendSize = 26 // height of the strip above the plot
	headSize   = 20 // height of the Y axis's label
)

// newPlot is an empty plot in the style of the page. What its Y axis shows is written
// above it, see headed.
func newPlot(x string) *plot.Plot {
	p := plot.New()
	p.X.Label.Text = x
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = sans(labelSize)
		a.Label.TextStyle.Color = ink
		a.Label.Padding = 6
		a.Tick.Label.Font = sans(labelSize)
		a.Tick.Label.Color = ink
		a.Tick.Length = 4
		a.Tick.Color, a.Color = grey, grey
		a.Padding = 0
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = pale, pale
	p.Add(grid)
	return p
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func textStyle(c color.Color) text.Style {
	return text.Style{Color: c, Font: sans(labelSize), Handler: plot.DefaultTextHandler, YAlign: draw.YCenter}
}

// entry is what the legend says of a line or a kind of points.
type entry struct {
	name   string
	thumbs []plot.Thumbnailer
}

// drawLegend puts the entries side by side on top of c, where they cover nothing, and
// answers what is left.
func drawLegend(c draw.Canvas, entries []entry) draw.Canvas {
	strip := c
	for _, e := range entries {
		l := plot.NewLegend()
		l.Top, l.Left = true, true
		l.TextStyle = textStyle(ink)
		l.TextStyle.YAlign = 0
		l.Add(e.name, e.thumbs...)
		l.Draw(strip)
		r := l.Rectangle(strip)
		strip = draw.Crop(strip, r.Max.X-r.Min.X+18, 0, 0, 0)
	}
	return draw.Crop(c, 0, 0, 0, -legendSize)
}

// headed writes what the Y axis shows on top of c from left on, level as all text, and
// answers what is left of c. plot would turn the label, and give it room in the wrong
// place where the axis is logarithmic.
func headed(c draw.Canvas, left vg.Length, label string) draw.Canvas {
	style := textStyle(ink)
	style.YAlign = draw.YTop
	c.FillText(style, vg.Point{X: left, Y: c.Max.Y}, label)
	return draw.Crop(c, 0, 0, 0, -headSize)
}

// drawing is a picture in the making.
func drawing(height vg.Length) (*vgsvg.Canvas, draw.Canvas) {
	c := vgsvg.New(plotWidth, height)
	return c, draw.Crop(draw.New(c), 2, -12, 2, -4)
}

// svg is the picture as an element of a page, which scales it and knows no DOCTYPE.
// Its font has the measures of Arial and Helvetica, one of which every system has.
func svg(c *vgsvg.Canvas, title string) (template.HTML, error) {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	_, body, ok := strings.Cut(b.String(), "<svg ")
	_, body, sized := strings.Cut(body, "viewBox=")
	if !ok || !sized {
		return "", fmt.Errorf("page: the plot %q is no SVG", title)
	}
	body = strings.ReplaceAll(body, "font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;")
	return template.HTML(`<svg role="img" aria-label="` + template.HTMLEscapeString(title) + `" viewBox=` + body), nil
}

// powersOfTen are ticks for a logarithmic axis of shares or counts.
func powersOfTen(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		label := fmt.Sprintf("1e%.0f", e)
		if e >= -2 && e <= 2 {
			label = humanize.Ftoa(math.Pow(10, e))
		}
		ticks = append(ticks, plot.Tick{Value: math.Pow(10, e), Label: label})
	}
	return ticks
}

// powersOfTwo are ticks for a logarithmic axis of bytes.
func powersOfTwo(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log2(lo)); e <= math.Ceil(math.Log2(hi)); e++ {
		ticks = append(ticks, plot.Tick{Value: math.Pow(2, e), Label: bytesText(int(math.Pow(2, e)))})
	}
	return ticks
}

// evenly are five or so round ticks from 0.
func evenly(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(hi/4)))
	for _, f := range []float64{5, 2} {
		if hi/(step*f) >= 4 {
			step *= f
			break
		}
	}
	var ticks []plot.Tick
	for i := int(math.Ceil(lo / step)); float64(i)*step <= hi*1.0001; i++ {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: humanize.Ftoa(math.Round(v*1e9) / 1e9)})
	}
	return ticks
}

// whole are round ticks for a count of units.
func whole(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for _, t := range evenly(lo, max(hi, 4)) {
		if t.Value == math.Trunc(t.Value) {
			ticks = append(ticks, t)
		}
	}
	return ticks
}
