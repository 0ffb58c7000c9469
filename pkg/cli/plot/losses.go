// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"context"
	"fmt"
	"image/color"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot/vg"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/chart"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/figure"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

const lossLong = `Draw where packets were lost, and why, as radar loss says it.

  --kind bars  a bar for each place and reason: the share of all packets, with its 95 %
               confidence interval, which is as wide as bursts make it
  --kind time  losses per second over time, by place and reason, one above the other

What was dropped after delivery is no loss. What was not seen again (NOT_SEEN) is.`

func newLossCmd(k *kit.Kit) *cobra.Command {
	f, kind, top := &options{}, kit.NewChoice("bars", "kind", "bars", "time"), kit.Count(6)
	cmd := newCmd(k, &cobra.Command{
		Use:   "loss -o FILE " + kit.EndsUse,
		Short: "Draw where packets were lost, and when",
		Long:  lossLong + "\n\n" + strings.TrimSpace(askedRing),
		Example: `  radar plot loss -o loss.pdf
  radar plot loss -r run --kind time --size page -o loss.svg --data loss.csv`,
	}, f, func(ctx context.Context, s *answer.Selection) error {
		losses := chart.NewLosses()
		return f.ask(ctx, k, &answer.Question{Selection: s, Meter: losses.Add}, func(c *answer.Counts) error {
			k.Note(c.Losses(false).Notes)
			if losses.Lost == 0 {
				return fmt.Errorf("nothing to draw: none of %s was lost", words.Plural(int(losses.Packets), "packet"))
			}
			places := losses.Places(c.Names)
			if losses.Over > 0 {
				k.Notef("%s not drawn that were lost at places beyond the first %d", words.PacketsWere(losses.Over), chart.MostPlaces)
			}
			if kind.Value == "bars" {
				return drawLossBars(k, f, losses, places, int(top))
			}
			return drawLossTimes(k, f, losses, c, places, int(top))
		})
	})
	kind.Add(cmd, "kind", "what is drawn")
	cmd.Flags().Var(&top, "top", "only the first N places, those with most losses; 0: all; --kind time joins the others")
	return cmd
}

// lossName is what a place is called.
func lossName(p *aggregate.LossPlace) string {
	place := p.Node
	if place == "" {
		place = "?"
	}
	if p.Port != "" {
		place += "/" + p.Port
	}
	reason := p.Reason
	if reason == "" {
		reason = p.Function
	}
	if p.Qdisc != "" {
		reason += " (" + p.Qdisc + ")"
	}
	at := ""
	if p.At != record.AtNode {
		at = " " + string(p.At)
	}
	if reason == "" {
		return place + at
	}
	return place + at + ": " + reason
}

