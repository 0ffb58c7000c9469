// SPDX-License-Identifier: Apache-2.0

package control

import "time"

// Intent says what to observe, and nothing about devices: the INTIntent of the INT management
// system (Van Tu et al., IJNM 2020, 3.3). Its name identifies an intent.
type Intent struct {
	Name string `json:"name"`
	// Slice says of which packets; the zero value: all TCP and UDP.
	Slice Slice `json:"slice,omitzero"`
	// States are the network states to observe, by the names of the INT specification (4.7) as
	// node.InstructionNames has them. None: node.DefaultInstructions.
	States []string `json:"states,omitempty"`
	Mode   Mode     `json:"mode,omitempty"` // "": MD
	// Sample asks for one packet in so many; 0 and 1: all.
	Sample uint32 `json:"sample,omitempty"`
	// Hops is how many nodes may add metadata (MD), the source among them; 0: 8.
	Hops uint8 `json:"hops,omitempty"`
	// Priority decides where slices overlap: the greatest comes first; if equal, the older.
	Priority int `json:"priority,omitempty"`
	// Expires ends the intent; zero: never. Users may write a lifetime in its place.
	Expires time.Time `json:"expires,omitzero"`
	// Fallback says what becomes of an intent that a device cannot do exactly.
	Fallback Fallback `json:"fallback,omitempty"`
	// Devices limits it to sources of these names; none: all.
	Devices []string `json:"devices,omitempty"`
	// Created is when it was added. The service sets it.
	Created time.Time `json:"created,omitzero"`
}

// Slice is a part of the traffic. Either Expr is set, or fields of the 5-tuple are. All that are set
// must match; a list matches if one of its values does.
type Slice struct {
	Src   []string `json:"src,omitempty"`   // addresses or prefixes
	Dst   []string `json:"dst,omitempty"`   // the same
	Proto string   `json:"proto,omitempty"` // tcp, udp; "": both
	Sport []string `json:"sport,omitempty"` // ports or ranges, such as 1000-2000
	Dport []string `json:"dport,omitempty"` // the same
	DSCP  *uint8   `json:"dscp,omitempty"`
	Expr  string   `json:"expr,omitempty"` // in tcpdump's language
}

// Mode is how devices report what they know.
type Mode string

// The modes. Backpack is radar's own: the metadata lies in shared maps, packets do not grow.
const (
	MD       Mode = "md"
	MD10     Mode = "md1.0"
	MX       Mode = "mx"
	XD       Mode = "xd"
	Backpack Mode = "backpack"
)

// Fallback says what becomes of an intent that a device cannot do exactly.
type Fallback string

// Fallbacks. Approximate observes more packets or other fields rather than none, and says so of each device.
const (
	Refuse      Fallback = "refuse" // the default
	Approximate Fallback = "approximate"
)

// Config holds for the whole INT domain.
type Config struct {
	Mark      string `json:"mark,omitempty"`      // dscp=VALUE/MASK or port=N, as node.ParseMark reads it
	Collector string `json:"collector,omitempty"` // HOST:PORT that reports go to
	// Via is the namespace that reports of driver ebpf are sent from, as netns:NAME, docker:NAME or pid:N; "": that of the
	// service.
	Via      string `json:"via,omitempty"`
	Report   string `json:"report,omitempty"`    // "2.0" or "1.0"
	Quote    int    `json:"quote,omitempty"`     // bytes of a packet behind its headers
	DomainID uint16 `json:"domain_id,omitempty"` // domain specific id (INT 2.1)
	// NodeIDs are the ids of nodes in INT. Nodes without one get the smallest that is free.
	NodeIDs map[string]uint32 `json:"node_ids,omitempty"`
	// AssumeSinks lets sources give INT while a device that is to take it off cannot be reached. Else its
	// packets get none until all of them are known to do that.
	AssumeSinks bool `json:"assume_sinks,omitempty"`
}
