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

// State of a packet.
type State string

// The states. Delivered: reached a node that owns the destination address.
// Left: left the domain at an edge. Expired: not seen for the timeout.
const (
	Delivered State = "delivered"
	Lost      State = "lost"
	Left      State = "left"
	InFlight  State = "in_flight"
	Expired   State = "expired"
)

// Record is one packet, or one GSO train while it stays together.
type Record struct {
	V      int    `json:"v"`
	ID     string `json:"id"`     // unique for ever
	GUID   string `json:"guid"`   // the slot index as carried in header bits, "0x.."; reused
	Source string `json:"source"` // what measured it: "ebpf"
	State  State  `json:"state"`
	Time   string `json:"time"` // RFC 3339 with ns, UTC: first hop
	TNs    int64  `json:"t_ns"` // the same as Unix ns

	IPVersion int    `json:"ip_version"`
	Src       string `json:"src"` // "": the header is not known; see JSON
	Dst       string `json:"dst"`
	Proto     string `json:"proto"` // "tcp", "udp", "icmp", or the number
	Sport     *int   `json:"sport,omitempty"`
	Dport     *int   `json:"dport,omitempty"`
	ICMPType  *int   `json:"icmp_type,omitempty"`
	ICMPID    *int   `json:"icmp_id,omitempty"`
	ICMPSeq   *int   `json:"icmp_seq,omitempty"`
	Len       int    `json:"len"`  // IP bytes of all segments
	Segs      int    `json:"segs"` // packets on the wire that this record stands for
	TTL       int    `json:"ttl"`  // TTL, DSCP, ECN, IP ID as the source saw them
	DSCP      int    `json:"dscp"`
	ECN       int    `json:"ecn"`
	IPID      int    `json:"ip_id"`
	TTLSent   *int   `json:"ttl_sent,omitempty"` // as a node sent it last; only where they differ from the above
	DSCPSent  *int   `json:"dscp_sent,omitempty"`
	ECNSent   *int   `json:"ecn_sent,omitempty"`
	FragOff   *int   `json:"frag_off,omitempty"` // bytes; fragments only

	LatencyNs *int64 `json:"latency_ns,omitempty"` // first to last stamp
	Hops      []Hop  `json:"hops"`
	Loss      *Loss  `json:"loss,omitempty"`
	LocalDrop *Loss  `json:"local_drop,omitempty"` // freed as a drop after delivery
	Truncated bool   `json:"truncated,omitempty"`  // some events did not fit, or their history was overwritten
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
	Prev   *int   `json:"prev,omitempty"` // index of the earlier hop, where not the one before

	AtNs      *int64 `json:"at_ns,omitempty"`      // egress (at the end: ingress) since the packet's first stamp
	NodeNs    *int64 `json:"node_ns,omitempty"`    // inside the node: egress - ingress
	LinkNs    *int64 `json:"link_ns,omitempty"`    // previous node's egress to this ingress, with that port's queue
	LatencyNs *int64 `json:"latency_ns,omitempty"` // egress to egress, T(i) - T(i-1) of the paper

	Src   string `json:"src,omitempty"` // only where they changed
	Dst   string `json:"dst,omitempty"`
	Sport *int   `json:"sport,omitempty"`
	Dport *int   `json:"dport,omitempty"`
}

// Where a packet was lost, relative to the port named.
type At string

// The places of a loss. Ingress: between the link and the node's stack. Node:
// inside. Egress: leaving by Port. Queue: in Port's qdisc.
const (
	AtIngress At = "ingress"
	AtNode    At = "node"
	AtEgress  At = "egress"
	AtQueue   At = "queue"
)

// Loss says where and why a packet was lost.
type Loss struct {
	Node     string `json:"node"`
	Port     string `json:"port,omitempty"`
	At       At     `json:"at"`
	Reason   string `json:"reason,omitempty"` // by the running kernel's name, without SKB_DROP_REASON_
	Qdisc    string `json:"qdisc,omitempty"`
	Function string `json:"function,omitempty"` // kernel function that freed it
	AtNs     *int64 `json:"at_ns,omitempty"`    // since the packet's first stamp
	Skbs     int    `json:"-"`                  // 1 if this record is the first packet of the dropped skb
}

// TimeString renders ns since the Unix epoch as Record.Time wants it.
func TimeString(unixNs int64) string {
	return time.Unix(0, unixNs).UTC().Format("2006-01-02T15:04:05.000000000Z")
}