// drawLossBars draws a bar for each place.
func drawLossBars(k *kit.Kit, f *options, l *chart.Losses, rows []chart.LossShare, top int) error {
	if top > 0 && len(rows) > top {
		k.Notef("%s with fewer losses are not drawn: --top 0 draws all", words.Plural(len(rows)-top, "place"))
		rows = rows[:top]
	}
	most := 0.0
	for _, r := range rows {
		most = max(most, r.High)
	}
	p := &figure.Panel{
		X: figure.Axis{Label: fmt.Sprintf("Lost (%% of %d packets)", l.Packets), Max: min(most*104, 100)},
		Y: figure.Axis{Names: true, Min: -float64(len(rows)), Max: 0.01, Ticks: []figure.Tick{}},
	}
	whiskers := figure.Segments{LineStyle: figure.LineStyle{Color: figure.Black}}
	var boxes figure.Boxes
	for i := range rows {
		r, y := &rows[i], -float64(i)-1
		text := fmt.Sprintf("%d, %s %%", r.Packets, percent(r.Share))
		p.Marks = append(p.Marks,
			figure.Label{At: figure.XY{Y: y + 0.55}, Text: lossName(&r.LossPlace), Above: true, Room: 0.68},
			figure.Label{At: figure.XY{X: p.X.Max, Y: y + 0.55}, Text: text, Above: true, Right: true, Room: 0.3})
		boxes = append(boxes, figure.Box{From: figure.XY{Y: y + 0.12}, To: figure.XY{X: r.Share * 100, Y: y + 0.55}, Fill: figure.Pale(figure.Red), Line: &figure.LineStyle{Color: figure.Red}})
		middle := y + 0.335
		whiskers.List = append(whiskers.List, figure.Segment{From: figure.XY{X: r.Low * 100, Y: middle}, To: figure.XY{X: r.High * 100, Y: middle}})
		for _, end := range []float64{r.Low, r.High} {
			whiskers.List = append(whiskers.List, figure.Segment{From: figure.XY{X: end * 100, Y: middle - 0.1}, To: figure.XY{X: end * 100, Y: middle + 0.1}})
		}
	}
	p.Marks = append(p.Marks, boxes, whiskers)
	fig := f.figureOf(vg.Length(float64(len(rows))*rowHeight*1.3+8)*f.textSize(), p)
	fig.Legend = []figure.Entry{
		{Text: "share of packets", Fill: figure.Pale(figure.Red)},
		{Text: "95 % confidence interval", Line: &figure.LineStyle{Color: figure.Black}},
	}
	fig.About = fmt.Sprintf("%d of %d packets were lost, by place and reason", l.Lost, l.Packets)
	return write(k, f, fig, rows)
}

// drawLossTimes draws losses over time.
func drawLossTimes(k *kit.Kit, f *options, l *chart.Losses, c *answer.Counts, places []chart.LossShare, top int) error {
	list, from, to, width := l.Times(c.Names)
	k.Notef("losses are counted in bins of %s", time.Duration(width))
	if top == 0 {
		top = len(places)
	}
	order := make(map[aggregate.LossPlace]int)
	for i := range places {
		order[places[i].LossPlace] = min(i, top)
	}
	slices.SortStableFunc(list, func(a, b chart.LossBin) int {
		if a.StartNs != b.StartNs {
			return int(min(max(a.StartNs-b.StartNs, -1), 1))
		}
		return order[a.LossPlace] - order[b.LossPlace]
	})
	u := unitFor(times, float64(to-from+width))
	p := &figure.Panel{
		X: figure.Axis{Label: sinceText(from, u, k.Location), Max: u.of64(to - from + width)},
		Y: figure.Axis{Label: "Lost packets per second"},
	}
	var boxes figure.Boxes
	most, sum := 0.0, 0.0
	for i, b := range list {
		if i > 0 && list[i-1].StartNs != b.StartNs {
			sum = 0
		}
		rate := float64(b.Packets) * 1e9 / float64(width)
		boxes = append(boxes, figure.Box{
			From: figure.XY{X: u.of64(b.StartNs - from), Y: sum}, To: figure.XY{X: u.of64(b.StartNs - from + width), Y: sum + rate},
			Fill: lossFill(order[b.LossPlace], top),
		})
		sum += rate
		most = max(most, sum)
	}
	p.Y.Max = most * 1.05
	p.Marks = []figure.Mark{boxes}
	fig := f.figureOf(0, p)
	for i := range places {
		entry := figure.Entry{Text: lossName(&places[i].LossPlace), Fill: lossFill(i, top)}
		if i == top {
			entry.Text = words.Plural(len(places)-top, "other place")
		}
		if i <= top {
			fig.Legend = append(fig.Legend, entry)
		}
	}
	fig.About = fmt.Sprintf("%d of %d packets were lost: losses per second over time, in bins of %s", l.Lost, l.Packets, time.Duration(width))
	return write(k, f, fig, list)
}

// lossFill is the colour of place i; those from top on are one.
func lossFill(i, top int) color.Color {
	if i >= top {
		return figure.Gray
	}
	return figure.Color(i)
}
