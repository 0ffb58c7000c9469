// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/system"
)

// Version is that of the description and of the maps. A domain of another one is only taken off.
const Version = 2

// Domain describes nodes of this machine that speak INT with each other.
type Domain struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Hook    string    `json:"hook"` // hook.ByTCX or hook.ByClsact
	Options Options   `json:"options"`
	Via     Place     `json:"via"` // from where reports are sent
	Nodes   []Node    `json:"nodes"`
	Next    uint32    `json:"next"` // index of the next node
	// Managed: intents say what is here (pkg/telemetry/control), and no command by hand.
	Managed bool `json:"managed,omitempty"`
}

// Place is a network namespace.
type Place = system.Place

// Node is a namespace of which ports have roles.
type Node struct {
	Place
	Index  uint32 `json:"index"` // in this domain; no other node gets it later
	ID     uint32 `json:"id"`    // in INT
	Source bool   `json:"source,omitempty"`
	// Source: its own packets get INT. With either, INT is taken from packets for the node itself, and all ports that have
	// no other role lead inside.
	Sink  bool   `json:"sink,omitempty"`
	Mask  uint32 `json:"mask"` // of the numbers of interfaces, in the map of ports
	Ports []Port `json:"ports"`
	// Entries are the node's own watchlist; none: the domain's.
	Entries []Entry `json:"watchlist,omitempty"`
}

// Flags are what is behind a port: bpfobj.IntPortFlag.
type Flags uint32

// The flags.
const (
	Source      = Flags(bpfobj.INT_PORT_SOURCE)
	Sink        = Flags(bpfobj.INT_PORT_SINK)
	Inside      = Flags(bpfobj.INT_PORT_INSIDE)
	DropForeign = Flags(bpfobj.INT_PORT_DROP_FOREIGN)
	Host        = Flags(bpfobj.INT_PORT_HOST)

	edge = Source | Sink
)

// Port is an interface with a role.
type Port struct {
	Name        string `json:"name"`
	Ifindex     int    `json:"ifindex"`
	Flags       Flags  `json:"flags"`
	Implied     bool   `json:"implied,omitempty"` // its node was named, not the port
	MTU         int    `json:"mtu,omitempty"`     // bytes of an IP packet; 0: the interface's
	CongestedAt uint32 `json:"congested_at,omitempty"`
	NoGSO       bool   `json:"no_gso,omitempty"`
	OwnQdisc    bool   `json:"own_qdisc,omitempty"` // the clsact qdisc is ours
	Gone        bool   `json:"gone,omitempty"`      // its interface is not there
	// Closed names an interface behind a port that was to lead inside, and is no INT node's: the port is an edge.
	Closed string `json:"closed,omitempty"`
	Unseen bool   `json:"unseen,omitempty"` // what is behind it cannot be seen from here
	// Switched are the offloads that were on and are off for NoGSO.
	Switched []Switched `json:"switched,omitempty"`
}

// Switched are offloads of an interface that are to be on again.
type Switched struct {
	Place    Place    `json:"place"`
	Name     string   `json:"name"`
	Ifindex  int      `json:"ifindex"`
	Features []string `json:"features"`
}

// Words says in one word or two what the port is.
func (f Flags) Words() string {
	switch {
	case f&edge == edge:
		return "source and sink"
	case f&Source != 0:
		return "source"
	case f&Sink != 0:
		return "sink"
	case f&Inside != 0:
		return "transit"
	}
	return "none"
}

// NodeNamed returns the node with that name, nil if there is none.
func (d *Domain) NodeNamed(name string) *Node {
	for i := range d.Nodes {
		if d.Nodes[i].Name == name {
			return &d.Nodes[i]
		}
	}
	return nil
}

func (d *Domain) nodeAt(inum uint32) *Node {
	for i := range d.Nodes {
		if d.Nodes[i].Inum == inum {
			return &d.Nodes[i]
		}
	}
	return nil
}

// Places are the namespaces of the nodes.
func (d *Domain) Places() (list []Place) {
	for i := range d.Nodes {
		list = append(list, d.Nodes[i].Place)
	}
	return list
}

// NodeByIndex returns the node with that index, nil if there is none.
func (d *Domain) NodeByIndex(index uint32) *Node {
	for i := range d.Nodes {
		if d.Nodes[i].Index == index {
			return &d.Nodes[i]
		}
	}
	return nil
}

// Port returns the node's port of that name, nil if there is none.
func (n *Node) Port(name string) *Port {
	for i := range n.Ports {
		if n.Ports[i].Name == name {
			return &n.Ports[i]
		}
	}
	return nil
}

// IsDeserted reports whether all of the domain's ports are gone.
func (d *Domain) IsDeserted() bool {
	return !slices.ContainsFunc(d.Nodes, func(n Node) bool {
		return slices.ContainsFunc(n.Ports, func(p Port) bool { return !p.Gone })
	})
}

// Watchlist is what packets are compared with at the node.
func (d *Domain) Watchlist(n *Node) []Entry {
	if len(n.Entries) > 0 {
		return n.Entries
	}
	return d.Options.Entries
}

// Has reports whether a port has any of the flags.
func (n *Node) Has(f Flags) bool {
	return slices.ContainsFunc(n.Ports, func(p Port) bool { return p.Flags&f != 0 })
}

// IsEnd reports whether the node itself is a host of the domain.
func (n *Node) IsEnd() bool { return n.Source || n.Sink }

// Marks reports whether packets can get INT at the node, and leave it with INT.
func (n *Node) Marks() bool { return (n.Source || n.Has(Source)) && n.Has(Inside) }

// TakesOff reports whether the node takes INT from packets, somewhere.
func (n *Node) TakesOff() bool {
	return n.IsEnd() || slices.ContainsFunc(n.Ports, func(p Port) bool { return p.Now()&edge != 0 })
}

func (d *Domain) clone() *Domain {
	c := *d
	c.Options.Entries = slices.Clone(d.Options.Entries)
	c.Nodes = slices.Clone(d.Nodes)
	for i := range c.Nodes {
		c.Nodes[i].Ports = slices.Clone(c.Nodes[i].Ports)
	}
	return &c
}

// Kind is what INT domains are among attached systems.
var Kind = system.Kind{Name: "int", Title: "INT domain", Command: "int ", Operands: "‹role› ROLE NODE/PORT...", Version: Version, Layer: system.INT, Prefix: "int_"}

// Dir is the state directory of an INT domain.
func Dir(name string) string { return Kind.Dir(name) }

// File is a file of the domain: "domain.json", "lock", "agent.lock", "agent.pid", "agent.log", "agent.json".
func File(name, base string) string { return Kind.File(name, base) }

// PinDir is where the domain's maps and links are pinned.
func PinDir(name string) string { return Kind.PinDir(name) }

// The errors of Load, as system has them.
var (
	ErrNotAttached  = system.ErrNotAttached
	ErrHalfAttached = system.ErrHalfAttached
	ErrDamaged      = system.ErrDamaged
	ErrOtherVersion = system.ErrOtherVersion
)

// Load reads the description. Errors: ErrNotAttached, ErrHalfAttached, ErrDamaged; ErrOtherVersion: what is returned can be
// detached only.
func Load(name string) (*Domain, error) { return system.Load[Domain](Kind, name, nil) }

// save replaces the description. The caller holds the lock.
func (d *Domain) save() error { return Kind.Save(d.Name, d) }

// Lock takes the domain's lock, waiting for its holder.
func Lock(name string) (unlock func(), err error) { return Kind.Lock(name) }

// List returns the names of the INT domains of this machine.
func List() ([]string, error) { return Kind.List() }
