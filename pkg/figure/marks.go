// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// XY is a point.
type XY struct{ X, Y float64 }

// Curve is a line through points. With Steps it goes to the next x first, and then up or down.
type Curve struct {
	Points []XY
	Steps  bool
	LineStyle
}

func (l Curve) bounds() (x, y span) { return boundsOf(l.Points) }

func boundsOf(points []XY) (x, y span) {
	x, y = nothing(), nothing()
	for _, p := range points {
		x.add(p.X)
		y.add(p.Y)
	}
	return x, y
}

// path is the line on the canvas, without points that it does not need.
func (l Curve) path(fr *frame) (list []vg.Point) {
	for _, p := range l.Points {
		at := fr.at(p.X, p.Y)
		if sum := float64(at.X + at.Y); math.IsNaN(sum) || math.IsInf(sum, 0) {
			continue
		}
		if n := len(list); l.Steps && n > 0 && at.Y != list[n-1].Y {
			list = addPoint(list, vg.Point{X: at.X, Y: list[n-1].Y})
		}
		list = addPoint(list, at)
	}
	return list
}

// nearer is the least distance at which a reader sees two points, or less.
const nearer = 0.02

// addPoint adds a point, and takes off the last one where it stands on the line to this one.
func addPoint(list []vg.Point, p vg.Point) []vg.Point {
	if n := len(list); n > 0 && math.Hypot(float64(p.X-list[n-1].X), float64(p.Y-list[n-1].Y)) < nearer {
		return list
	}
	if n := len(list); n > 1 {
		a, b := list[n-2], list[n-1]
		if a.X == b.X && b.X == p.X && (b.Y-a.Y)*(p.Y-b.Y) >= 0 || a.Y == b.Y && b.Y == p.Y && (b.X-a.X)*(p.X-b.X) >= 0 {
			list = list[:n-1]
		}
	}
	return append(list, p)
}

func (l Curve) draw(fr *frame) {
	if path := l.path(fr); len(path) > 1 {
		fr.StrokeLines(fr.lineStyle(l.LineStyle), fr.ClipLinesXY(path)...)
	}
}

func (l Curve) covers(fr *frame, r vg.Rectangle) bool {
	path := l.path(fr)
	for i := range path {
		if meets(path[max(i-1, 0)], path[i], r) {
			return true
		}
	}
	return false
}

// meets reports whether a line from a to b passes a rectangle (Liang and Barsky, 1984).
func meets(a, b vg.Point, r vg.Rectangle) bool {
	from, to := 0.0, 1.0
	d := b.Sub(a)
	for _, side := range [][2]vg.Length{{-d.X, a.X - r.Min.X}, {d.X, r.Max.X - a.X}, {-d.Y, a.Y - r.Min.Y}, {d.Y, r.Max.Y - a.Y}} {
		p, q := float64(side[0]), float64(side[1])
		switch {
		case p == 0 && q < 0:
			return false
		case p < 0:
			from = max(from, q/p)
		case p > 0:
			to = min(to, q/p)
		}
	}
	return from <= to
}

// Points are markers.
type Points struct {
	List []XY
	Marker
}

func (m Points) bounds() (x, y span) { return boundsOf(m.List) }

func (m Points) draw(fr *frame) {
	var list []vg.Point
	for _, p := range m.List {
		if at := fr.at(p.X, p.Y); fr.inside(at) {
			list = append(list, at)
		}
	}
	drawMarkers(&fr.Canvas, fr.style, m.Marker, list)
}

func (m Points) covers(fr *frame, r vg.Rectangle) bool {
	for _, p := range m.List {
		if at := fr.at(p.X, p.Y); meets(at, at, r) {
			return true
		}
	}
	return false
}

