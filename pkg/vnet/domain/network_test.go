// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"reflect"
	"testing"

	"github.com/vnetradar/radar/pkg/system"
)

// TestNetwork: a tap is a port of its node and of the machine that has it open; what is gone is said to be.
func TestNetwork(t *testing.T) {
	d := &Domain{Name: "lab", Nodes: []Node{{ID: 1, Name: "h1", Spec: "netns:h1"}, {ID: 2, Name: "br", Auto: true, Removed: true}},
		VMs:   []VM{{ID: 3, Name: "vm"}},
		Ports: []Port{{ID: 5, Node: 1, Name: "tap0", Ifindex: 7, VM: 3}, {ID: 6, Node: 2, Name: "eth0", Removed: true}}}
	want := &system.Network{Name: "lab",
		Nodes: []system.NetworkNode{{ID: 1, Place: system.Place{Name: "h1", Spec: "netns:h1"}}, {ID: 2, Place: system.Place{Name: "br"}, Found: true, Removed: true},
			{ID: 3, Place: system.Place{Name: "vm"}, Machine: true}},
		Ports: []system.NetworkPort{{ID: 5, Node: 1, Name: "tap0", Ifindex: 7}, {ID: 5, Node: 3, Name: "tap0", Ifindex: 7}, {ID: 6, Node: 2, Name: "eth0", Removed: true}},
	}
	if got := d.Network(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
