// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"fmt"
	"image"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// seen is a canvas that notes where texts stand, as boxes around them.
type seen struct {
	*svg
	texts []seenText
}

type seenText struct {
	text string
	box  vg.Rectangle
}

func (s *seen) FillString(f font.Face, p vg.Point, text string) {
	e := f.Extents()
	corners := []vg.Point{{X: p.X, Y: p.Y - e.Descent*0.8}, {X: p.X + f.Width(text), Y: p.Y + e.Ascent*0.75}}
	box := vg.Rectangle{Min: vg.Point{X: 1e9, Y: 1e9}, Max: vg.Point{X: -1e9, Y: -1e9}}
	t := s.now.to
	for _, c := range corners {
		x, y := float64(c.X), float64(c.Y)
		at := vg.Point{X: vg.Length(t[0]*x + t[2]*y + t[4]), Y: vg.Length(t[1]*x + t[3]*y + t[5])}
		box.Min, box.Max = vg.Point{X: min(box.Min.X, at.X), Y: min(box.Min.Y, at.Y)}, vg.Point{X: max(box.Max.X, at.X), Y: max(box.Max.Y, at.Y)}
	}
	s.texts = append(s.texts, seenText{text, box})
}

func (s *seen) DrawImage(vg.Rectangle, image.Image) {}

// see draws a figure and returns its texts.
func see(f *Figure) []seenText {
	c := &seen{svg: newSVG(f.Size.Width, f.Size.Height)}
	f.draw(draw.New(c))
	return c.texts
}

// sample is a figure with long names, and many of them.
func sample(size Size, low, high float64, log bool, names int) *Figure {
	p := &Panel{X: Axis{Label: "Latency (ms)", Log: log}, Y: Axis{Label: "Share of packets", Max: 1}, Right: []Tick{{0.5, "p50"}, {0.9, "p90"}}}
	f := &Figure{Title: "A title that is rather long for a figure of a narrow column in a paper", Panels: []*Panel{p}, Size: size, LegendAt: Outside}
	for i := range names {
		look, marker := Line(i), MarkerOf(i)
		step := math.Pow(high/low, 1/float64(10))
		c, x := Curve{Steps: true, LineStyle: look}, low
		for n := range 11 {
			c.Points = append(c.Points, XY{x, float64(n) / 10})
			x *= step
		}
		p.Marks = append(p.Marks, c, Points{List: c.Points[5:6], Marker: marker})
		f.Legend = append(f.Legend, Entry{Text: strings.Repeat(fmt.Sprintf("router-%d > ", i), 1+i*3), Line: &look, Marker: &marker})
	}
	return f
}

// TestTexts: no text leaves the figure or stands on another one, whatever the size and the range are.
func TestTexts(t *testing.T) {
	sizes := []Size{Sizes["column"], Sizes["page"], Sizes["slide"], {50 * vg.Millimeter, 40 * vg.Millimeter, 8}, {400 * vg.Millimeter, 60 * vg.Millimeter, 8}}
	for _, size := range sizes {
		for _, of := range [][2]float64{{0.001, 10_000}, {1, 2}, {5, 6.5}, {999_999, 1_000_001}, {1e-6, 3e-6}, {0.9, 12}, {123456, 9_876_543}} {
			for _, log := range []bool{false, true} {
				for _, names := range []int{1, 4, 40} {
					f := sample(size, of[0], of[1], log, names)
					texts := see(f)
					for i, a := range texts {
						if e := vg.Length(0.6); a.box.Min.X < -e || a.box.Min.Y < -e || a.box.Max.X > size.Width+e || a.box.Max.Y > size.Height+e {
							t.Errorf("%v, %v, log %v, %d lines: %q leaves the figure: %v", size, of, log, names, a.text, a.box)
						}
						for _, b := range texts[:i] {
							if a.box.Min.X < b.box.Max.X && b.box.Min.X < a.box.Max.X && a.box.Min.Y < b.box.Max.Y && b.box.Min.Y < a.box.Max.Y {
								t.Errorf("%v, %v, log %v, %d lines: %q stands on %q", size, of, log, names, a.text, b.text)
							}
						}
					}
				}
			}
		}
	}
}

