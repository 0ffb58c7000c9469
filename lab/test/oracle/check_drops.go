// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/record"
)

// CheckDrops compares the captures with the kernel's own counts: every packet
// that vanished did so at one of the drops, and each drop took exactly as many
// as nft or tc say. It needs no radar. all must hold every node.
func (t *Truth) CheckDrops(all Domain, drops []Drop) []*Row {
	places := &Row{Check: "vanished packets explained", MayBeEmpty: true}
	lost := map[*Drop][]*unit{}
	for _, j := range t.journeys {
		f, ok := t.fate(j, all, drops)
		if !ok {
			continue
		}
		t.mustNotPass(places, j, drops)
		if f.state != record.Lost {
			continue
		}
		places.Compared++
		if f.drop == nil {
			places.bad("%s: %s, where nothing is known to drop", describe(j), f)
			continue
		}
		lost[f.drop] = append(lost[f.drop], j.last())
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
func (t *Truth) mustNotPass(row *Row, j *journey, drops []Drop) {
	for _, v := range j.visits() {
		for _, d := range drops {
			if d.Match != nil && d.Node == v.node && v.in != nil && v.out != nil && d.Match(v.in.Packet) {
				row.bad("%s: passed %s, though %s drops it", describe(j), v.node, d.Name)
			}
		}
	}
}

// countRow compares how many packets (or buffers) somebody saw dropped with the
// kernel's count.
func (t *Truth) countRow(d *Drop, lost []*unit, who string) *Row {
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
// each, but a train that the queue takes as a whole is one.
func (t *Truth) buffers(d *Drop, lost []*unit) int {
	limit := 0
	if p := t.topo.port(Ref{d.Node, d.Port}); p != nil && p.Queue != nil {
		limit = p.Queue.MaxBytes
	}
	n := 0
	whole := map[*frame]bool{}
	for _, u := range lost {
		bytes := u.Len + ethernetHeader + (u.segs-1)*(u.hdrLen+u.l4Len+ethernetHeader)
		if u.segs == 1 || bytes > limit {
			n++
			continue
		}
		if !whole[u.frame] {
			n++
			whole[u.frame] = true
		}
	}
	return n
}
