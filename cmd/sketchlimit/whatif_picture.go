package main

import (
	"html/template"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// picture is what paint draws, as an element of a page.
func picture(title string, height vg.Length, paint func(draw.Canvas)) (template.HTML, error) {
	c, area := drawing(height)
	paint(area)
	return svg(c, title)
}
