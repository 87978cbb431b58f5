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

// themed puts the page's variables in the place of colours: so a picture follows the
// page into the dark.
var themed = strings.NewReplacer(
	hex(blue), "var(--blue)", hex(orange), "var(--orange)", hex(red), "var(--red)", hex(grey), "var(--grey)",
	hex(pale), "var(--pale)", hex(ink), "var(--ink)", "#FFFFFF", "var(--card)",
	"font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;",
)

// hex is a color as vgsvg writes it.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

const (
	labelSize  = 13 // points, which are pixels where the page shows a picture in its own size
	legendSize = 22 // height of a row of the legend
	headSize   = 24 // height of the Y axis's label

	// widerText is how much wider text may be than measured: a system that has none of
	// the fonts shows another.
	widerText = 1.2
)

// forms are the widths that pictures are drawn for, in points. The page shows the one
// that it has room for: scaled down to a telephone, a wide picture's text could not be
// read.
var forms = []struct {
	class string
	width vg.Length
}{{"wide", 760}, {"narrow", 330}}

// newPlot is an empty plot in the style of the page. What its axes show is written
// around it, see headed and footed.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
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

// drawLegend puts the entries on top of c, side by side while there is room, and
// answers what is left.
func drawLegend(c draw.Canvas, entries []entry) draw.Canvas {
	row := c
	for _, e := range entries {
		l := plot.NewLegend()
		l.Top, l.Left = true, true
		l.TextStyle = textStyle(ink)
		l.TextStyle.YAlign = 0
		l.Add(e.name, e.thumbs...)
		r := l.Rectangle(row)
		width := (r.Max.X - r.Min.X) * widerText
		if row.Min.X > c.Min.X && row.Min.X+width > c.Max.X {
			c = draw.Crop(c, 0, 0, 0, -legendSize)
			row = c
		}
		l.Draw(row)
		row = draw.Crop(row, width+18, 0, 0, 0)
	}
	return draw.Crop(c, 0, 0, 0, -legendSize-6)
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

// footed writes what the X axis shows below c, and answers what is left of c. Where the
// axis is logarithmic, plot would take more room for it than there is on a telephone.
func footed(c draw.Canvas, label string) draw.Canvas {
	style := textStyle(ink)
	style.XAlign, style.YAlign = draw.XCenter, draw.YBottom
	c.FillText(style, vg.Point{X: c.Center().X, Y: c.Min.Y + 3}, label)
	return draw.Crop(c, 0, 0, headSize, 0)
}

// picture is a chart in all forms, as elements of a page.
func picture(title string, height vg.Length, paint func(draw.Canvas)) (template.HTML, error) {
	var all template.HTML
	for _, f := range forms {
		c := vgsvg.New(f.width, height)
		paint(draw.Crop(draw.New(c), 2, -12, 2, -4))
		one, err := svg(c, f.class, title)
		if err != nil {
			return "", err
		}
		all += one
	}
	return all, nil
}

// svg is a picture as an element of a page, which scales it and knows no DOCTYPE.
// Its font has the measures of Arial and Helvetica, one of which every system has.
func svg(c *vgsvg.Canvas, class, title string) (template.HTML, error) {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	_, body, ok := strings.Cut(b.String(), "<svg ")
	_, body, sized := strings.Cut(body, "viewBox=")
	if !ok || !sized {
		return "", fmt.Errorf("page: the plot %q is no SVG", title)
	}
	head := fmt.Sprintf(`<svg role="img" class="%s" aria-label="%s" viewBox=`, class, template.HTMLEscapeString(title))
	return template.HTML(head + themed.Replace(body)), nil
}

// fitting leaves labels only to so many ticks of the X axis as have room on c.
func fitting(c draw.Canvas, ticks plot.TickerFunc) plot.TickerFunc {
	return func(lo, hi float64) []plot.Tick {
		const axis = 60 // the Y axis's labels, left of it
		style, widest, all := textStyle(ink), vg.Length(0), ticks(lo, hi)
		for _, t := range all {
			widest = max(widest, style.Width(t.Label))
		}
		room := max(1, int((c.Max.X-c.Min.X-axis)/(widest+12)))
		step := (len(all) + room - 1) / room
		for i := range all {
			if i%step != 0 {
				all[i].Label = ""
			}
		}
		return all
	}
}

// shares are ticks for a logarithmic axis that nothing is drawn below floor of: what is
// less stands there.
func shares(floor float64) plot.TickerFunc {
	return func(lo, hi float64) []plot.Tick {
		ticks := powersOfTen(lo, hi)
		for i := range ticks {
			if ticks[i].Value <= floor*1.01 {
				ticks[i].Label = "≤ " + ticks[i].Label
			}
		}
		return ticks
	}
}

// percents are ticks for a logarithmic axis of shares, in per cent. What is 0 stands at
// floor.
func percents(floor float64) plot.TickerFunc {
	return func(lo, hi float64) []plot.Tick {
		ticks := powersOfTen(lo, hi)
		for i := range ticks {
			if ticks[i].Label = percent(ticks[i].Value); ticks[i].Value <= floor*1.01 {
				ticks[i].Label = "0"
			}
		}
		return ticks
	}
}

// plainPowers are ticks for a logarithmic axis of counts: 1, 10 … 1,000,000.
func plainPowers(lo, hi float64) []plot.Tick {
	ticks := powersOfTen(lo, hi)
	for i := range ticks {
		ticks[i].Label = integer(int(ticks[i].Value))
	}
	return ticks
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
