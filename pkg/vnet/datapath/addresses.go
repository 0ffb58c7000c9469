// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"net/netip"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
)

// Addresses returns the addresses that nodes own, of both versions, by the nodes' ids.
func (h *Handle) Addresses() (map[uint16][]netip.Addr, error) {
	owned := make(map[uint16][]netip.Addr)
	v4, err := allKeys[bpfobj.TcRdrLocal](h.maps[bpfobj.TcMapLocals])
	if err != nil {
		return nil, err
	}
	for _, key := range v4 {
		if key.Node&tables.OfPort == 0 {
			var b [4]byte
			binary.NativeEndian.PutUint32(b[:], key.Addr)
			owned[uint16(key.Node)] = append(owned[uint16(key.Node)], netip.AddrFrom4(b))
		}
	}
	v6, err := allKeys[bpfobj.TcRdrLocal6](h.maps[bpfobj.TcMapLocals6])
	if err != nil {
		return nil, err
	}
	for _, key := range v6 {
		if key.Node&tables.OfPort == 0 {
			owned[uint16(key.Node)] = append(owned[uint16(key.Node)], netip.AddrFrom16(key.Addr))
		}
	}
	return owned, nil
}
