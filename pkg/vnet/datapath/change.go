// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Nodes that change: docs/design/0014-nodes-that-change.md. Programs at the kernel's own
// tracepoints (bpf/backpack/change.bpf.c) close what opens when an interface comes or moves, at that
// moment. They note when that was. Here what they need is written, and what they have noted
// is cleared once the domain has been brought in line.

// changeHook is how the description names the programs.
const changeHook = "tp_btf/qdisc_create"

// changeProgs are the programs, and the pins of their links.
var changeProgs = []struct{ prog, pin string }{
	{bpfobj.ChangeProgRadarQdiscDestroy, "qdisc_destroy"},
	{bpfobj.ChangeProgRadarQdiscCreate, "qdisc_create"},
}

// attachChangeHook loads the programs, which use the domain's maps, and pins their links.
// Without them packets leave with wire bits until the agent has noticed a change.
func (p *plan) attachChangeHook(undo *undo) error {
	name := p.change.Next.Name
	warn := func(err error) error {
		p.warn(fmt.Sprintf("this kernel does not tell at once when an interface comes or moves (%v): packets can leave with rewritten bits there until the agent has noticed, some 20 ms later", err))
		return nil
	}
	spec, err := p.blueprint.ChangeSpec()
	if err != nil {
		return err
	}
	c, err := loader.Load(spec, p.loaded.Maps)
	if err != nil {
		return warn(loader.Error("load programs", err))
	}
	defer c.Close()
	for _, x := range changeProgs {
		pin := domain.Kind.LinkPin(name, x.pin)
		err := hook.AttachPinned(c.Programs[x.prog], hook.Tracing(x.prog), pin)
		if failed, ok := errors.AsType[*hook.Error](err); ok && failed.Step == "attach" {
			return warn(loader.LinkError("", err))
		}
		if err != nil {
			return loader.LinkError("", err)
		}
		undo.add(func() { _ = hook.Detach(pin) })
	}
	p.change.Next.ChangeHook = changeHook
	return nil
}

// looksNow says that the topology is looked at from now on: what has changed before will be
// seen. The kernel shows it only when the change is complete, as it holds the lock of network
// configuration from before the programs run.
func looksNow() uint64 { return clock.Monotonic() }

// look begins a change of the domain, by what the topology was at that time.
func (h *Handle) look(at uint64) { h.looked, h.equipped, h.open = at, 0, nil }

// putPort tells the programs what a port is. What has changed there since user space looked
// stays: the programs know better.
func (h *Handle) putPort(id uint16, entry bpfobj.TcRdrPort) error {
	unlock, err := h.lockPorts()
	if err != nil {
		return err
	}
	defer unlock()
	return h.putPortLocked(id, entry)
}

// lockPorts keeps others from writing ports until unlock: who reads an entry and writes it
// again must not take back what another process wrote in between. It is held for
// microseconds, unlike the domain's lock, for which a node that must stop using the mark
// cannot wait.
func (h *Handle) lockPorts() (unlock func(), err error) {
	if h.portsLock == nil {
		if h.portsLock, err = os.Open(domain.Dir(h.Domain.Name)); err != nil {
			return nil, fmt.Errorf("lock ports: %w", err)
		}
	}
	fd := int(h.portsLock.Fd())
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(fd, unix.LOCK_EX)
	}
	if err != nil {
		return nil, fmt.Errorf("lock ports: %w", err)
	}
	return func() { _ = unix.Flock(fd, unix.LOCK_UN) }, nil
}

func (h *Handle) putPortLocked(id uint16, entry bpfobj.TcRdrPort) error {
	s, g := &h.shifts[id], &h.guards[entry.Node]
	if atomic.LoadUint32(&g.Stopped) != 0 && bpfobj.TcRdrPortFlag(entry.Flags)&tables.NodeFlagBits == 0 {
		entry.Flags |= uint16(tables.FlagsStopped)
	}
	carrier := entry.Flags&uint16(bpfobj.TcRdrPortFlagRDR_PF_HEADER) != 0 || h.Domain.Options.MarkMask == 0
	for {
		peer, gone, came := atomic.LoadUint64(&s.PeerNs), atomic.LoadUint64(&s.GoneNs), atomic.LoadUint64(&g.SinceNs)
		e := entry
		if carrier && (came > h.equipped || slices.Contains(h.open, entry.Node)) {
			e.Flags = tables.FlagsGuarded(e.Flags)
		}
		if peer > h.looked {
			e.Flags = tables.FlagsWithoutPeer(e.Flags)
		}
		if gone > h.looked {
			e.Flags = tables.FlagsOutside(e.Flags)
		}
		if err := h.maps[bpfobj.TcMapPorts].Update(uint32(id), &e, ebpf.UpdateAny); err != nil {
			return err
		}
		if peer == atomic.LoadUint64(&s.PeerNs) && gone == atomic.LoadUint64(&s.GoneNs) && came == atomic.LoadUint64(&g.SinceNs) {
			return nil
		}
	}
}

