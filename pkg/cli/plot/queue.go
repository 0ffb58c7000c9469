// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot/vg"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/chart"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/figure"
	"github.com/vnetradar/radar/pkg/words"
)

const queueLong = `Draw how long packets waited in the queues of ports over time: a panel for each port,
with the median of each bin of time, the range from the least to the 99th percentile
behind it, and a cross where the queue dropped packets.

A packet that finds its queue empty does not wait, and is not in the figure; nor are
ports at edges, whose queue is behind the last time stamp.`

func newQueueCmd(k *kit.Kit) *cobra.Command {
	f, top := &options{}, kit.Count(4)
	cmd := newCmd(k, &cobra.Command{
		Use:   "queue -o FILE " + kit.EndsUse,
		Short: "Draw waits in queues over time",
		Long:  queueLong + "\n\n" + strings.TrimSpace(askedRing),
		Example: `  radar plot queue -o queue.pdf
  radar plot queue -r run --top 1 --size page -o queue.svg --data queue.csv`,
	}, f, func(ctx context.Context, s *answer.Selection) error {
		queues := chart.NewQueues()
		return f.ask(ctx, k, &answer.Question{Selection: s, Meter: queues.Add}, func(c *answer.Counts) error {
			return drawQueues(k, f, c, queues, int(top))
		})
	})
	cmd.Flags().Var(&top, "top", "only the first N ports, those where most packets waited; 0: all")
	return cmd
}

func drawQueues(k *kit.Kit, f *options, c *answer.Counts, q *chart.Queues, top int) error {
	ports, width := q.Ports(c.Names)
	if q.Over > 0 {
		k.Notef("%s not drawn that waited or were dropped at ports beyond the first %d", words.PacketsWere(q.Over), chart.MostPorts)
	}
	if len(ports) == 0 {
		return fmt.Errorf("nothing to draw: none of %s is known to have waited in a queue", words.Plural(int(c.Totals().Packets), "packet"))
	}
	if top > 0 && len(ports) > top {
		k.Notef("%s where fewer packets waited are not drawn: --top 0 draws all", words.Plural(len(ports)-top, "port"))
		ports = ports[:top]
	}
	k.Notef("waits are in bins of %s: the median of each, and the range from the least to the 99th percentile", time.Duration(width))
	from, to, most := ports[0].Bins[0].StartNs, int64(0), int64(0)
	var data []chart.QueueBin
	for _, p := range ports {
		from = min(from, p.Bins[0].StartNs)
		to = max(to, p.Bins[len(p.Bins)-1].StartNs+width)
		for _, b := range p.Bins {
			if b.Waited > 0 {
				most = max(most, *b.P99)
			}
		}
		data = append(data, p.Bins...)
	}
	x, y := unitFor(times, float64(to-from)), unitFor(times, float64(most))
	var panels []*figure.Panel
	for i := range ports {
		p := queuePanel(&ports[i], from, x, y)
		p.X.Max = x.of64(to - from)
		if p.X.Bare = i+1 < len(ports); !p.X.Bare {
			p.X.Label = sinceText(from, x, k.Location)
		}
		panels = append(panels, p)
	}
	height := vg.Length(0)
	if n := len(panels); n > 1 {
		height = vg.Length(float64(n)*11+6) * f.textSize()
	}
	fig := f.figureOf(height, panels...)
	fig.Legend = []figure.Entry{
		{Text: "median", Line: &queueMedian},
		{Text: "least to 99th percentile", Fill: figure.Pale(figure.Blue)},
	}
	for i := range ports {
		if ports[i].Dropped > 0 {
			fig.Legend = append(fig.Legend, figure.Entry{Text: "packets were dropped", Marker: &queueDrop})
			break
		}
	}
	fig.About = fmt.Sprintf("waits in the queues of %s over time, in bins of %s", words.Plural(len(ports), "port"), time.Duration(width))
	return write(k, f, fig, data)
}

var (
	queueMedian = figure.LineStyle{Color: figure.Blue, Width: 1.3}
	queueDrop   = figure.Marker{Shape: figure.Cross, Color: figure.Red, Size: 0.8}
)

// queuePanel draws the queue of a port.
func queuePanel(q *chart.PortQueue, from int64, x, y unit) *figure.Panel {
	p := &figure.Panel{Title: fmt.Sprintf("%s: %d of %d packets waited", q.Port, q.Waited, q.Passed), Y: figure.Axis{Label: "Wait (" + y.name + ")"}}
	if q.Dropped > 0 {
		p.Title += fmt.Sprintf(", %d were dropped", q.Dropped)
	}
	most := 0.0
	for _, b := range q.Bins {
		if b.Waited > 0 {
			most = max(most, y.of64(*b.P99))
		}
	}
	if p.Y.Max = most * 1.18; most == 0 {
		p.Y.Max = 1
	}
	var ranges figure.Boxes
	medians := figure.Segments{LineStyle: queueMedian}
	drops := figure.Points{Marker: queueDrop}
	last := -1
	for i, b := range q.Bins {
		start, end := x.of64(b.StartNs-from), x.of64(b.StartNs-from+b.WidthNs)
		if b.Dropped > 0 {
			drops.List = append(drops.List, figure.XY{X: (start + end) / 2, Y: p.Y.Max * 0.94})
		}
		if b.Waited == 0 {
			continue
		}
		ranges = append(ranges, figure.Box{From: figure.XY{X: start, Y: y.of64(*b.Min)}, To: figure.XY{X: end, Y: y.of64(*b.P99)}, Fill: figure.Pale(figure.Blue)})
		median := y.of64(*b.P50)
		medians.List = append(medians.List, figure.Segment{From: figure.XY{X: start, Y: median}, To: figure.XY{X: end, Y: median}})
		if last >= 0 && q.Bins[last].StartNs+b.WidthNs == b.StartNs {
			medians.List = append(medians.List, figure.Segment{From: figure.XY{X: start, Y: y.of64(*q.Bins[last].P50)}, To: figure.XY{X: start, Y: median}})
		}
		last = i
	}
	p.Marks = []figure.Mark{ranges, medians, drops}
	return p
}
