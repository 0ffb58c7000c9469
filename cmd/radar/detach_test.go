// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestDetachedTexts(t *testing.T) {
	for text, v := range map[string]detachView{
		"1 virtual machine": {VMs: 1}, "1 node with 2 ports": {Nodes: 1, Ports: 2},
		"2 nodes with 3 ports and 1 virtual machine": {Nodes: 2, Ports: 3, VMs: 1},
	} {
		if got := v.what(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}
