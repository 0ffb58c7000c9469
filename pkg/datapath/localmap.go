// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

func localKey(node uint16, addr netip.Addr) bpfobj.TcRdrLocal {
	// The programs compare with the address as it lies in the packet.
	b := addr.As4()
	return bpfobj.TcRdrLocal{Node: uint32(node), Addr: binary.NativeEndian.Uint32(b[:])}
}

// addLocals adds the addresses that the nodes own.
func (h *Handle) addLocals(locals map[uint16][]netip.Addr) error {
	m := h.maps[bpfobj.TcMapLocals]
	for node, addrs := range locals {
		for _, addr := range addrs {
			key := localKey(node, addr)
			err := m.Put(&key, uint8(1))
			if errors.Is(err, unix.E2BIG) {
				return usagef("the nodes have more than %d addresses, which is all that radar keeps: attach fewer nodes", m.MaxEntries())
			}
			if err != nil {
				return fmt.Errorf("set address %s: %w", addr, err)
			}
		}
	}
	return nil
}

// dropLocals removes all other addresses. Failure leaves an address too many,
// until the next call: nothing worth failing for.
func (h *Handle) dropLocals(locals map[uint16][]netip.Addr) {
	keep := make(map[bpfobj.TcRdrLocal]bool)
	for node, addrs := range locals {
		for _, addr := range addrs {
			keep[localKey(node, addr)] = true
		}
	}
	m := h.maps[bpfobj.TcMapLocals]
	var key bpfobj.TcRdrLocal
	var one uint8
	var drop []bpfobj.TcRdrLocal
	for entries := m.Iterate(); entries.Next(&key, &one); {
		if !keep[key] {
			drop = append(drop, key)
		}
	}
	for i := range drop {
		_ = m.Delete(&drop[i])
	}
}
