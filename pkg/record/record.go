// SPDX-License-Identifier: Apache-2.0

// Package record is the one record model: what radar knows about one packet,
// whatever measured it. It knows no kernel, no wire format and no other package.
//
// The JSON form is a contract that others script against (docs/data-model.md):
// version 1, one object a line. What is not known is absent, never 0.
package record

import "time"

// Version of the JSON form.
const Version = 1

// What measures packets: radar's own programs, or devices that sent telemetry reports.
const (
	EBPF = "ebpf"
	INT  = "int"
)

// State of a packet.
type State string

// The states. Delivered: reached a node that owns the destination address.
// Left: left the domain at an edge. Expired: not seen for the timeout. Ignored: reached
// only nodes that did not want it, such as no members of its group.
const (
	Delivered State = "delivered"
	Lost      State = "lost"
	Left      State = "left"
	InFlight  State = "in_flight"
	Expired   State = "expired"
	Ignored   State = "ignored"
)

// Record is one packet, or one GSO train while it stays together.
type Record struct {
	V      int    `json:"v"`
	ID     string `json:"id"`             // unique for ever
	GUID   string `json:"guid"`           // the slot index as carried in header bits, "0x.."; reused; see JSON
	Source string `json:"source"`         // what measured it: EBPF or INT
	Host   string `json:"host,omitempty"` // the machine that measured it
	State  State  `json:"state"`
	Time   string `json:"time"` // RFC 3339 with ns, UTC: first hop
	TNs    int64  `json:"t_ns"` // the same as Unix ns

	IPVersion int    `json:"ip_version"`
	Src       string `json:"src"` // "": the header is not known; see JSON
	Dst       string `json:"dst"`
	Proto     string `json:"proto"` // "tcp", "udp", "icmp", "icmpv6", or the number
	Sport     *int   `json:"sport,omitempty"`
	Dport     *int   `json:"dport,omitempty"`
	FlowLabel *int   `json:"flow_label,omitempty"` // IPv6
	ICMPType  *int   `json:"icmp_type,omitempty"`  // of ICMP or ICMPv6
	ICMPCode  *int   `json:"icmp_code,omitempty"`
	ICMPID    *int   `json:"icmp_id,omitempty"`
	ICMPSeq   *int   `json:"icmp_seq,omitempty"`
	// TCP's header as the source saw it (RFC 9293, 3.1), where it is known. Ack is absent without the ACK flag.
	TCPSeq     *int `json:"tcp_seq,omitempty"`
	TCPAck     *int `json:"tcp_ack,omitempty"`
	TCPFlags   *int `json:"tcp_flags,omitempty"`   // FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256
	TCPWindow  *int `json:"tcp_window,omitempty"`  // before scaling
	TCPPayload *int `json:"tcp_payload,omitempty"` // bytes of all segments
	Len        int  `json:"len"`                   // IP bytes of all segments
	Segs       int  `json:"segs"`                  // packets on the wire that this record stands for
	TTL        int  `json:"ttl"`                   // TTL (hop limit), DSCP, ECN, IP ID as the source saw them
	DSCP       int  `json:"dscp"`
	ECN        int  `json:"ecn"`
	IPID       int  `json:"ip_id"`              // IPv4; see JSON
	IPFlags    *int `json:"ip_flags,omitempty"` // IPv4: DF 2, MF 1 (RFC 791, 3.1); of IPv6's fragment header M is 1
	TTLSent    *int `json:"ttl_sent,omitempty"` // as a node sent it last; only where they differ from the above
	DSCPSent   *int `json:"dscp_sent,omitempty"`
	ECNSent    *int `json:"ecn_sent,omitempty"`
	FragOff    *int `json:"frag_off,omitempty"` // bytes; fragments only
	FragID     *int `json:"frag_id,omitempty"`  // Identification of IPv6's fragment header

	Inner string `json:"inner,omitempty"` // ID of the packet inside, of a tunnel's packet

	LatencyNs *int64       `json:"latency_ns,omitempty"` // first to last stamp
	Hops      []Hop        `json:"hops"`
	Loss      *Loss        `json:"loss,omitempty"`       // of a lost packet; of an expired one where it was not seen again (NotSeen)
	LocalDrop *Loss        `json:"local_drop,omitempty"` // freed as a drop after delivery
	Losses    []BranchLoss `json:"losses,omitempty"`     // of a packet with copies: all of them
	Truncated bool         `json:"truncated,omitempty"`  // some events did not fit, or their history was overwritten
	// Moved: of an expired packet, whose address came to the node where it was seen last, or went,
	// at about the same time: whether it was delivered there is not known.
	Moved bool `json:"address_moved,omitempty"`
	// Unordered: nodes have reported the packet, and the order in which it came to them is not known.
	Unordered bool `json:"unordered,omitempty"`
}

// Role that a node played for this packet.
type Role string

