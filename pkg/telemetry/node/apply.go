// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
)

// at is the port as the hall knows it.
func (p *Port) at(d *Domain, n *Node) system.Port {
	return system.Port{Kind: Kind, Domain: d.Name, By: d.Hook, Name: fmt.Sprintf("%d-%d", n.Index, p.Ifindex), Ifindex: p.Ifindex}
}

// inDomain refuses a port at which radar's own programs stand.
func inDomain(n *Node, p *Port) error {
	return fault.Unsupported.Errorf("%s/%s is a port of a domain of «attach», which would lose sight of packets that INT makes longer: detach the domain, attach INT, then the domain again (ports of INT nodes are its edges then; both together need TCX, Linux 6.6)", n.Name, p.Name)
}

// applier makes the kernel what a description says.
type applier struct {
	d        *Domain
	has      kernelHas
	reload   map[uint32]bool        // nodes whose programs have other constants
	links    map[uint32][]Interface // by the number of the namespace
	shared   map[string]*ebpf.Map
	most     int // bytes of the longest packet that passes the domain
	warnings []string
}

// apply makes the kernel what d says, where was it has said something else; nil: nothing. It fills in what
// it finds out: numbers of interfaces, those that are gone, qdiscs that it made. links may be empty.
func apply(was, d *Domain, reload map[uint32]bool, links map[uint32][]Interface) (warnings []string, err error) {
	a := &applier{d: d, has: probe(), reload: reload, links: links, shared: make(map[string]*ebpf.Map)}
	defer func() {
		for _, m := range a.shared {
			m.Close()
		}
	}()
	if err := a.openShared(); err != nil {
		return nil, err
	}
	for i := range d.Nodes {
		if _, err := a.interfaces(&d.Nodes[i]); err != nil && !gone(err) {
			return nil, err
		}
	}
	a.most, _ = d.narrowest(links)
	if err := a.findPorts(); err != nil {
		return nil, err
	}
	// Nodes that mark come last: what they give to packets, others take off by then.
	order := make([]*Node, len(d.Nodes))
	for i := range d.Nodes {
		order[i] = &d.Nodes[i]
	}
	slices.SortStableFunc(order, func(x, y *Node) int { return int(number(x.Marks())) - int(number(y.Marks())) })
	if _, err := d.lookBehind(newEnds(links, newNumbers()), was); err != nil {
		a.warnings = append(a.warnings, err.Error())
	}
	for _, n := range order {
		if err := a.node(n); err != nil {
			return a.warnings, err
		}
	}
	if err := a.open(); err != nil {
		return a.warnings, err
	}
	if was != nil {
		err = a.remove(was)
	}
	return a.warnings, err
}

