// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// putNode writes the addresses of a node where the programs look first. Of a node with
// more than fit there it says that they are in the hash maps only.
func (h *Handle) putNode(node uint16, addrs []netip.Addr) error {
	v4, v6 := tables.NodeEntries(addrs, h.hashKeys())
	err := putEntry(h.maps[bpfobj.TcMapNodes], node, v4)
	if err == nil {
		err = putEntry(h.maps[bpfobj.TcMapNodes6], node, v6)
	}
	if err != nil {
		return fmt.Errorf("set addresses of a node: %w", err)
	}
	return nil
}

// putEntry writes an entry while programs read it, who may see one half of what was there and
// one of what comes: so that they ask the hash map meanwhile, the multiplier goes first and
// comes last.
func putEntry(m *ebpf.Map, node uint16, entry bpfobj.TcRdrNode) error {
	var was bpfobj.TcRdrNode
	if err := m.Lookup(uint32(node), &was); err != nil {
		return err
	}
	if was == entry {
		return nil
	}
	was.Multiplier = 0
	without := entry
	without.Multiplier = 0
	for _, step := range []bpfobj.TcRdrNode{was, without, entry} {
		if err := m.Put(uint32(node), &step); err != nil {
			return err
		}
	}
	return nil
}

// addLocals adds the nodes' addresses; on failure those of new nodes go again,
// whose numbers others will have.
func (a *applier) addLocals() error {
	if a.c.Old != nil {
		known := make(map[uint16][]netip.Addr)
		for node, addrs := range a.c.Locals {
			if a.c.Old.NodeByID(node) != nil || a.c.Old.VMByID(node) != nil {
				known[node] = addrs
			}
		}
		a.undo.add(func() { a.h.dropLocals(known) })
	}
	left, err := a.h.addLocals(a.c.Locals)
	if left > 0 {
		a.warnOnce(addressesLeft(left))
	}
	return err
}

// warnOnce tells what lasts until the network changes, and is met at every refresh.
func (a *applier) warnOnce(text string) {
	if a.h.told == nil {
		a.h.told = make(map[string]bool)
	}
	if !a.h.told[text] {
		a.h.told[text] = true
		a.warnings = append(a.warnings, text)
	}
}

// addLocals adds the addresses that the nodes own, and returns for how many there was no
// room. Those of a node with few addresses are known all the same.
func (h *Handle) addLocals(locals map[uint16][]netip.Addr) (left int, err error) {
	set := tables.LocalsOf(locals)
	if left, err = putKeys(h.maps[bpfobj.TcMapLocals], set.V4); err != nil {
		return 0, err
	}
	if left > 0 {
		h.dropGroups()
		if left, err = putKeys(h.maps[bpfobj.TcMapLocals], set.V4); err != nil {
			return 0, err
		}
	}
	left6, err := putKeys(h.maps[bpfobj.TcMapLocals6], set.V6)
	if err != nil {
		return 0, err
	}
	// After the hash: until now the programs asked there, or did not know.
	for node, addrs := range locals {
		if err := h.putNode(node, addrs); err != nil {
			return 0, err
		}
	}
	return left + left6, nil
}

// SyncLocals tells the programs which addresses some nodes own now, before Refresh looks at
// all of the domain. Errors: domain.ErrNotAttached.
func (h *Handle) SyncLocals(nodes []uint16) error {
	unlock, err := h.lockAndReload()
	if err != nil {
		return err
	}
	defer unlock()
	locals := make(map[uint16][]netip.Addr)
	for _, id := range nodes {
		n := h.Domain.NodeByID(id)
		if n == nil || n.Removed {
			continue
		}
		addrs, err := topo.SpecOf(*n).Locals()
		if errors.Is(err, topo.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		locals[id] = addrs
	}
	left, err := h.addLocals(locals)
	if err != nil {
		return err
	}
	h.dropLocalsOf(locals, func(node uint16) bool { _, ok := locals[node]; return ok })
	if left > 0 {
		return errors.New(addressesLeft(left))
	}
	return nil
}

// putKeys adds keys to a map of local addresses, and returns how many did not fit.
func putKeys[K comparable](m *ebpf.Map, keys map[K]bool) (left int, err error) {
	for key := range keys {
		err := m.Put(&key, uint8(1))
		switch {
		case errors.Is(err, unix.E2BIG):
			left++
		case err != nil:
			return left, fmt.Errorf("set address of a node: %w", err)
		}
	}
	return left, nil
}

// crowdedText says that a map of local addresses is full.
const crowdedText = "the table of the nodes' addresses and groups is full"

// addressesLeft says what it means that there was no room for so many.
func addressesLeft(left int) string {
	return fmt.Sprintf("%s: %d addresses are left out, packets delivered there can show as expired", crowdedText, left)
}

// Crowded says, where it is so, that the nodes have more addresses and memberships of
// groups than the programs can know.
func (h *Handle) Crowded() (text string) {
	const consequence = ": packets delivered to some of them show as ignored or expired; attach fewer nodes"
	if full[bpfobj.TcRdrLocal](h.maps[bpfobj.TcMapLocals]) || full[bpfobj.TcRdrLocal6](h.maps[bpfobj.TcMapLocals6]) {
		return crowdedText + consequence
	}
	return ""
}

func full[K any](m *ebpf.Map) bool {
	keys, err := allKeys[K](m)
	return err == nil && len(keys) >= int(m.MaxEntries())
}

// allKeys reads the keys of a map of local addresses.
func allKeys[K any](m *ebpf.Map) (all []K, err error) {
	keys, ones := make([]K, keyBatch), make([]uint8, keyBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, ones, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("read addresses of nodes: %w", err)
		}
		all = append(all, keys[:n]...)
		if err != nil {
			return all, nil
		}
	}
}

// dropLocals removes all other addresses. Failure leaves an address too many,
// until the next call: nothing worth failing for.
func (h *Handle) dropLocals(locals map[uint16][]netip.Addr) {
	h.dropLocalsOf(locals, func(uint16) bool { return true })
}

// dropLocalsOf is dropLocals for some nodes.
func (h *Handle) dropLocalsOf(locals map[uint16][]netip.Addr, of func(node uint16) bool) {
	for node, addrs := range locals {
		_ = h.putNode(node, addrs)
	}
	keep := tables.LocalsOf(locals)
	dropKeys(h.maps[bpfobj.TcMapLocals], func(key bpfobj.TcRdrLocal) bool {
		return key.Node&tables.OfPort == 0 && of(uint16(key.Node)) && !keep.V4[key]
	})
	dropKeys(h.maps[bpfobj.TcMapLocals6], func(key bpfobj.TcRdrLocal6) bool {
		return key.Node&tables.OfPort == 0 && of(uint16(key.Node)) && !keep.V6[key]
	})
}

// dropKeys removes the keys that drop says. Failure leaves one too many until the next
// call: nothing worth failing for.
func dropKeys[K comparable](m *ebpf.Map, drop func(K) bool) {
	keys, _ := allKeys[K](m)
	for i := range keys {
		if drop(keys[i]) {
			_ = m.Delete(&keys[i])
		}
	}
}
