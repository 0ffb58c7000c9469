// SPDX-License-Identifier: Apache-2.0

package system

import (
	"slices"

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/loader"
)

// Layer is the programs of one system at the TC hooks of a port, as the kernel calls them.
type Layer struct {
	Programs string    // names of its programs begin so
	Ends     [2]string // and end so, by hook.Direction
	Filters  string    // names of its clsact filters begin so
	// Follows: it follows packets by what they hold. What changes there what packets hold stands behind it, and makes the port
	// an edge of it.
	Follows bool
	// Changes: it changes what packets hold.
	Changes bool
	// Gives is the side at which packets get something that the programs of the other side take off again: that one is attached
	// last, and detached first.
	Gives hook.Direction
}

// The layers. Systems know their own one, and of others what they do.
var (
	Backpack = Layer{Programs: "rdr_", Ends: [2]string{"in", "out"}, Filters: "radar:", Follows: true, Gives: hook.Egress}
	INT      = Layer{Programs: "radar_int_", Ends: [2]string{"ingress", "egress"}, Filters: "radar-int:", Changes: true, Gives: hook.Ingress}
	// Payload is captured on either side of the backpack's programs, and DUT measures all that stands at a port, from
	// around it: both have places of their own.
	Payload = Layer{Programs: "payload_", Filters: "radar-payload:"}
	DUT     = Layer{Programs: "dut_", Filters: "radar-dut:"}
)

// layers is the order of systems at a port: a packet meets the first one first, whether it comes in or goes out. A new system
// gets its place here.
var layers = []Layer{Backpack, INT}

// behind are how the programs are called that stand before a layer's.
func (l Layer) behind() (names []string) {
	for _, other := range layers {
		if other == l {
			break
		}
		names = append(names, other.Programs)
	}
	return names
}

// ChangesPackets reports whether a system that changes packets stands at an interface. It asks in the namespace of the
// calling thread.
func ChangesPackets(ifindex int) bool {
	return anyStands(ifindex, func(l Layer) bool { return l.Changes })
}

// FollowsPackets reports whether a system that follows packets stands at an interface. It asks in the namespace of the
// calling thread.
func FollowsPackets(ifindex int) bool {
	return anyStands(ifindex, func(l Layer) bool { return l.Follows })
}

func anyStands(ifindex int, which func(Layer) bool) bool {
	return slices.ContainsFunc(layers, func(l Layer) bool {
		return which(l) && slices.ContainsFunc(Directions[:], func(d hook.Direction) bool { return hook.Stands(ifindex, d, l.Programs, l.Filters) })
	})
}

// Directions are the two TC hooks of a port.
var Directions = [2]hook.Direction{hook.Ingress, hook.Egress}

// sides are the two in the order in which programs come there: who gives packets something comes last, and goes first.
func (l Layer) sides() [2]hook.Direction {
	if l.Gives == hook.Egress {
		return Directions
	}
	return [2]hook.Direction{hook.Egress, hook.Ingress}
}

// Program is what the program at one side is called.
func (l Layer) Program(d hook.Direction) string { return l.Programs + l.Ends[d] }

// Failed is what an error of one of a port's hooks means to the user.
func (l Layer) Failed(d hook.Direction, err error) error {
	return loader.HookError(l.Program(d), d.String(), err)
}

// Suffix is what the pins of a side's links end with.
func Suffix(d hook.Direction) string {
	if d == hook.Egress {
		return "out"
	}
	return "in"
}

// FilterName is how clsact filters of a domain are called.
func (k Kind) FilterName(domain string) string { return k.Layer.Filters + domain }
