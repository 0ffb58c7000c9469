// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"net/netip"
)

// Device is a node that can speak INT, as a driver finds it.
type Device struct {
	Name   string `json:"name"`             // unique among the nodes of the topology
	Driver string `json:"driver,omitempty"` // ebpf, p4runtime, mapped, backpack
	// Spec is where it is: a namespace as "radar attach" takes it (ebpf, backpack), HOST:PORT of a
	// gRPC server (p4runtime, mapped).
	Spec string `json:"spec,omitempty"`
	// Options are the driver's own, as the topology's file has them. Drivers refuse what they do not know.
	Options map[string]any `json:"options,omitempty"`
}

// Role is what is behind a port.
type Role string

// Roles. A port with hosts behind it is Edge: source for what comes in, sink for what leaves.
const (
	Edge    Role = "edge"
	Transit Role = "transit"
	NoRole  Role = ""
)

// DevicePort is a port of a device, with its role.
type DevicePort struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	MTU  int    `json:"mtu,omitempty"` // bytes of an IP packet; 0: the driver finds it out
}

// Entry is one of a watchlist.
type Entry struct {
	Intent string `json:"intent"` // its name
	// Slice is the intent's where devices do expressions. Others get entries of which no field has more
	// than one value, and where they do no ranges, ports are a range that is a prefix, such as 1024-2047.
	Slice        Slice  `json:"slice,omitzero"`
	Mode         Mode   `json:"mode"`
	Instructions uint16 `json:"instructions"` // bitmap of the INT header
	Hops         uint8  `json:"hops,omitempty"`
	Sample       uint32 `json:"sample,omitempty"`
}

// State is all that one device is to hold. Entries are in order of priority: the first that matches
// a packet counts. A State without Entries observes nothing, but takes INT off packets at its edges.
type State struct {
	NodeID    uint32         `json:"node_id"`
	DomainID  uint16         `json:"domain_id,omitempty"`
	Mark      string         `json:"mark"`
	Collector netip.AddrPort `json:"collector"`
	Via       string         `json:"via,omitempty"` // from where reports are sent: Config.Via
	Report    string         `json:"report"`
	Quote     int            `json:"quote"`
	Ports     []DevicePort   `json:"ports"`
	Entries   []Entry        `json:"entries,omitempty"`
}

// Abilities say what a device can do, for the compiler of intents and for forms.
type Abilities struct {
	Modes        []Mode   `json:"modes"`
	Instructions uint16   `json:"instructions"` // that it can fill; others are all ones
	Reports      []string `json:"reports"`      // versions of telemetry reports
	MarkDSCP     bool     `json:"mark_dscp"`
	MarkPort     bool     `json:"mark_port"`
	Expressions  bool     `json:"expressions"` // slices in tcpdump's language
	Ranges       bool     `json:"ranges"`      // ranges of ports in one entry; else they are expanded to prefixes
	Sampling     bool     `json:"sampling"`
	MaxEntries   int      `json:"max_entries"` // 0: no limit is known
	// Postcards: XD needs the watchlist at each device, not at sources alone.
	Postcards bool `json:"postcards,omitempty"`
	// Lacks are fields of slices that it cannot match: src, dst, proto, sport, dport, dscp, and ipv6 for addresses of that
	// version.
	Lacks []string `json:"lacks,omitempty"`
}

// ErrGone says that a device is not unreachable, but gone with all that it held.
var ErrGone = errors.New("it is gone")

// Driver controls devices of one kind.
type Driver interface {
	// Name is what topologies call it.
	Name() string
	// Check refuses a device whose spec or options it cannot use, without connecting to it. The error names the field.
	Check(d Device) error
	// Connect opens a device. It returns when the device answers, or with an error that says why not. ErrGone: what
	// the device was is there no more, and nothing of INT with it.
	Connect(ctx context.Context, d Device) (Conn, error)
}

// Conn is a connection to one device. It is for one goroutine, but for Close.
type Conn interface {
	// Abilities are what the device can do.
	Abilities() Abilities
	// Plan says what Apply would change, in the device's own words (a line each: a table entry, a program at
	// a port), and changes nothing.
	Plan(ctx context.Context, want State) ([]string, error)
	// Apply makes the device hold exactly what is wanted of INT, and touches nothing else. It changes only what
	// differs from what the device holds now, so it may be called again at any time, also by another process after
	// this one was killed. Wherever it ends, no packet can leave by an edge with INT that it did not have before.
	Apply(ctx context.Context, want State) error
	// Clear takes everything of INT off the device.
	Clear(ctx context.Context) error
	// Holds reports whether the device still holds what Apply gave it last: false after it was restarted, or
	// somebody else has changed it. An error says that it cannot be reached.
	Holds(ctx context.Context) (bool, error)
	// Counters are what the device counts, by names as node.Done and node.Skipped have them.
	Counters(ctx context.Context) (map[string]uint64, error)
	// Close lets go of the device, which keeps what it holds.
	Close() error
}
