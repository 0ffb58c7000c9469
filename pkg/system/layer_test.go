// SPDX-License-Identifier: Apache-2.0

package system_test

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
)

// Systems find each other's programs at a port by what names begin with: it must be what the objects have.
func TestLayers(t *testing.T) {
	for name, layer := range map[string]system.Layer{
		port.Sides[0].Stub: system.Backpack, port.Sides[1].Stub: system.Backpack,
		bpfobj.IntProgRadarIntIngress: system.INT, bpfobj.IntProgRadarIntEgress: system.INT,
		bpfobj.DutProgDutSent: system.DUT, bpfobj.DutProgDutReceived: system.DUT,
	} {
		const kept = 15 // characters of a program's name, in the kernel
		if len(layer.Programs) > kept || !strings.HasPrefix(name, layer.Programs) {
			t.Errorf("program %s is of a layer whose programs' names begin with %s", name, layer.Programs)
		}
	}
}
