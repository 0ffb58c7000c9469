// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// svg is a canvas that writes SVG. Letters are outlines, each once, so that the figure looks the same where none of its
// fonts are installed. Each text has its words beside it, for those who search or read aloud.
type svg struct {
	width, height vg.Length
	body          bytes.Buffer
	glyphs        map[sfnt.GlyphIndex]vg.Path
	order         []sfnt.GlyphIndex
	em            float64
	now           pen
	stack         []pen
}

// pen is the state of a canvas.
type pen struct {
	color  color.Color
	width  vg.Length
	dashes []vg.Length
	offset vg.Length
	// to are how points become those of the figure: x' = to[0] x + to[2] y + to[4], y' = to[1] x + to[3] y + to[5].
	to [6]float64
}

func newSVG(width, height vg.Length) *svg {
	s := &svg{width: width, height: height, glyphs: make(map[sfnt.GlyphIndex]vg.Path)}
	s.now.to = [6]float64{1, 0, 0, -1, 0, float64(height)}
	vg.Initialize(s)
	return s
}

// Size implements vg.CanvasSizer.
func (s *svg) Size() (x, y vg.Length) { return s.width, s.height }

// SetLineWidth implements vg.Canvas.
func (s *svg) SetLineWidth(w vg.Length) { s.now.width = w }

// SetLineDash implements vg.Canvas.
func (s *svg) SetLineDash(pattern []vg.Length, offset vg.Length) {
	s.now.dashes, s.now.offset = pattern, offset
}

// SetColor implements vg.Canvas.
func (s *svg) SetColor(c color.Color) {
	if s.now.color = c; c == nil {
		s.now.color = color.Black
	}
}

// Rotate implements vg.Canvas.
func (s *svg) Rotate(rad float64) {
	sin, cos := math.Sincos(rad)
	s.transform([6]float64{cos, sin, -sin, cos, 0, 0})
}

// Translate implements vg.Canvas.
func (s *svg) Translate(p vg.Point) {
	s.transform([6]float64{1, 0, 0, 1, float64(p.X), float64(p.Y)})
}

// Scale implements vg.Canvas.
func (s *svg) Scale(x, y float64) { s.transform([6]float64{x, 0, 0, y, 0, 0}) }

func (s *svg) transform(m [6]float64) {
	t := s.now.to
	s.now.to = [6]float64{
		t[0]*m[0] + t[2]*m[1], t[1]*m[0] + t[3]*m[1],
		t[0]*m[2] + t[2]*m[3], t[1]*m[2] + t[3]*m[3],
		t[0]*m[4] + t[2]*m[5] + t[4], t[1]*m[4] + t[3]*m[5] + t[5],
	}
}

// Push implements vg.Canvas.
func (s *svg) Push() { s.stack = append(s.stack, s.now) }

// Pop implements vg.Canvas.
func (s *svg) Pop() { s.now, s.stack = s.stack[len(s.stack)-1], s.stack[:len(s.stack)-1] }

// Stroke implements vg.Canvas.
func (s *svg) Stroke(p vg.Path) {
	if s.now.width <= 0 {
		return
	}
	fmt.Fprintf(&s.body, `<path d="%s" fill="none" %s stroke-width="%s"`, s.data(p, s.now.to), paint("stroke", s.now.color), short(float64(s.now.width)))
	if len(s.now.dashes) > 0 {
		s.body.WriteString(` stroke-dasharray="`)
		for i, d := range s.now.dashes {
			if i > 0 {
				s.body.WriteByte(' ')
			}
			s.body.WriteString(short(float64(d)))
		}
		s.body.WriteByte('"')
	}
	s.body.WriteString("/>\n")
}

// Fill implements vg.Canvas.
func (s *svg) Fill(p vg.Path) {
	fmt.Fprintf(&s.body, `<path d="%s" %s/>`+"\n", s.data(p, s.now.to), paint("fill", s.now.color))
}

