// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// Unsent is packets of one flow that a node dropped before they were sent, so that they have
// no backpack.
type Unsent struct {
	Port     uint16 // by which they were to be sent
	Where    uint64 // reason and function, as a loss's second cell has them
	Proto    uint8
	Src, Dst netip.Addr
	Dport    uint16 // 0: the protocol has none
	Packets  uint64
	LastNs   uint64 // CLOCK_MONOTONIC
}

// Unsent returns what nodes have dropped before it was sent, in any order.
func (h *Handle) Unsent() ([]Unsent, error) {
	var list []Unsent
	var key bpfobj.TcRdrUnsentKey
	var value bpfobj.TcRdrUnsent
	entries := h.maps[bpfobj.TcMapUnsent].Iterate()
	for entries.Next(&key, &value) {
		list = append(list, Unsent{
			Port: key.Port, Where: key.Where, Proto: key.Proto, Dport: bits.ReverseBytes16(key.Dport),
			Src: unsentAddr(key.Saddr, key.V6 != 0), Dst: unsentAddr(key.Daddr, key.V6 != 0),
			Packets: value.Packets, LastNs: value.LastNs,
		})
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read what was not sent: %w", err)
	}
	return list, nil
}

// unsentAddr is an address of a key, as it lay in the packet.
func unsentAddr(words [2]uint64, v6 bool) netip.Addr {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], words[0])
	binary.LittleEndian.PutUint64(b[8:], words[1])
	if v6 {
		return netip.AddrFrom16(b)
	}
	return netip.AddrFrom4([4]byte(b[:4]))
}
