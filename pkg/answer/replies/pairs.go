// SPDX-License-Identifier: Apache-2.0

package replies

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
)

// maxPairs bounds how many pairs of addresses are kept of packets that have not ended.
const maxPairs = 4096

// Pairs are from whom to whom packets are under way.
type Pairs map[[2]netip.Addr]bool

// Add notes a packet that has not ended.
func (w Pairs) Add(p *packet.Packet) {
	if p.HasTuple && len(w) < maxPairs {
		w[[2]netip.Addr{address(p.Src, p.IPv6), address(p.Dst, p.IPv6)}] = true
	}
}

// Has reports whether a packet can be under way; of too many nobody knows.
func (w Pairs) Has(src, dst netip.Addr) bool { return len(w) >= maxPairs || w[[2]netip.Addr{src, dst}] }

// address is one of a packet's.
func address(a packet.Addr, v6 bool) netip.Addr {
	addr, _ := netip.ParseAddr(a.Text(v6))
	return addr
}

// RequestsDelivered counts echo requests by node and protocol: those of flows that all took one path.
func RequestsDelivered(flows []aggregate.FlowRow) map[string]uint64 {
	n := make(map[string]uint64)
	for i := range flows {
		f := &flows[i]
		if t := f.ICMPType; f.ICMPID == nil || t == nil || *t != 8 && *t != 128 || len(f.PathList) == 0 {
			continue
		}
		path := f.PathList[0].Path
		if at := lastNode(path); at != "" {
			n[at+f.Proto] += f.Delivered
		}
	}
	return n
}

// lastNode is the last one of a path's text.
func lastNode(path string) string {
	i := len(path)
	for i > 0 && path[i-1] != ' ' {
		i--
	}
	return path[i:]
}