// drawMarkers draws all of one look as one path, so that a figure of many is small.
func drawMarkers(c *draw.Canvas, s *style, m Marker, list []vg.Point) {
	if len(list) == 0 {
		return
	}
	r := s.marker
	if m.Size > 0 {
		r *= vg.Length(m.Size)
	}
	var path vg.Path
	for _, p := range list {
		addMarker(&path, m.Shape, p, r)
	}
	stroke := draw.LineStyle{Color: m.Color, Width: s.line * 0.8}
	if m.Shape == Cross || m.Shape == Plus || m.Shape == Tick1 {
		stroke.Width = s.line
	} else {
		c.SetColor(m.Color)
		if m.Hollow {
			c.SetColor(color.White)
		}
		c.Fill(path)
		if !m.Hollow {
			return
		}
	}
	c.SetLineStyle(stroke)
	c.Stroke(path)
}

func addMarker(path *vg.Path, shape Shape, p vg.Point, r vg.Length) {
	corners := func(list ...vg.Point) {
		for i, d := range list {
			if i == 0 {
				path.Move(p.Add(d))
			} else {
				path.Line(p.Add(d))
			}
		}
		path.Close()
	}
	line := func(x0, y0, x1, y1 vg.Length) {
		path.Move(p.Add(vg.Point{X: x0, Y: y0}))
		path.Line(p.Add(vg.Point{X: x1, Y: y1}))
	}
	switch shape {
	case Square:
		s := r * 0.85
		corners(vg.Point{X: -s, Y: -s}, vg.Point{X: s, Y: -s}, vg.Point{X: s, Y: s}, vg.Point{X: -s, Y: s})
	case Triangle:
		corners(vg.Point{Y: r * 1.15}, vg.Point{X: -r, Y: -r * 0.8}, vg.Point{X: r, Y: -r * 0.8})
	case Diamond:
		s := r * 1.2
		corners(vg.Point{Y: s}, vg.Point{X: -s}, vg.Point{Y: -s}, vg.Point{X: s})
	case Cross:
		line(-r, -r, r, r)
		line(-r, r, r, -r)
	case Plus:
		line(-r, 0, r, 0)
		line(0, -r, 0, r)
	case Tick1:
		line(0, -r, 0, r)
	default:
		const k = 0.5522847498 // a quarter of a circle as a cubic curve
		at := func(x, y vg.Length) vg.Point { return p.Add(vg.Point{X: x * r, Y: y * r}) }
		path.Move(at(1, 0))
		path.CubeTo(at(1, k), at(k, 1), at(0, 1))
		path.CubeTo(at(-k, 1), at(-1, k), at(-1, 0))
		path.CubeTo(at(-1, -k), at(-k, -1), at(0, -1))
		path.CubeTo(at(k, -1), at(1, -k), at(1, 0))
		path.Close()
	}
}

// Segment is a line from one point to another.
type Segment struct{ From, To XY }

// Segments are lines of one look that do not hang together.
type Segments struct {
	List []Segment
	LineStyle
}

func (s Segments) bounds() (x, y span) {
	x, y = nothing(), nothing()
	for _, one := range s.List {
		x.add(one.From.X, one.To.X)
		y.add(one.From.Y, one.To.Y)
	}
	return x, y
}

func (s Segments) draw(fr *frame) {
	var path vg.Path
	for _, one := range s.List {
		for _, part := range fr.ClipLinesXY([]vg.Point{fr.at(one.From.X, one.From.Y), fr.at(one.To.X, one.To.Y)}) {
			path.Move(part[0])
			path.Line(part[len(part)-1])
		}
	}
	if len(path) > 0 {
		fr.SetLineStyle(fr.lineStyle(s.LineStyle))
		fr.Stroke(path)
	}
}

func (s Segments) covers(fr *frame, r vg.Rectangle) bool {
	for _, one := range s.List {
		if meets(fr.at(one.From.X, one.From.Y), fr.at(one.To.X, one.To.Y), r) {
			return true
		}
	}
	return false
}

