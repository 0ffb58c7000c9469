// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"context"
	"fmt"
	"image/color"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot/vg"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/figure"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/words"
)

const pathsLong = `Draw the paths that packets took: a bar for each, as long as its mean latency, made
of the means of its links, nodes and queues. Above it stand the share of packets that
took the path, and the median and the 99th percentile of the latency.

Means add up, medians do not: so the parts are means over all packets of the path. A
packet that did not wait in a queue counts there as 0. --kind shares makes all bars as
long, to compare what short and long ones consist of.`

type pathOptions struct {
	options
	kind kit.Choice
	top  kit.Count
}

func newPathsCmd(k *kit.Kit) *cobra.Command {
	f := &pathOptions{kind: kit.NewChoice("times", "kind", "times", "shares"), top: 10}
	cmd := newCmd(k, &cobra.Command{
		Use:   "paths -o FILE " + kit.EndsUse,
		Short: "Draw paths, and where their latency comes from",
		Long:  pathsLong + "\n\n" + strings.TrimSpace(askedRing),
		Example: `  radar plot paths -o paths.pdf
  radar plot paths -r run --top 4 --data paths.csv -o paths.svg 'dst host 10.0.2.1'`,
	}, &f.options, func(ctx context.Context, s *answer.Selection) error {
		var parts *aggregate.Parts
		q := &answer.Question{Selection: s, Meter: func(p *packet.Packet, unixNs int64) {
			if parts == nil {
				parts = aggregate.NewParts(unixNs - int64(p.T0))
			}
			parts.Add(p)
		}}
		return f.ask(ctx, k, q, func(c *answer.Counts) error { return drawPaths(k, f, c, parts) })
	})
	f.kind.Add(cmd, "kind", "what bars show")
	cmd.Flags().Var(&f.top, "top", "only the first N paths, those with most packets; 0: all")
	return cmd
}

// pathPart is a part of a path, as the data has it.
type pathPart struct {
	Path    string             `json:"path"`
	Packets uint64             `json:"packets"`
	Share   float64            `json:"share"` // of all packets
	Lost    uint64             `json:"lost"`
	Expired uint64             `json:"expired"`
	Mean    *int64             `json:"latency_mean_ns,omitempty"` // of packets without copies
	P50     *int64             `json:"latency_p50_ns,omitempty"`
	P99     *int64             `json:"latency_p99_ns,omitempty"`
	Kind    aggregate.PartKind `json:"part,omitempty"`
	Name    string             `json:"name,omitempty"`
	PartNs  *int64             `json:"mean_ns,omitempty"`
	Waited  uint64             `json:"waited,omitempty"`
}

// Colours of parts: light, middle and dark without colour, too.
var partFills = map[aggregate.PartKind]color.Color{
	aggregate.OnLink: color.RGBA{0xcf, 0xe3, 0xf2, 0xff}, aggregate.InNode: figure.Sky, aggregate.InQueue: figure.Red,
	aggregate.Rest: figure.Light,
}

func drawPaths(k *kit.Kit, f *pathOptions, c *answer.Counts, parts *aggregate.Parts) error {
	top := int(f.top)
	rows := parts.Paths(c.Names)
	k.Note(c.Paths().Notes)
	total := c.Totals()
	if top > 0 && len(rows) > top {
		rest := uint64(0)
		for _, r := range rows[top:] {
			rest += r.Packets
		}
		k.Notef("%s more, with %s %% of the packets, are not drawn: --top 0 draws all", words.Plural(len(rows)-top, "path"), percent(float64(rest)/float64(total.Packets)))
		rows = rows[:top]
	}
	x, scale := pathAxis(f, rows)
	p := &figure.Panel{
		X: x,
		Y: figure.Axis{Names: true, Min: -float64(len(rows)), Max: 0.01, Ticks: []figure.Tick{}},
	}
	names := pathNames(rows)
	var data []pathPart
	var boxes figure.Boxes
	kinds := make(map[aggregate.PartKind]bool)
	for i := range rows {
		r, y := &rows[i], -float64(i)-1
		one := pathPart{Path: names[i], Packets: r.Packets, Share: float64(r.Packets) / float64(total.Packets), Lost: r.Lost, Expired: r.Expired}
		if r.Timed > 0 {
			one.Mean = &r.Mean
		}
		if r.Latency != nil {
			one.P50, one.P99 = &r.Latency.P50Ns, &r.Latency.P99Ns
		}
		p.Marks = append(p.Marks,
			figure.Label{At: figure.XY{Y: y + 0.55}, Text: names[i], Above: true, Room: 0.5},
			figure.Label{At: figure.XY{X: p.X.Max, Y: y + 0.55}, Text: pathText(r, one.Share), Above: true, Right: true, Room: 0.48})
		at := int64(0)
		for _, part := range r.Parts {
			boxes = append(boxes, figure.Box{
				From: figure.XY{X: scale(at, r.Mean), Y: y + 0.12}, To: figure.XY{X: scale(at+part.Mean, r.Mean), Y: y + 0.55},
				Fill: partFills[part.Kind], Text: partText(&part),
			})
			at += part.Mean
			kinds[part.Kind] = true
			one.Kind, one.Name, one.PartNs, one.Waited = part.Kind, part.Name, &part.Mean, part.Waited
			data = append(data, one)
		}
		if len(r.Parts) == 0 {
			data = append(data, one)
		}
	}
	p.Marks = append(p.Marks, boxes)
	fig := f.figureOf(vg.Length(float64(len(rows))*rowHeight*1.3+8)*f.textSize(), p)
	for _, kind := range []aggregate.PartKind{aggregate.OnLink, aggregate.InNode, aggregate.InQueue, aggregate.Rest} {
		if kinds[kind] {
			fig.Legend = append(fig.Legend, figure.Entry{Text: partWords[kind], Fill: partFills[kind]})
		}
	}
	fig.About = fmt.Sprintf("%s, and what their mean latency consists of", words.Plural(len(rows), "path"))
	noteParts(k, c, rows)
	return write(k, &f.options, fig, data)
}

