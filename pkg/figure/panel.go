// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Panel is one coordinate system with what is drawn in it.
type Panel struct {
	Title string // small, above it
	X, Y  Axis
	Right []Tick // values of Y that are named at the right, with a line through the panel
	Marks []Mark
}

// Mark is something that is drawn in a panel.
type Mark interface {
	// bounds are the least and the greatest values of both axes.
	bounds() (x, y span)
	draw(fr *frame)
	// covers reports whether it draws in a rectangle.
	covers(fr *frame, r vg.Rectangle) bool
}

// span is from the least to the greatest of some values.
type span struct{ low, high float64 }

func nothing() span { return span{math.Inf(1), math.Inf(-1)} }

func (s *span) add(values ...float64) {
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.low, s.high = min(s.low, v), max(s.high, v)
		}
	}
}

// frame is a panel on the canvas. Its rectangle is that of the data.
type frame struct {
	draw.Canvas
	p *Panel
	*style
	outer        vg.Rectangle
	xTick, yTick []Tick
}

// tickLength is in units of a figure's gap.
const tickLength = 0.5

// frame finds out how much of a canvas the data has.
func (p *Panel) frame(c draw.Canvas, s *style) *frame {
	x, y := nothing(), nothing()
	for _, m := range p.Marks {
		mx, my := m.bounds()
		x.add(mx.low, mx.high)
		y.add(my.low, my.high)
	}
	p.X.fit(x.low, x.high)
	p.Y.fit(y.low, y.high)
	fr := &frame{Canvas: c, p: p, style: s}
	line := s.text(s.small, 0, 0).FontExtents().Height
	if p.Title != "" {
		fr.Max.Y -= line + s.gap/2
	} else {
		fr.Max.Y -= line / 2
	}
	fr.Min.Y += s.gap * tickLength
	if !p.X.Bare {
		fr.Min.Y += line + s.gap/2
	}
	if p.X.Label != "" {
		fr.Min.Y += s.text(s.label, 0, 0).FontExtents().Height
	}
	fr.yTick = p.Y.ticks(fr.Max.Y-fr.Min.Y, func(string) vg.Length { return 2 * line })
	widest := vg.Length(0)
	for _, t := range fr.yTick {
		widest = max(widest, s.width(t.Text, s.small))
	}
	if p.Y.Names { // long ones leave room for the data
		widest = min(widest, (c.Max.X-c.Min.X)*0.4)
	}
	fr.Min.X += widest + s.gap*(tickLength+0.9)
	if p.Y.Label != "" {
		fr.Min.X += s.text(s.label, 0, 0).FontExtents().Height
	}
	right := s.gap
	for _, t := range p.Right {
		right = max(right, s.width(t.Text, s.small)+s.gap*0.5)
	}
	fr.Max.X -= right
	return fr
}

// place finds what depends on where the panel stands at last.
func (fr *frame) place() {
	fr.xTick = fr.p.X.ticks(fr.Max.X-fr.Min.X, func(text string) vg.Length { return fr.width(text, fr.small) + 1.5*fr.gap })
}

func (fr *frame) x(v float64) vg.Length { return fr.Canvas.X(fr.p.X.share(v)) }
func (fr *frame) y(v float64) vg.Length { return fr.Canvas.Y(fr.p.Y.share(v)) }

// at is where a point stands.
func (fr *frame) at(x, y float64) vg.Point { return vg.Point{X: fr.x(x), Y: fr.y(y)} }

// inside reports whether a point is of the panel.
func (fr *frame) inside(p vg.Point) bool {
	const e = 1e-6
	return p.X >= fr.Min.X-e && p.X <= fr.Max.X+e && p.Y >= fr.Min.Y-e && p.Y <= fr.Max.Y+e
}

func (fr *frame) draw() {
	fr.drawGrid()
	for _, m := range fr.p.Marks {
		m.draw(fr)
	}
	fr.drawAxes()
	if fr.p.Title != "" {
		fr.FillText(fr.text(fr.small, draw.XLeft, draw.YTop), vg.Point{X: fr.Min.X, Y: fr.outer.Max.Y}, fr.shorten(fr.p.Title, fr.small, fr.Max.X-fr.Min.X))
	}
}

// shown are ticks within the axis.
func shown(a *Axis, ticks []Tick) (list []Tick) {
	for _, t := range ticks {
		if s := a.share(t.At); s >= -1e-9 && s <= 1+1e-9 {
			list = append(list, t)
		}
	}
	return list
}

