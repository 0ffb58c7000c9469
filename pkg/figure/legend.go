// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"image/color"
	"slices"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// thumb is how wide the drawing before an entry is, in heights of a line.
const thumb = 2.2

// Shares of a figure's height that a legend below it may have: of one whose height is given, and of one that has grown.
const (
	legendShare = 0.4
	grownShare  = 0.7
)

// lineHeight is that of a legend's.
func (f *Figure) lineHeight() vg.Length {
	return f.style.text(f.style.small, 0, 0).FontExtents().Height * 1.15
}

// drawEntry draws one at the left end of its line, of which y is the middle.
func (f *Figure) drawEntry(c draw.Canvas, e *Entry, x, y vg.Length) {
	height, s := f.lineHeight(), &f.style
	wide := height * thumb
	if e.Fill != nil {
		c.SetColor(e.Fill)
		box := vg.Rectangle{Min: vg.Point{X: x + wide/4, Y: y - height*0.3}, Max: vg.Point{X: x + wide, Y: y + height*0.3}}
		c.Fill(box.Path())
	}
	if e.Line != nil {
		c.StrokeLine2(s.lineStyle(*e.Line), x, y, x+wide, y)
	}
	if e.Marker != nil {
		drawMarkers(&c, s, *e.Marker, []vg.Point{{X: x + wide/2, Y: y}})
	}
	text := s.text(s.small, draw.XLeft, draw.YCenter)
	c.FillText(text, vg.Point{X: x + wide + height*0.4, Y: y + height*0.08}, e.Text)
}

// fitted are entries with texts that have room.
func (f *Figure) fitted(list []Entry, most vg.Length) []Entry {
	list = slices.Clone(list)
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].Text
	}
	for i, text := range f.style.shortenAll(texts, most-f.lineHeight()*(thumb+0.4)) {
		list[i].Text = text
	}
	return list
}

// entryWidth is how wide an entry is.
func (f *Figure) entryWidth(e *Entry) vg.Length {
	return f.lineHeight()*(thumb+0.4) + f.style.width(e.Text, f.style.small)
}

// columns are how a legend of that width is laid out; widest is its widest entry.
func (f *Figure) columns(whole vg.Length) (columns, rows int, widest vg.Length) {
	for i := range f.Legend {
		widest = max(widest, f.entryWidth(&f.Legend[i]))
	}
	gap := 2 * f.style.gap
	columns = max(1, min(len(f.Legend), int((whole+gap)/(widest+gap))))
	rows = (len(f.Legend) + columns - 1) / columns
	return (len(f.Legend) + rows - 1) / rows, rows, widest // not more columns than the rows need
}

// usualShare is how much of a figure's height a legend takes that is not long; mostGrowth is by how many heights a figure
// grows for one that is.
const (
	usualShare = 0.25
	mostGrowth = 2
)

// grow makes room for a long legend.
func (f *Figure) grow() {
	f.style, f.share = styleOf(f.Size), max(f.share, legendShare)
	if !f.Grow || f.LegendAt != Outside || len(f.Legend) == 0 {
		return
	}
	f.Grow, f.share = false, grownShare
	_, rows, _ := f.columns(f.Size.Width - 2*margin)
	f.Size.Height += max(0, min(vg.Length(rows)*f.lineHeight()-f.Size.Height*usualShare, f.Size.Height*mostGrowth))
}

// drawBelow draws the legend at the bottom, in columns, and returns what is left of the canvas. cut: it has no room for
// all.
func (f *Figure) drawBelow(c draw.Canvas) (rest draw.Canvas, cut bool) {
	height, whole := f.lineHeight(), c.Max.X-c.Min.X
	columns, rows, widest := f.columns(whole)
	gap := 2 * f.style.gap
	list := f.Legend
	if most := max(1, int((c.Max.Y-c.Min.Y)*f.share/height)); rows > most {
		rows, cut = most, true
		more := len(list) - (rows*columns - 1)
		list = append(list[:rows*columns-1:rows*columns-1], Entry{Text: "and " + strconv.Itoa(more) + " more"})
	}
	width := min(widest, whole)
	if columns > 1 {
		width = min(widest, (whole-gap*vg.Length(columns-1))/vg.Length(columns))
	}
	left := c.Min.X + (whole-width*vg.Length(columns)-gap*vg.Length(columns-1))/2
	list = f.fitted(list, width)
	for i := range list {
		row, column := i%rows, i/rows
		x := left + vg.Length(column)*(width+gap)
		y := c.Min.Y + height*(vg.Length(rows-row)-0.5)
		f.drawEntry(c, &list[i], x, y)
	}
	c.Min.Y += height*vg.Length(rows) + f.style.gap/2
	return c, cut
}

// legendBox is the size of the legend in one column.
func (f *Figure) legendBox() vg.Point {
	widest := vg.Length(0)
	for i := range f.Legend {
		widest = max(widest, f.entryWidth(&f.Legend[i]))
	}
	return vg.Point{X: widest + f.style.gap, Y: f.lineHeight()*vg.Length(len(f.Legend)) + f.style.gap}
}

// freeCorner finds a corner of the only panel that has room for a box and no data in it.
func (f *Figure) freeCorner(frames []*frame, box vg.Point) (at vg.Point, ok bool) {
	if len(frames) != 1 {
		return at, false
	}
	fr := frames[0]
	space := f.style.gap
	right, top := fr.Max.X-space-box.X, fr.Max.Y-space-box.Y
	left, bottom := fr.Min.X+space, fr.Min.Y+space
	if right < left || top < bottom {
		return at, false
	}
corners:
	for _, at := range []vg.Point{{X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}, {X: left, Y: bottom}} {
		r := vg.Rectangle{Min: at, Max: at.Add(box)}
		for _, m := range fr.p.Marks {
			if m.covers(fr, r) {
				continue corners
			}
		}
		return at, true
	}
	return at, false
}

// drawInside draws the legend in one column.
func (f *Figure) drawInside(c draw.Canvas, at, box vg.Point) {
	r := vg.Rectangle{Min: at, Max: at.Add(box)}
	c.SetColor(color.White)
	c.Fill(r.Path())
	c.SetLineStyle(draw.LineStyle{Color: Gray, Width: f.style.axis})
	c.Stroke(r.Path())
	height := f.lineHeight()
	for i := range f.Legend {
		y := r.Max.Y - f.style.gap/2 - height*(vg.Length(i)+0.5)
		f.drawEntry(c, &f.Legend[i], r.Min.X+f.style.gap/2, y)
	}
}
