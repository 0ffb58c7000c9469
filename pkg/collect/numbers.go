// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/record"
)

// Numbers of nodes and ports of reports: a domain's lie below (aggregate.MaxNodes,
// aggregate.MaxPorts), its virtual machines' ports above.
const (
	firstNumber = 1 << 14
	maxNumbers  = 1 << 14
)

// Numbers gives the nodes and ports of records numbers that aggregates count by, beside
// those of a domain. It is the Names of both.
type Numbers struct {
	Domain aggregate.Names // nil: there is none

	nodes []string
	ports []portOf
	node  map[string]uint16
	port  map[portOf]uint16
	// Over counts visits of nodes and ports for which there was no number: they are "?".
	Over uint64
}

type portOf struct {
	node uint16
	name string
}

// NodeName is the name of a node (aggregate.Names).
func (n *Numbers) NodeName(node uint16) string {
	if i := int(node) - firstNumber; i >= 0 && i < len(n.nodes) {
		return n.nodes[i]
	}
	if n.Domain == nil || n.isOurs(node) {
		return "?"
	}
	return n.Domain.NodeName(node)
}

// PortName is the name of a port.
func (n *Numbers) PortName(port uint16) string {
	if i := int(port) - firstNumber; i >= 0 && i < len(n.ports) {
		return n.ports[i].name
	}
	if n.Domain == nil || n.isOurs(port) {
		return ""
	}
	return n.Domain.PortName(port)
}

// PortNode is the node that a port belongs to.
func (n *Numbers) PortNode(port uint16) uint16 {
	if i := int(port) - firstNumber; i >= 0 && i < len(n.ports) {
		return n.ports[i].node
	}
	if n.Domain == nil || n.isOurs(port) {
		return backpack.NoNode
	}
	return n.Domain.PortNode(port)
}

func (n *Numbers) isOurs(number uint16) bool {
	return number >= firstNumber && number < firstNumber+maxNumbers
}

func (n *Numbers) nodeNumber(name string) uint16 {
	if number, ok := n.node[name]; ok {
		return number
	}
	if name == "?" {
		return backpack.NoNode
	}
	if len(n.nodes) >= maxNumbers {
		n.Over++
		return backpack.NoNode
	}
	if n.node == nil {
		n.node, n.port = make(map[string]uint16), make(map[portOf]uint16)
	}
	number := uint16(firstNumber + len(n.nodes))
	n.nodes, n.node[name] = append(n.nodes, name), number
	return number
}

func (n *Numbers) portNumber(node uint16, name string) uint16 {
	if name == "" || node == backpack.NoNode {
		return backpack.NoPort
	}
	key := portOf{node, name}
	if number, ok := n.port[key]; ok {
		return number
	}
	if len(n.ports) >= maxNumbers {
		n.Over++
		return backpack.NoPort
	}
	number := uint16(firstNumber + len(n.ports))
	n.ports, n.port[key] = append(n.ports, key), number
	return number
}

// Packet makes of a record of a report what aggregates count. offset is that of
// aggregate.New. It uses p's memory again.
func (n *Numbers) Packet(p *backpack.Packet, r *record.Record, offset int64) {
	*p = backpack.Packet{
		T0: uint64(r.TNs - offset), State: r.State, LatencyNs: backpack.NoTime, IPv6: r.IPVersion == 6,
		TTL: uint8(r.TTL), TOS: uint8(r.DSCP<<2 | r.ECN), ID: uint16(r.IPID), SentTTL: uint8(r.TTL), SentTOS: uint8(r.DSCP<<2 | r.ECN),
		Len: uint32(max(r.Len, 0)), Segs: r.Segs, Hops: p.Hops[:0], Apart: true, Truncated: r.Truncated,
	}
	if r.LatencyNs != nil {
		p.LatencyNs = *r.LatencyNs
	}
	p.Proto, _ = record.ParseProto(r.Proto)
	p.HasTuple = setTuple(p, r)
	for i := range r.Hops {
		h := &r.Hops[i]
		node := n.nodeNumber(h.Node)
		hop := backpack.Hop{
			Node: node, In: n.portNumber(node, h.InPort), Out: n.portNumber(node, h.Port),
			InNs: backpack.NoTime, OutNs: backpack.NoTime, DequeueNs: backpack.NoTime,
		}
		if h.NodeNs != nil {
			hop.InNs, hop.OutNs = 0, *h.NodeNs
		}
		p.Hops = append(p.Hops, hop)
	}
	if r.Unordered {
		p.Unorder()
	}
	if l := r.Loss; l != nil {
		node := n.nodeNumber(l.Node)
		p.Lost = true
		p.Loss = backpack.Drop{Node: node, Port: n.portNumber(node, l.Port), At: l.At, Reason: l.Reason, AtNs: backpack.NoTime, First: l.Skbs > 0}
	}
}

func setTuple(p *backpack.Packet, r *record.Record) bool {
	src, err1 := netip.ParseAddr(r.Src)
	dst, err2 := netip.ParseAddr(r.Dst)
	if err1 != nil || err2 != nil {
		return false
	}
	if p.IPv6 {
		p.Src, p.Dst = src.As16(), dst.As16()
	} else {
		p.Src, p.Dst = backpack.AddrFrom4(src.As4()), backpack.AddrFrom4(dst.As4())
	}
	if r.Sport != nil && r.Dport != nil {
		p.SrcPort, p.DstPort = uint16(*r.Sport), uint16(*r.Dport)
	}
	if r.ICMPID != nil && r.ICMPSeq != nil {
		p.SrcPort, p.DstPort = uint16(*r.ICMPID), uint16(*r.ICMPSeq)
	}
	if r.ICMPType != nil {
		p.ICMP[0] = uint8(*r.ICMPType)
	}
	if r.FragOff != nil {
		p.SetFragment(*r.FragOff)
	}
	return true
}
