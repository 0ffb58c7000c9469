// SPDX-License-Identifier: Apache-2.0

package system

import "time"

// Network is what an attached system knows of its nodes and ports, whichever system it is: whoever lists names, completes and
// checks them needs no more.
type Network struct {
	Name  string    // of the domain
	Since time.Time // when it was attached
	Nodes []NetworkNode
	Ports []NetworkPort
}

// NetworkNode is a node of a Network.
type NetworkNode struct {
	ID uint16
	Place
	Found   bool // by radar itself: nobody named it
	Machine bool // a virtual machine: it has no Place but a name
	Removed bool
}

// NetworkPort is a port of a Network. A tap is two: the node's, and that of the machine that has it open.
type NetworkPort struct {
	ID, Node uint16
	Name     string
	Ifindex  int
	Removed  bool
}
