// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host"
)

// Target is what gets a role: a node, or one of its ports.
type Target struct {
	Place
	Port  string // "": the node as a whole
	Roles Flags  // 0: those of the request
}

func (t Target) String() string {
	if t.Port == "" {
		return t.Name
	}
	return t.Name + "/" + t.Port
}

// Settings are those of the nodes and ports of one request. What is nil stays as it is.
type Settings struct {
	ID          *uint32 // of the one node
	DropForeign *bool
	CongestedAt *uint32
	MTU         *int
	NoGSO       *bool
	Entries     *[]Entry // the nodes' own watchlist; none: the domain's
}

func (s *Settings) checkEntries(m Mark) error {
	if s.Entries == nil {
		return nil
	}
	if n := len(*s.Entries); n > MaxEntries {
		return fault.Usage.Errorf("%d entries in the watchlist: use %d at most", n, MaxEntries)
	}
	for i := range *s.Entries {
		if err := (*s.Entries)[i].check(m); err != nil {
			return err
		}
	}
	return nil
}

// merger makes the next description of a domain.
type merger struct {
	next   *Domain
	roles  Flags // that targets get
	set    Settings
	links  map[uint32][]Interface // by the number of the namespace
	reload map[uint32]bool        // nodes, by index, whose programs change
}

func (m *merger) interfaces(p Place) ([]Interface, error) {
	if list, ok := m.links[p.Inum]; ok {
		return list, nil
	}
	list, err := Interfaces(p)
	if err == nil {
		m.links[p.Inum] = list
	}
	return list, err
}