// pathAxis is the axis of bars, and what makes a place on it of a time, of a path with that mean.
func pathAxis(f *pathOptions, rows []aggregate.PathParts) (x figure.Axis, scale func(ns, of int64) float64) {
	if f.kind.Value == "shares" {
		return figure.Axis{Label: "Share of mean latency (%)", Max: 100}, func(ns, of int64) float64 {
			return float64(ns) * 100 / float64(max(of, 1))
		}
	}
	longest := int64(0)
	for _, r := range rows {
		longest = max(longest, r.Mean)
	}
	u := unitFor(times, float64(longest))
	return figure.Axis{Label: "Mean latency (" + u.name + ")", Max: max(u.of64(longest)*1.02, 1e-3)}, func(ns, _ int64) float64 { return u.of64(ns) }
}

var partWords = map[aggregate.PartKind]string{
	aggregate.OnLink: "link", aggregate.InNode: "node", aggregate.InQueue: "queue", aggregate.Rest: "not known where",
}

// noteParts says what bars are without.
func noteParts(k *kit.Kit, c *answer.Counts, rows []aggregate.PathParts) {
	t := c.Totals()
	if n := t.Lost + t.Expired + t.Ignored; n > 0 {
		k.Notef("%s of %d did not arrive (radar loss) and have no latency: bars are of those that did, shares of all", words.Plural(int(n), "packet"), t.Packets)
	}
	noteUntimed(k, c.Paths().List)
	copies := 0
	for i := range rows {
		if rows[i].Ends != nil && rows[i].Latency != nil {
			copies++
		}
	}
	if copies > 0 {
		k.Notef("%s of packets with copies have no bar: their branches take their times side by side", words.Plural(copies, "path"))
	}
}

// noteUntimed says how many packets of these paths arrived without a latency.
func noteUntimed(k *kit.Kit, paths []aggregate.PathRow) {
	n := uint64(0)
	for i := range paths {
		n += paths[i].Delivered + paths[i].Left
		if l := paths[i].Latency; l != nil {
			n -= min(n, l.Count)
		}
	}
	if n > 0 {
		k.Notef("the latency of %s that arrived is not known: it is not in the figure", words.Plural(int(n), "packet"))
	}
}

// pathNames tells paths apart, by their ports if need be.
func pathNames(rows []aggregate.PathParts) []string {
	alike := make(map[string]int)
	for i := range rows {
		alike[rows[i].Path]++
	}
	names := make([]string, len(rows))
	for i := range rows {
		r := &rows[i]
		if names[i] = r.Path; alike[r.Path] > 1 {
			names[i] = aggregate.PathText(r.Hops, true)
		}
		names[i] = aggregate.TruncatedText(names[i], r.Hops, r.Truncated)
	}
	return names
}

// pathText is what stands above a bar.
func pathText(r *aggregate.PathParts, share float64) string {
	text := percent(share) + " %"
	switch {
	case r.Latency != nil:
		return text + ", p50 " + timeText(r.Latency.P50Ns) + ", p99 " + timeText(r.Latency.P99Ns)
	case r.Delivered+r.Left == 0:
		return text + " of packets, none arrived"
	}
	return text + ", latency not known"
}

// partText is what stands in a part that has room for it.
func partText(p *aggregate.Part) string {
	switch p.Kind {
	case aggregate.InNode:
		return p.Name
	case aggregate.InQueue:
		return p.Name + " queue"
	}
	return ""
}
