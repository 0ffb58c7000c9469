// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

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