// add gives all targets the role.
func (m *merger) add(targets []Target) error {
	nodes := make(map[uint32]bool)
	for _, t := range targets {
		nodes[t.Inum] = true
	}
	if m.set.ID != nil && len(nodes) > 1 {
		return fault.Usage.Errorf("‹node-id› %d is one node's, and %d are named", *m.set.ID, len(nodes))
	}
	// Named ports first: nodes as a whole get what is left.
	for _, whole := range []bool{false, true} {
		for _, t := range targets {
			if (t.Port == "") != whole {
				continue
			}
			n, err := m.node(t.Place)
			if err != nil {
				return err
			}
			if e := m.set.Entries; e != nil && !reflect.DeepEqual(n.Entries, *e) {
				n.Entries, m.reload[n.Index] = *e, true
			}
			list, err := m.interfaces(t.Place)
			if err != nil {
				return err
			}
			if whole {
				err = m.whole(n, list)
			} else {
				err = m.port(n, t, list)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// node returns that of a namespace, which is new if there was none.
func (m *merger) node(p Place) (*Node, error) {
	n := m.next.nodeAt(p.Inum)
	if n != nil && n.IsGone() { // its number belongs to another namespace now
		m.next.Nodes = slices.DeleteFunc(m.next.Nodes, func(x Node) bool { return x.Index == n.Index })
		n = nil
	}
	if n == nil {
		if other := m.next.NodeNamed(p.Name); other != nil {
			if !other.IsGone() {
				return nil, fault.Usage.Errorf("node name %s is that of another namespace (%s): give this one another with name=%s", p.Name, other.Spec, p.Spec)
			}
			m.next.Nodes = slices.DeleteFunc(m.next.Nodes, func(x Node) bool { return x.Index == other.Index })
		}
		m.next.Nodes = append(m.next.Nodes, Node{Place: p, Index: m.next.Next, Mask: maskLeast, ID: m.freeID()})
		m.next.Next++
		n = &m.next.Nodes[len(m.next.Nodes)-1]
		m.reload[n.Index] = true
	}
	if m.set.ID == nil || n.ID == *m.set.ID {
		return n, nil
	}
	for _, other := range m.next.Nodes {
		if other.ID == *m.set.ID && other.Index != n.Index {
			return nil, fault.Usage.Errorf("‹node-id› %d is that of node %s", other.ID, other.Name)
		}
	}
	n.ID, m.reload[n.Index] = *m.set.ID, true
	return n, nil
}

// freeID is the smallest number from 1 on that no node has.
func (m *merger) freeID() uint32 {
	for id := uint32(1); ; id++ {
		if !slices.ContainsFunc(m.next.Nodes, func(n Node) bool { return n.ID == id }) {
			return id
		}
	}
}

// port gives one port the role.
func (m *merger) port(n *Node, t Target, list []Interface) error {
	name, gets := t.Port, t.Roles
	if gets == 0 {
		gets = m.roles
	}
	i := named(list, name)
	switch {
	case i == nil:
		return fault.Usage.Errorf("node %s has no port %s: it has %s", n.Name, name, portNames(list))
	case i.Loopback:
		return fault.Usage.Errorf("%s/%s is the loopback interface: no packet of others passes there", n.Name, name)
	}
	if other := stacked(n, i, list); other != "" {
		return fault.Usage.Errorf("%s/%s and %s/%s are one on the other, and both would change each packet: give one of them a role", n.Name, name, n.Name, other)
	}
	p := n.Port(name)
	if p == nil {
		n.Ports = append(n.Ports, Port{Name: name, Ifindex: i.Ifindex})
		p = &n.Ports[len(n.Ports)-1]
	}
	inside := gets&Inside != 0
	if inside && p.Flags&edge != 0 || !inside && p.Flags&Inside != 0 && !p.Implied {
		return fault.Usage.Errorf("%s/%s is %s already: take that off first with «int detach %s/%s»", n.Name, name, p.Flags.Words(), n.Name, name)
	}
	if p.Implied {
		p.Flags &^= Inside | Host
	}
	p.Implied = false
	p.Flags |= gets
	m.finish(n, p)
	return nil
}

// whole gives a node as a whole the role. Its ports lead inside: the node itself is the end of the domain.
func (m *merger) whole(n *Node, list []Interface) error {
	if m.roles&Source != 0 && !n.Source {
		n.Source, m.reload[n.Index] = true, true
	}
	n.Sink = n.Sink || m.roles&Sink != 0
	for i := range list {
		it := &list[i]
		if p := n.Port(it.Name); p != nil {
			m.finish(n, p)
			continue
		}
		if it.Loopback || !it.Up || it.Parent != 0 || isMaster(it, list) {
			continue
		}
		n.Ports = append(n.Ports, Port{Name: it.Name, Ifindex: it.Ifindex, Flags: Inside, Implied: true})
		m.finish(n, &n.Ports[len(n.Ports)-1])
	}
	if !n.Has(Inside) {
		return fault.Usage.Errorf("node %s has no port that is up and has no other role: it has %s", n.Name, portNames(list))
	}
	return nil
}

// finish gives a port the settings of the request, and what follows from its node.
func (m *merger) finish(n *Node, p *Port) {
	s := &m.set
	if s.DropForeign != nil {
		p.Flags &^= DropForeign
		if *s.DropForeign {
			p.Flags |= DropForeign
		}
	}
	if s.CongestedAt != nil {
		p.CongestedAt = *s.CongestedAt
	}
	if s.MTU != nil {
		p.MTU = *s.MTU
	}
	if s.NoGSO != nil {
		p.NoGSO = *s.NoGSO
	}
	for i := range n.Ports {
		if q := &n.Ports[i]; n.IsEnd() && q.Flags&Inside != 0 {
			q.Flags |= Host
		}
	}
}

// stacked returns the name of a port that has a role and lies above or below an interface.
func stacked(n *Node, i *Interface, list []Interface) string {
	for k := range n.Ports {
		other := named(list, n.Ports[k].Name)
		if other != nil && other.Ifindex != i.Ifindex && (isOver(i, other, list) || isOver(other, i, list)) {
			return other.Name
		}
	}
	return ""
}

// isOver reports whether what one interface sends leaves by the other one.
func isOver(upper, lower *Interface, list []Interface) bool {
	for k := range list {
		under := &list[k]
		if (under.Ifindex == upper.Parent || under.Master == upper.Ifindex) && (under.Ifindex == lower.Ifindex || isOver(under, lower, list)) {
			return true
		}
	}
	return false
}

func isMaster(i *Interface, list []Interface) bool {
	return slices.ContainsFunc(list, func(x Interface) bool { return x.Master == i.Ifindex })
}

func portNames(list []Interface) string {
	var names []string
	for _, i := range list {
		if !i.Loopback {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// checkSinks refuses a domain from which packets would leave with INT.
func (d *Domain) checkSinks() error {
	if d.Options.SinkElsewhere {
		return nil
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if !slices.ContainsFunc(d.Watchlist(n), func(e Entry) bool { return e.Mode != XD && e.Mode != None }) {
			continue // no packet carries any
		}
		if n.Marks() && !slices.ContainsFunc(d.Nodes, func(o Node) bool { return o.Index != n.Index && o.TakesOff() }) {
			return fault.Usage.Errorf("packets to which node %s gives INT would leave with it: no other node takes it off (attach a sink first: «int attach ‹role› sink NODE/PORT»; ‹sink-elsewhere› says that others do it)", n.Name)
		}
	}
	return nil
}

// checkOthers refuses ports that have a role in another INT domain.
func (d *Domain) checkOthers() error {
	names, err := List()
	if err != nil {
		return err
	}
	for _, name := range names {
		other, err := Load(name)
		if name == d.Name || err != nil && !errors.Is(err, ErrOtherVersion) {
			continue
		}
		for i := range d.Nodes {
			n := other.nodeAt(d.Nodes[i].Inum)
			if n == nil || n.IsGone() {
				continue
			}
			for _, p := range d.Nodes[i].Ports {
				if q := n.Port(p.Name); q != nil && !q.Gone && !p.Gone {
					return fault.Usage.Errorf("%s/%s is %s in INT domain %q: detach it there first («int detach ‹domain› %s %s/%s»)", d.Nodes[i].Name, p.Name, q.Flags.Words(), name, name, n.Name, q.Name)
				}
			}
		}
	}
	return nil
}

// Notes say what the domain lacks to be of use.
func (d *Domain) Notes() (notes []string) {
	addf := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	sources := slices.ContainsFunc(d.Nodes, func(n Node) bool { return n.Source || n.Has(Source) })
	if !sources {
		addf("nothing gets INT yet: no node is a source («int attach ‹role› source NODE/PORT»)")
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if (n.Source || n.Has(Source)) && !n.Has(Inside) {
			addf("%s gives INT to nothing yet: none of its ports leads to another INT node («int attach ‹role› transit %s»)", n.Name, n.Name)
		} else if n.Has(edge) && !n.Has(Inside) {
			addf("%s takes INT from nothing yet: none of its ports leads to another INT node («int attach ‹role› transit %s»)", n.Name, n.Name)
		}
	}
	if sources && !slices.ContainsFunc(d.Nodes, func(n Node) bool { return n.TakesOff() }) {
		addf("no node takes INT off: packets leave with it")
	}
	if d.Options.Mark.Mask == 0 {
		addf("packets are marked by a port of UDP: TCP gets a UDP header in front, which networks see as UDP (‹mark› dscp=0x17 leaves it TCP)")
	}
	notes = append(notes, d.endNotes()...)
	if text := d.Narrow(); text != "" {
		notes = append(notes, text)
	}
	if d.Options.MatchesReports() {
		addf("‹watch› matches the reports to %v, too: these never get INT", d.Options.Address)
	}
	return notes
}

// gone reports whether an error says that a namespace is gone.
func gone(err error) bool { return errors.Is(err, host.ErrNetnsGone) }
