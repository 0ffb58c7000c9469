// SPDX-License-Identifier: Apache-2.0

package oracle

import "fmt"

// CheckTrains shows that offloads were at work: how many packets travelled in
// GSO trains, how many of those were cut out of a train on their path, and how
// many were joined to a longer one. A network that is set up to cut, or to join, and
// did not, proves nothing.
func (t *Truth) CheckTrains(needCut, needJoined bool) *Row {
	row := &Row{Check: "packets in trains"}
	cut, joined := 0, 0
	for _, path := range t.paths {
		train, shorter, longer := false, false, false
		for i, pkt := range path.wire {
			train = train || pkt.segs > 1
			if i > 0 {
				shorter = shorter || pkt.segs < path.wire[i-1].segs
				longer = longer || pkt.segs > path.wire[i-1].segs
			}
		}
		if !train {
			continue
		}
		row.Compared++
		if shorter {
			cut++
		}
		if longer {
			joined++
		}
	}
	row.Note = fmt.Sprintf("%d were cut from their train on the way, %d joined to a longer one", cut, joined)
	if needCut && cut == 0 || needJoined && joined == 0 {
		row.bad("the network was to cut trains (%v) and to join them (%v)", needCut, needJoined)
	}
	return row
}
