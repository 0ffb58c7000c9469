// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/host"
)

// ends finds what is at the other ends of links: ports of INT nodes, or interfaces of somebody else, who must get no
// packet with INT. It is for one look at the whole domain.
type ends struct {
	links  map[uint32][]Interface // by the number of the namespace
	failed map[uint32]error       // namespaces whose interfaces cannot be read
	read   func(Place) ([]Interface, error)
	*numbers
}

func newEnds(links map[uint32][]Interface, known *numbers) *ends {
	known.begin()
	return &ends{links: links, failed: make(map[uint32]error), read: Interfaces, numbers: known}
}

// end is what was found behind a port.
type end struct {
	host   string // an interface that is no port of an INT node; "": there is none
	unseen bool   // something cannot be seen from here, such as another machine
}

// look goes from a port to all that may get what it sends.
type look struct {
	*ends
	d    *Domain
	seen map[[2]int]bool // namespace, interface
	err  error           // something could not be looked at
	end
}

// behind says what is behind a port. An error says that more may be there.
func (e *ends) behind(d *Domain, n *Node, i *Interface) (end, error) {
	l := &look{ends: e, d: d, seen: make(map[[2]int]bool)}
	l.leave(n.Place, i)
	return l.end, l.err
}

// fails notes that something could not be looked at. What is gone gets no packets.
func (l *look) fails(err error) {
	if gone(err) {
		l.unseen = true
	} else if err != nil && l.err == nil {
		l.err = err
	}
}

// list returns the interfaces of a namespace; none if they cannot be read.
func (l *look) list(p Place) []Interface {
	list, ok := l.links[p.Inum]
	err := l.failed[p.Inum]
	if !ok && err == nil {
		if list, err = l.read(p); err == nil {
			l.links[p.Inum] = list
		} else {
			list, l.failed[p.Inum] = nil, err // a part of them is no answer
		}
	}
	l.fails(err)
	return list
}

// leave follows what an interface sends.
func (l *look) leave(p Place, i *Interface) {
	list := l.list(p)
	switch {
	case i.Kind == "veth":
		to, ok, err := l.other(p, i)
		l.fails(err)
		if !ok {
			l.unseen = l.unseen || err == nil
			return
		}
		list := l.list(to)
		if l.failed[to.Inum] == nil {
			l.arrive(to, numbered(list, i.Peer.Ifindex))
		}
	case i.Kind == "bridge":
		l.flood(p, i, 0)
	case i.Parent != 0 && numbered(list, i.Parent) != nil:
		l.leave(p, numbered(list, i.Parent))
	default:
		l.unseen = true
	}
}

// arrive is at an interface that gets packets.
func (l *look) arrive(p Place, i *Interface) {
	if i == nil {
		l.unseen = true
		return
	}
	key := [2]int{int(p.Inum), i.Ifindex}
	if l.seen[key] {
		return
	}
	l.seen[key] = true
	master := numbered(l.list(p), i.Master)
	switch {
	case l.isInside(p, i):
	case master == nil || master.Kind != "bridge" && master.Kind != "openvswitch":
		l.found(p, i)
	case master.Kind == "openvswitch":
		l.unseen = true
	default:
		l.flood(p, master, i.Ifindex)
	}
}

// flood follows what comes to a bridge by one of its members.
func (l *look) flood(p Place, bridge *Interface, by int) {
	has, err := hasAddress(p, bridge)
	l.fails(err)
	if has { // who has the bridge is on the link
		l.found(p, bridge)
	}
	for _, i := range l.list(p) {
		if i.Master == bridge.Ifindex && i.Ifindex != by && !l.isInside(p, &i) {
			l.leave(p, &i)
		}
	}
}

func (l *look) found(p Place, i *Interface) {
	if n := l.d.nodeAt(p.Inum); n != nil {
		p.Name = n.Name
	}
	if name := p.Name + "/" + i.Name; l.host == "" || name < l.host {
		l.host = name
	}
}

// isInside reports whether an interface, or what stands on it, is a port that leads inside.
func (l *look) isInside(p Place, i *Interface) bool {
	n := l.d.nodeAt(p.Inum)
	if n == nil {
		return false
	}
	list := l.list(p)
	return slices.ContainsFunc(n.Ports, func(port Port) bool {
		it := named(list, port.Name)
		return it != nil && port.Flags&Inside != 0 && (it.Ifindex == i.Ifindex || isOver(it, i, list))
	})
}

// hasAddress reports whether an interface has an address by which others may reach its namespace, or go through it.
func hasAddress(p Place, i *Interface) (has bool, err error) {
	err = p.Do(func() error {
		list, err := host.RetryDump(func() ([]netlink.Addr, error) {
			return netlink.AddrList(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: i.Ifindex}}, netlink.FAMILY_ALL)
		})
		has = slices.ContainsFunc(list, func(a netlink.Addr) bool { return !a.IP.IsLinkLocalUnicast() })
		return err
	})
	if err != nil && !gone(err) {
		err = fmt.Errorf("addresses of %s/%s: %w", p.Name, i.Name, err)
	}
	return has, err
}

