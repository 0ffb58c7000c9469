// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot/vg"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/chart"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/figure"
	"github.com/vnetradar/radar/pkg/words"
)

const latencyLong = `Draw how latencies are distributed, a line for each path, or for each row that
--by makes of packets, as in radar latency.

  --kind cdf   which share of packets took at most so long; markers are at the 50th,
               90th and 99th percentile
  --kind ccdf  which share took longer, with a logarithmic axis: the slowest packets
  --kind box   a box from the 25th to the 75th percentile with the median in it, a line
               from the 1st to the 99th, dots at the least and the most: for many rows

Percentiles are those that radar latency shows. The axis of times is logarithmic where
the greatest is more than 30 times the least; --scale says it otherwise. Without
filters it takes all packets since attach, as radar latency does. With -r more than
once the lines of all recordings are in one figure: what radar diff tells, as a picture.`

// The kinds of figures of latencies.
const (
	cdf  = "cdf"
	ccdf = "ccdf"
	box  = "box"
)

type latencyOptions struct {
	options
	by, kind, scale kit.Choice
	top             kit.Count
	topGiven        func() bool
}

func newLatencyCmd(k *kit.Kit) *cobra.Command {
	f := &latencyOptions{
		by:    kit.NewChoice(string(aggregate.ByPath), "group", "path", "flow", "node", "link", "queue", "end-to-end"),
		kind:  kit.NewChoice(cdf, "kind", cdf, ccdf, box),
		scale: kit.NewChoice("auto", "scale", "auto", "log", "linear"), top: 8,
	}
	cmd := newCmd(k, &cobra.Command{
		Use:   "latency -o FILE " + kit.EndsUse,
		Short: "Draw the distribution of latencies",
		Long:  latencyLong,
		Example: `  radar plot latency -o latency.pdf
  radar plot latency -r run --by queue --kind ccdf -o waits.svg --data waits.csv
  radar plot latency -r before -r after --by end-to-end -o both.pdf
  radar plot latency --by link --kind box --size page -o links.png`,
	}, &f.options, func(ctx context.Context, s *answer.Selection) error {
		if len(f.Several()) > 0 {
			return drawSeveral(ctx, k, f)
		}
		return f.ask(ctx, k, f.question(s), func(c *answer.Counts) error {
			rows, err := latencyRows(k, f, c)
			if err != nil {
				return err
			}
			return drawRows(k, f, rows)
		})
	})
	f.several = true
	f.by.Add(cmd, "by", "what a line is of")
	f.kind.Add(cmd, "kind", "what is drawn")
	f.scale.Add(cmd, "scale", "axis of times")
	cmd.Flags().Var(&f.top, "top", "only the first N lines, those with most packets; 0: all (of boxes by default: 40)")
	f.topGiven = func() bool { return cmd.Flags().Changed("top") }
	return cmd
}

func (f *latencyOptions) question(s *answer.Selection) *answer.Question {
	return &answer.Question{Selection: s, ByFlow: f.by.Value == string(aggregate.ByFlow)}
}

// drawSeveral draws the rows of several recordings, each with the name of its own.
func drawSeveral(ctx context.Context, k *kit.Kit, f *latencyOptions) error {
	var all []aggregate.Spread
	names := shortest(f.Several())
	if err := f.Each(k, func(path string) error {
		s, err := f.selected()
		if err != nil {
			return err
		}
		return f.ask(ctx, k, f.question(s), func(c *answer.Counts) error {
			rows, err := latencyRows(k, f, c)
			for i := range rows {
				if rows[i].Name = names[path] + ": " + rows[i].Name; f.by.Value == string(aggregate.ByEndToEnd) {
					rows[i].Name = names[path]
				}
			}
			all = append(all, rows...)
			return err
		})
	}); err != nil {
		return err
	}
	return drawRows(k, f, all)
}

// shortest are the last parts of paths, where those tell them apart.
func shortest(paths []string) map[string]string {
	names, seen := make(map[string]string), make(map[string]bool)
	for _, p := range paths {
		names[p] = filepath.Base(filepath.Clean(p))
		seen[names[p]] = true
	}
	if len(seen) < len(names) {
		for p := range names {
			names[p] = p
		}
	}
	return names
}