// FillString implements vg.Canvas.
func (s *svg) FillString(f font.Face, p vg.Point, text string) {
	if f.Font.Size == 0 || text == "" {
		return
	}
	s.em = float64(f.Face.UnitsPerEm())
	scale := float64(f.Font.Size) / s.em
	s.Push()
	s.Translate(p)
	s.Scale(scale, scale)
	t := s.now.to
	s.Pop()
	fmt.Fprintf(&s.body, `<g role="text" aria-label="`)
	_ = xml.EscapeText(&s.body, []byte(text))
	fmt.Fprintf(&s.body, `" transform="matrix(%s %s %s %s %s %s)" %s>`, fine(t[0]), fine(t[1]), fine(t[2]), fine(t[3]), short(t[4]), short(t[5]), paint("fill", s.now.color))
	for _, g := range layout(f, text) {
		path, known := s.glyphs[g.glyph]
		if !known {
			path = outline(f, g.glyph)
			s.glyphs[g.glyph] = path
			s.order = append(s.order, g.glyph)
		}
		if len(path) > 0 {
			fmt.Fprintf(&s.body, `<use xlink:href="#g%d" x="%s"/>`, g.glyph, short(g.at))
		}
	}
	s.body.WriteString("</g>\n")
}

// DrawImage implements vg.Canvas. Figures have no images.
func (s *svg) DrawImage(vg.Rectangle, image.Image) {}

// data is a path as an attribute has it.
func (s *svg) data(p vg.Path, to [6]float64) string {
	var b []byte
	point := func(p vg.Point) {
		x, y := float64(p.X), float64(p.Y)
		if last := b[len(b)-1]; last >= '0' && last <= '9' {
			b = append(b, ' ')
		}
		b = append(b, short(to[0]*x+to[2]*y+to[4])...)
		b = append(b, ' ')
		b = append(b, short(to[1]*x+to[3]*y+to[5])...)
	}
	for _, c := range p {
		switch c.Type {
		case vg.MoveComp:
			b = append(b, 'M')
			point(c.Pos)
		case vg.LineComp:
			b = append(b, 'L')
			point(c.Pos)
		case vg.CurveComp:
			b = append(b, "MQC"[len(c.Control)])
			for _, p := range c.Control {
				point(p)
			}
			point(c.Pos)
		case vg.CloseComp:
			b = append(b, 'Z')
		}
	}
	return string(b)
}

// paint is a colour as an attribute.
func paint(what string, c color.Color) string {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	text := fmt.Sprintf(`%s="#%02x%02x%02x"`, what, n.R, n.G, n.B)
	if n.A != 0xff {
		text += fmt.Sprintf(` %s-opacity="%s"`, what, short(float64(n.A)/0xff))
	}
	return text
}

// short is a number with as many decimals as an eye can see.
func short(v float64) string { return trim(v, 2) }

// fine is one that is multiplied by the numbers of a glyph.
func fine(v float64) string { return trim(v, 6) }

func trim(v float64, decimals int) string {
	b := strconv.AppendFloat(nil, v, 'f', decimals, 64)
	if slices.Contains(b, '.') {
		b = bytes.TrimRight(b, "0")
		b = bytes.TrimSuffix(b, []byte("."))
	}
	if string(b) == "-0" {
		return "0"
	}
	return string(b)
}

// write writes the whole file.
func (s *svg) write(w io.Writer, title, about string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" width="%spt" height="%spt" viewBox="0 0 %s %s">
`, short(float64(s.width)), short(float64(s.height)), short(float64(s.width)), short(float64(s.height)))
	for _, text := range [][2]string{{"title", title}, {"desc", about}} {
		if text[1] != "" {
			fmt.Fprintf(&b, "<%s>", text[0])
			_ = xml.EscapeText(&b, []byte(text[1]))
			fmt.Fprintf(&b, "</%s>\n", text[0])
		}
	}
	b.WriteString("<defs>\n")
	slices.Sort(s.order)
	for _, g := range s.order {
		if path := s.glyphs[g]; len(path) > 0 {
			fmt.Fprintf(&b, `<path id="g%d" d="%s"/>`+"\n", g, s.data(path, [6]float64{1, 0, 0, 1, 0, 0}))
		}
	}
	b.WriteString("</defs>\n")
	b.Write(s.body.Bytes())
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}