// TestTicks: an axis has some ticks with texts that are their values, each once.
func TestTicks(t *testing.T) {
	for _, of := range [][2]float64{{0, 1}, {0, 0.07}, {-3, 8}, {1e-9, 1e9}, {3, 4}, {0.001, 10_000}, {2e6, 2e6 + 3}, {1, 9}, {15, 140}} {
		for _, log := range []bool{false, true} {
			if log && of[0] <= 0 {
				continue
			}
			a := Axis{Min: of[0], Max: of[1], Log: log}
			named := make(map[string]bool)
			for _, tick := range shown(&a, a.ticks(200, func(text string) vg.Length { return vg.Length(8 + 4*len(text)) })) {
				if tick.Text == "" {
					continue
				}
				v := 0.0
				if _, err := fmt.Sscan(strings.ReplaceAll(tick.Text, ",", ""), &v); err != nil || math.Abs(v-tick.At) > 1e-6*math.Abs(tick.At)+1e-12 || named[tick.Text] {
					t.Errorf("%v, log %v: a tick at %v is called %q", of, log, tick.At, tick.Text)
				}
				named[tick.Text] = true
			}
			if len(named) < 2 || len(named) > 10 {
				t.Errorf("%v, log %v: ticks %v", of, log, named)
			}
		}
	}
}

// TestNarrow: an axis whose ends are as close as numbers can be has ticks, and not without end.
func TestNarrow(t *testing.T) {
	low := float64(1<<62) / 1e9
	for _, of := range [][2]float64{{low, math.Nextafter(low, 2*low)}, {-low, math.Nextafter(-low, 0)}, {1e6, 1e6 * (1 + 1e-10)}, {0, 5e-324}} {
		for _, log := range []bool{false, true} {
			if log && of[0] <= 0 {
				continue
			}
			fitted, given := Axis{Log: log}, Axis{Min: of[0], Max: of[1], Log: log}
			fitted.fit(of[0], of[1])
			for _, a := range []*Axis{&fitted, &given} {
				ticks := a.ticks(200, func(text string) vg.Length { return vg.Length(8 + 4*len(text)) })
				if len(ticks) > 100 || a == &fitted && of[1] > 1e-300 && len(shown(a, ticks)) < 2 {
					t.Errorf("%v, log %v: %d ticks %.10v", of, log, len(ticks), ticks)
				}
			}
		}
	}
}

// TestLegendInside: a legend inside is where no data is; where there is no such corner, it stands outside.
func TestLegendInside(t *testing.T) {
	f := sample(Sizes["column"], 1, 100, true, 2)
	f.Title, f.LegendAt = "", Inside
	f.Legend[1].Text = "short"
	texts := see(f)
	c := &seen{svg: newSVG(f.Size.Width, f.Size.Height)}
	if notes := f.draw(draw.New(c)); notes != nil {
		t.Fatalf("%v", notes)
	}
	legend := texts[len(texts)-1].box
	fr := f.frames(draw.Crop(draw.New(c), margin, -margin, margin, -margin))[0]
	flipped := vg.Rectangle{Min: vg.Point{X: legend.Min.X, Y: f.Size.Height - legend.Max.Y}, Max: vg.Point{X: legend.Max.X, Y: f.Size.Height - legend.Min.Y}}
	if !fr.inside(flipped.Min) || !fr.inside(flipped.Max) {
		t.Errorf("the legend is at %v, the data at %v", flipped, fr.Rectangle)
	}
	for _, m := range fr.p.Marks {
		if m.covers(fr, flipped) {
			t.Errorf("the legend covers %+v", m)
		}
	}
	full := Boxes{{From: XY{1, 0}, To: XY{100, 1}}}
	f.Panels[0].Marks = append(f.Panels[0].Marks, full)
	if notes := f.draw(draw.New(c)); len(notes) != 1 || notes[0] != LegendOutside {
		t.Errorf("no corner is free: %v", notes)
	}
}

// TestEmptyPanels: nothing, one point, and values that are no numbers are drawn without a number that is none.
func TestEmptyPanels(t *testing.T) {
	for name, marks := range map[string][]Mark{
		"nothing": nil, "one point": {Points{List: []XY{{5, 5}}}}, "zero": {Curve{Points: []XY{{0, 0}, {0, 0}}}},
		"no numbers": {Curve{Points: []XY{{math.NaN(), 1}, {math.Inf(1), 2}}}},
	} {
		f := Figure{Panels: []*Panel{{Marks: marks}}, Size: Sizes["column"]}
		for _, format := range []Format{SVG, PDF, PNG} {
			file, _, err := f.Render(format)
			if err != nil || format == SVG && strings.Contains(string(file), "NaN") {
				t.Errorf("%s as %s: %v", name, format, err)
			}
		}
	}
}

// TestLengths: lengths have units and bounds.
func TestLengths(t *testing.T) {
	for text, want := range map[string]float64{"84mm": 84, "8.4cm": 84, "2in": 50.8, "72pt": 25.4, "1mm": 0, "9m": 0, "84": 0, "-5cm": 0, "NaNmm": 0, "1e9mm": 0, "mm": 0, "": 0} {
		got, err := ParseLength(text)
		if (err == nil) != (want > 0) || math.Abs(float64(got/vg.Millimeter)-want) > 1e-9 {
			t.Errorf("%q is %v, %v", text, got/vg.Millimeter, err)
		}
	}
}