// The roles of a hop.
const (
	Source  Role = "source"
	Transit Role = "transit"
	Sink    Role = "sink"
)

// Hop is one node visited. Times are ns; link and node time are apart.
type Hop struct {
	Node   string `json:"node"`
	NodeID int    `json:"node_id,omitempty"` // from 1; 0: not known
	InPort string `json:"in_port,omitempty"`
	Port   string `json:"port,omitempty"` // egress port
	Role   Role   `json:"role"`
	Prev   *int   `json:"prev,omitempty"` // index of the earlier hop, where not the one before; -1: none
	// For packets with copies. Copy: another copy of what came in at an earlier hop.
	// Outcome: how the branch ended that ends here.
	Copy    bool  `json:"copy,omitempty"`
	Outcome State `json:"outcome,omitempty"`
	// Gap: hops before it may be missing, for which the record had no room.
	Gap bool `json:"gap,omitempty"`

	AtNs    *int64 `json:"at_ns,omitempty"`    // egress (at the end: ingress) since the packet's first stamp
	NodeNs  *int64 `json:"node_ns,omitempty"`  // inside the node: egress - ingress
	QueueNs *int64 `json:"queue_ns,omitempty"` // in the queue of Port; absent: it did not wait, or nothing saw it leave
	// QueueUnseen: it waited in the queue of Port, and nothing saw it leave. LinkNs of the next hop
	// holds that wait and the link's time together.
	QueueUnseen bool   `json:"queue_unseen,omitempty"`
	LinkNs      *int64 `json:"link_ns,omitempty"`    // previous node's egress, or where it left that port's queue, to this ingress
	LatencyNs   *int64 `json:"latency_ns,omitempty"` // egress to egress, T(i) - T(i-1) of the paper

	// INT is what a telemetry report says of this hop, as sent, by the names of docs/int/decode.md.
	INT map[string]uint64 `json:"int,omitempty"`

	Src   string `json:"src,omitempty"` // only where they changed
	Dst   string `json:"dst,omitempty"`
	Sport *int   `json:"sport,omitempty"`
	Dport *int   `json:"dport,omitempty"`
}

// BranchLoss is where one copy of a packet was lost, or freed after delivery.
type BranchLoss struct {
	Hop           int  `json:"hop"` // index: where the copy was seen last
	AfterDelivery bool `json:"after_delivery,omitempty"`
	Loss
}

// Where a packet was lost, relative to the port named.
type At string

// The places of a loss. Ingress: between the link and the node's stack. Node:
// inside. Egress: leaving by Port. Queue: in Port's qdisc. Link: behind Port, before
// any other port; of inferred losses only.
const (
	AtIngress At = "ingress"
	AtNode    At = "node"
	AtEgress  At = "egress"
	AtQueue   At = "queue"
	AtLink    At = "link"
)

// NotSeen is the reason of inferred losses, and of no other: no kernel has it. The
// packet was seen last as it went in at this place, and not again within the timeout;
// it was lost or consumed there, and nobody reported it.
const NotSeen = "NOT_SEEN"

// NotForwarded is the reason of losses in a node whose packets a process forwards, by packet
// sockets: Loss.Function is the process. The kernel has dropped its own copy, as always there,
// and its reason says nothing about the packet.
const NotForwarded = "NOT_FORWARDED"

// NotSpecified is the kernel's reason where it does not say why.
const NotSpecified = "NOT_SPECIFIED"

// OtherHost is the kernel's reason for frames that have come to an interface with another
// address. They are lost where no other copy has gone on from anywhere.
const OtherHost = "OTHERHOST"

// Loss says where and why a packet was lost.
type Loss struct {
	Node     string `json:"node"`
	Port     string `json:"port,omitempty"`
	At       At     `json:"at"`
	Reason   string `json:"reason,omitempty"` // by the running kernel's name, without SKB_DROP_REASON_
	Qdisc    string `json:"qdisc,omitempty"`
	Function string `json:"function,omitempty"` // kernel function that freed it; the process, if NotForwarded
	AtNs     *int64 `json:"at_ns,omitempty"`    // since the packet's first stamp
	Skbs     int    `json:"-"`                  // 1 if this record is the first packet of the dropped skb
}

// Inferred reports whether the loss is concluded from what was not seen; nobody reported it.
func (l *Loss) Inferred() bool { return l.Reason == NotSeen }

// TimeString renders ns since the Unix epoch as Record.Time wants it.
func TimeString(unixNs int64) string {
	c := UTCClock()
	return string(AppendTime(nil, &c, unixNs))
}

// UTCClock is the Clock for AppendTime.
func UTCClock() Clock { return NewClock(time.UTC, "2006-01-02T15:04:05") }

// AppendTime appends what TimeString renders.
func AppendTime(b []byte, c *Clock, unixNs int64) []byte {
	return append(c.Append(b, unixNs, 9), 'Z')
}
