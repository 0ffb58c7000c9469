// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/intwire"
)

// maxSources bounds whose sequence numbers are followed.
const maxSources = 1 << 16

// gaps counts reports that did not come, by the numbers that sources give them: TR 0.5
// counts by sender and hw_id, TR 1.0 and 2.0 by node and hw_id.
type gaps struct {
	lost uint64
	last map[sequenceOf]uint32
}

type sequenceOf struct {
	sender netip.Addr // and its port: several instances may run on one machine
	port   uint16
	node   uint32
	hw     uint8
}

func (g *gaps) add(m *intwire.Message) {
	key, n, bits := sequenceOf{sender: m.Packet.Src, port: m.Packet.DstPort}, uint32(0), 32
	if m.HasGroup {
		key.node, key.hw, n, bits = m.Group.NodeID, m.Group.HwID, m.Group.Sequence, 22
		if m.Profile.Report.ShortSeq {
			bits = 16
		}
	} else {
		key.hw, n = m.Report.HwID, m.Report.Sequence
		if m.Report.Layout == intwire.Report10 {
			key.node = m.Report.SwitchID
		}
	}
	if g.last == nil {
		g.last = make(map[sequenceOf]uint32)
	}
	last, known := g.last[key]
	if !known && len(g.last) >= maxSources {
		return
	}
	mask := uint32(1)<<bits - 1 // of 32 bits: all ones
	ahead := (n - last) & mask
	switch {
	case !known:
	case ahead == 0: // not counted by the source, as some do, or sent twice
		return
	case ahead > mask/2: // late: it was taken for lost
		g.lost -= min(g.lost, 1)
		return
	default:
		g.lost += uint64(ahead - 1)
	}
	g.last[key] = n & mask
}
