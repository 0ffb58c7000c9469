// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/record"
)

// place is where and why packets were freed. Names, not numbers: a snapshot is read
// by processes that may not see the kernel's symbols.
type place struct {
	Node, Port              uint16
	At                      record.At
	Reason, Qdisc, Function string
}

// tally counts what was freed at one place.
type tally struct {
	Packets, Skbs, Bytes uint64
}

// tally counts the packet's drop.
func (a *Aggregates) tally(table map[place]*tally, p *backpack.Packet) {
	d := &p.Loss
	k := place{d.Node, d.Port, d.At, d.Reason, d.Qdisc, d.Function}
	if k.At == "" { // the loss did not fit into the backpack: only that it happened
		k = place{Node: backpack.NoNode, Port: backpack.NoPort, At: record.AtNode}
	}
	t := table[k]
	if t == nil {
		if len(table) >= MaxLosses {
			a.totals.OverLosses += uint64(p.Segs)
			return
		}
		t = new(tally)
		table[k] = t
	}
	t.Packets += uint64(p.Segs)
	t.Bytes += uint64(p.Len)
	if d.First {
		t.Skbs++
	}
}
