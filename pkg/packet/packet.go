// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"net/netip"

	"github.com/vnetradar/radar/pkg/record"
)

// What stands for an unknown number.
const (
	NoPort = 0xffff // no such port, or not known
	NoNode = 0xffff
	NoTime = -1
)

// Names gives names to numbers. The same node can have several numbers: one that was detached
// and attached again has a new one.
type Names interface {
	NodeName(node uint16) string
	PortName(port uint16) string
	PortNode(port uint16) uint16
}

// Scope is what the numbers of packets mean that were measured together: their names, and the
// clock of their stamps.
type Scope interface {
	Names
	WallOffset() int64 // from T0 to Unix time, ns
	Host() string      // the machine that measured them
}

// Packet is one packet, or one train of segments while it stays together, as
// numbers. Times are ns since T0 unless said otherwise, NoTime where not known.
type Packet struct {
	Pos uint64 // ring position: unique within the domain
	T0  uint64 // first stamp, ns; Scope.WallOffset makes Unix time of it

	State  record.State
	LastNs int64 // last event
	// LatencyNs is the time from first to last stamp; NoTime: there is only one.
	LatencyNs int64

	Tuple             // as the source saw it, if HasTuple
	HasTuple bool     // false: the head of the train was overwritten
	IPv6     bool     // what differs is said below
	Proto    uint8    // IP protocol; of IPv6 that behind the extension headers
	FragOff  uint16   // flags and fragment offset, as in the header; see Offset
	ICMP     [2]uint8 // type, code
	Later    bool     // a fragment other than the first: ports and ICMP fields are not known
	Cut      Cut      // what else of the transport header is not known
	ID       uint16   // IP ID as the source saw it; IPv4 only
	TTL, TOS uint8    // as the source saw them; of IPv6 hop limit and traffic class
	Label    uint32   // flow label as the source saw it; IPv6 only
	FragID   uint32   // Identification of IPv6's fragment header, 0 without
	// SentTTL and SentTOS are those with which a node sent it last; as TTL and TOS
	// where that is not known.
	SentTTL, SentTOS uint8

	Len  uint32 // IP bytes of all segments
	Segs int    // packets that it stands for

	TCP    TCP  // if HasTCP
	HasTCP bool // TCP is known: of a TCP packet that is no later fragment, whose header was read
	// Inner is the position of the packet inside, where this one is a tunnel's; else 0.
	Inner uint64

	Hops      []Hop        // one per node visited, in order
	Tree      bool         // there are copies: hops have predecessors, see Prev, and Outcomes
	Drops     []BranchDrop // of a tree: those of its branches
	Lost      bool         // Loss says where
	LocalDrop bool         // Loss says where it was freed after delivery
	Missing   bool         // Loss says where it was not seen again; expired packets only
	// Moved: an expired packet came to a node just as the node got its address, or lost it.
	// Whether it was delivered there is not known.
	Moved     bool
	Loss      Drop
	Truncated bool // some events are missing
	// Apart: hops have clocks of their own. What they say of the time inside a node holds,
	// the time between two of them is not known.
	Apart bool
	// Undated: T0 is when a report of the packet came. The packet itself has no time.
	Undated bool

	Open bool // the last events are missing: the end is not known
}

// IsLost reports whether the packet was lost, also behind where its TTL was used up. LatencyNs is then no latency: it is the
// time to where the packet was seen last. A record says the same of itself (record.IsLost).
func (p *Packet) IsLost() bool {
	return p.State == record.Lost || p.State == record.Expired && (p.Lost || p.Missing)
}

// UnixNs is when the packet had its first stamp, by the clock of its scope.
func (p *Packet) UnixNs(of Scope) int64 { return int64(p.T0) + of.WallOffset() }

// Cut says how much of a transport header is missing: a report's quote of a packet may end early.
type Cut uint8

// All that is looked at is there; an ICMP packet has a type and no more; there is nothing.
const (
	NotCut Cut = iota
	CutAfterType
	CutAll
)

// Addr is an address of either version; one of IPv4 stands in the last four bytes
// behind ::ffff (RFC 4291, 2.5.5.2), so that both are compared and hashed alike.
type Addr [16]byte

