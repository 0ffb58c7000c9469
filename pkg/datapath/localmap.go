// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// wireAddr is an address as it lies in the packet: the programs compare with that.
func wireAddr(addr netip.Addr) uint32 {
	b := addr.As4()
	return binary.NativeEndian.Uint32(b[:])
}

// localSet is what the programs know of addresses, by the maps' keys.
type localSet struct {
	v4 map[bpfobj.TcRdrLocal]bool
	v6 map[bpfobj.TcRdrLocal6]bool
}

func newLocalSet(locals map[uint16][]netip.Addr) localSet {
	s := localSet{make(map[bpfobj.TcRdrLocal]bool), make(map[bpfobj.TcRdrLocal6]bool)}
	for node, addrs := range locals {
		for _, addr := range addrs {
			if addr.Is4() {
				s.v4[bpfobj.TcRdrLocal{Node: uint32(node), Addr: wireAddr(addr)}] = true
			} else {
				s.v6[bpfobj.TcRdrLocal6{Node: uint32(node), Addr: addr.As16()}] = true
			}
		}
	}
	return s
}

func onlyIPv4(addrs []netip.Addr) (v4 []netip.Addr) {
	for _, addr := range addrs {
		if addr.Is4() {
			v4 = append(v4, addr)
		}
	}
	return v4
}

// putNode writes the IPv4 addresses of a node where the programs look first. Of a node
// with more than fit there it says that they are in the hash only.
func (h *Handle) putNode(node uint16, addrs []netip.Addr) error {
	addrs = onlyIPv4(addrs)
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
	set := newLocalSet(locals)
	if err := putKeys(h.maps[bpfobj.TcMapLocals], set.v4); err != nil {
		return err
	}
	if err := putKeys(h.maps[bpfobj.TcMapLocals6], set.v6); err != nil {
		return err
	}
	// After the hash: until now the programs asked there, or did not know.
	for node, addrs := range locals {
		if err := h.putNode(node, addrs); err != nil {
			return err
		}
	}
	return nil
}

// putKeys adds keys to a map of local addresses.
func putKeys[K comparable](m *ebpf.Map, keys map[K]bool) error {
	for key := range keys {
		err := m.Put(&key, uint8(1))
		if errors.Is(err, unix.E2BIG) {
			return usagef("the nodes have more than %d addresses, which is all that radar keeps: attach fewer nodes", m.MaxEntries())
		}
		if err != nil {
			return fmt.Errorf("set address of a node: %w", err)
		}
	}
	return nil
}

// dropLocals removes all other addresses. Failure leaves an address too many,
// until the next call: nothing worth failing for.
func (h *Handle) dropLocals(locals map[uint16][]netip.Addr) {
	for node, addrs := range locals {
		_ = h.putNode(node, addrs)
	}
	keep := newLocalSet(locals)
	dropKeys(h.maps[bpfobj.TcMapLocals], func(key bpfobj.TcRdrLocal) bool { return key.Node&localPort == 0 && !keep.v4[key] })
	dropKeys(h.maps[bpfobj.TcMapLocals6], func(key bpfobj.TcRdrLocal6) bool { return key.Node&localPort == 0 && !keep.v6[key] })
}

// dropKeys removes the keys that drop says. Failure leaves one too many until the next
// call: nothing worth failing for.
func dropKeys[K comparable](m *ebpf.Map, drop func(K) bool) {
	var key K
	var one uint8
	var gone []K
	for entries := m.Iterate(); entries.Next(&key, &one); {
		if drop(key) {
			gone = append(gone, key)
		}
	}
	for i := range gone {
		_ = m.Delete(&gone[i])
	}
}
