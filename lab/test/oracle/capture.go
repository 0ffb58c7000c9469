// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// place is where a packet was seen.
type place struct {
	kind kind
	node string
	port string // wire only
	out  bool   // wire: leaving; hook: sent by the node itself
}

type kind uint8

// The kinds of places. Wire: a packet tap, behind the qdisc at egress, before TC
// at ingress. Hook: netfilter's prerouting or output, so what the node's own stack
// sees. Socket: a raw socket. Sent: what a sender handed over.
const (
	wire kind = iota
	hook
	socket
	sent
)

func (p *place) ref() Ref { return Ref{p.node, p.port} }

// Captures collects what was seen, as input of [Captures.Reconstruct].
// It is not safe for concurrent use.
type Captures struct {
	topo   *Topology
	places map[place]*place
	frames []*frame
	sizes  segmentSizes
	udp    map[int]int // segment size of UDP trains by destination port
	// Nodes that have hooks; the protocols that the sockets of a node see.
	hooks   map[string]bool
	sockets map[string]map[uint8]bool
	badSums []string
	checked int // header checksums
}

// NewCaptures returns an empty collection for that network.
func NewCaptures(t *Topology) (*Captures, error) {
	if err := t.validate(); err != nil {
		return nil, fmt.Errorf("check topology: %w", err)
	}
	return &Captures{
		topo: t, places: map[place]*place{}, sizes: segmentSizes{}, udp: map[int]int{},
		hooks: map[string]bool{}, sockets: map[string]map[uint8]bool{},
	}, nil
}

// SegmentUDP says that datagrams to that port are sent in trains (UDP_SEGMENT)
// whose segments have size bytes of payload. Hooks must log such trains whole.
func (c *Captures) SegmentUDP(port, size int) { c.udp[port] = size }

// AddWire adds a capture of all ports of a node (tcpdump -i any -y LINUX_SLL2).
// Only IP packets for or from the node are taken.
func (c *Captures) AddWire(node string, r io.Reader) error {
	n := c.topo.node(node)
	if n == nil {
		return fmt.Errorf("no node %q", node)
	}
	ports := map[uint32]string{}
	for _, p := range n.Ports {
		ports[uint32(p.Index)] = p.Name
	}
	return c.read(r, layers.LinkTypeLinuxSLL2, func(at int64, data []byte) error {
		var sll layers.LinuxSLL2
		if err := sll.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
			return fmt.Errorf("decode cooked header: %w", err)
		}
		port, known := ports[sll.InterfaceIndex]
		if !known || sll.ProtocolType != layers.EthernetTypeIPv4 && sll.ProtocolType != layers.EthernetTypeIPv6 {
			return nil
		}
		switch sll.PacketType {
		case layers.LinuxSLL2PacketTypeHost, layers.LinuxSLL2PacketTypeOutgoing:
			out := sll.PacketType == layers.LinuxSLL2PacketTypeOutgoing
			return c.add(place{wire, node, port, out}, at, sll.LayerPayload())
		}
		return nil
	})
}

// AddHook adds what nflog shows of a node: rules in prerouting and output,
// before all others, that log the first bytes of every packet. Their order
// matters, their times do not.
func (c *Captures) AddHook(node string, r io.Reader) error {
	c.hooks[node] = true
	return c.read(r, layers.LinkType(239), func(at int64, data []byte) error {
		family, where, ip, err := decodeNflog(data)
		if err != nil || family != 2 && family != 10 { // AF_INET, AF_INET6
			return err
		}
		return c.add(place{hook, node, "", where == hookLocalOut}, at, ip)
	})
}

// AddSocket adds what a raw socket of a node received of one protocol.
func (c *Captures) AddSocket(node string, proto uint8, r io.Reader) error {
	if c.sockets[node] == nil {
		c.sockets[node] = map[uint8]bool{}
	}
	c.sockets[node][proto] = true
	return c.read(r, layers.LinkTypeRaw, func(at int64, data []byte) error {
		return c.add(place{socket, node, "", false}, at, data)
	})
}

// AddSent adds what a sender in a node handed to the kernel, complete with the
// IP header.
func (c *Captures) AddSent(node string, r io.Reader) error {
	return c.read(r, layers.LinkTypeRaw, func(at int64, data []byte) error {
		return c.add(place{sent, node, "", true}, at, data)
	})
}

// read hands out the packets of a pcap file of the given link type.
func (c *Captures) read(r io.Reader, want layers.LinkType, f func(at int64, data []byte) error) error {
	pr, err := pcapgo.NewReader(r)
	if err != nil {
		return fmt.Errorf("read capture: %w", err)
	}
	if pr.LinkType() != want {
		return fmt.Errorf("read capture: link type %s, want %s", pr.LinkType(), want)
	}
	for {
		data, info, err := pr.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read capture: %w", err)
		}
		if err := f(info.Timestamp.UnixNano(), data); err != nil {
			return err
		}
	}
}

func (c *Captures) add(at place, ns int64, ip []byte) error {
	p, err := decode(ip)
	if err != nil {
		return fmt.Errorf("%s: %w", at.node, err)
	}
	if p.discovery() {
		return nil
	}
	if c.places[at] == nil {
		c.places[at] = &at
	}
	c.checked++
	if !p.headerSumOK() && len(c.badSums) < maxFindings {
		c.badSums = append(c.badSums, fmt.Sprintf("%s: IP header checksum wrong: %s", at.ref(), p))
	}
	if at.kind == wire {
		c.sizes.learn(p)
	}
	c.frames = append(c.frames, &frame{Packet: p, place: c.places[at], at: ns})
	return nil
}

// Netfilter's numbers and attribute types (linux/netfilter.h, nfnetlink_log.h).
const (
	hookLocalOut    = 3
	nflogPacketHdr  = 1
	nflogPayload    = 9
	nflogHeaderLen  = 4
	nflogAttrHeader = 4
)

// decodeNflog decodes a LINKTYPE_NFLOG record: a header (family, version,
// resource id) and netlink attributes in the byte order of this machine.
func decodeNflog(b []byte) (family uint8, hook uint8, payload []byte, err error) {
	if len(b) < nflogHeaderLen {
		return 0, 0, nil, errors.New("decode nflog record: too short")
	}
	family = b[0]
	for b = b[nflogHeaderLen:]; len(b) >= nflogAttrHeader; {
		n := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:])
		if n < nflogAttrHeader || n > len(b) {
			return 0, 0, nil, errors.New("decode nflog record: attribute too long")
		}
		switch kind {
		case nflogPacketHdr:
			if n < nflogAttrHeader+3 {
				return 0, 0, nil, errors.New("decode nflog record: packet header too short")
			}
			hook = b[nflogAttrHeader+2]
		case nflogPayload:
			payload = b[nflogAttrHeader:n]
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return family, hook, payload, nil
}