func latencyRows(k *kit.Kit, f *latencyOptions, c *answer.Counts) ([]aggregate.Spread, error) {
	by, top := aggregate.By(f.by.Value), int(f.top)
	if f.kind.Value == box && !f.topGiven() {
		top = 40
	}
	rows, more := c.Spreads(by, top)
	k.Note(rows.Notes)
	if len(rows.List) == 0 {
		return nil, fmt.Errorf("nothing to draw: no packet that matches has a latency by %s", by)
	}
	nameApart(rows.List)
	noteLatency(k, c, rows.List, by, more)
	return rows.List, nil
}

func drawRows(k *kit.Kit, f *latencyOptions, rows []aggregate.Spread) error {
	least, most := int64(math.MaxInt64), int64(0)
	for i := range rows {
		least, most = min(least, rows[i].MinNs), max(most, rows[i].MaxNs)
	}
	u, log := scaleFor(f.scale.Value, least, most)
	axis := figure.Axis{Label: latencyLabels[aggregate.By(f.by.Value)] + " (" + u.name + ")", Log: log}
	if f.kind.Value == box {
		return drawBoxes(k, f, rows, axis, u)
	}
	return drawCurves(k, f, rows, axis, u)
}

var latencyLabels = map[aggregate.By]string{
	aggregate.ByPath: "Latency", aggregate.ByFlow: "Latency", aggregate.ByEndToEnd: "Latency",
	aggregate.ByNode: "Time in the node", aggregate.ByLink: "Time on the link", aggregate.ByQueue: "Wait in the queue",
}

// nameApart names the ports of paths that could not be told apart without them.
func nameApart(rows []aggregate.Spread) {
	alike := make(map[string]int)
	for i := range rows {
		alike[rows[i].Name]++
	}
	for i := range rows {
		r := &rows[i]
		if len(r.Hops) == 0 {
			continue
		}
		if alike[r.Name] > 1 {
			r.Name = aggregate.PathText(r.Hops, true)
		}
		r.Name = aggregate.TruncatedText(r.Name, r.Hops, r.Truncated)
	}
}

// noteLatency says which packets the figure is without.
func noteLatency(k *kit.Kit, c *answer.Counts, rows []aggregate.Spread, by aggregate.By, more int) {
	if more > 0 {
		k.Notef("%s more with fewer packets are not drawn: --top 0 draws all", words.Plural(more, "row"))
	}
	t := c.Totals()
	if by != aggregate.ByPath && by != aggregate.ByFlow && by != aggregate.ByEndToEnd {
		return
	}
	if n := t.Lost + t.Expired + t.Ignored; n > 0 {
		k.Notef("%s of %d did not arrive (radar loss) and have no latency: the figure is of those that did", words.Plural(int(n), "packet"), t.Packets)
	}
	noteUntimed(k, c.Paths().List)
}

// shares are the percentiles that are marked, and what they are called.
var shares = []struct {
	share float64
	name  string
	of    func(*aggregate.Quantiles) int64
}{
	{0.5, "p50", func(q *aggregate.Quantiles) int64 { return q.P50Ns }},
	{0.9, "p90", func(q *aggregate.Quantiles) int64 { return q.P90Ns }},
	{0.99, "p99", func(q *aggregate.Quantiles) int64 { return q.P99Ns }},
	{0.999, "p99.9", func(q *aggregate.Quantiles) int64 { return q.P999Ns }},
}

// onLog is what a logarithmic axis has in the place of 0.
func onLog(u unit, log bool, ns int64) float64 {
	if log {
		ns = max(ns, 1)
	}
	return u.of64(ns)
}

