// SPDX-License-Identifier: Apache-2.0

package backpack

import (
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

	flagFirst  = uint8(bpfobj.TcRdrEventFlagRDR_EVF_FIRST)
	flagPart   = uint8(bpfobj.TcRdrEventFlagRDR_EVF_PART)
	flagSource = uint8(bpfobj.TcRdrEventFlagRDR_EVF_SOURCE)

	stDone      = uint8(bpfobj.TcRdrStateRDR_ST_DONE)
	stLost      = uint8(bpfobj.TcRdrStateRDR_ST_LOST)
	stFull      = uint8(bpfobj.TcRdrStateRDR_ST_FULL)
	stLocalDrop = uint8(bpfobj.TcRdrStateRDR_ST_LOCAL_DROP)
	stHeld      = uint8(bpfobj.TcRdrStateRDR_ST_HELD)

	cutTrain = uint8(bpfobj.TcRdrCutRDR_CUT)
	ownBits  = uint8(bpfobj.TcRdrCutRDR_OWN)

	slotFragment = uint16(bpfobj.TcRdrSlotFlagRDR_SF_FRAGMENT)
)

// event is one entry of a backpack's log.
type event struct {
	kind, flags  uint8
	port         uint16
	at           int64 // ns since T0
	data1, data2 uint64
}

// out says that the packet went out of the node.
func (e *event) out() bool { return e.kind == evEgress || e.kind == evLeft }

// parseEvents appends the events of s to dst; of those that a train has in common,
// if shared. ok is false if the log is not complete or makes no sense from some
// cell on.
func parseEvents(dst []event, s *slot, shared bool) (ev []event, ok bool) {
	f := s.fields()
	n := int(f.Nev)
	ok = f.State&stFull == 0 && n <= s.cells
	n = min(n, s.cells)
	for k := 0; k < n; k++ {
		c := s.cell(k)
		e := event{
			kind:  uint8(c >> 60),
			flags: uint8(c>>56) & 0xf,
			port:  uint16(c >> 40),
			at:    int64(c & (1<<40 - 1)),
		}
		switch e.kind {
		case evLoss, evAddr:
			if k+2 >= n {
				return dst, false
			}
			e.data1, e.data2 = s.cell(k+1), s.cell(k+2)
			k += 2
		case evIngress, evEgress, evDeliver, evLeft:
		default:
			return dst, false
		}
		if shared {
			if e.flags&flagPart != 0 {
				continue
			}
			e.flags &^= flagFirst // the head counts the skb
		}
		dst = append(dst, e)
	}
	return dst, ok
}

// tuple reads the addresses of an evAddr event. Fields are in the order of memory:
// the first in the low bits.
func (e *event) tuple() Tuple {
	return Tuple{
		Src:     addr(uint32(e.data1)),
		Dst:     addr(uint32(e.data1 >> 32)),
		SrcPort: bits.ReverseBytes16(uint16(e.data2)),
		DstPort: bits.ReverseBytes16(uint16(e.data2 >> 16)),
	}
}

// addr is an address as loaded by a little-endian CPU, as pkg/bpfobj is built for.
func addr(be uint32) [4]byte {
	return [4]byte{byte(be), byte(be >> 8), byte(be >> 16), byte(be >> 24)}
}
