// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"strconv"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Symbols gives names to what the kernel numbers; pkg/host/symbols has them. "" means
// that there is no name.
type Symbols interface {
	Function(addr uint64) string
	Reason(code uint32) string
}

// Decoder turns slots into Packets and Packets into Records. It holds the names of
// one domain, and scratch space: one goroutine at a time.
type Decoder struct {
	epoch     uint32
	host      string
	slots     uint64
	timeoutNs uint64
	offset    int64      // from stamps to Unix time
	nodes     []string   // by node id; "" where there is none
	ports     []portInfo // by port id
	owned     map[ownAddr]bool
	moves     map[ownAddr]moves // see SetMoves
	forgotten map[uint16]uint64

	symbols   Symbols
	functions map[uint64]*packet.Function // by address
	reasons   map[uint32]string
	qdiscs    map[uint64]string // by the 8 bytes of a cell

	// switches are the processes that forward packets in nodes, by node; nil where there is none.
	switches []*packet.Function
	// forwarders are nodes in which packets went on whose copies the kernel had dropped.
	forwarders map[uint16]bool

	recorder *packet.Recorder
	clock    record.Clock // of records

	straight []step // of the last packet without branches, see asBefore

	events []event // scratch
	text   []byte

	// unlisted is set if an event named a port which the description lacks.
	unlisted bool
}

// ownAddr is an address that a node or a virtual machine owns.
type ownAddr struct {
	node uint16
	addr packet.Addr
}

type portInfo struct {
	name  string
	node  uint16
	peer  int
	place domain.Place
	link  string // bridge link that it is on, "" for none
	vm    uint16 // node behind the port that has no programs, 0 if there is none
	// queued: what goes out from then on waits in the port's queue; 0: it may pass that by, or
	// there is none.
	queued uint64
}

// NewDecoder makes a decoder for the ring of d. symbols may be nil: then functions
// and reasons have no names.
func NewDecoder(d *domain.Domain, symbols Symbols) *Decoder {
	dec := &Decoder{
		symbols:   symbols,
		functions: make(map[uint64]*packet.Function),
		reasons:   make(map[uint32]string),
		qdiscs:    make(map[uint64]string),

		forwarders: make(map[uint16]bool),
		clock:      record.UTCClock(),
	}
	dec.recorder = packet.NewRecorder(dec)
	dec.SetDomain(d)
	return dec
}

// WallOffset, added to a stamp (CLOCK_MONOTONIC, ns), gives Unix ns in this domain.
func (d *Decoder) WallOffset() int64 { return d.offset }

// Host is the name of the machine that the domain is on.
func (d *Decoder) Host() string { return d.host }

// SetDomain replaces the description, after nodes were added.
func (d *Decoder) SetDomain(dom *domain.Domain) {
	d.straight = d.straight[:0]
	d.epoch, d.host = dom.Epoch, dom.Host
	d.slots = uint64(dom.Options.Slots)
	d.timeoutNs = uint64(max(dom.Options.Timeout, 0))
	d.offset = chooseOffset(dom.WallOffset, processOffset())
	d.nodes, d.switches = d.nodes[:0], d.switches[:0]
	for _, n := range dom.Nodes {
		d.nodes = grow(d.nodes, int(n.ID), "")
		d.nodes[n.ID] = n.Name
		if n.Switch != "" {
			d.switches = grow(d.switches, int(n.ID), nil)
			d.switches[n.ID] = packet.NamedFunction(n.Switch)
		}
	}
	d.owned = make(map[ownAddr]bool)
	for _, vm := range dom.VMs {
		d.nodes = grow(d.nodes, int(vm.ID), "")
		d.nodes[vm.ID] = vm.Name
		for _, addr := range vm.Addrs {
			d.owned[ownAddr{vm.ID, addr.As16()}] = true
		}
	}
	d.ports = d.ports[:0]
	for _, p := range dom.Ports {
		d.ports = grow(d.ports, int(p.ID), portInfo{node: packet.NoNode, peer: -1})
		d.ports[p.ID] = portInfo{name: p.Name, node: p.Node, peer: p.Peer, place: p.Place, link: p.Link, vm: p.VM, queued: queuedSince(&p)}
	}
	for _, m := range dom.Members {
		d.ports = grow(d.ports, int(m.ID), portInfo{node: packet.NoNode, peer: -1})
		d.ports[m.ID] = portInfo{name: m.Name, node: m.Node, peer: -1, place: domain.BridgeEnd, link: m.Link}
	}
}

// grow lengthens s so that index i exists.
func grow[T any](s []T, i int, fill T) []T {
	for len(s) <= i {
		s = append(s, fill)
	}
	return s
}

// NodeName returns the name of a node, "?" if it is not known.
func (d *Decoder) NodeName(node uint16) string {
	if int(node) >= len(d.nodes) || d.nodes[node] == "" {
		return "?"
	}
	return d.nodes[node]
}

// PortName returns the name of a port, "#" and its number if the description lacks
// it, "" for NoPort.
func (d *Decoder) PortName(port uint16) string {
	if port == packet.NoPort {
		return ""
	}
	if tap, ok := packet.TapOf(port); ok {
		port = tap
	}
	if d.PortNode(port) == packet.NoNode {
		return "#" + strconv.Itoa(int(port))
	}
	return d.ports[port].name
}

// PortNode returns the node of a port, NoNode if it is not known.
func (d *Decoder) PortNode(port uint16) uint16 {
	if tap, ok := packet.TapOf(port); ok && d.vm(tap) != 0 {
		return d.vm(tap)
	}
	if int(port) >= len(d.ports) {
		return packet.NoNode
	}
	return d.ports[port].node
}

// closing is what a port of a closing node is to its bridge link, "" for other ports.
func (d *Decoder) closing(port uint16) domain.Place {
	if int(port) >= len(d.ports) {
		return ""
	}
	return d.ports[port].place
}

// peer returns the port at the other end, NoPort if it is not known.
func (d *Decoder) peer(port uint16) uint16 {
	if int(port) >= len(d.ports) || d.ports[port].peer < 0 {
		return packet.NoPort
	}
	return uint16(d.ports[port].peer)
}
