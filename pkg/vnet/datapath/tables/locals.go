// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// Locals are keys of the hash maps of addresses, for each IP version.
type Locals struct {
	V4 map[bpfobj.TcRdrLocal]bool
	V6 map[bpfobj.TcRdrLocal6]bool
}

// LocalsOf are the keys of the addresses that nodes own.
func LocalsOf(locals map[uint16][]netip.Addr) Locals {
	s := Locals{make(map[bpfobj.TcRdrLocal]bool), make(map[bpfobj.TcRdrLocal6]bool)}
	for node, addrs := range locals {
		for _, addr := range addrs {
			if addr.Is4() {
				s.V4[bpfobj.TcRdrLocal{Node: uint32(node), Addr: wireAddr(addr)}] = true
			} else {
				s.V6[bpfobj.TcRdrLocal6{Node: uint32(node), Addr: addr.As16()}] = true
			}
		}
	}
	return s
}

// OfPort is RDR_LOCAL_PORT: what marks keys of `locals` for what ports take.
const OfPort = 0x10000

// GroupKey is what the programs look up to know that a port takes what is sent to a group.
func GroupKey(port uint16, group netip.Addr) bpfobj.TcRdrLocal {
	return bpfobj.TcRdrLocal{Node: OfPort | uint32(port), Addr: wireAddr(group)}
}
