// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

const (
	// maxNodeAddrs: for more, a multiplier without collisions is a matter of luck.
	maxNodeAddrs = 13
	// multipliers are tried until one has no collision. Of 13 addresses one in 1,300 has none.
	multipliers = 1 << 15
	nodeShift   = 28 // RDR_NODE_SHIFT
)

// NodeEntries are what the programs look up of a node that owns these addresses, for each IP
// version: a table without collisions, or, for too many of them, one that refers to the hash
// map of addresses. keys are the programs', for IPv6.
func NodeEntries(addrs []netip.Addr, keys program.HashKeys) (v4, v6 bpfobj.TcRdrNode) {
	var wire, folded []uint32
	for _, addr := range addrs {
		if addr.Is4() {
			wire = append(wire, wireAddr(addr))
		} else {
			folded = append(folded, foldAddr(addr, &keys))
		}
	}
	return nodeEntry(wire), nodeEntry(folded)
}

// foldAddr is fold_addr() of bpf/backpack/hash.h.
func foldAddr(addr netip.Addr, keys *program.HashKeys) uint32 {
	b, h := addr.As16(), uint64(0)
	for i, key := range keys[3:] {
		h += uint64(binary.NativeEndian.Uint32(b[4*i:])) * key
	}
	return uint32(h >> 32)
}

func nodeEntry(addrs []uint32) (entry bpfobj.TcRdrNode) {
	slices.Sort(addrs)
	if addrs = slices.Compact(addrs); len(addrs) > maxNodeAddrs {
		return entry
	}
	random := rand.New(rand.NewPCG(1, 2)) // each run finds the same
	for range multipliers {
		if m := random.Uint32() | 1; layOut(addrs, m, &entry) {
			entry.Multiplier = m
			return entry
		}
	}
	return bpfobj.TcRdrNode{}
}

// place is where an address stands in a table, if the node owns it.
func place(addr, multiplier uint32) uint32 { return addr * multiplier >> nodeShift }

// layOut puts the addresses where the multiplier says, and elsewhere what does not belong
// there. It returns whether no two addresses belong to one place.
func layOut(addrs []uint32, multiplier uint32, entry *bpfobj.TcRdrNode) bool {
	var taken [len(entry.Addr)]bool
	for _, addr := range addrs {
		at := place(addr, multiplier)
		if taken[at] {
			return false
		}
		taken[at], entry.Addr[at] = true, addr
	}
	for at := range entry.Addr {
		for v := uint32(0); !taken[at]; v++ {
			entry.Addr[at] = v
			taken[at] = place(v, multiplier) != uint32(at)
		}
	}
	return true
}

// wireAddr is an address as it lies in the packet: the programs compare with that.
func wireAddr(addr netip.Addr) uint32 {
	b := addr.As4()
	return binary.NativeEndian.Uint32(b[:])
}
