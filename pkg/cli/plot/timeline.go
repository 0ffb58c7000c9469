// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot/vg"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/chart"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/figure"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

const timelineLong = `Draw single packets over time.

  --of hops  a line for each packet on its way from node to node. A node is a grey band:
             what goes down comes in at its upper edge and leaves it at the lower one. A
             cross is where a packet was lost. At most 500 lines, of which a train is one,
             and 64 nodes: choose packets by --since, --until, --last or an expression
  --of tcp   the sequence numbers that a TCP sender sends, as tcptrace draws them, with
             what was sent again and what was lost, acknowledgements as they come to it,
             and the window that the receiver offers. Of the connections that match it is
             the one with most bytes, in the direction with most data. All its packets
             between --since and --until are drawn: the other flags choose the connection`

func newTimelineCmd(k *kit.Kit) *cobra.Command {
	f, of := &options{}, kit.NewChoice("hops", "kind", "hops", "tcp")
	var given func() []string // flags that choose packets, which of a TCP connection are drawn nonetheless
	cmd := newCmd(k, &cobra.Command{
		Use:   "timeline -o FILE " + kit.EndsUse,
		Short: "Draw packets on their way, or a TCP connection",
		Long:  timelineLong + "\n\n" + strings.TrimSpace(askedRing),
		Example: `  radar plot timeline --last 20 -o hops.pdf 'udp port 9000'
  radar plot timeline -r run --state lost --size page -o lost.svg
  radar plot timeline -r run --of tcp -o tcp.svg 'tcp port 5201'`,
	}, f, func(ctx context.Context, s *answer.Selection) error {
		if of.Value == "tcp" {
			if given := given(); len(given) > 0 {
				k.Notef("%s: this chooses the connection, of which all packets are drawn (--since and --until choose some)", strings.Join(given, ", "))
			}
			return plotTCP(ctx, k, f, s)
		}
		return plotHops(ctx, k, f, s)
	})
	of.Add(cmd, "of", "what is drawn")
	given = func() (list []string) {
		for _, name := range []string{"last", "node", "state"} {
			if cmd.Flags().Changed(name) {
				list = append(list, "--"+name)
			}
		}
		return list
	}
	return cmd
}

// plotHops draws packets on their way.
func plotHops(ctx context.Context, k *kit.Kit, f *options, s *answer.Selection) error {
	return k.ReadSources(s, func(src *answer.Sources) error {
		return k.RowsFirst(func() error {
			if d := src.Domain(); d != nil {
				k.ShowNames(d)
			}
			k.Note(src.Lacks())
			var hops chart.Hops
			notes, err := src.Records(ctx, s, func(r *record.Record) error {
				hops.Add(k.Shown.Record(r))
				return nil
			})
			k.Note(notes)
			if err != nil {
				return err
			}
			return drawHops(k, f, &hops)
		})
	})
}

func drawHops(k *kit.Kit, f *options, h *chart.Hops) error {
	noteHops(k, h)
	if len(h.Records) == 0 {
		if h.Laneless > 0 {
			return fmt.Errorf("nothing to draw: each packet was at more nodes than there are bands")
		}
		return errNothing
	}
	var data []chart.Visit
	for _, r := range h.Records {
		data = append(data, chart.Visits(r)...)
	}
	from, to, known := span(data)
	if !known {
		return fmt.Errorf("nothing to draw: none of %s has times of its hops", words.Plural(int(h.Packets), "packet"))
	}
	u := unitFor(times, float64(to-from))
	lanes := h.Lanes()
	p := &figure.Panel{
		X: figure.Axis{Label: sinceText(from, u, k.Location), Max: u.of64(to-from) * 1.02, Min: -u.of64(to-from) * 0.01},
		Y: figure.Axis{Names: true, Max: 0.5, Min: -float64(len(lanes)) + 0.5, Ticks: []figure.Tick{}},
	}
	if from == to {
		p.X.Min, p.X.Max = -1, 1
	}
	levels := make(map[string]float64)
	var bands figure.Boxes
	for i, node := range lanes {
		levels[node] = -float64(i)
		p.Y.Ticks = append(p.Y.Ticks, figure.Tick{At: -float64(i), Text: node})
		bands = append(bands, figure.Box{From: figure.XY{X: p.X.Min, Y: -float64(i) - half}, To: figure.XY{X: p.X.Max, Y: -float64(i) + half}, Fill: figure.Light})
	}
	way := newWay(len(h.Records))
	for len(data[way.done:]) > 0 {
		way.packet(data[way.done:], levels, func(ns int64) float64 { return u.of64(ns - from) })
	}
	p.Marks = []figure.Mark{bands, way.links, way.nodes, way.queues, way.ends, way.lost}
	fig := f.figureOf(max(vg.Length(float64(len(lanes))*1.7+9)*f.textSize(), figure.Sizes[f.size.Value].Height), p)
	fig.Legend = way.legend()
	fig.About = fmt.Sprintf("%s on their way between %s", words.Plural(int(h.Packets), "packet"), words.Plural(len(lanes), "node"))
	return write(k, f, fig, data)
}

