// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"fmt"
	"math"

	"gonum.org/v1/plot/vg"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/dut"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/figure"
)

// plotSize is that of a plot, which has two panels side by side.
var plotSize = figure.Size{Width: 300 * vg.Millimeter, Height: 140 * vg.Millimeter, Text: 10}

// checkPlot refuses names of files that say no format which is known.
func checkPlot(name string) error {
	if _, ok := figure.FormatOf(name); ok || name == "" {
		return nil
	}
	return fault.Usage.Errorf("--plot %s: use a name that ends in .svg, .pdf or .png", name)
}

// plotReport draws delays over size, and how they are distributed.
func plotReport(r *dut.Report, name string) error {
	rows := r.Rows
	if r.In == "" {
		rows = r.Loopback
	}
	size, legend := plotSizes(rows, r.Fits)
	spread, more := plotDistribution(rows)
	f := figure.Figure{
		Panels: []*figure.Panel{size, spread}, Abreast: true, Size: plotSize, LegendAt: figure.Outside,
		Legend: append(legend, more...), About: "delays over size of frames, and how they are distributed",
	}
	format, _ := figure.FormatOf(name)
	file, _, err := f.Render(format)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	if err := kit.WriteFile(name, file); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// series is what is drawn in one colour: a rate and a direction.
type series struct{ rate, direction string }

func (s series) String() string {
	if s.direction == dut.Forward {
		return s.rate
	}
	return s.rate + ", " + s.direction
}

// split sorts rows by series, in the order in which they come.
func split(rows []dut.Row) (order []series, of map[series][]*dut.Row) {
	of = make(map[series][]*dut.Row)
	for i := range rows {
		r := &rows[i]
		if r.Delay == nil {
			continue
		}
		s := series{r.Rate, r.Direction}
		if of[s] == nil {
			order = append(order, s)
		}
		of[s] = append(of[s], r)
	}
	return order, of
}

const us = 1e3

// plotSizes draws delays over sizes, and the lines through them.
func plotSizes(rows []dut.Row, fits []dut.Fit) (*figure.Panel, []figure.Entry) {
	p := &figure.Panel{
		Title: "Delay over size: median, from the least to the 99th percentile",
		X:     figure.Axis{Label: "Frame (bytes)"}, Y: figure.Axis{Label: "Delay (µs)"},
	}
	var legend []figure.Entry
	order, of := split(rows)
	for n, s := range order {
		medians := figure.Points{Marker: figure.MarkerOf(n)}
		ranges := figure.Segments{LineStyle: figure.LineStyle{Color: figure.Color(n)}}
		for _, r := range of[s] {
			d, x := r.Delay, float64(r.Size)
			medians.List = append(medians.List, figure.XY{X: x, Y: float64(d.P50Ns) / us})
			ranges.List = append(ranges.List, figure.Segment{From: figure.XY{X: x, Y: float64(d.MinNs) / us}, To: figure.XY{X: x, Y: float64(d.P99Ns) / us}})
		}
		p.Marks = append(p.Marks, ranges, medians)
		legend = append(legend, figure.Entry{Text: s.String(), Marker: &medians.Marker})
		for i := range fits {
			if f := &fits[i]; f.Rate == s.rate && f.Direction == s.direction && f.Of != dut.OfInterval {
				p.Marks = append(p.Marks, lineOf(f, n, medians.List))
			}
		}
	}
	return p, legend
}

// lineOf draws a fit, that of the median as a whole line, that of the least delays in dashes.
func lineOf(f *dut.Fit, color int, at []figure.XY) figure.Curve {
	least, most := math.Inf(1), math.Inf(-1)
	for _, xy := range at {
		least, most = min(least, xy.X), max(most, xy.X)
	}
	c := figure.Curve{LineStyle: figure.LineStyle{Color: figure.Color(color)}}
	for _, x := range []float64{least, most} {
		c.Points = append(c.Points, figure.XY{X: x, Y: (f.Intercept.Value + f.Slope.Value*x) / us})
	}
	if f.Of == dut.OfMin {
		c.Dash = 1
	}
	return c
}

// mostCurves is how many distributions one panel can show.
const mostCurves = 12

// plotDistribution draws which share of packets had at most which delay.
func plotDistribution(rows []dut.Row) (*figure.Panel, []figure.Entry) {
	p := &figure.Panel{
		Title: "Share of packets with at most that delay",
		X:     figure.Axis{Label: "Delay (µs)"}, Y: figure.Axis{Label: "Share of packets", Max: 1},
	}
	shown := curves(rows)
	p.X.Log = len(shown) > 0
	var legend []figure.Entry
	for n, r := range shown {
		data := cumulated(r.Delay)
		p.X.Log = p.X.Log && data[0].X > 0 // not where subtracting has left delays of 0 or less
		look := figure.Line(n)
		p.Marks = append(p.Marks, figure.Curve{Points: data, Steps: true, LineStyle: look})
		legend = append(legend, figure.Entry{Text: fmt.Sprintf("%d bytes, %v", r.Size, series{r.Rate, r.Direction}), Line: &look})
	}
	return p, legend
}

// curves are the rows whose distributions are shown: all, or of each series the smallest and the
// largest size.
func curves(rows []dut.Row) (list []*dut.Row) {
	order, of := split(rows)
	for _, s := range order {
		all := of[s]
		if len(rows) > mostCurves && len(all) > 2 {
			all = []*dut.Row{all[0], all[len(all)-1]}
		}
		list = append(list, all...)
	}
	return list[:min(len(list), mostCurves)]
}

// cumulated is a distribution as a curve.
func cumulated(d *dut.Delay) (xys []figure.XY) {
	all, sum := 0, 0
	for _, b := range d.Buckets {
		all += b.Packets
	}
	xys = append(xys, figure.XY{X: float64(d.MinNs) / us})
	for _, b := range d.Buckets {
		sum += b.Packets
		xys = append(xys, figure.XY{X: float64(min(b.MostNs, d.MaxNs)) / us, Y: float64(sum) / float64(all)})
	}
	return xys
}
