// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/sink/ipfix"
	"github.com/vnetradar/radar/pkg/telemetry/export"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// TestNetworkOf: a port that is there has the last word on its name, whatever was removed before or
// after it came. A tap is its machine's port, too.
func TestNetworkOf(t *testing.T) {
	n, err := export.NewNumbers(networkOf(&domain.Domain{
		Name:  "t",
		Nodes: []domain.Node{{ID: 1, Name: "h1"}, {ID: 3, Name: "h2"}},
		VMs:   []domain.VM{{ID: 6, Name: "vm"}},
		Ports: []domain.Port{
			{Node: 1, Name: "eth0", Ifindex: 8}, {Node: 1, Name: "tap0", Ifindex: 9, VM: 6},
			{Node: 3, Name: "eth0", Ifindex: 2}, {Node: 3, Name: "eth0", Ifindex: 7, Removed: true},
		},
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(n.Nodes()), "[{h1 1} {h2 3} {vm 6}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if a, b, c, d := n.Port("vm", 6, "tap0"), n.Port("h1", 1, "tap0"), n.Port("h1", 1, "eth0"), n.Port("h2", 3, "eth0"); a != 9 || b != 9 || c != 8 || d != 2 {
		t.Errorf("ports %d, %d, %d, %d", a, b, c, d)
	}
}

// Flow records have the same ports; the name of a tap is its node's.
func TestPortsOf(t *testing.T) {
	got := portsOf(&domain.Domain{
		Nodes: []domain.Node{{ID: 1, Name: "h1"}},
		VMs:   []domain.VM{{ID: 6, Name: "vm"}},
		Ports: []domain.Port{{ID: 0, Node: 1, Name: "eth0"}, {ID: 1, Node: 1, Name: "tap0", VM: 6}, {ID: 2, Node: 1, Name: "eth0", Removed: true}},
	})
	want := []ipfix.Port{
		{Number: 3, NodeNumber: 1, Node: "h1", Name: "eth0"}, {Number: 1, NodeNumber: 1, Node: "h1", Name: "eth0"},
		{Number: 2, NodeNumber: 6, Node: "vm", Name: "tap0"}, {Number: 2, NodeNumber: 1, Node: "h1", Name: "tap0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