// noteHops says which packets are not drawn.
func noteHops(k *kit.Kit, h *chart.Hops) {
	if h.More > 0 {
		k.Notef("only the first %d packets are drawn, as %d lines (a train is one), not the %d after them: choose others by --since, --until, --last or an expression", h.Packets, len(h.Records), h.More)
	}
	if h.Placeless > 0 {
		k.Notef("%s not drawn: no hop is known", words.PacketsWere(h.Placeless))
	}
	if h.Laneless > 0 {
		k.Notef("%s not drawn: with their nodes there would be more than %d, choose some by --node or an expression", words.PacketsWere(h.Laneless), chart.MostLanes)
	}
	if unknown := h.Unknown(); unknown > 0 {
		k.Notef("%s not drawn: no times of their hops are known", words.PacketsWere(unknown))
	}
}

// span is from the first to the last time that is known.
func span(list []chart.Visit) (from, to int64, known bool) {
	for i := range list {
		for _, at := range []*int64{list[i].First(), list[i].Last(), list[i].LostNs} {
			switch {
			case at == nil:
			case !known:
				from, to, known = *at, *at, true
			default:
				from, to = min(from, *at), max(to, *at)
			}
		}
	}
	return from, to, known
}

// way is what is drawn of packets on their way.
type way struct {
	links, nodes, queues figure.Segments
	ends, lost           figure.Points
	done                 int // visits
}

// newWay chooses lines by how many packets there are.
func newWay(packets int) *way {
	width := 1.0
	if packets > 50 {
		width = 0.5
	}
	return &way{
		links:  figure.Segments{LineStyle: figure.LineStyle{Color: figure.Blue, Width: width}},
		nodes:  figure.Segments{LineStyle: figure.LineStyle{Color: figure.Black, Width: 1.5 * width}},
		queues: figure.Segments{LineStyle: figure.LineStyle{Color: figure.Orange, Width: 1.8 * width}},
		ends:   figure.Points{Marker: figure.Marker{Shape: figure.Circle, Color: figure.Black, Size: 0.4}},
		lost:   figure.Points{Marker: figure.Marker{Shape: figure.Cross, Color: figure.Red}},
	}
}

// packet adds the packet that the list begins with.
func (w *way) packet(list []chart.Visit, levels map[string]float64, x func(ns int64) float64) {
	end := 1
	for end < len(list) && list[end].ID == list[0].ID && list[end].Hop > 0 {
		end++
	}
	w.done += end
	list = list[:end]
	add := func(to *figure.Segments, a, b *int64, from, level float64) {
		if a != nil && b != nil {
			to.List = append(to.List, figure.Segment{From: figure.XY{X: x(*a), Y: from}, To: figure.XY{X: x(*b), Y: level}})
		}
	}
	edges := edgesOf(list, levels)
	for i := range list {
		v, e := &list[i], edges[i]
		if v.Prev >= 0 && v.Prev < i {
			add(&w.links, list[v.Prev].Last(), v.First(), edges[v.Prev].out, e.in)
		}
		middle := e.out // where it waits for the link
		if v.DequeueNs != nil {
			middle = e.in
		}
		add(&w.nodes, v.InNs, v.OutNs, e.in, middle)
		add(&w.queues, v.OutNs, v.DequeueNs, e.in, e.out)
		if v.Lost && v.LostNs != nil {
			w.lost.List = append(w.lost.List, figure.XY{X: x(*v.LostNs), Y: levels[v.Node]})
		}
	}
	for i := range list {
		if last := list[i].Last(); last != nil && arrived(list, i) {
			w.ends.List = append(w.ends.List, figure.XY{X: x(*last), Y: edges[i].in})
		}
	}
}

// arrived reports whether a packet, or a copy of it, arrived at the end of visit i. Only packets with copies have outcomes.
func arrived(list []chart.Visit, i int) bool {
	outcome := list[i].Outcome
	if i == len(list)-1 && !slices.ContainsFunc(list, func(v chart.Visit) bool { return v.Outcome != "" }) {
		outcome = list[i].State
	}
	return outcome == record.Delivered || outcome == record.Left
}

// half is half the height of a node's band, of the distance between two nodes.
const half = 0.16

// edge is where a packet comes into a band, and where it leaves it.
type edge struct{ in, out float64 }

// edgesOf are those of a packet's visits: it leaves a node at the edge that is nearer to where it goes.
func edgesOf(list []chart.Visit, levels map[string]float64) []edge {
	edges := make([]edge, len(list))
	for i := range list {
		level := levels[list[i].Node]
		edges[i] = edge{level + half, level - half}
		if prev := list[i].Prev; prev >= 0 && prev < i && levels[list[prev].Node] < level {
			edges[i] = edge{level - half, level + half}
		}
	}
	for i := range list { // a node where it turns, or begins
		prev := list[i].Prev
		if prev < 0 || prev >= i {
			continue
		}
		from := levels[list[prev].Node]
		edges[prev].out = from - half
		if levels[list[i].Node] > from {
			edges[prev].out = from + half
		}
		if list[prev].Prev < 0 {
			edges[prev].in = 2*from - edges[prev].out
		}
	}
	return edges
}

// legend names what there is.
func (w *way) legend() (list []figure.Entry) {
	for _, s := range []struct {
		of   *figure.Segments
		text string
	}{{&w.links, "on a link"}, {&w.nodes, "in a node"}, {&w.queues, "in a queue"}} {
		if len(s.of.List) > 0 {
			list = append(list, figure.Entry{Text: s.text, Line: &s.of.LineStyle})
		}
	}
	if len(w.ends.List) > 0 {
		list = append(list, figure.Entry{Text: "arrived", Marker: &w.ends.Marker})
	}
	if len(w.lost.List) > 0 {
		list = append(list, figure.Entry{Text: "lost", Marker: &w.lost.Marker})
	}
	return list
}
