// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/dut"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/words"
)

// The size of a plot, which has two panels side by side.
const (
	plotWidth  = 30 * vg.Centimeter
	plotHeight = 13 * vg.Centimeter
)

// checkPlot refuses names of files that say no format which is known.
func checkPlot(name string) error {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".svg", ".png":
		return nil
	}
	if name == "" {
		return nil
	}
	return fault.Usage.Errorf("--plot %s: use a name that ends in .svg or .png", name)
}

// canvas is what a plot is drawn on, and written from.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

// plotReport draws delays over size, and how they are distributed.
func plotReport(r *dut.Report, name string) error {
	rows := r.Rows
	if r.In == "" {
		rows = r.Loopback
	}
	size, err := plotSizes(rows, r.Fits)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	spread, err := plotDistribution(rows)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	var c canvas = vgsvg.New(plotWidth, plotHeight)
	if strings.EqualFold(filepath.Ext(name), ".png") {
		c = vgimg.PngCanvas{Canvas: vgimg.New(plotWidth, plotHeight)}
	}
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: vg.Millimeter * 3, PadBottom: vg.Millimeter * 3, PadLeft: vg.Millimeter * 3, PadRight: vg.Millimeter * 8}
	panels := plot.Align([][]*plot.Plot{{size, spread}}, tiles, draw.New(c))
	size.Draw(panels[0][0])
	spread.Draw(panels[0][1])
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	if err := kit.WriteFile(name, b.Bytes()); err != nil {
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

// points are medians, with bars from the least delay to the 99th percentile.
type points struct {
	plotter.XYs
	plotter.YErrors
}

const us = 1e3

// plotSizes draws delays over sizes, and the lines through them.
func plotSizes(rows []dut.Row, fits []dut.Fit) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "Delay over size: median, from the least to the 99th percentile"
	p.X.Label.Text, p.Y.Label.Text = "bytes of frame", "us"
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	order, of := split(rows)
	for n, s := range order {
		var data points
		for _, r := range of[s] {
			d := r.Delay
			data.XYs = append(data.XYs, plotter.XY{X: float64(r.Size), Y: float64(d.P50Ns) / us})
			data.YErrors = append(data.YErrors, struct{ Low, High float64 }{float64(d.MinNs-d.P50Ns) / us, float64(d.P99Ns-d.P50Ns) / us})
		}
		scatter, err := plotter.NewScatter(data)
		if err != nil {
			return nil, err
		}
		bars, err := plotter.NewYErrorBars(data)
		if err != nil {
			return nil, err
		}
		scatter.Color, bars.Color = plotutil.Color(n), plotutil.Color(n)
		scatter.Shape = plotutil.Shape(n)
		p.Add(scatter, bars)
		p.Legend.Add(s.String(), scatter)
		for i := range fits {
			if f := &fits[i]; f.Rate == s.rate && f.Direction == s.direction && f.Of != dut.OfInterval {
				addLine(p, f, n, data.XYs)
			}
		}
	}
	return p, nil
}

// addLine draws a fit, that of the median as a whole line, that of the least delays in dashes.
func addLine(p *plot.Plot, f *dut.Fit, color int, at plotter.XYs) {
	line := plotter.NewFunction(func(x float64) float64 { return (f.Intercept.Value + f.Slope.Value*x) / us })
	line.XMin, line.XMax = math.Inf(1), math.Inf(-1)
	for _, xy := range at {
		line.XMin, line.XMax = min(line.XMin, xy.X), max(line.XMax, xy.X)
	}
	line.Samples, line.Color = 2, plotutil.Color(color)
	if f.Of == dut.OfMin {
		line.Dashes = plotutil.Dashes(1)
	}
	p.Add(line)
}

// mostCurves is how many distributions one panel can show.
const mostCurves = 12

// plotDistribution draws which share of packets had at most which delay.
func plotDistribution(rows []dut.Row) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "Share of packets with at most that delay"
	p.X.Label.Text, p.Y.Label.Text = "us", "share"
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.Left = false
	p.Add(plotter.NewGrid())
	shown := curves(rows)
	logarithmic := len(shown) > 0
	for n, r := range shown {
		data := cumulated(r.Delay)
		logarithmic = logarithmic && data[0].X > 0
		line, err := plotter.NewLine(data)
		if err != nil {
			return nil, err
		}
		line.StepStyle = plotter.PostStep
		line.Color, line.Dashes = plotutil.Color(n), plotutil.Dashes(n/len(plotutil.DefaultColors))
		p.Add(line)
		p.Legend.Add(fmt.Sprintf("%d bytes, %v", r.Size, series{r.Rate, r.Direction}), line)
	}
	if logarithmic { // not where subtracting has left delays of 0 or less
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, durationTicks{}
	}
	return p, nil
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
func cumulated(d *dut.Delay) (xys plotter.XYs) {
	all, sum := 0, 0
	for _, b := range d.Buckets {
		all += b.Packets
	}
	xys = append(xys, plotter.XY{X: float64(d.MinNs) / us})
	for _, b := range d.Buckets {
		sum += b.Packets
		xys = append(xys, plotter.XY{X: float64(min(b.MostNs, d.MaxNs)) / us, Y: float64(sum) / float64(all)})
	}
	return xys
}

// durationTicks are 1, 2 and 5 of each power of ten.
type durationTicks struct{}

// Ticks implements plot.Ticker.
func (durationTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if v := n * decade; v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: strings.TrimSuffix(words.Number(v, v < 1), ".00")})
			}
		}
	}
	return ticks
}