// drawCurves draws a CDF or a CCDF.
func drawCurves(k *kit.Kit, f *latencyOptions, rows []aggregate.Spread, x figure.Axis, u unit) error {
	tail := f.kind.Value == ccdf
	p := &figure.Panel{X: x, Y: figure.Axis{Label: "Share of packets", Min: 0, Max: 1}}
	fig := f.figureOf(0, p)
	var data []chart.Step
	fewest := 1.0
	for i := range rows {
		r := &rows[i]
		steps := chart.Steps(r)
		data = append(data, steps...)
		look := figure.Line(i)
		curve := figure.Curve{Steps: true, LineStyle: look, Points: []figure.XY{{X: onLog(u, x.Log, r.MinNs)}}}
		if tail {
			curve.Points[0].Y = 1
		}
		for _, s := range steps {
			y := s.AtMost
			if tail {
				y = s.More
			}
			if tail && y == 0 { // the axis has no 0
				y = 0.5 / float64(r.Count)
			}
			curve.Points = append(curve.Points, figure.XY{X: onLog(u, x.Log, s.Ns), Y: y})
		}
		fewest = min(fewest, 0.7/float64(r.Count))
		marker := figure.MarkerOf(i)
		points := figure.Points{Marker: marker}
		for _, share := range shares[:len(shares)-1] {
			y := share.share
			if tail {
				y = 1 - share.share
			}
			points.List = append(points.List, figure.XY{X: onLog(u, x.Log, share.of(&r.Quantiles)), Y: y})
		}
		p.Marks = append(p.Marks, curve, points)
		fig.Legend = append(fig.Legend, figure.Entry{Text: r.Name, Line: &look, Marker: &marker})
	}
	for _, share := range shares {
		y := share.share
		switch {
		case tail:
			y = 1 - share.share
		case share.share > 0.99:
			continue // it would stand on p99
		}
		p.Right = append(p.Right, figure.Tick{At: y, Text: share.name})
	}
	if tail {
		p.Y = figure.Axis{Label: "Share of packets that took longer", Log: true, Min: max(fewest, 1e-9), Max: 1}
	}
	fig.About = fmt.Sprintf("%s of %s, %s", latencyLabels[aggregate.By(f.by.Value)], words.Plural(len(rows), "row"), f.kind.Value)
	return write(k, &f.options, fig, data)
}

// rowHeight is how much a row of bars needs, in sizes of its text.
const rowHeight = 2.6

// drawBoxes draws a box for each row.
func drawBoxes(k *kit.Kit, f *latencyOptions, rows []aggregate.Spread, x figure.Axis, u unit) error {
	p := &figure.Panel{X: x, Y: figure.Axis{Names: true, Min: -float64(len(rows)), Max: 0.01, Ticks: []figure.Tick{}}}
	var data []chart.Box
	whiskers := figure.Segments{LineStyle: figure.LineStyle{Color: figure.Black}}
	medians := figure.Segments{LineStyle: figure.LineStyle{Color: figure.Black, Width: 2}}
	ends := figure.Points{Marker: figure.Marker{Shape: figure.Circle, Color: figure.Gray, Size: 0.5}}
	var boxes figure.Boxes
	at := func(ns int64) float64 { return onLog(u, x.Log, ns) }
	for i := range rows {
		b := chart.BoxOf(&rows[i])
		data = append(data, b)
		y := -float64(i) - 0.5
		p.Y.Ticks = append(p.Y.Ticks, figure.Tick{At: y, Text: b.Name})
		whiskers.List = append(whiskers.List, figure.Segment{From: figure.XY{X: at(b.P1), Y: y}, To: figure.XY{X: at(b.P99), Y: y}})
		for _, end := range []int64{b.P1, b.P99} {
			whiskers.List = append(whiskers.List, figure.Segment{From: figure.XY{X: at(end), Y: y - 0.15}, To: figure.XY{X: at(end), Y: y + 0.15}})
		}
		boxes = append(boxes, figure.Box{
			From: figure.XY{X: at(b.P25), Y: y - 0.28}, To: figure.XY{X: at(b.P75), Y: y + 0.28},
			Fill: figure.Pale(figure.Blue), Line: &figure.LineStyle{Color: figure.Blue},
		})
		medians.List = append(medians.List, figure.Segment{From: figure.XY{X: at(b.P50), Y: y - 0.28}, To: figure.XY{X: at(b.P50), Y: y + 0.28}})
		ends.List = append(ends.List, figure.XY{X: at(b.Min), Y: y}, figure.XY{X: at(b.Max), Y: y})
	}
	p.Marks = []figure.Mark{whiskers, boxes, medians, ends}
	fig := f.figureOf(vg.Length(float64(len(rows))*rowHeight*0.75+8)*f.textSize(), p)
	fig.Legend = []figure.Entry{
		{Text: "25th to 75th percentile", Fill: figure.Pale(figure.Blue)},
		{Text: "1st to 99th", Line: &figure.LineStyle{Color: figure.Black}},
		{Text: "median", Line: &figure.LineStyle{Color: figure.Black, Width: 2}},
		{Text: "least, most", Marker: &ends.Marker},
	}
	fig.About = fmt.Sprintf("%s: a box for each of %s", latencyLabels[aggregate.By(f.by.Value)], words.Plural(len(rows), "row"))
	return write(k, &f.options, fig, data)
}
