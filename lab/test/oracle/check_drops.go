// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// CheckDrops compares the captures with the kernel's own counts: every packet
// that vanished did so at one of the drops, and each drop took exactly as many
// as nft or tc count. It does not look at radar. all must hold every node.
func (t *Truth) CheckDrops(all Domain, drops []Drop) []*Row {
	places := &Row{Check: "vanished packets explained", MayBeEmpty: true}
	lost := map[*Drop][]*packet{}
	for _, path := range t.paths {
		o, ok := t.outcome(path, all, drops)
		if !ok {
			continue
		}
		t.mustNotPass(places, path, drops)
		if o.state != record.Lost {
			continue
		}
		places.Compared++
		if o.drop == nil {
			places.bad("%s: %s, where nothing is known to drop", describe(path), o)
			continue
		}
		lost[o.drop] = append(lost[o.drop], path.last())
	}
	rows := []*Row{places}
	for i := range drops {
		if drops[i].Kernel >= 0 {
			rows = append(rows, t.countRow(&drops[i], lost[&drops[i]], "captures"))
		}
	}
	return rows
}

// mustNotPass finds packets that went through a node that drops their kind.
func (t *Truth) mustNotPass(row *Row, path *packetPath, drops []Drop) {
	for _, h := range path.hops() {
		for _, d := range drops {
			if d.Match != nil && d.Node == h.node && h.in != nil && h.out != nil && d.Match(h.in.Packet) {
				row.bad("%s: passed %s, though %s drops it", describe(path), h.node, d.Name)
			}
		}
	}
}

// countRow compares how many packets (or buffers) somebody saw dropped with the
// kernel's count.
func (t *Truth) countRow(d *Drop, lost []*packet, who string) *Row {
	row := &Row{Check: d.Name + ": kernel against " + who, Compared: len(lost)}
	n, what := int64(len(lost)), "packets"
	if d.Skbs {
		n, what = int64(t.buffers(d, lost)), fmt.Sprintf("skbs (%d packets)", len(lost))
	}
	row.Note = fmt.Sprintf("kernel %d, %s %d %s", d.Kernel, who, n, what)
	if n != d.Kernel {
		row.bad("difference %d", n-d.Kernel)
	}
	return row
}

// ethernetHeader is what the kernel's qdiscs count for each packet besides IP.
const ethernetHeader = 14

// buffers is how many skbs the packets were in when the queue dropped them: one
// for each packet, but one for a train that the queue takes as a whole.
func (t *Truth) buffers(d *Drop, lost []*packet) int {
	limit := 0
	if p := t.topo.port(Ref{d.Node, d.Port}); p != nil && p.Queue != nil {
		limit = p.Queue.MaxBytes
	}
	n := 0
	whole := map[*frame]bool{}
	for _, pkt := range lost {
		bytes := pkt.Len + ethernetHeader + (pkt.segs-1)*(pkt.hdrLen+pkt.l4Len+ethernetHeader)
		if pkt.segs == 1 || bytes > limit {
			n++
			continue
		}
		if !whole[pkt.frame] {
			n++
			whole[pkt.frame] = true
		}
	}
	return n
}

// Losses is a line of radar's own summary of losses.
type Losses struct {
	Node, Port string
	At         record.At
	Reason     string
	Packets    int64
	Skbs       int64
}

// CheckLossCounts compares radar's summary with the kernel's count of each drop. The
// difference must be 0, apart from the losses that Unseen has found and those of packets that
// radar did not measure (see Rows). Losses anywhere else are wrong, apart from those of
// Unseen's packets that radar inferred.
func (c *Comparison) CheckLossCounts(summary []Losses) []*Row {
	var rows []*Row
	taken := make([]bool, len(summary))
	omitted := map[*Drop][]*packet{}
	for _, e := range c.missing {
		if c.omitted[e.path] && e.outcome.drop != nil {
			omitted[e.outcome.drop] = append(omitted[e.outcome.drop], e.path.last())
		}
	}
	for i := range c.drops {
		d := &c.drops[i]
		var packets, skbs int64
		for i, l := range summary {
			if !taken[i] && d.explains(l) {
				packets, skbs, taken[i] = packets+l.Packets, skbs+l.Skbs, true
			}
		}
		if d.Kernel < 0 {
			continue
		}
		row := &Row{Check: d.Name + ": kernel against radar", Compared: int(packets)}
		n, what, unseen := packets, "packets", c.unseen[d.Name].Packets
		if d.Skbs {
			n, what, unseen = skbs, fmt.Sprintf("skbs (%d packets)", packets), c.unseen[d.Name].Skbs
		}
		row.Note = fmt.Sprintf("kernel %d, radar %d %s", d.Kernel, n, what)
		if unseen > 0 {
			row.Note += fmt.Sprintf(", %d while the kernel ran no tracing program", unseen)
		}
		var without int64
		if pkts := omitted[d]; d.Skbs {
			without = int64(c.truth.buffers(d, pkts))
		} else {
			without = int64(len(pkts))
		}
		if without > 0 {
			row.Note += fmt.Sprintf(", %d not measured", without)
		}
		if n+unseen+without != d.Kernel {
			row.bad("difference %d", n+unseen+without-d.Kernel)
		}
		rows = append(rows, row)
	}
	other := &Row{Check: "radar's losses elsewhere", MayBeEmpty: true}
	for i, l := range summary {
		inferred := l.Reason == record.NotSeen
		if !taken[i] && !(inferred && l.Packets == c.guessed[lossPlace{l.Node, l.Port, l.At}]) {
			other.Compared += int(l.Packets)
			other.bad("%d packets at %s, port %q, %s, %s", l.Packets, l.Node, l.Port, l.At, l.Reason)
		}
	}
	return append(rows, other)
}

// explains reports whether losses of the summary are this drop's.
func (d *Drop) explains(l Losses) bool {
	return (d.Node == "" || l.Node == d.Node) && l.At == d.At && (d.Port == "" || l.Port == d.Port) &&
		(len(d.Reasons) == 0 || slices.Contains(d.Reasons, l.Reason))
}
