// SPDX-License-Identifier: Apache-2.0

package packet

import "slices"

// Scopes are several Scopes in one, such as two domains, or the domains of two hosts: their nodes and ports get numbers of
// one list, and their stamps one clock. It is the Scope of packets that Member.Packet has translated.
type Scopes struct {
	*Numbers
	members []*Member
	owners  map[string]int // how many members have a node of that name
}

// qualifier stands between a node's name and the label of its scope, where several scopes have a node of that name.
const qualifier = "@"

// NewScopes returns one without members.
func NewScopes() *Scopes {
	numbers := NewNumbers()
	numbers.Strict = true
	return &Scopes{Numbers: numbers, owners: make(map[string]int)}
}

// Member is one of Scopes. It is a Scope of its own numbers, with the names that nodes have in all of them.
type Member struct {
	Scope
	Label string

	of       *Scopes
	nodes    map[string]bool
	numbers  *Translation
	packet   Packet // the last that was translated
	hops     []Hop
	branches []BranchDrop
}

// Join adds a scope before any packet is read. nodes are the names of its own nodes. Others, such as of switches that
// reports name, are the same nodes in all scopes that name them.
func (s *Scopes) Join(of Scope, label string, nodes []string) *Member {
	m := &Member{Scope: of, Label: label, of: s, nodes: make(map[string]bool)}
	m.numbers = NewTranslation(m, s.Numbers)
	for _, name := range nodes {
		if !m.nodes[name] {
			m.nodes[name] = true
			s.owners[name]++
		}
	}
	s.members = append(s.members, m)
	return m
}

// Labels are those of the members.
func (s *Scopes) Labels() (list []string) {
	for _, m := range s.members {
		list = append(list, m.Label)
	}
	return list
}

// WallOffset is that of the first member, by whose clock stamps are.
func (s *Scopes) WallOffset() int64 {
	if len(s.members) == 0 {
		return 0
	}
	return s.members[0].WallOffset()
}

// Host is the machine that measured all of it, "" if there are several.
func (s *Scopes) Host() string {
	host := ""
	for i, m := range s.members {
		if i > 0 && m.Host() != host {
			return ""
		}
		host = m.Host()
	}
	return host
}

// Scopes are those that m is a member of.
func (m *Member) Scopes() *Scopes { return m.of }

// Qualified is what a node of this scope is called among all: its name, and the label where another scope has a node of
// that name, too.
func (m *Member) Qualified(name string) string {
	if m.nodes[name] && m.of.owners[name] > 1 {
		return name + qualifier + m.Label
	}
	return name
}

// NodeName implements Names.
func (m *Member) NodeName(node uint16) string { return m.Qualified(m.Scope.NodeName(node)) }

// Node is a node's number among those of all members.
func (m *Member) Node(number uint16) uint16 { return m.numbers.Node(number) }

// Port is the same of a port.
func (m *Member) Port(number uint16) uint16 { return m.numbers.Port(number) }

// Stamp is a stamp of this scope by the clock of all members.
func (m *Member) Stamp(ns uint64) uint64 { return ns + uint64(m.WallOffset()-m.of.WallOffset()) }

// Packet is p with the numbers and the clock of all members. It is valid until the next call, and p stays as it is.
func (m *Member) Packet(p *Packet) *Packet {
	to := &m.packet
	*to = *p
	to.T0 = m.Stamp(p.T0)
	m.hops = append(m.hops[:0], p.Hops...)
	for i := range m.hops {
		h := &m.hops[i]
		h.Node, h.In, h.Out = m.Node(h.Node), m.Port(h.In), m.Port(h.Out)
	}
	m.branches = append(m.branches[:0], p.Drops...)
	for i := range m.branches {
		m.translateDrop(&m.branches[i].Drop)
	}
	if p.Lost || p.LocalDrop || p.Missing {
		m.translateDrop(&to.Loss)
	}
	to.Hops, to.Drops = slices.Clip(m.hops), slices.Clip(m.branches)
	return to
}

func (m *Member) translateDrop(d *Drop) { d.Node, d.Port = m.Node(d.Node), m.Port(d.Port) }