// Box is a rectangle, with a text if that fits into it.
type Box struct {
	From, To XY
	Fill     color.Color
	Line     *LineStyle // around it; nil: none
	Text     string
}

// Boxes are rectangles.
type Boxes []Box

func (b Boxes) bounds() (x, y span) {
	x, y = nothing(), nothing()
	for _, one := range b {
		x.add(one.From.X, one.To.X)
		y.add(one.From.Y, one.To.Y)
	}
	return x, y
}

func (b Boxes) draw(fr *frame) {
	for _, one := range b {
		r := fr.box(&one)
		if r.Max.X <= r.Min.X && one.Line == nil {
			continue
		}
		if one.Fill != nil {
			fr.SetColor(one.Fill)
			fr.Fill(r.Path())
		}
		if one.Line != nil {
			fr.SetLineStyle(fr.lineStyle(*one.Line))
			fr.Stroke(r.Path())
		}
		if wide := r.Max.X - r.Min.X; one.Text != "" && fr.width(one.Text, fr.small) <= wide-2 && fr.small <= r.Max.Y-r.Min.Y {
			text := fr.text(fr.small, draw.XCenter, draw.YCenter)
			text.Color = textOn(one.Fill)
			fr.FillText(text, vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y+r.Max.Y)/2 + fr.small*0.1}, one.Text)
		}
	}
}

// box is one on the canvas, as far as the panel has it.
func (fr *frame) box(b *Box) vg.Rectangle {
	p, q := fr.at(b.From.X, b.From.Y), fr.at(b.To.X, b.To.Y)
	return vg.Rectangle{
		Min: vg.Point{X: max(min(p.X, q.X), fr.Min.X), Y: max(min(p.Y, q.Y), fr.Min.Y)},
		Max: vg.Point{X: min(max(p.X, q.X), fr.Max.X), Y: min(max(p.Y, q.Y), fr.Max.Y)},
	}
}

// textOn is black or white, whatever is read better on a colour.
func textOn(c color.Color) color.Color {
	if c == nil {
		return color.Black
	}
	r, g, b, _ := c.RGBA()
	if 299*r+587*g+114*b < 500*0xffff {
		return color.White
	}
	return color.Black
}

func (b Boxes) covers(fr *frame, r vg.Rectangle) bool {
	for _, one := range b {
		box := fr.box(&one)
		if box.Min.X <= r.Max.X && r.Min.X <= box.Max.X && box.Min.Y <= r.Max.Y && r.Min.Y <= box.Max.Y {
			return true
		}
	}
	return false
}

// Label is a text in a panel.
type Label struct {
	At    XY
	Text  string
	Right bool    // it ends there; else it begins there
	Above bool    // it stands above the point; else beside it
	Room  float64 // share of the panel's width that it may have; 0: up to the edge of the figure
}

func (l Label) bounds() (x, y span) { return boundsOf([]XY{l.At}) }

func (l Label) draw(fr *frame) {
	text := fr.text(fr.small, draw.XLeft, draw.YCenter)
	at := fr.at(l.At.X, l.At.Y)
	if l.Above {
		text.YAlign = draw.YBottom
		at.Y += fr.gap/4 + text.FontExtents().Descent
		if !l.Right {
			at.X += fr.gap / 4
		}
	} else {
		at.X += fr.gap / 2
		at.Y += fr.small * 0.1
	}
	if l.Right {
		text.XAlign = draw.XRight
	}
	room := fr.outer.Max.X - at.X
	if l.Right {
		room = at.X - fr.outer.Min.X
	}
	if l.Room > 0 {
		room = (fr.Max.X - fr.Min.X) * vg.Length(l.Room)
	}
	fr.FillText(text, at, fr.shorten(l.Text, fr.small, room))
}

func (l Label) covers(fr *frame, r vg.Rectangle) bool {
	at := fr.at(l.At.X, l.At.Y)
	return meets(at, at, r)
}
