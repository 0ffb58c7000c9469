// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// placed is a glyph of a text, and how far right of the text's beginning it stands, in units of the font.
type placed struct {
	glyph sfnt.GlyphIndex
	at    float64
}

// layout places the glyphs of a text, as font.Face.Width measures it.
func layout(face font.Face, text string) (list []placed) {
	var buf sfnt.Buffer
	em := fixed.Int26_6(face.Face.UnitsPerEm())
	x, last := 0, sfnt.GlyphIndex(0)
	for i, r := range text {
		glyph, err := face.Face.GlyphIndex(&buf, r)
		if err != nil {
			continue
		}
		if i > 0 {
			if kern, err := face.Face.Kern(&buf, last, glyph, em, 0); err == nil {
				x += int(kern)
			}
		}
		list = append(list, placed{glyph, float64(x)})
		if wide, err := face.Face.GlyphAdvance(&buf, glyph, em, 0); err == nil {
			x += int(wide)
		}
		last = glyph
	}
	return list
}

// outline is a glyph as a path, y upward, in units of the font.
func outline(face font.Face, glyph sfnt.GlyphIndex) (path vg.Path) {
	var buf sfnt.Buffer
	segments, err := face.Face.LoadGlyph(&buf, glyph, fixed.Int26_6(face.Face.UnitsPerEm()), nil)
	if err != nil {
		return nil
	}
	at := func(p fixed.Point26_6) vg.Point { return vg.Point{X: vg.Length(p.X), Y: -vg.Length(p.Y)} }
	for i, s := range segments {
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			if i > 0 {
				path.Close()
			}
			path.Move(at(s.Args[0]))
		case sfnt.SegmentOpLineTo:
			path.Line(at(s.Args[0]))
		case sfnt.SegmentOpQuadTo:
			path.QuadTo(at(s.Args[0]), at(s.Args[1]))
		case sfnt.SegmentOpCubeTo:
			path.CubeTo(at(s.Args[0]), at(s.Args[1]), at(s.Args[2]))
		}
	}
	if len(path) > 0 {
		path.Close()
	}
	return path
}

// textPath is a text as one path that begins at a point.
func textPath(face font.Face, from vg.Point, text string) (path vg.Path) {
	scale := face.Font.Size / vg.Length(face.Face.UnitsPerEm())
	for _, g := range layout(face, text) {
		to := func(p vg.Point) vg.Point {
			return vg.Point{X: from.X + (p.X+vg.Length(g.at))*scale, Y: from.Y + p.Y*scale}
		}
		for _, c := range outline(face, g.glyph) {
			c.Pos = to(c.Pos)
			for i := range c.Control {
				c.Control[i] = to(c.Control[i])
			}
			path = append(path, c)
		}
	}
	return path
}
