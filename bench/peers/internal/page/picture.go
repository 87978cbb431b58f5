package page

import (
	"image/color"
	"os"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
)

// The colours of what is not a curve.
var (
	Grey = color.RGBA{0x6b, 0x72, 0x80, 0xff} // axes
	Pale = color.RGBA{0xdb, 0xde, 0xe3, 0xff} // the grid
	Ink  = color.RGBA{0x1f, 0x29, 0x37, 0xff} // text
)

// WritePNG writes a picture to a PNG file.
func WritePNG(path string, canvas *vgimg.Canvas) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Sans is the font of pictures.
func Sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}
