// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// undo is what takes a half-done change back, last step first.
type undo []func()

func (u *undo) add(f func()) { *u = append(*u, f) }

func (u *undo) run() {
	for i := len(*u) - 1; i >= 0; i-- {
		(*u)[i]()
	}
	*u = nil
}

// applier carries a change out on the maps and interfaces of a domain.
type applier struct {
	h    *Handle
	c    *merge.Change
	undo *undo
	// saved is the description as it was last written.
	saved *domain.Domain
	// lenient: a port that cannot be attached is left out, with a warning.
	lenient  bool
	warnings []string
	// drain, if not nil, waits for packets under way before programs are taken off.
	drain func() error
	// between, if not nil, runs when all ports have their programs and before any
	// of them marks.
	between func() error
}

// run does everything but the lease. When it fails, undo has what was done.
func (a *applier) run(ctx context.Context) error {
	defer hook.Expedite(len(system.Directions) * (len(a.c.AddedPorts) + len(a.c.RemovedPorts)))()
	if err := a.lower(); err != nil {
		return err
	}
	if a.drain != nil {
		if err := a.drain(); err != nil {
			return err
		}
	}
	replaced, others := a.c.Replaced()
	a.removePorts(replaced)
	if err := a.addLocals(); err != nil {
		return err
	}
	// Described before done: a process that is killed in between leaves what
	// detach can find.
	if err := a.planQdiscs(); err != nil {
		return err
	}
	if err := a.save(a.c.Halfway()); err != nil {
		return err
	}
	if err := a.expectChanges(); err != nil {
		return err
	}
	if err := a.attachPorts(ctx); err != nil {
		return err
	}
	// Only now: where a node leaves a bridge link, or comes to it, either its own port
	// or the bridge's member restores, and there must be one at any time. The same
	// holds where the bridge's namespace becomes a node, or ceases to be one.
	a.undo.add(func() { a.restorePorts(others) })
	a.removePorts(others)
	if err := a.placeInside(); err != nil {
		return err
	}
	if err := a.followQueues(); err != nil {
		return err
	}
	if a.between != nil {
		if err := a.between(); err != nil {
			return err
		}
	}
	left, err := a.h.writeGroups(a.c.Next, func(uint16) bool { return true })
	if err != nil {
		return err
	}
	if left > 0 {
		a.warnOnce(groupsLeft(left))
		a.h.memberships = nil // SyncGroups tries again
	}
	if err := a.raise(); err != nil {
		return err
	}
	a.settleChanges()
	a.h.dropLocals(a.c.Locals)
	a.h.Domain = a.c.Next
	return a.save(a.c.Next)
}

// save writes a description if it differs from what was written last. On failure
// the old one comes back.
func (a *applier) save(d *domain.Domain) error {
	if a.saved == nil {
		a.saved = a.c.Old
	}
	if a.saved != nil && reflect.DeepEqual(a.saved, d) {
		return nil
	}
	a.undo.add(func() {
		if a.c.Old != nil {
			_ = a.c.Old.Save()
		} else {
			_ = os.Remove(domain.File(a.c.Next.Name, domain.Description))
		}
	})
	a.saved = merge.Clone(d)
	return d.Save()
}

// lower takes flags from known ports: those that leave only restore from now on,
// and those that become edges restore at egress.
func (a *applier) lower() error {
	if a.c.Old == nil {
		return nil
	}
	a.undo.add(func() {
		a.h.looked, a.h.equipped = 0, 0 // whatever has changed, the old description may not say so
		_ = a.h.writeFlags(a.c.Old, tables.Flags)
	})
	return a.h.writeFlags(a.c.Old, func(p *domain.Port) bpfobj.TcRdrPortFlag {
		next := a.c.Next.PortByID(p.ID)
		switch {
		case next.Removed && a.h.isGone(p.ID):
			return bpfobj.TcRdrPortFlag(tables.FlagsOutside(uint16(tables.RestoreFlags(p))))
		case next.Removed:
			return tables.RestoreFlags(p)
		case p.Place != next.Place: // an interface changed sides: restore until all is settled
			return tables.RestoreFlags(next)
		case p.Open: // it may have to stay so
			return tables.Flags(p)
		case next.Role == domain.Edge:
			return tables.Flags(next)
		}
		return tables.Flags(p)
	})
}

