// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/intwire"
)

// maxSources bounds whose sequence numbers are followed.
const maxSources = 1 << 16

// How far numbers may be ahead of the last one for those between to count as lost, and how
// far behind it for a report to count as late. Beyond that the source has begun anew.
const (
	mostAhead = 1 << 20
	mostLate  = 1 << 10
)

// gaps counts reports that did not come, by the numbers that sources give them: TR 0.5
// counts by sender and hw_id, TR 1.0 and 2.0 by node, hw_id and destination.
type gaps struct {
	lost uint64
	wide bool // messages may come long after others that were sent later
	last map[sequenceOf]sequence
}

type sequenceOf struct {
	src, dst netip.Addr
	port     uint16 // at dst
	node     uint32
	hw       uint8
}

type sequence struct{ number, lost uint32 }

func (g *gaps) add(m *intwire.Message) { g.addMany(m, 1) }

// addMany takes so many messages of which m is the last. The others came before, and other sources'
// between them may have been taken already.
func (g *gaps) addMany(m *intwire.Message, many uint64) {
	key := sequenceOf{src: m.Packet.Src, dst: m.Packet.Dst, port: m.Packet.DstPort}
	n, bits := uint32(0), 32
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
		g.last = make(map[sequenceOf]sequence)
	}
	s, known := g.last[key]
	if !known && len(g.last) >= maxSources {
		return
	}
	mask := uint32(1)<<bits - 1 // of 32 bits: all ones
	ahead, behind := (n-s.number)&mask, (s.number-n)&mask
	late := uint32(mostLate)
	if many > 1 || g.wide {
		late = min(mostAhead, mask/2)
	}
	found := many - 1 // of those that were, or are now, taken for lost
	switch {
	case !known:
		s.number = n & mask
	case ahead == 0: // not counted by the source, as some do, or sent twice
	case behind <= late: // it was taken for lost
		found++
	case ahead <= min(mostAhead, mask/2):
		s.lost, g.lost = s.lost+ahead-1, g.lost+uint64(ahead-1)
		s.number = n & mask
	default:
		s.number = n & mask
	}
	found = min(found, uint64(s.lost))
	s.lost, g.lost = s.lost-uint32(found), g.lost-found
	g.last[key] = s
}
