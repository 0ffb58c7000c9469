// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"github.com/vnetradar/radar/pkg/packet"

	"encoding/binary"
	"math/bits"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// Shorter names for the ABI's numbers.
const (
	evIngress = uint8(bpfobj.TcRdrEventRDR_EV_INGRESS)
	evEgress  = uint8(bpfobj.TcRdrEventRDR_EV_EGRESS)
	evDeliver = uint8(bpfobj.TcRdrEventRDR_EV_DELIVER)
	evLeft    = uint8(bpfobj.TcRdrEventRDR_EV_LEFT)
	evLoss    = uint8(bpfobj.TcRdrEventRDR_EV_LOSS)
	evAddr    = uint8(bpfobj.TcRdrEventRDR_EV_ADDR)
	evDequeue = uint8(bpfobj.TcRdrEventRDR_EV_DEQUEUE)
	evInner   = uint8(bpfobj.TcRdrEventRDR_EV_INNER)
	evIgnored = uint8(bpfobj.TcRdrEventRDR_EV_IGNORED)
	evAddr6   = uint8(bpfobj.TcRdrEventRDR_EV_ADDR6)

	flagFirst  = uint8(bpfobj.TcRdrEventFlagRDR_EVF_FIRST)
	flagPart   = uint8(bpfobj.TcRdrEventFlagRDR_EVF_PART)
	flagUnread = uint8(bpfobj.TcRdrEventFlagRDR_EVF_UNREAD)
	flagSource = uint8(bpfobj.TcRdrEventFlagRDR_EVF_SOURCE)

	stDone      = uint8(bpfobj.TcRdrStateRDR_ST_DONE)
	stLost      = uint8(bpfobj.TcRdrStateRDR_ST_LOST)
	stFull      = uint8(bpfobj.TcRdrStateRDR_ST_FULL)
	stLocalDrop = uint8(bpfobj.TcRdrStateRDR_ST_LOCAL_DROP)
	stHeld      = uint8(bpfobj.TcRdrStateRDR_ST_HELD)
	stGroup     = uint8(bpfobj.TcRdrStateRDR_ST_GROUP)
	stIPv6      = uint8(bpfobj.TcRdrStateRDR_ST_IPV6)

	cutTrain = uint8(bpfobj.TcRdrCutRDR_CUT)
	ownBits  = uint8(bpfobj.TcRdrCutRDR_OWN)
	cutLeft  = uint8(bpfobj.TcRdrCutRDR_LEFT)

	slotFragment = uint8(bpfobj.TcRdrSlotFlagRDR_SF_FRAGMENT)
)

// event is one entry of a backpack's log.
type event struct {
	kind, flags  uint8
	port         uint16
	at           int64 // ns since T0
	data1, data2 uint64
	rest         [3]uint64 // the further cells of an evAddr6
	gap          bool      // events before it may be missing
	moved        bool      // it is not known whether the node owned the address then, see rectify
}

// out reports whether the packet went out of the node.
func (e *event) out() bool { return e.kind == evEgress || e.kind == evLeft }

// sighting reports whether the packet came in or went out by a port.
func (e *event) sighting() bool {
	return e.kind != evLoss && e.kind != evDequeue && !e.readdressed()
}

// readdressed reports whether the event is new addresses.
func (e *event) readdressed() bool { return e.kind == evAddr || e.kind == evAddr6 }

// parseEvents appends the events of s to dst; if shared, those that all segments of the
// train have in common. ok is false if the log is not complete, or makes no sense from some
// cell on. In a full log, events may be missing before the cells that are kept for the end.
func parseEvents(dst []event, s *slot, shared bool) (ev []event, ok bool) {
	f := s.fields()
	n, room := int(f.Nev), s.eventCells()
	full := f.State&stFull != 0
	ok = !full && n <= room
	n = min(n, room)
	for k := 0; k < n; k++ {
		c := s.cell(k)
		dst = append(dst, event{})
		e := &dst[len(dst)-1]
		e.kind, e.flags, e.port, e.at = uint8(c>>60), uint8(c>>56)&0xf, uint16(c>>40), int64(c&(1<<40-1))
		e.gap = full && k >= room-endCells
		more := moreCells(e.kind)
		if more < 0 || k+more >= n {
			return dst[:len(dst)-1], false
		}
		if more > 0 {
			e.data1, e.data2 = s.cell(k+1), s.cell(k+2)
		}
		if e.kind == evAddr6 {
			e.rest = [3]uint64{s.cell(k + 3), s.cell(k + 4), s.cell(k + 5)}
		}
		k += more
		if !shared {
			continue
		}
		e.flags &^= flagFirst // the head counts the skb
		if e.flags&flagPart != 0 {
			dst = dst[:len(dst)-1]
		}
	}
	return dst, ok
}

// moreCells is how many cells of data follow the first of an event; -1: there is no such
// event.
func moreCells(kind uint8) int {
	switch kind {
	case evLoss, evAddr, evInner:
		return 2
	case evAddr6:
		return 5
	case evIngress, evEgress, evDeliver, evLeft, evDequeue, evIgnored:
		return 0
	}
	return -1
}

// brief is what a slot's log says at a glance, without decoding its events.
type brief struct {
	complete    bool
	readdressed bool   // addresses changed on the path
	straight    bool   // of one copy: it came in wherever it was sent to
	last        uint64 // ns from T0 to the last event
}

func (s *slot) brief() (b brief) {
	f := s.fields()
	n := int(f.Nev)
	if f.State&stFull != 0 || n > s.eventCells() {
		return b
	}
	away := 0
	for k := 0; k < n; k++ {
		c := s.cell(k)
		kind := uint8(c >> 60)
		switch kind {
		case evEgress, evIgnored:
			away++
		case evIngress, evDeliver:
			away--
		case evAddr, evAddr6:
			b.readdressed = true
		}
		b.last = max(b.last, c&(1<<40-1))
		more := moreCells(kind)
		if more < 0 || k+more >= n {
			return b
		}
		k += more
	}
	b.complete, b.straight = true, away == 0
	return b
}

// tuple reads the addresses of an evAddr or evAddr6 event. Fields are in the order of
// memory: the first in the low bits.
func (e *event) tuple() packet.Tuple {
	if e.kind == evAddr6 {
		return packet.Tuple{
			Src:     addr6(e.data1, e.data2),
			Dst:     addr6(e.rest[0], e.rest[1]),
			SrcPort: bits.ReverseBytes16(uint16(e.rest[2])),
			DstPort: bits.ReverseBytes16(uint16(e.rest[2] >> 16)),
		}
	}
	return packet.Tuple{
		Src:     addr(uint32(e.data1)),
		Dst:     addr(uint32(e.data1 >> 32)),
		SrcPort: bits.ReverseBytes16(uint16(e.data2)),
		DstPort: bits.ReverseBytes16(uint16(e.data2 >> 16)),
	}
}

// addr converts an IPv4 address as a little-endian CPU loads it, for which pkg/bpfobj is
// built.
func addr(be uint32) packet.Addr {
	return packet.AddrFrom4([4]byte{byte(be), byte(be >> 8), byte(be >> 16), byte(be >> 24)})
}

// addr6 is addr for IPv6, from two cells.
func addr6(first, second uint64) (a packet.Addr) {
	binary.LittleEndian.PutUint64(a[:], first)
	binary.LittleEndian.PutUint64(a[8:], second)
	return a
}