// raise gives all ports their flags: first which are internal, then what they
// source, so that no source marks toward a port that would restore too early.
func (a *applier) raise() error {
	a.h.equipped = a.h.looked
	flags := func(p *domain.Port) bpfobj.TcRdrPortFlag {
		if p.Peer >= 0 && a.c.Fresh[uint16(p.Peer)] {
			return bpfobj.TcRdrPortFlag(tables.FlagsWithoutPeer(uint16(tables.Flags(p))))
		}
		return tables.Flags(p)
	}
	err := a.h.writeFlags(a.c.Next, func(p *domain.Port) bpfobj.TcRdrPortFlag {
		if a.c.Was(p.ID) != nil {
			return flags(p)
		}
		return flags(p) &^ (bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT)
	})
	if err != nil {
		return err
	}
	return a.h.writeFlags(a.c.Next, flags)
}

// inNode runs f in a node's namespace.
func inNode(n *domain.Node, open func(topo.NodeSpec) (netns.NsHandle, error), f func() error) error {
	ns, err := open(topo.SpecOf(*n))
	if err != nil {
		return err
	}
	defer ns.Close()
	return host.InNetns(ns, f)
}

// byNode groups ports of the description, in its order.
func byNode(d *domain.Domain, ports []uint16) (nodes []*domain.Node, of map[uint16][]*domain.Port) {
	of = make(map[uint16][]*domain.Port)
	for _, id := range ports {
		p := d.PortByID(id)
		if of[p.Node] == nil {
			nodes = append(nodes, d.NodeByID(p.Node))
		}
		of[p.Node] = append(of[p.Node], p)
	}
	return nodes, of
}

// planQdiscs finds out for which new ports a clsact qdisc has to be made.
func (a *applier) planQdiscs() error {
	if a.c.Next.Options.Hook != program.HookClsact {
		return nil
	}
	nodes, of := byNode(a.c.Next, a.c.AddedPorts)
	for _, n := range nodes {
		err := inNode(n, topo.NodeSpec.Open, func() error {
			for _, p := range of[n.ID] {
				lacks, err := port.At(a.c.Next, p).LacksQdisc()
				if err != nil {
					return fmt.Errorf("attach %s: %w", merge.PortName(a.c.Next, p), err)
				}
				p.OwnQdisc = lacks
				if was := a.movedFrom(p); was != nil {
					p.OwnQdisc = was.OwnQdisc
				}
			}
			return nil
		})
		if err != nil && !a.lenient {
			return err
		}
	}
	return nil
}

// attachPorts puts the programs on the new ports, which only restore as yet.
func (a *applier) attachPorts(ctx context.Context) error {
	nodes, of := byNode(a.c.Next, a.c.AddedPorts)
	failed := make(map[uint16]error)
	var gone []uint16
	for _, n := range nodes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("attach node %s: %w", n.Name, err)
		}
		err := inNode(n, topo.NodeSpec.Open, func() error {
			for _, p := range of[n.ID] {
				err := a.attachPort(n, p)
				if err != nil && p.Place == domain.BridgePort && vanished(p.Ifindex) {
					gone = append(gone, p.ID)
					continue
				}
				if err != nil {
					failed[p.ID] = fmt.Errorf("attach %s: %w", merge.PortName(a.c.Next, p), err)
					if !a.lenient {
						return failed[p.ID]
					}
				}
			}
			return nil
		})
		if err != nil && !a.lenient {
			return err
		}
		for _, p := range of[n.ID] {
			if err != nil && failed[p.ID] == nil {
				failed[p.ID] = err
			}
		}
	}
	for id, err := range failed {
		a.warnings = append(a.warnings, err.Error())
		a.h.open = append(a.h.open, a.c.Next.PortByID(id).Node)
		a.c.LeaveOut(id)
	}
	// Containers start and stop beside the domain: such a member needs no closing.
	for _, id := range gone {
		a.c.Forget(id)
	}
	return nil
}