// AddrFrom4 is an IPv4 address as an Addr.
func AddrFrom4(a [4]byte) Addr {
	return Addr{10: 0xff, 11: 0xff, 12: a[0], 13: a[1], 14: a[2], 15: a[3]}
}

// Text renders the address of a packet of that version.
func (a Addr) Text(ipv6 bool) string {
	addr := netip.AddrFrom16(a)
	if !ipv6 {
		addr = addr.Unmap()
	}
	return addr.String()
}

// Tuple is addresses and ports; ports in host order, 0 where there are none. For
// ICMP echo SrcPort and DstPort are identifier and sequence number.
type Tuple struct {
	Src, Dst         Addr
	SrcPort, DstPort uint16
}

// TCP is what a TCP header says (RFC 9293, 3.1), as the source saw it. A train has the header of the
// whole: Seq is its first byte's, Flags have what its last segment alone carries (FIN, PSH).
type TCP struct {
	Seq     uint32
	Ack     uint32 // with TCPAck in Flags only
	Flags   uint16 // TCPFin and so on, nine bits
	Window  uint16 // as in the header: before scaling (RFC 7323, 2)
	Payload uint32 // bytes behind the TCP headers of all segments
}

// Flags of a TCP header; AccECN's ninth bit (RFC 9768) is 256.
const (
	TCPFin = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
	TCPUrg
	TCPEce
	TCPCwr
	TCPAe
)

// End is the sequence number behind the packet's last: SYN and FIN have one each (RFC 9293, 3.4).
func (t *TCP) End() uint32 {
	end := t.Seq + t.Payload
	if t.Flags&TCPSyn != 0 {
		end++
	}
	if t.Flags&TCPFin != 0 {
		end++
	}
	return end
}

// ReadTCP reads a TCP header, of which b is the beginning; size is how many bytes the packet has from there on.
// ok is false if b ends before the window, or is no such header.
func ReadTCP(b []byte, size int) (t TCP, ok bool) {
	if len(b) < tcpKnown {
		return t, false
	}
	header := int(b[12]>>4) * 4
	if header < tcpLeast || header > size {
		return t, false
	}
	be := binary.BigEndian
	return TCP{
		Seq: be.Uint32(b[4:]), Ack: be.Uint32(b[8:]), Flags: be.Uint16(b[12:]) & tcpFlags, Window: be.Uint16(b[14:]),
		Payload: uint32(size - header),
	}, true
}

// Bytes of a TCP header: up to the window, and the least that it has; tcpFlags is where its flags are.
const (
	tcpKnown = 16
	tcpLeast = 20
	tcpFlags = 0x1ff
)

// Hop is one visit of one node.
type Hop struct {
	Node    uint16 // NoNode: the port is not in the domain's description
	In, Out uint16 // ports, NoPort where not seen
	InNs    int64
	OutNs   int64
	// DequeueNs is when it left the queue of Out; NoTime: it did not wait, or nothing saw
	// it leave.
	DequeueNs int64
	// QueueUnseen: it waited in that queue, but nothing saw it leave. The time on the link behind
	// holds the wait.
	QueueUnseen bool

	OnLink  bool // Out is a bridge's member, which packets pass without entering its node
	Gap     bool // hops before it may be missing: there was no room for them
	Changed bool // Tuple is what the packet left with
	Tuple   Tuple

	// Trees only. Copy: another copy of what came in at an earlier hop, which has the
	// times on the link and of the visit. Outcome: how the branch ended that ends
	// here; "" if none does.
	Copy    bool
	Outcome record.State
	From    int16 // the hop before; see Prev
	Moved   bool  // see Packet.Moved
	Unread  bool  // of one that is ignored: no program has a copy
}

// TupleBefore is what the packet had for addresses and ports when it came to hop i.
func (p *Packet) TupleBefore(i int) Tuple {
	for i = p.Prev(i); i >= 0; i = p.Prev(i) {
		if p.Hops[i].Changed {
			return p.Hops[i].Tuple
		}
	}
	return p.Tuple
}

// NodeNs is the time inside the node, NoTime if entry or exit was not seen.
func (h *Hop) NodeNs() int64 { return span(h.InNs, h.OutNs) }