// isGone says whether a port's interface has moved away, with its programs.
func (h *Handle) isGone(id uint16) bool { return atomic.LoadUint64(&h.shifts[id].GoneNs) != 0 }

// expectChanges tells the programs of what is to be attached, before it is: an interface that
// is found in its place later has not moved before.
func (a *applier) expectChanges() error {
	if err := putAll(a.h.maps[bpfobj.TcMapEnds], a.c.Ends()); err != nil {
		return fmt.Errorf("set other ends: %w", err)
	}
	return a.h.putHomes(a.c.Next)
}

// putHomes tells the programs which nodes carry the header, and which ports they have.
func (h *Handle) putHomes(d *domain.Domain) error {
	carriers := merge.Homes(d)
	ports := make(map[uint16][]uint16) // of each node, in the order of their numbers
	for i := range d.Ports {
		if p := &d.Ports[i]; !p.Removed {
			ports[p.Node] = append(ports[p.Node], p.ID)
		}
	}
	for _, id := range carriers {
		// From the last one on: who follows the list meanwhile meets all that were there.
		next := uint32(0)
		for _, p := range slices.Backward(ports[uint16(id)]) {
			if err := h.maps[bpfobj.TcMapSiblings].Put(uint32(p), next); err != nil {
				return fmt.Errorf("set ports of a node: %w", err)
			}
			next = uint32(p) + 1
		}
		atomic.StoreUint32(&h.guards[id].First, next)
	}
	if err := putAll(h.maps[bpfobj.TcMapHomes], carriers); err != nil {
		return fmt.Errorf("set nodes that carry the header: %w", err)
	}
	return nil
}

// settleChanges forgets what is no more, and what has been dealt with.
func (a *applier) settleChanges() {
	h := a.h
	carriers := merge.Homes(a.c.Next)
	dropOthers(h.maps[bpfobj.TcMapEnds], a.c.Ends())
	dropOthers(h.maps[bpfobj.TcMapHomes], carriers)
	settle := func(at *uint64) {
		if seen := atomic.LoadUint64(at); seen != 0 && seen <= h.looked {
			atomic.CompareAndSwapUint64(at, seen, 0) // else it has changed again
		}
	}
	for i := range a.c.Next.Ports {
		s := &h.shifts[a.c.Next.Ports[i].ID]
		settle(&s.PeerNs)
		settle(&s.GoneNs)
	}
	for i := range a.c.Next.Nodes {
		n := &a.c.Next.Nodes[i]
		since := &h.guards[n.ID].SinceNs
		if id, ok := carriers[n.Inum]; ok && id == uint32(n.ID) && slices.Contains(h.open, n.ID) {
			// One of its interfaces could not be attached: it sees true bits until it is.
			atomic.CompareAndSwapUint64(since, 0, h.looked)
			continue
		}
		settle(since)
	}
}

// Changed says whether an interface has come or moved since the domain was last brought in
// line, in a way that the programs had to deal with. It costs nothing to ask.
func (h *Handle) Changed() bool {
	later := func(at *uint64) bool { return atomic.LoadUint64(at) > h.looked }
	for i := range h.Domain.Ports {
		if p := &h.Domain.Ports[i]; !p.Removed && (later(&h.shifts[p.ID].PeerNs) || later(&h.shifts[p.ID].GoneNs)) {
			return true
		}
	}
	return slices.ContainsFunc(h.Domain.Nodes, func(n domain.Node) bool { return !n.Removed && later(&h.guards[n.ID].SinceNs) })
}

// putAll adds entries to a map of numbers.
func putAll[K comparable](m *ebpf.Map, want map[K]uint32) error {
	for key, value := range want {
		var have uint32
		if m.Lookup(&key, &have) == nil && have == value {
			continue
		}
		if err := m.Put(&key, value); err != nil {
			return err
		}
	}
	return nil
}

// dropOthers removes the entries that are not wanted.
func dropOthers[K comparable](m *ebpf.Map, want map[K]uint32) {
	var key K
	var value uint32
	var gone []K
	for entries := m.Iterate(); entries.Next(&key, &value); {
		if _, ok := want[key]; !ok {
			gone = append(gone, key)
		}
	}
	for i := range gone {
		_ = m.Delete(&gone[i]) // it may be gone already
	}
}
