// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"image/color"
	"strconv"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours that stay apart for the colour-blind (Okabe and Ito, 2008), without the yellow that paper does not show.
// Their order is by how far they are apart in lightness too.
var (
	Blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Orange = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	Green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	Red    = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	Purple = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	Sky    = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	Black  = color.RGBA{0x00, 0x00, 0x00, 0xff}
	Gray   = color.RGBA{0x80, 0x80, 0x80, 0xff}
	Light  = color.RGBA{0xe0, 0xe0, 0xe0, 0xff}
)

var palette = []color.RGBA{Blue, Red, Green, Purple, Orange, Sky, Black}

// dashes distinguish lines without colour, in units of a line's width.
var dashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}, {9, 2.5}}

// Color is that of series i.
func Color(i int) color.RGBA { return palette[i%len(palette)] }

// Pale is a colour as a background of lines of it.
func Pale(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8(255 - (255-int(v))*3/10) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xff}
}

// LineStyle is how a line looks. Its width is in units of a figure's lines.
type LineStyle struct {
	Color color.RGBA
	Width float64 // 0: 1
	Dash  int     // 0: none
}

// Line is that of series i: colour and dashes differ, so that a print without colour does for the first few.
func Line(i int) LineStyle { return LineStyle{Color: Color(i), Dash: i % len(dashes)} }

// Shape of a marker.
type Shape uint8

// The shapes.
const (
	Circle Shape = iota
	Square
	Triangle
	Diamond
	Cross
	Plus
	Tick1  // a short vertical line
	shapes = Cross
)

// Marker is how a point looks. Its size is in units of a figure's markers.
type Marker struct {
	Shape  Shape
	Color  color.RGBA
	Hollow bool
	Size   float64 // 0: 1
}

// MarkerOf is that of series i.
func MarkerOf(i int) Marker {
	return Marker{Shape: Shape(i % int(shapes)), Color: Color(i), Hollow: i/int(shapes)%2 == 1}
}

// style has what depends on the size of a figure.
type style struct {
	small, label, title vg.Length // of fonts
	line, axis, marker  vg.Length
	gap                 vg.Length
}

func styleOf(s Size) style {
	size := s.Text
	if size == 0 {
		size = 8
	}
	return style{small: size * 0.875, label: size, title: size * 1.125, line: size / 8, axis: size / 16, marker: size / 4, gap: size / 2}
}

// fonts are in the program: no figure depends on those of a machine.
var fonts = font.NewCache(liberation.Collection())

var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

// text is a style of text of that size.
func (s *style) text(size vg.Length, x draw.XAlignment, y draw.YAlignment) text.Style {
	return text.Style{Color: color.Black, Font: font.From(sans, size), XAlign: x, YAlign: y, Handler: text.Plain{Fonts: fonts}}
}

// width is how wide a text of that size is.
func (s *style) width(t string, size vg.Length) vg.Length {
	face := fonts.Lookup(sans, size)
	return face.Width(t)
}

// shorten takes out the middle of a text that is wider than it may be.
func (s *style) shorten(t string, size, most vg.Length) string {
	most += 0.01 // of what was measured before
	if s.width(t, size) <= most {
		return t
	}
	runes := []rune(t)
	low, high := 0, len(runes) // how many runes stay
	for low < high {
		mid := (low + high + 1) / 2
		if s.width(cutMiddle(runes, mid), size) <= most {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return cutMiddle(runes, low)
}

// shortenAll shortens small texts. Those that are the same without their middle have a number.
func (s *style) shortenAll(texts []string, most vg.Length) []string {
	seen, list := make(map[string]int), make([]string, len(texts))
	for i, whole := range texts {
		list[i] = s.shorten(whole, s.small, most)
		if seen[list[i]]++; list[i] != whole && seen[list[i]] > 1 {
			number := " (" + strconv.Itoa(seen[list[i]]) + ")"
			list[i] = s.shorten(whole, s.small, most-s.width(number, s.small)) + number
		}
	}
	return list
}

// cutMiddle keeps n runes of a text, at both ends.
func cutMiddle(runes []rune, n int) string {
	end := n / 2
	return string(runes[:n-end]) + "…" + string(runes[len(runes)-end:])
}

// lineStyle is a style in points.
func (s *style) lineStyle(l LineStyle) draw.LineStyle {
	width := s.line
	if l.Width > 0 {
		width *= vg.Length(l.Width)
	}
	d := draw.LineStyle{Color: l.Color, Width: width}
	for _, v := range dashes[l.Dash%len(dashes)] {
		d.Dashes = append(d.Dashes, v*max(width, s.line*0.7))
	}
	return d
}