// openShared opens the maps of all nodes, or makes them.
func (a *applier) openShared() error {
	if err := loader.RaiseMemlock(); err != nil {
		return err
	}
	if err := loader.MountPins(); err != nil {
		return err
	}
	if err := Kind.MakePins(a.d.Name); err != nil {
		return err
	}
	spec, err := bpfobj.LoadInt()
	if err != nil {
		return fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	for _, name := range []string{bpfobj.IntMapControl, bpfobj.IntMapReports} {
		if a.shared[name], err = Kind.MakeMap(a.d.Name, name, spec.Maps[name]); err != nil {
			delete(a.shared, name)
			return err
		}
	}
	return nil
}

// findPorts looks for the ports of all nodes.
func (a *applier) findPorts() error {
	for i := range a.d.Nodes {
		n := &a.d.Nodes[i]
		list, err := a.interfaces(n)
		if gone(err) { // it has taken its programs with it
			for k := range n.Ports {
				n.Ports[k].Gone = true
			}
			continue
		}
		if err != nil {
			return err
		}
		a.find(n, list)
	}
	return nil
}

// open writes the roles of ports as they are to be: all programs are there, and take what others send.
func (a *applier) open() error {
	for i := range a.d.Nodes {
		n := &a.d.Nodes[i]
		list, err := a.interfaces(n)
		if gone(err) {
			continue
		}
		t, err := pinnedTable(a.d.Name, n.Index)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		a.fill(t, n, list)
		t.close()
	}
	return nil
}

// node makes one node what the description says.
func (a *applier) node(n *Node) error {
	list, err := a.interfaces(n)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	mask, err := maskFor(n, list)
	if err != nil {
		return err
	}
	if mask != n.Mask {
		n.Mask, a.reload[n.Index] = mask, true
	}
	had, err := a.flags(n)
	if err != nil {
		return err
	}
	maps, err := a.openNode(n)
	if err != nil {
		return err
	}
	defer maps[bpfobj.IntMapCounters].Close()
	defer maps[bpfobj.IntMapPorts].Close()
	t, err := tableIn(system.MapMemory[bpfobj.IntPort](maps[bpfobj.IntMapPorts]))
	if err != nil {
		return err
	}
	defer t.close()
	// Sources that mark go on: neither an agent that looks whether all is right, nor new programs in place of old ones
	// cost a packet its INT. New sources wait until all programs are there, and so do ports that lead inside.
	t.prepare(n, list, a.most, had)
	wanted, err := a.lacks(n)
	if err != nil || !wanted {
		return err
	}
	return a.attach(n, maps)
}

// flags are those that the node's interfaces have now, by their numbers.
func (a *applier) flags(n *Node) (map[int]Flags, error) {
	t, err := pinnedTable(a.d.Name, n.Index)
	if err != nil || t == nil {
		return nil, err
	}
	defer t.close()
	return t.flags(), nil
}

// lacks reports whether a program of the node is missing, or to be replaced.
func (a *applier) lacks(n *Node) (bool, error) {
	wanted := a.reload[n.Index]
	err := n.Do(func() error {
		for i := range n.Ports {
			wanted = wanted || !n.Ports[i].Gone && !n.Ports[i].at(a.d, n).Stands()
		}
		return nil
	})
	return wanted, err
}

// interfaces are those of a node, which are asked for once.
func (a *applier) interfaces(n *Node) ([]Interface, error) {
	return interfacesOf(n, a.links)
}

// interfacesOf reads the interfaces of a node, once for each namespace.
func interfacesOf(n *Node, links map[uint32][]Interface) ([]Interface, error) {
	if list, ok := links[n.Inum]; ok {
		return list, nil
	}
	list, err := Interfaces(n.Place)
	if err == nil {
		links[n.Inum] = list
	}
	return list, err
}

// isNow notes that the port is another interface than before: nothing at that is ours.
func (n *Node) isNow(p *Port, ifindex int) {
	p.Ifindex, p.OwnQdisc = ifindex, false
	p.Switched = slices.DeleteFunc(p.Switched, func(s Switched) bool { return s.Place.Inum == n.Inum && s.Name == p.Name })
}

// find looks for the node's ports by name. It takes off what is pinned for interfaces that are gone or have
// another number.
func (a *applier) find(n *Node, list []Interface) {
	for i := range n.Ports {
		p := &n.Ports[i]
		found := named(list, p.Name)
		if found != nil && found.Ifindex == p.Ifindex {
			p.Gone = false
			continue
		}
		if a.d.Hook == hook.ByTCX {
			_ = p.at(a.d, n).TakeOff(false) // of an interface that is gone
		}
		p.Gone = found == nil
		index := p.Ifindex
		if found != nil {
			index = found.Ifindex
		}
		n.isNow(p, index)
	}
}

func (a *applier) openNode(n *Node) (map[string]*ebpf.Map, error) {
	spec, err := bpfobj.LoadInt()
	if err != nil {
		return nil, fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	spec.Maps[bpfobj.IntMapPorts].MaxEntries = n.Mask + 1
	maps := map[string]*ebpf.Map{bpfobj.IntMapControl: a.shared[bpfobj.IntMapControl], bpfobj.IntMapReports: a.shared[bpfobj.IntMapReports]}
	for _, name := range []string{bpfobj.IntMapPorts, bpfobj.IntMapCounters} {
		m, err := Kind.MakeMap(a.d.Name, mapOf(name, n.Index), spec.Maps[name])
		if err != nil {
			if first := maps[bpfobj.IntMapPorts]; first != nil {
				first.Close()
			}
			return nil, err
		}
		maps[name] = m
	}
	return maps, nil
}

// fill writes the node's table of ports.
func (a *applier) fill(t *table, n *Node, list []Interface) {
	for _, name := range t.fill(n, list, a.most) {
		a.warnings = append(a.warnings, fmt.Sprintf("%s/%s stands on ports of different roles, or of none: what the node routes from there is counted as without a role", n.Name, name))
	}
}

// attach puts the programs at the ports where they are not, and newer ones where they must be.
func (a *applier) attach(n *Node, maps map[string]*ebpf.Map) error {
	progs, err := a.d.loadPrograms(n, a.has, maps)
	if err != nil {
		return err
	}
	defer progs.Close()
	return n.Do(func() error {
		for i := range n.Ports {
			if p := &n.Ports[i]; !p.Gone {
				if err := a.port(n, p, progs); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Stands reports whether the programs of a node are at all of its ports, and these are there.
func (d *Domain) Stands(n *Node) (bool, error) {
	list, err := Interfaces(n.Place)
	if err != nil {
		return false, err
	}
	stands := true
	err = n.Do(func() error {
		for i := range n.Ports {
			p := &n.Ports[i]
			it := named(list, p.Name)
			stands = stands && it != nil && it.Ifindex == p.Ifindex && p.at(d, n).Stands()
		}
		return nil
	})
	return stands, err
}

func (a *applier) port(n *Node, p *Port, progs system.Pair) error {
	at := p.at(a.d, n)
	if !at.Stands() && system.FollowsPackets(p.Ifindex) {
		return inDomain(n, p)
	}
	made, err := at.Attach(progs, a.reload[n.Index])
	if err != nil {
		return fmt.Errorf("%s/%s: %w", n.Name, p.Name, err)
	}
	p.OwnQdisc = p.OwnQdisc || made
	return nil
}

// remove takes off what was there and is no more. Ports inside come first: what others still send with INT
// is taken off by sinks.
func (a *applier) remove(was *Domain) error {
	var errs []error
	for _, inside := range []bool{true, false} {
		for i := range was.Nodes {
			n := &was.Nodes[i]
			now := a.d.NodeByIndex(n.Index)
			for k := range n.Ports {
				p := &n.Ports[k]
				if p.Flags&Inside != 0 != inside || now != nil && now.Port(p.Name) != nil && now.Port(p.Name).Ifindex == p.Ifindex {
					continue
				}
				errs = append(errs, takeOff(was, n, p))
			}
		}
	}
	for i := range was.Nodes {
		if n := &was.Nodes[i]; a.d.NodeByIndex(n.Index) == nil {
			for _, name := range []string{bpfobj.IntMapPorts, bpfobj.IntMapCounters} {
				errs = append(errs, hook.Detach(Kind.Pin(was.Name, mapOf(name, n.Index))))
			}
		}
	}
	return errors.Join(errs...)
}

// takeOff takes the programs off a port. What is gone already is no error.
func takeOff(d *Domain, n *Node, p *Port) (err error) {
	off := func() error { return p.at(d, n).TakeOff(p.OwnQdisc) }
	if d.Hook == hook.ByTCX { // pins are the machine's
		err = off()
	} else if err = n.Do(off); gone(err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", n.Name, p.Name, err)
	}
	return nil
}