func (fr *frame) drawGrid() {
	grid := draw.LineStyle{Color: Light, Width: fr.axis}
	for _, t := range shown(&fr.p.X, fr.xTick) {
		if t.Text != "" && !fr.p.X.Names {
			fr.StrokeLine2(grid, fr.x(t.At), fr.Min.Y, fr.x(t.At), fr.Max.Y)
		}
	}
	for _, t := range shown(&fr.p.Y, fr.yTick) {
		if t.Text != "" && !fr.p.Y.Names {
			fr.StrokeLine2(grid, fr.Min.X, fr.y(t.At), fr.Max.X, fr.y(t.At))
		}
	}
	named := draw.LineStyle{Color: Gray, Width: fr.axis, Dashes: []vg.Length{fr.axis * 3, fr.axis * 4}}
	for _, t := range shown(&fr.p.Y, fr.p.Right) {
		fr.StrokeLine2(named, fr.Min.X, fr.y(t.At), fr.Max.X, fr.y(t.At))
	}
}

func (fr *frame) drawAxes() {
	line := draw.LineStyle{Color: color.Black, Width: fr.axis}
	long := fr.gap * tickLength
	height := fr.text(fr.small, 0, 0).FontExtents().Height
	below := fr.text(fr.small, draw.XCenter, draw.YTop)
	for _, t := range shown(&fr.p.X, fr.xTick) {
		x := fr.x(t.At)
		if t.Text == "" {
			fr.StrokeLine2(line, x, fr.Min.Y, x, fr.Min.Y-long/2)
			continue
		}
		fr.StrokeLine2(line, x, fr.Min.Y, x, fr.Min.Y-long)
		if !fr.p.X.Bare {
			at := fr.within(x, fr.width(t.Text, fr.small))
			fr.FillText(below, vg.Point{X: at, Y: fr.Min.Y - long - fr.gap/4}, t.Text)
		}
	}
	fr.drawLeft(line)
	right := fr.text(fr.small, draw.XLeft, draw.YCenter)
	for _, t := range shown(&fr.p.Y, fr.p.Right) {
		fr.FillText(right, vg.Point{X: fr.Max.X + fr.gap/4, Y: fr.y(t.At) + height*0.08}, t.Text)
	}
	fr.StrokeLines(line, []vg.Point{{X: fr.Min.X, Y: fr.Max.Y}, {X: fr.Min.X, Y: fr.Min.Y}, {X: fr.Max.X, Y: fr.Min.Y}})
	fr.drawLabels()
}

// drawLeft draws the ticks of the vertical axis, and their texts.
func (fr *frame) drawLeft(line draw.LineStyle) {
	long, height := fr.gap*tickLength, fr.text(fr.small, 0, 0).FontExtents().Height
	left := fr.text(fr.small, draw.XRight, draw.YCenter)
	room := fr.Min.X - long - fr.gap/4 - fr.outer.Min.X
	if fr.p.Y.Label != "" {
		room -= fr.text(fr.label, 0, 0).FontExtents().Height
	}
	ticks := shown(&fr.p.Y, fr.yTick)
	texts := make([]string, len(ticks))
	for i := range ticks {
		texts[i] = ticks[i].Text
	}
	texts = fr.shortenAll(texts, room)
	for i, t := range ticks {
		y := fr.y(t.At)
		if t.Text == "" {
			fr.StrokeLine2(line, fr.Min.X, y, fr.Min.X-long/2, y)
			continue
		}
		if !fr.p.Y.Names {
			fr.StrokeLine2(line, fr.Min.X, y, fr.Min.X-long, y)
		}
		fr.FillText(left, vg.Point{X: fr.Min.X - long - fr.gap/4, Y: y + height*0.08}, texts[i])
	}
}

// within moves a text that is centred at x into the panel's part of the canvas.
func (fr *frame) within(x, width vg.Length) vg.Length {
	return max(fr.outer.Min.X+width/2, min(x, fr.outer.Max.X-width/2))
}

func (fr *frame) drawLabels() {
	if fr.p.X.Label != "" {
		text := fr.text(fr.label, draw.XCenter, draw.YBottom)
		y := fr.outer.Min.Y + text.FontExtents().Descent
		width := fr.width(fr.p.X.Label, fr.label)
		fr.FillText(text, vg.Point{X: fr.within((fr.Min.X+fr.Max.X)/2, width), Y: y}, fr.shorten(fr.p.X.Label, fr.label, fr.outer.Max.X-fr.outer.Min.X))
	}
	if fr.p.Y.Label != "" {
		text := fr.text(fr.label, draw.XCenter, draw.YTop)
		text.Rotation = math.Pi / 2
		least := fr.Min.Y - fr.gap*tickLength // below it are the texts of the other axis
		label := fr.shorten(fr.p.Y.Label, fr.label, fr.outer.Max.Y-least)
		half := fr.width(label, fr.label) / 2
		y := max(least+half, min((fr.Min.Y+fr.Max.Y)/2, fr.outer.Max.Y-half))
		fr.FillText(text, vg.Point{X: fr.outer.Min.X, Y: y}, label)
	}
}
