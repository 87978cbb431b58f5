package main

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a share at each place of the X axis. One that is too small to be seen
// stands, hollow, at the smallest that could be.
type curve struct {
	name       string
	color      color.Color
	width      vg.Length
	shape      draw.GlyphDrawer
	size       vg.Length
	seen, none plotter.XYs
	all        plotter.XYs   // both, in order
	runs       []plotter.XYs // of what was seen, without a gap
}

// twoShares are the curves of what a limiter gets wrong. The thin one runs inside the
// broad one where they are alike.
func twoShares() (denied, lost *curve) {
	denied = &curve{name: "false-denial rate of light keys", color: red, width: 1.8, shape: draw.CircleGlyph{}, size: 2.6}
	lost = &curve{name: "lost share", color: blue, width: 4.5, shape: draw.PyramidGlyph{}, size: 5.5}
	return denied, lost
}

// add adds a share, of which least is the smallest that could be seen; infinite if none
// could be.
func (k *curve) add(x, share, least float64) {
	p := plotter.XY{X: x, Y: share}
	switch {
	case share >= least*.99: // one of n, and what subtraction from 1 leaves of it
		if len(k.runs) == 0 {
			k.runs = append(k.runs, nil)
		}
		k.seen, k.all = append(k.seen, p), append(k.all, p)
		k.runs[len(k.runs)-1] = append(k.runs[len(k.runs)-1], p)
	case !math.IsInf(least, 1):
		p.Y = least
		k.none, k.all = append(k.none, p), append(k.all, p)
		k.runs = append(k.runs, nil)
	}
}

// plot draws what was seen along a line, and what was not hollow and along a broken
// one.
func (k *curve) plot(p *plot.Plot) entry {
	below := line(k.color, 1, k.all)
	below.Dashes = []vg.Length{2, 3}
	p.Add(below)
	for _, run := range k.runs {
		p.Add(line(k.color, k.width, run))
	}
	marks := glyphs(k.color, k.size, k.shape, k.seen)
	p.Add(marks, glyphs(k.color, k.size, k.shape, k.none), glyphs(color.White, k.size*.6, k.shape, k.none))
	return entry{k.name, []plot.Thumbnailer{line(k.color, k.width, nil), marks}}
}

// hollow is the legend's entry on marks that are.
func hollow(name string) entry {
	ring, inside := glyphs(grey, 4, draw.CircleGlyph{}, nil), glyphs(color.White, 2.4, draw.CircleGlyph{}, nil)
	return entry{name, []plot.Thumbnailer{ring, inside}}
}

// upright is a broken line across an axis of shares.
func upright(c color.Color, x, lo, hi float64) *plotter.Line {
	l := line(c, 1.2, plotter.XYs{{X: x, Y: lo}, {X: x, Y: hi}})
	l.Dashes = []vg.Length{5, 4}
	return l
}

// bounds are powers of ten around all points, at least one apart. No share is above 1.
func bounds(all ...plotter.XYs) (lo, hi float64) {
	lo, hi = 1, 0
	for _, points := range all {
		for _, p := range points {
			lo, hi = min(lo, p.Y), max(hi, p.Y)
		}
	}
	lo = math.Pow(10, math.Floor(math.Log10(lo/1.5)))
	hi = min(1, math.Pow(10, math.Ceil(math.Log10(hi*1.5))))
	return min(lo, hi/10), hi
}

func line(c color.Color, width vg.Length, points plotter.XYs) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: c, Width: width}}
}

func glyphs(c color.Color, size vg.Length, shape draw.GlyphDrawer, points plotter.XYs) *plotter.Scatter {
	return &plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: c, Radius: size, Shape: shape}}
}
