// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/intwire"
)

// maxSources is how many sources' numbers each of two generations holds. When the younger one is
// full, the older one goes, and with it whoever has not reported since it became the older one: made-up
// sources can neither keep others out nor grow without end.
const maxSources = 1 << 16

// How far numbers may be ahead of the last one for those between to count as lost, and how
// far behind it for a report to count as late. Beyond that the source has begun anew.
const (
	mostAhead = 1 << 20
	mostLate  = 1 << 10
)

// gaps counts reports that did not come, by the numbers that sources give them: TR 0.5
// counts by sender and hw_id, TR 1.0 and 2.0 by node, hw_id and destination.
//
// A number that is far from the last one is believed when a second report of the source confirms it: one
// datagram, which anybody can make up, neither counts a million as lost nor hides what is. What one that
// is less than mostLate ahead counts, the source's own reports take back: they come as late ones.
type gaps struct {
	lost      uint64
	forgotten uint64 // sources
	wide      bool   // messages may come long after others that were sent later
	last, old map[sequenceOf]sequence
}

type sequenceOf struct {
	src, dst netip.Addr
	port     uint16 // at dst
	node     uint32
	hw       uint8
}

// sequence is what is known of a source's numbers.
type sequence struct {
	number uint32 // up to which gaps are counted
	lost   uint32 // of those before it, the ones that may still come
	jumped bool
	jump   uint32 // a number far ahead, or of a source that begins anew, not confirmed
	came   uint32 // reports between number and jump, whose own numbers are not known
}

// find returns what is known of a source, which is of the younger generation then.
func (g *gaps) find(key sequenceOf) (s sequence, known bool) {
	if s, known = g.last[key]; known {
		return s, true
	}
	if s, known = g.old[key]; known {
		delete(g.old, key)
	}
	if len(g.last) >= maxSources {
		g.forgotten += uint64(len(g.old))
		g.old, g.last = g.last, nil
	}
	if g.last == nil {
		g.last = make(map[sequenceOf]sequence)
	}
	return s, known
}

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
	mask := uint32(1)<<bits - 1 // of 32 bits: all ones
	s, known := g.find(key)
	if !known {
		g.last[key] = sequence{number: n & mask}
		return
	}
	late := uint32(mostLate)
	if many > 1 || g.wide {
		late = min(mostAhead, mask/2)
	}
	before := s.lost
	wasLate := s.take(n, mask, late, many)
	found := many - 1 + uint64(s.came) // of those that were, or are now, taken for lost
	if wasLate {
		found++
	}
	g.lost += uint64(s.lost - before)
	settled := min(found, uint64(s.lost))
	s.lost, g.lost = s.lost-uint32(settled), g.lost-settled
	if s.came = 0; s.jumped {
		s.came = uint32(min(found-settled, mostAhead))
	}
	g.last[key] = s
}

// take takes the number of the last of many reports. wasLate says that it was taken for lost.
func (s *sequence) take(n, mask, late uint32, many uint64) (wasLate bool) {
	most := min(mostAhead, mask/2)
	ahead := (n - s.number) & mask
	switch {
	case ahead == 0: // not counted by the source, as some do, or sent twice
		return false
	case -ahead&mask <= late:
		return true
	case ahead <= min(mostLate, mask/2), ahead <= most && uint64(ahead)-1 <= 2*(many-1): // the others bear it out
		s.advance(n, mask)
		return false
	}
	beyond := (n - s.jump) & mask
	switch {
	case s.jumped && beyond == 0: // sent twice
	case s.jumped && ahead <= most && -beyond&mask <= most: // a second one that is ahead
		s.advance(n, mask)
	case s.jumped && beyond <= most:
		if (s.jump-s.number)&mask <= most {
			s.advance(s.jump, mask)
		} else { // the source has begun anew
			s.number, s.jumped = s.jump, false
		}
		return s.take(n, mask, late, many)
	default:
		if s.jumped && (s.jump-s.number)&mask <= most { // it came, too
			s.came++
		}
		s.jumped, s.jump = true, n&mask
	}
	return false
}

// advance counts what is missing up to n.
func (s *sequence) advance(n, mask uint32) {
	missing := (n-s.number)&mask - 1
	if to := (s.jump - s.number) & mask; s.jumped && to <= missing+1 {
		if s.jumped = false; to <= missing { // it came
			missing--
		}
	}
	s.lost += missing
	s.number = n & mask
}