// QueueNs is the time in the queue of the port by which it went out, NoTime if that
// is not known.
func (h *Hop) QueueNs() int64 { return span(h.OutNs, h.DequeueNs) }

// SentNs is when it went onto the link: out of the queue where that was seen.
func (h *Hop) SentNs() int64 {
	if h.DequeueNs != NoTime {
		return h.DequeueNs
	}
	return h.OutNs
}

// LinkNs is the time from when the packet went onto the link at hop i-1, with the wait
// in a queue that nothing saw it leave, to the ingress of hop i; NoTime if one was not
// seen, and between a tap and the virtual machine that has it open. Where a packet
// leaves the domain by a bridge's member, the link ends at that member's egress.
func (p *Packet) LinkNs(i int) int64 {
	prev, h := p.Prev(i), &p.Hops[i]
	if prev < 0 || h.Copy || h.Gap || p.Apart {
		return NoTime
	}
	if tap, ok := TapOf(h.In); ok && tap == p.Hops[prev].Out || p.Hops[prev].Out == h.In|VMSide {
		return NoTime
	}
	if h.OnLink {
		return span(p.Hops[prev].SentNs(), h.OutNs)
	}
	return span(p.Hops[prev].SentNs(), h.InNs)
}

// StampNs is the egress of hop i, at the end of the path its ingress.
func (p *Packet) StampNs(i int) int64 {
	h := &p.Hops[i]
	if h.OutNs == NoTime && (p.Tree || i == len(p.Hops)-1) {
		return h.InNs
	}
	return h.OutNs
}

// HopNs is the time from the stamp of the hop before to that of hop i.
func (p *Packet) HopNs(i int) int64 {
	prev := p.Prev(i)
	if prev < 0 || p.Hops[i].Gap || p.Apart {
		return NoTime
	}
	return span(p.Hops[prev].OutNs, p.StampNs(i))
}

// span is the time between two stamps. Stamps of different CPUs in the wrong order
// would give a negative time: then it is not known.
func span(from, to int64) int64 {
	if from == NoTime || to == NoTime || to < from {
		return NoTime
	}
	return to - from
}

// Drop is where and why a packet was freed.
type Drop struct {
	Node, Port uint16 // NoNode, NoPort if not known
	At         record.At
	Reason     string // "" where the kernel gives none
	Qdisc      string // At == record.AtQueue only
	Function   *Function
	AtNs       int64
	First      bool // first packet of the dropped skb
}

// BranchDrop is where one branch of a tree was freed.
type BranchDrop struct {
	Hop   int  // the last that was seen of the branch
	Local bool // after delivery
	Drop
}

// Unorder says that the order in which the packet came to its hops is not known.
func (p *Packet) Unorder() {
	p.Tree = true
	for i := range p.Hops {
		p.Hops[i].From = -1
	}
}

// Prev is the hop from which the packet came to hop i, -1 if it began there.
func (p *Packet) Prev(i int) int {
	if p.Tree {
		return int(p.Hops[i].From)
	}
	return i - 1
}

// Function is a kernel function that frees packets. nil stands for none.
type Function struct {
	resolve func() string // nil: the name is known
	name    string
}

// NewFunction is a Function whose name resolve says, "" if it has none. It is called once, when
// somebody asks for the name.
func NewFunction(resolve func() string) *Function { return &Function{resolve: resolve} }

// NamedFunction is a Function of that name.
func NamedFunction(name string) *Function { return &Function{name: name} }

// Name returns the function's name, "" if it has none. It is looked up when it is first
// asked for: for that, all names of the kernel are read, which takes as long as all else
// that a short answer needs.
func (f *Function) Name() string {
	if f == nil {
		return ""
	}
	if f.resolve != nil {
		f.name, f.resolve = f.resolve(), nil
	}
	return f.name
}

// VMSide is set in the number of a port that is a virtual machine's end of a tap. The
// numbers of ports are below it, and NoPort is no such number.
const VMSide = 0x8000

// TapOf returns the tap whose other end a port is, and whether it is one.
func TapOf(port uint16) (tap uint16, ok bool) {
	return port &^ VMSide, port != NoPort && port&VMSide != 0
}