// vanished says whether the namespace, in which it runs, has no such interface.
func vanished(ifindex int) bool {
	_, err := netlink.LinkByIndex(ifindex)
	_, gone := errors.AsType[netlink.LinkNotFoundError](err)
	return gone
}

// attachPort makes one port known to the programs and attaches them.
func (a *applier) attachPort(n *domain.Node, p *domain.Port) error {
	was := a.movedFrom(p)
	flags := tables.RestoreFlags(p)
	if was != nil {
		flags |= tables.RestoreFlags(was) // as strict as either until all is settled
	}
	entry := tables.Port(n, p, flags)
	if err := a.h.putPort(p.ID, entry); err != nil {
		return fmt.Errorf("set port: %w", err)
	}
	if err := a.h.setDevice(n, p); err != nil {
		return err
	}
	undoPort := func() {
		a.h.clearPort(n, p)
		if was != nil {
			_ = a.h.setDevice(n, was) // they have one interface
		}
	}
	if err := a.attachHooks(was, p); err != nil {
		undoPort()
		return err
	}
	now := *p
	a.undo.add(func() {
		_ = inNode(n, topo.NodeSpec.Open, func() error {
			if was != nil && a.c.Next.Options.Hook == program.HookClsact {
				return port.Replace(a.c.Next, &now, was, a.h.maps[bpfobj.TcMapProgs])
			}
			return port.Detach(a.c.Next, &now)
		})
		undoPort()
	})
	return nil
}

// attachHooks attaches a port's programs, in place of those of was if that is not nil.
func (a *applier) attachHooks(was, p *domain.Port) error {
	progs := a.h.maps[bpfobj.TcMapProgs]
	if was != nil {
		return port.Replace(a.c.Next, was, p, progs)
	}
	return port.Attach(a.c.Next, p, progs)
}

// removePorts takes the programs off ports that leave. What is gone already is left
// out; what cannot be taken off stays, restores, and is told.
func (a *applier) removePorts(ids []uint16) {
	nodes, of := byNode(a.c.Next, ids)
	for _, n := range nodes {
		detach := func() error {
			var errs []error
			for _, p := range of[n.ID] {
				if !a.exchanged(p.ID) {
					errs = append(errs, port.Detach(a.c.Next, p))
				}
			}
			return errors.Join(errs...)
		}
		err := inNode(n, topo.NodeSpec.Find, detach)
		if errors.Is(err, topo.ErrGone) && a.c.Next.Options.Hook == program.HookTCX {
			err = detach() // pins remain of it
		}
		if err != nil && !errors.Is(err, topo.ErrGone) {
			a.warnings = append(a.warnings, fmt.Sprintf("take programs off node %s: %v", n.Name, err))
		}
		for _, p := range of[n.ID] {
			a.h.clearPort(n, p)
		}
	}
}

// placeInside lists bridge members without a program, so that losses there get a place, and
// removes members that are gone.
func (a *applier) placeInside() error {
	m := a.h.maps[bpfobj.TcMapDevs]
	for dev, in := range a.c.Inside {
		var was uint32
		if m.Lookup(&dev, &was) == nil && was == uint32(in.Number) {
			continue
		}
		if err := a.h.setMember(a.c.Next, &dev, in); err != nil {
			return err
		}
		a.undo.add(func() { _ = m.Delete(&dev) })
	}
	var dev bpfobj.TcRdrDev
	var number uint32
	var gone []bpfobj.TcRdrDev
	for entries := m.Iterate(); entries.Next(&dev, &number); {
		p := a.c.Next.PortByID(uint16(number))
		_, wanted := a.c.Inside[dev]
		if !wanted && (p == nil || p.Removed || p.Ifindex != int(dev.Ifindex)) {
			gone = append(gone, dev)
		}
	}
	for i := range gone {
		_ = m.Delete(&gone[i]) // it may be gone already
	}
	return nil
}
