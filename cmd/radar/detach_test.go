// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/vnetradar/radar/pkg/domain"
)

// A domain ends with its last node; virtual machines can be named as well, and alone.
func TestDetachNames(t *testing.T) {
	d := &domain.Domain{
		Nodes: []domain.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "host", Auto: true}, {ID: 3, Name: "gone", Removed: true}},
		VMs:   []domain.VM{{ID: 4, Name: "vm"}, {ID: 5, Name: "was", Removed: true}},
	}
	for _, c := range []struct {
		names []string
		all   bool
	}{
		{[]string{"a"}, true}, {[]string{"a", "vm"}, true}, {[]string{"vm"}, false},
		{[]string{"a", "was"}, false}, {[]string{"a", "host"}, false}, {[]string{"a", "gone"}, false},
	} {
		if got := allNodes(d, c.names); got != c.all {
			t.Errorf("all nodes with %q: %v", c.names, got)
		}
	}
	for text, v := range map[string]detachView{
		"1 virtual machine": {VMs: 1}, "1 node with 2 ports": {Nodes: 1, Ports: 2},
		"2 nodes with 3 ports and 1 virtual machine": {Nodes: 2, Ports: 3, VMs: 1},
	} {
		if got := v.what(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}
