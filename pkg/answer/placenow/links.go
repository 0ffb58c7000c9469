// SPDX-License-Identifier: Apache-2.0

// Package placenow says what the kernel says now of places where packets were lost: of their links, their queues, and
// their nodes. The packets were lost before: it need not have been so then.
package placenow

import (
	"context"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/inspect"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Place is what the kernel says now of a place of losses: of its link, its queue, its node. The packets were lost
// before: it need not have been so then.
type Place struct {
	Peer    string `json:"peer,omitempty"`     // NODE/PORT at the other end of the place's port; absent: not known
	PeerMTU int    `json:"peer_mtu,omitempty"` // bytes
	// NotUp are the ports that are not up and can be why, the place's own first.
	NotUp []PortState `json:"not_up,omitempty"`
	// Queue is the port's discipline. Absent: it had nothing to do with it, is another one now, or is not known.
	Queue *Queue `json:"queue,omitempty"`
	// Netfilter is of packets that its hooks freed. Absent: they did not, or the node cannot be asked.
	Netfilter *Netfilter `json:"netfilter,omitempty"`
	// Causes are what nodes say themselves of why.
	Causes []Cause `json:"causes,omitempty"`
}

// PortState is a port, NODE/PORT, and whether it can send and receive.
type PortState struct {
	Port  string     `json:"port"`
	State topo.State `json:"state"`
}

// Links reads what the kernel says of a domain's ports now, each node once, when it is asked for. A nil one knows
// nothing.
type Links struct {
	of         *domain.Domain
	nodes      *Nodes // nil: of a recording, whose nodes cannot be asked
	all        []end
	byName     map[string]*end
	look       func(node uint16) map[int]topo.Interface // nil: nodes are asked
	interfaces map[uint16]map[int]topo.Interface        // by node
	byAddress  map[string][]*end                        // of all nodes, nil: not read yet
	down       map[string][]*end                        // by node, nil: not read yet

	causes     int                         // places that were looked at
	ownerNodes map[string][]string         // names of nodes by address, nil: not read yet
	bridges    map[string]*inspect.Bridges // by node, nil: it cannot be asked
	tunnels    map[string]*inspect.Tunnels // the same
	zoned      map[string][]rules.ZonedAnswer
	macvlans   map[string][]inspect.Macvlan
	plain      map[string]bool // by node and family
}

// end is a port, or a bridge's member that leads to one.
type end struct {
	name    string // NODE/PORT
	node    string
	nodeID  uint16
	ifindex int
	link    string // the bridge that it hangs on
	peer    string // NODE/PORT, "": not known
	member  bool   // it has no program
}

// NewLinks asks the nodes of a domain for one question, each for at most OneNode, all for at most AllNodes.
func NewLinks(ctx context.Context, d *domain.Domain) *Links {
	l := NewLinksOf(d, nil)
	l.nodes = newNodes(ctx, d)
	return l
}

// Silent are the nodes that did not answer so far.
func (l *Links) Silent() (silent Silent) {
	if l != nil && l.nodes != nil {
		silent = l.nodes.asker.silent
	}
	slices.Sort(silent.NoAnswer)
	slices.Sort(silent.NoTime)
	return silent
}

// NewLinksOf has what look says of a node's interfaces for what they are now.
func NewLinksOf(d *domain.Domain, look func(node uint16) map[int]topo.Interface) *Links {
	l := &Links{of: d, look: look, byName: make(map[string]*end), interfaces: make(map[uint16]map[int]topo.Interface)}
	add := func(nodeID uint16, name string, e end) {
		if node := d.NodeByID(nodeID); node != nil && !node.Removed {
			e.name, e.node, e.nodeID = node.Name+"/"+name, node.Name, nodeID
			l.all = append(l.all, e)
		}
	}
	for _, p := range d.Ports {
		if !p.Removed {
			add(p.Node, p.Name, end{ifindex: p.Ifindex, link: p.Link, peer: PeerName(d, p.Peer)})
		}
	}
	for _, m := range d.Members {
		if !m.Removed {
			add(m.Node, m.Name, end{ifindex: m.Ifindex, link: m.Link, peer: m.To, member: true})
		}
	}
	for i := range l.all {
		l.byName[l.all[i].name] = &l.all[i]
	}
	for i := range l.all { // members know their ports, not the other way round
		if peer := l.byName[l.all[i].peer]; peer != nil && peer.peer == "" {
			peer.peer = l.all[i].name
		}
	}
	for _, p := range d.Ports { // a bridge is also called as its network
		if node := d.NodeByID(p.Node); node != nil && p.Network != "" && !p.Removed && l.byName[node.Name+"/"+p.Network] == nil {
			l.byName[node.Name+"/"+p.Network] = l.byName[node.Name+"/"+p.Name]
		}
	}
	return l
}

// now is what the kernel says of an end.
func (l *Links) now(e *end) topo.Interface {
	l.lookAt(e.nodeID)
	return l.interfaces[e.nodeID][e.ifindex]
}

// lookAt reads the interfaces of nodes that were not looked at yet.
func (l *Links) lookAt(ids ...uint16) {
	var nodes []*domain.Node
	for _, id := range ids {
		if _, known := l.interfaces[id]; known {
			continue
		}
		l.interfaces[id] = nil
		if l.look != nil {
			l.interfaces[id] = l.look(id)
		} else if node := l.of.NodeByID(id); node != nil {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return
	}
	for i, now := range askAll(l.nodes.asker, nodes, l.nodes.kernel.interfaces) {
		l.interfaces[nodes[i].ID] = now.is
	}
}

// lookAtAll reads those of all nodes.
func (l *Links) lookAtAll() {
	ids := make([]uint16, len(l.all))
	for i := range l.all {
		ids[i] = l.all[i].nodeID
	}
	l.lookAt(ids...)
}

// notUp adds an end to list, if it is not up.
func (l *Links) notUp(list []PortState, e *end) []PortState {
	state := l.now(e).State
	if state == "" || state == topo.Up || slices.ContainsFunc(list, func(p PortState) bool { return p.Port == e.name }) {
		return list
	}
	return append(list, PortState{e.name, state})
}

// followsPeer reports whether an end has no carrier because its peer is down.
func (l *Links) followsPeer(e *end) bool {
	peer := l.byName[e.peer]
	return peer != nil && l.now(e).State == topo.NoCarrier && l.now(peer).State == topo.Down
}

// withPeer adds an end that is not up, and its peer, if that can be why.
func (l *Links) withPeer(list []PortState, e *end) []PortState {
	list = l.notUp(list, e)
	if peer := l.byName[e.peer]; peer != nil && !l.followsPeer(peer) {
		list = l.notUp(list, peer)
	}
	return list
}

// OfUnsent are what can be why packets to an address were dropped before they were sent by a port, if it is not up.
func (l *Links) OfUnsent(port uint16, dst, reason, function string) (list []PortState) {
	if e := l.byName[PeerName(l.of, int(port))]; e != nil && slices.Contains(ofLink, reason) {
		list = l.withPeer(list, e)
	}
	if isOne(unanswered, reason, function) {
		list = l.owners(list, []string{dst})
	}
	return list
}

// AllNotUp are the ports of a domain that are not up. A bridge's member that has no carrier because its peer is
// down is none.
func (l *Links) AllNotUp() (list []PortState) {
	l.lookAtAll()
	for i := range l.all {
		if e := &l.all[i]; !e.member || !l.followsPeer(e) {
			list = l.notUp(list, e)
		}
	}
	return list
}

// noRoute are reasons, and functions where there is none, for which a port that is down elsewhere in the node can
// be why: its routes went with it.
var noRoute = []string{"IP_INNOROUTES", "IP_OUTNOROUTES", "ip_error", "ip_rcv_finish"}

// flooded are reasons, and functions where there is none, for which a port that is down elsewhere on the bridge can
// be why: the bridge has forgotten its MAC address, and sends everywhere else.
var flooded = []string{"OTHERHOST", "NO_TX_TARGET", record.NotSeen, "br_flood", "br_handle_frame_finish"}

// unanswered are reasons, and functions where there is none, for which the receiver's port can be why, if it is
// down: it does not answer.
var unanswered = []string{"NEIGH_FAILED", "NEIGH_QUEUEFULL", "arp_error_report", "ndisc_error_report", "neigh_invalidate"}

// ofLink are the reasons, beside all those, for which the place's own port can be why, or its peer.
var ofLink = []string{
	"", "NOT_SPECIFIED", "QDISC_DROP", "QDISC_OVERLIMIT", "QUEUE_PURGE", "DEV_READY",
	"NEIGH_DEAD", "NEIGH_CREATEFAIL", "NEIGH_HH_FILLFAIL",
}

// isOne reports whether packets were lost for one of the reasons, or by one of the functions without a reason.
func isOne(list []string, reason, function string) bool {
	if reason == "" || reason == "NOT_SPECIFIED" {
		return function != "" && slices.Contains(list, function)
	}
	return slices.Contains(list, reason)
}

// At is what is known now of a place where packets to these addresses were lost, of so many IP bytes on average; 0: not
// known.
func (l *Links) At(p *aggregate.LossPlace, dsts []string, bytes uint64) (now Place) {
	if l == nil {
		return now
	}
	own := l.byName[p.Node+"/"+p.Port]
	now.Netfilter = l.nodes.netfilter(p.Node, p.Reason, p.Function)
	if own != nil && p.Reason == "QDISC_DROP" {
		now.Queue = l.nodes.queue(p, l.now(own).MTU, bytes)
	}
	var peer *end
	if own != nil {
		if peer = l.byName[own.peer]; peer != nil {
			now.Peer, now.PeerMTU = peer.name, l.now(peer).MTU
		}
	}
	isFlooded, noAnswer := isOne(flooded, p.Reason, p.Function), isOne(unanswered, p.Reason, p.Function)
	switch {
	case isOne(noRoute, p.Reason, p.Function):
		l.read()
		for _, e := range l.down[p.Node] {
			now.NotUp = l.notUp(now.NotUp, e)
		}
		return now
	case own == nil || !isFlooded && !noAnswer && !slices.Contains(ofLink, p.Reason):
		return now
	}
	now.NotUp = l.withPeer(now.NotUp, own)
	if !isFlooded && !noAnswer {
		return now
	}
	if list := l.owners(now.NotUp, dsts); len(list) > len(now.NotUp) {
		now.NotUp = list
	} else if isFlooded && own.link != "" {
		now.NotUp = l.onBridge(now.NotUp, own.link)
	}
	return now
}

// Inside is what is known now of a place inside a node, with which no link has to do.
func (l *Links) Inside(p *aggregate.LossPlace) (now Place) {
	if l != nil {
		now.Netfilter = l.nodes.netfilter(p.Node, p.Reason, p.Function)
	}
	return now
}

// read reads all interfaces once, so that a row of losses costs the same in a domain of any size.
func (l *Links) read() {
	if l.byAddress != nil {
		return
	}
	l.lookAtAll()
	l.byAddress, l.down = make(map[string][]*end), make(map[string][]*end)
	for i := range l.all {
		e := &l.all[i]
		now := l.now(e)
		for _, a := range now.Addresses {
			l.byAddress[a.Addr().String()] = append(l.byAddress[a.Addr().String()], e)
		}
		if now.State == topo.Down {
			l.down[e.node] = append(l.down[e.node], e)
		}
	}
}

// owners adds the ports of the domain that own one of these addresses and are not up.
func (l *Links) owners(list []PortState, dsts []string) []PortState {
	l.read()
	for _, dst := range dsts {
		for _, e := range l.byAddress[dst] {
			list = l.withPeer(list, e)
		}
	}
	return list
}

// onBridge adds what is not up of a bridge.
func (l *Links) onBridge(list []PortState, link string) []PortState {
	for i := range l.all {
		if e := &l.all[i]; e.link == link && !l.followsPeer(e) {
			list = l.notUp(list, e)
		}
	}
	return list
}

// OfLoss is what is known now of the link at which a packet was lost, or not seen again.
func (l *Links) OfLoss(r *record.Record, loss *record.Loss) Place {
	dsts := []string{r.Dst}
	for i := range r.Hops {
		if dst := r.Hops[i].Dst; dst != "" {
			dsts = append(dsts, dst)
		}
	}
	place := aggregate.LossPlace{Node: loss.Node, Port: loss.Port, At: loss.At, Reason: loss.Reason, Qdisc: loss.Qdisc, Function: loss.Function}
	return l.At(&place, dsts, Mean(uint64(r.Len), uint64(r.Segs)))
}

// Mean is 0 without packets.
func Mean(sum, n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return sum / n
}
