// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
)

// Interface is what the kernel says of one of a namespace's interfaces.
type Interface struct {
	Name     string
	Ifindex  int
	Kind     string // as the kernel has it, such as "veth" or "vlan"
	Up       bool
	Loopback bool
	MTU      int
	Parent   int // the interface of this namespace by which its packets leave as they are; 0: none
	Master   int // such as its bridge; 0: none
	Sent     uint64
	Peer     Peer // of a veth
}

// Peer is the other end of a veth.
type Peer struct {
	Ifindex int
	NSID    int // of the namespace that it is in; -1: the same one
}

// sharing are kinds of interfaces whose packets leave by another one. (What a tunnel sends is another
// packet.)
var sharing = []string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}

// Interfaces returns those of a namespace, in the order of their numbers.
func Interfaces(p Place) (list []Interface, err error) {
	handle, links, err := p.Links()
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	for _, l := range links {
		a := l.Attrs()
		i := Interface{
			Name: a.Name, Ifindex: a.Index, Kind: l.Type(), MTU: a.MTU, Master: a.MasterIndex,
			Up: a.RawFlags&unix.IFF_UP != 0, Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0,
		}
		if a.Statistics != nil {
			i.Sent = a.Statistics.TxBytes
		}
		switch {
		case l.Type() == "veth":
			i.Peer = Peer{a.ParentIndex, a.NetNsID}
		case a.NetNsID < 0 && slices.Contains(sharing, l.Type()):
			i.Parent = a.ParentIndex
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b Interface) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	return list, nil
}

func named(list []Interface, name string) *Interface {
	i := slices.IndexFunc(list, func(x Interface) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func numbered(list []Interface, index int) *Interface {
	i := slices.IndexFunc(list, func(x Interface) bool { return x.Ifindex == index })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// through finds the interfaces above the node's ports (bridges, bonds), which have no program but the roles of
// these ports. mixed: interfaces whose lower ports have different roles, so a packet's origin is unknown.
func through(n *Node, list []Interface) (roles map[int]Flags, mixed []string) {
	roles = make(map[int]Flags)
	for i := range n.Ports {
		if p := &n.Ports[i]; !p.Gone {
			roles[p.Ifindex] = p.Now()
		}
	}
	for range list { // what stands on what else stands on a port: at most so deep
		mixed = mixed[:0]
		for _, i := range list {
			if n.Port(i.Name) != nil {
				continue
			}
			flags, some, same := below(i, list, roles)
			switch {
			case some && same:
				roles[i.Ifindex] = flags
			case some:
				mixed = append(mixed, i.Name)
			}
		}
	}
	return roles, mixed
}

// below are the roles of what an interface stands on. some: there are any; same: all have the same.
func below(i Interface, list []Interface, roles map[int]Flags) (flags Flags, some, same bool) {
	same = true
	for _, under := range list {
		if under.Ifindex != i.Parent && under.Master != i.Ifindex {
			continue
		}
		f, has := roles[under.Ifindex]
		switch {
		case !has:
			same = false
		case !some:
			flags, some = f, true
		case f != flags:
			same = false
		}
	}
	return flags, some, same
}

// maskFor returns the smallest mask, of maskLeast at least, under which no two interfaces have one number.
func maskFor(n *Node, list []Interface) (uint32, error) {
	for mask := max(n.Mask, maskLeast); mask <= maskMost; mask = mask<<1 | 1 {
		seen, clash := make(map[uint32]bool), false
		for _, i := range list {
			slot := uint32(i.Ifindex) & mask
			clash = clash || seen[slot]
			seen[slot] = true
		}
		if !clash {
			return mask, nil
		}
	}
	return 0, fault.Unsupported.Errorf("node %s: the numbers of its interfaces are too far apart", n.Name)
}

const (
	maskLeast = 1<<8 - 1
	maskMost  = 1<<20 - 1
)

// narrowest is the smallest MTU of the domain's ports, and one that has it. It holds for all of them: Linux
// forwards a packet before a port of its way out takes INT off, and drops it if it is too long for that
// port as it came in.
func (d *Domain) narrowest(links map[uint32][]Interface) (most int, port string) {
	most = math.MaxInt32
	for i := range d.Nodes {
		n := &d.Nodes[i]
		for _, p := range n.Ports {
			if it := named(links[n.Inum], p.Name); it != nil && it.MTU < most {
				most, port = it.MTU, n.Name+"/"+p.Name
			}
		}
	}
	return most, port
}

// Narrow says that packets with INT can be shorter than a port's MTU, because of another one; "" if all are
// alike.
func (d *Domain) Narrow() string {
	links, widest := make(map[uint32][]Interface), 0
	for i := range d.Nodes {
		n := &d.Nodes[i]
		list, err := Interfaces(n.Place)
		if err != nil {
			continue
		}
		links[n.Inum] = list
		for _, p := range n.Ports {
			if it := named(list, p.Name); it != nil && p.Flags&Inside != 0 {
				widest = max(widest, it.MTU)
			}
		}
	}
	most, port := d.narrowest(links)
	if widest <= most {
		return ""
	}
	return fmt.Sprintf("packets get INT up to %d bytes, the MTU of %s, and not up to %d, which links inside have: a router forwards them before INT is taken off", most, port, widest)
}
