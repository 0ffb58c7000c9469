// SPDX-License-Identifier: Apache-2.0

// Package figure draws figures fit for print: panels with axes and marks, a legend that covers no data, one style
// for all, in SVG, PDF and PNG. It knows nothing of packets. The same figure has the same bytes, on every machine.
package figure

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Figure is what is drawn: panels one above the other, or side by side.
type Figure struct {
	Title    string
	About    string // for readers that cannot see it; SVG has it
	Panels   []*Panel
	Abreast  bool // panels stand side by side
	Legend   []Entry
	LegendAt LegendPlace
	Size     Size
	Grow     bool // the figure gets higher where the legend below it takes much
	DPI      int  // of PNG

	style style
	share vg.Length // of the height that the legend may have
}

// LegendPlace is where the legend stands.
type LegendPlace string

// The places. Inside is a corner of the only panel that covers no data; where there is none it is Outside, which is
// below the panels.
const (
	Outside LegendPlace = "outside"
	Inside  LegendPlace = "inside"
	Nowhere LegendPlace = "none"
)

// Entry is a line of the legend.
type Entry struct {
	Text   string
	Line   *LineStyle
	Marker *Marker
	Fill   color.Color // a box of it; nil: none
}

// Note is what a figure could not show as it was asked to.
type Note string

// What can be.
const (
	LegendCut     Note = "the legend has no room for all entries"
	LegendOutside Note = "no corner of the figure is free of data: the legend stands outside"
)

// margin is what stays free at the edges of a figure.
const margin = vg.Length(3)

// draw draws the figure on a canvas.
func (f *Figure) draw(c draw.Canvas) (notes []Note) {
	f.grow()
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	if f.Title != "" {
		text := f.style.text(f.style.title, draw.XCenter, draw.YTop)
		c.FillText(text, vg.Point{X: c.Center().X, Y: c.Max.Y}, f.style.shorten(f.Title, f.style.title, c.Max.X-c.Min.X))
		c.Max.Y -= text.FontExtents().Height + f.style.gap
	}
	place := f.LegendAt
	if len(f.Legend) == 0 {
		place = Nowhere
	}
	if place == Inside {
		frames := f.frames(c)
		box := f.legendBox()
		if at, ok := f.freeCorner(frames, box); ok {
			f.drawPanels(frames)
			f.drawInside(c, at, box)
			return nil
		}
		place, notes = Outside, append(notes, LegendOutside)
	}
	if place == Outside {
		var cut bool
		c, cut = f.drawBelow(c)
		if cut {
			notes = append(notes, LegendCut)
		}
	}
	f.drawPanels(f.frames(c))
	return notes
}

// frames are where the panels have their data, aligned with each other.
func (f *Figure) frames(c draw.Canvas) []*frame {
	n := vg.Length(len(f.Panels))
	frames := make([]*frame, len(f.Panels))
	var left, right vg.Length
	for i, p := range f.Panels {
		part := c
		switch {
		case f.Abreast:
			gap := 3 * f.style.gap
			width := (c.Max.X - c.Min.X - (n-1)*gap) / n
			part.Min.X = c.Min.X + vg.Length(i)*(width+gap)
			part.Max.X = part.Min.X + width
		default:
			height := (c.Max.Y - c.Min.Y) / n
			part.Max.Y = c.Max.Y - vg.Length(i)*height
			part.Min.Y = part.Max.Y - height
			if i+1 < len(f.Panels) {
				part.Min.Y += f.style.gap
			}
		}
		frames[i] = p.frame(part, &f.style)
		left, right = max(left, frames[i].Min.X-part.Min.X), max(right, part.Max.X-frames[i].Max.X)
		frames[i].outer = part.Rectangle
	}
	for _, fr := range frames {
		if !f.Abreast {
			fr.Min.X, fr.Max.X = fr.outer.Min.X+left, fr.outer.Max.X-right
		}
		fr.place()
	}
	return frames
}

func (f *Figure) drawPanels(frames []*frame) {
	for _, fr := range frames {
		fr.draw()
	}
}
