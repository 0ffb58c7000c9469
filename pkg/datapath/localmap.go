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

// wireAddr is an address as it lies in the packet: the programs compare with that.
func wireAddr(addr netip.Addr) uint32 {
	b := addr.As4()
	return binary.NativeEndian.Uint32(b[:])
}

func localKey(node uint16, addr netip.Addr) bpfobj.TcRdrLocal {
	return bpfobj.TcRdrLocal{Node: uint32(node), Addr: wireAddr(addr)}
}

// putNode writes the addresses of a node where the programs look first. Of a node
// with more than fit there it says that they are in the hash only.
func (h *Handle) putNode(node uint16, addrs []netip.Addr) error {
	var entry bpfobj.TcRdrNode
	if len(addrs) <= len(entry.Addr) {
		entry.Known = uint32(len(addrs)) + 1
		for i, addr := range addrs {
			entry.Addr[i] = wireAddr(addr)
		}
	}
	if err := h.maps[bpfobj.TcMapNodes].Put(uint32(node), &entry); err != nil {
		return fmt.Errorf("set addresses of a node: %w", err)
	}
	return nil
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
		// After the hash: until now the programs asked there, or did not know.
		if err := h.putNode(node, addrs); err != nil {
			return err
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
		_ = h.putNode(node, addrs)
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
