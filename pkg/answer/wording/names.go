// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"regexp"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// NotAttached stands for whoever is behind a bridge's member whose other end is not attached:
// the namespace of the bridge is not the one that sent, or got, the packet.
const NotAttached = "(not attached)"

// Names are what tables, drawings and stories call nodes and ports where the description
// of the domain has other names: the network that Docker's bridge is, and whoever is not
// attached. JSON and CSV have the names of interfaces and of their namespaces. A nil one
// changes nothing.
type Names struct {
	of    *domain.Domain
	ids   map[uint16]*domain.Port
	ports map[string]*domain.Port // by NODE/INTERFACE; only those that are called otherwise
	to    map[string]string       // by NODE/INTERFACE of a bridge's member: the port that it leads to
}

// portRE finds what can be NODE/INTERFACE in a sentence.
var portRE = regexp.MustCompile(`[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+`)

// NewNames returns the names of a domain; nil: of none.
func NewNames(d *domain.Domain) *Names {
	if d == nil {
		d = &domain.Domain{}
	}
	s := &Names{of: d, ids: make(map[uint16]*domain.Port), ports: make(map[string]*domain.Port), to: make(map[string]string)}
	for i := range d.Ports {
		p := &d.Ports[i]
		node := d.NodeByID(p.Node)
		if node == nil || p.Place != domain.BridgePort && p.Network == "" {
			continue
		}
		s.ids[p.ID] = p
		name := node.Name + "/" + p.Name
		if have := s.ports[name]; have == nil || have.Removed || !p.Removed {
			s.ports[name] = p
		}
	}
	for i := range d.Members {
		m := &d.Members[i]
		node := d.NodeByID(m.Node)
		if node == nil || m.To == "" {
			continue
		}
		if name := node.Name + "/" + m.Name; s.to[name] == "" || !m.Removed {
			s.to[name] = m.To
		}
	}
	return s
}

// Domain is whose names these are.
func (s *Names) Domain() *domain.Domain { return s.of }

// Aggregates are the names for the answers of aggregates.
func (s *Names) Aggregates(names packet.Names) packet.Names { return shownAggregates{names, s} }

// Port is what an interface of a node is called. Of a bridge's member, which nobody knows by its name, it also
// says where that leads: "veth3c1f (to db/eth0)".
func (s *Names) Port(node, port string) string {
	if s == nil {
		return port
	}
	if p := s.ports[node+"/"+port]; p != nil && p.Network != "" {
		return p.Network
	}
	if to := s.to[node+"/"+port]; to != "" {
		return port + " (to " + to + ")"
	}
	return port
}

// Node is what a node is called in a hop by these ports, which may be "".
func (s *Names) Node(node string, ports ...string) string {
	if s == nil {
		return node
	}
	for _, port := range ports {
		if p := s.ports[node+"/"+port]; p != nil && p.Place == domain.BridgePort {
			return NotAttached
		}
	}
	return node
}

// End is NODE/PORT, with "bridge " before it or not; what is none stays as it is.
func (s *Names) End(end string) string {
	if s == nil {
		return end
	}
	word, name := "", end
	if rest, ok := strings.CutPrefix(end, "bridge "); ok {
		word, name = "bridge ", rest
	}
	node, port, ok := strings.Cut(name, "/")
	if !ok {
		return end
	}
	return word + s.Node(node, port) + "/" + s.Port(node, port)
}

// text is a sentence that may name bridges.
func (s *Names) text(text string) string {
	if s == nil {
		return text
	}
	return portRE.ReplaceAllStringFunc(text, func(name string) string {
		node, port, _ := strings.Cut(name, "/")
		return node + "/" + s.Port(node, port)
	})
}

// Texts are sentences that may name bridges.
func (s *Names) Texts(list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = s.text(list[i])
	}
	return list
}

// Record is r as tables show it: the same one where nothing has another name.
func (s *Names) Record(r *record.Record) *record.Record {
	if s == nil || len(s.ports)+len(s.to) == 0 || r.Source != record.EBPF {
		return r
	}
	shown := *r
	shown.Hops = slices.Clone(r.Hops)
	for i := range shown.Hops {
		h := &shown.Hops[i]
		h.Node, h.InPort, h.Port = s.Node(h.Node, h.InPort, h.Port), s.Port(h.Node, h.InPort), s.Port(h.Node, h.Port)
	}
	shown.Loss, shown.LocalDrop = s.Loss(r.Loss), s.Loss(r.LocalDrop)
	shown.Losses = slices.Clone(r.Losses)
	for i := range shown.Losses {
		shown.Losses[i].Loss = *s.Loss(&r.Losses[i].Loss)
	}
	return &shown
}

// Loss keeps the node: what drops packets at a bridge's member are the rules and queues of
// the bridge's namespace.
func (s *Names) Loss(l *record.Loss) *record.Loss {
	if l == nil {
		return nil
	}
	shown := *l
	shown.Port = s.Port(l.Node, l.Port)
	return &shown
}

// shownAggregates are Names as tables have them (aggregate.HopNames).
type shownAggregates struct {
	packet.Names
	shown *Names
}

// PortName is the network's name, where the port is one.
func (s shownAggregates) PortName(port uint16) string {
	if p := s.shown.ids[port]; p != nil && p.Network != "" {
		return p.Network
	}
	return s.Names.PortName(port)
}

// HopNode is NotAttached where a packet came or left by a bridge's member.
func (s shownAggregates) HopNode(node, in, out uint16) string {
	for _, port := range []uint16{in, out} {
		if p := s.shown.ids[port]; p != nil && port != packet.NoPort && p.Node == node && p.Place == domain.BridgePort {
			return NotAttached
		}
	}
	return s.Names.NodeName(node)
}
