// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// ends finds what is at the other ends of links: ports of INT nodes, or interfaces of somebody else, who must get no
// packet with INT.
type ends struct {
	links  map[uint32][]Interface // by the number of the namespace
	places map[space]Place        // it stays what it is as long as both namespaces are there
}

// space is a namespace as another one numbers it.
type space struct {
	from uint32
	id   int
}

func newEnds(links map[uint32][]Interface) *ends {
	return &ends{links: links, places: make(map[space]Place)}
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
	end
}

// behind says what is behind a port.
func (e *ends) behind(d *Domain, n *Node, i *Interface) end {
	l := &look{ends: e, d: d, seen: make(map[[2]int]bool)}
	l.leave(n.Place, i)
	return l.end
}

func (l *look) list(p Place) []Interface {
	list, ok := l.links[p.Inum]
	if !ok {
		list, _ = Interfaces(p) // of what cannot be reached nothing is known
		l.links[p.Inum] = list
	}
	return list
}

// leave follows what an interface sends.
func (l *look) leave(p Place, i *Interface) {
	list := l.list(p)
	switch {
	case i.Kind == "veth":
		to, ok := l.other(p, i)
		if !ok {
			l.unseen = true
			return
		}
		l.arrive(to, numbered(l.list(to), i.Peer.Ifindex))
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
	if hasAddress(p, bridge) { // who has the bridge is on the link
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
func hasAddress(p Place, i *Interface) (has bool) {
	_ = p.Do(func() error {
		list, err := netlink.AddrList(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: i.Ifindex}}, netlink.FAMILY_ALL)
		has = err != nil || slices.ContainsFunc(list, func(a netlink.Addr) bool { return !a.IP.IsLinkLocalUnicast() })
		return nil
	})
	return has
}

// other finds the namespace of the other end of a veth. It may be one that cannot be reached.
func (e *ends) other(p Place, i *Interface) (Place, bool) {
	if i.Peer.NSID < 0 {
		return p, true
	}
	key := space{p.Inum, i.Peer.NSID}
	if known, ok := e.places[key]; ok && !known.IsGone() {
		return known, true
	}
	to, ok := placeNumbered(p, i.Peer.NSID)
	if ok {
		e.places[key] = to
	}
	return to, ok
}

// placeNumbered finds the namespace that another one knows by a number.
func placeNumbered(p Place, id int) (Place, bool) {
	ns, err := p.Open()
	if err != nil {
		return Place{}, false
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return Place{}, false
	}
	defer handle.Close()
	for _, pattern := range host.NetnsPaths {
		paths, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, path := range paths {
			other, inum, err := host.OpenNetns(path)
			if err != nil {
				continue
			}
			has, err := handle.GetNetNsIdByFd(int(other))
			other.Close()
			if err == nil && has == id {
				return Place{Name: filepath.Base(path), Spec: "netns:" + path, Path: path, Inum: inum}, true
			}
		}
	}
	return Place{}, false
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

// lookBehind looks what is behind the ports that lead inside. It reports whether anything is other than described.
func (d *Domain) lookBehind(e *ends) (changed bool) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		for k := range n.Ports {
			p := &n.Ports[k]
			is := end{}
			if it := numbered(e.links[n.Inum], p.Ifindex); it != nil && !p.Gone && p.Flags&Inside != 0 && !d.Options.SinkElsewhere {
				is = e.behind(d, n, it)
			}
			changed = changed || p.Closed != is.host || p.Unseen != is.unseen
			p.Closed, p.Unseen = is.host, is.unseen
		}
	}
	return changed
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