// Now are the roles that a port has at present. One that leads inside, and has somebody behind it who is no INT node, is
// an edge: INT is taken from what leaves there, and what comes in with INT is not ours. Where the node itself is the host,
// INT is still taken from what comes for it: a neighbour that is no node any more may pass on what others send.
func (p *Port) Now() Flags {
	switch {
	case p.Closed != "" && p.Flags&(Host|DropForeign) == Host:
		return Inside | Sink | Host
	case p.Closed != "":
		return Sink | p.Flags&DropForeign
	case p.Flags&Inside != 0:
		return p.Flags &^ DropForeign
	}
	return p.Flags
}

// NotLooked is behind a port of which the other end could not be looked at yet.
const NotLooked = "what could not be looked at"

// lookBehind looks what is behind the ports that lead inside; was is what was known of them. It reports whether anything
// is other than described. Of what cannot be looked at, the port stays what it was, and is closed if it is new.
func (d *Domain) lookBehind(e *ends, was *Domain) (changed bool, err error) {
	defer e.end()
	var errs []error
	for i := range d.Nodes {
		n := &d.Nodes[i]
		for k := range n.Ports {
			p := &n.Ports[k]
			is := end{}
			if !p.Gone && p.Flags&Inside != 0 && !d.Options.SinkElsewhere {
				list, ok := e.links[n.Inum]
				if !ok {
					continue // its node could not be looked at, or has other ports now: who has looked knows
				}
				if it := numbered(list, p.Ifindex); it != nil {
					found, err := e.behind(d, n, it)
					if err != nil && found.host == "" {
						errs = append(errs, fmt.Errorf("what is behind %s/%s cannot be looked at: %w", n.Name, p.Name, err))
						found = was.knew(n, p)
					}
					is = found
				}
			}
			changed = changed || p.Closed != is.host || p.Unseen != is.unseen
			p.Closed, p.Unseen = is.host, is.unseen
		}
	}
	return changed, errors.Join(errs...)
}

// knew is what was found behind a port when it was looked at last.
func (d *Domain) knew(n *Node, p *Port) end {
	if d != nil && !d.Options.SinkElsewhere {
		if node := d.NodeByIndex(n.Index); node != nil {
			if q := node.Port(p.Name); q != nil && !q.Gone && q.Ifindex == p.Ifindex && q.Flags&Inside != 0 {
				return end{q.Closed, q.Unseen}
			}
		}
	}
	return end{host: NotLooked}
}

// carries reports whether packets carry INT at all, by the watchlist of any node.
func (d *Domain) carries() bool {
	return slices.ContainsFunc(d.Nodes, func(n Node) bool {
		return slices.ContainsFunc(d.Watchlist(&n), func(e Entry) bool { return e.Mode != XD && e.Mode != None })
	})
}

// endNotes say what is behind ports that were to lead inside.
func (d *Domain) endNotes() (notes []string) {
	if !d.carries() {
		return nil
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		notes = append(notes, n.roleless()...)
		for _, p := range n.Ports {
			switch {
			case p.Closed == NotLooked:
				notes = append(notes, fmt.Sprintf("%s behind %s/%s gets no INT: the agent looks again", NotLooked, n.Name, p.Name))
			case p.Closed != "":
				notes = append(notes, fmt.Sprintf("%s/%s leads to %s, which is no INT node: INT is taken from what leaves there (make it one with «int attach ‹role› transit NODE»; ‹sink-elsewhere› says that others take INT off)", n.Name, p.Name, p.Closed))
			case p.Unseen && p.Flags&Inside != 0:
				notes = append(notes, fmt.Sprintf("what is behind %s/%s cannot be seen from here: if it is no INT node, it gets packets with INT", n.Name, p.Name))
			}
		}
	}
	return notes
}

// roleless says which interfaces have no role: what leaves there keeps its INT.
func (n *Node) roleless() (notes []string) {
	list, err := Interfaces(n.Place)
	if err != nil || !slices.ContainsFunc(n.Ports, func(p Port) bool { return p.Flags&Inside != 0 && p.Closed == "" }) {
		return nil
	}
	roles, mixed := through(n, list)
	for _, i := range list {
		_, has := roles[i.Ifindex]
		if has || i.Loopback || !i.Up || i.Parent != 0 || isMaster(&i, list) || slices.Contains(mixed, i.Name) {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s/%s has no role: what has INT and leaves there keeps it («int attach ‹role› sink %s/%s»)", n.Name, i.Name, n.Name, i.Name))
	}
	return notes
}
