// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net"
	"strconv"
)

// Topology is a lab as its folder describes it; nothing of it runs.
type Topology struct {
	// Name is LAB_NAME with everything that cannot be part of a file name
	// replaced by '_'. Parse leaves it empty if lab.conf has none.
	Name        string
	Description string    // LAB_DESCRIPTION
	Source      string    // where the folder came from: a path, or "built-in NAME"
	Machines    []Machine // in the order of lab.conf
	Links       []Link    // in the order of lab.conf
	Warnings    []string  // what the folder says and this package leaves out
	Needs       []Program // that must be there, from needs.json
	// Shared are the files of folder shared/, by name. Scripts find them in $LAB_SHARED; under
	// Kathará, which does not set it, in /shared.
	Shared map[string]string
}

// Machine is one network function of a lab.
type Machine struct {
	Name       string
	Interfaces []Interface // index i is eth<i>
	IPv6       bool
	Sysctls    []Setting // net.* only, set before the scripts run
	Env        []Setting // environment of the scripts
	Scripts    []Script  // run in this order
}

// Interface is one port of a machine.
type Interface struct {
	Link string           // the collision domain
	MAC  net.HardwareAddr // nil: the kernel picks one
}

// Setting is a name and its value.
type Setting struct{ Key, Value string }

// Script is a piece of sh.
type Script struct {
	Name string // file it came from, or "lab.conf exec"
	Body string
}

// Link is one collision domain.
type Link struct {
	Name    string   `json:"name"`
	Kind    LinkKind `json:"kind"`
	Members []Member `json:"members"` // in the order of lab.conf
}

// Member is one end of a link.
type Member struct {
	Machine   string `json:"machine"`
	Interface string `json:"interface"`
}

func (m Member) String() string { return m.Machine + ":" + m.Interface }

// LinkKind says what a link is made of.
type LinkKind string

// The kinds of a link; the number of members decides. Direct: one veth pair
// whose ends are the two machines' interfaces. Bridged: a Linux bridge in the
// lab's own namespace for links, and a veth pair to every member. Stub: a veth
// pair whose other end lies unused in that namespace, so that the interface has
// a carrier.
const (
	Direct  LinkKind = "direct"
	Bridged LinkKind = "bridged"
	Stub    LinkKind = "stub"
)

func kindFor(members int) LinkKind {
	switch members {
	case 1:
		return Stub
	case 2:
		return Direct
	}
	return Bridged
}

// Machine returns the machine with that name, or nil.
func (t *Topology) Machine(name string) *Machine {
	for i := range t.Machines {
		if t.Machines[i].Name == name {
			return &t.Machines[i]
		}
	}
	return nil
}

// ifname is the name that interface number n has inside a machine.
func ifname(n int) string { return "eth" + strconv.Itoa(n) }
