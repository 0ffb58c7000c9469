// SPDX-License-Identifier: Apache-2.0

package system_test

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/system"
)

// Systems find each other's programs at a port by what names begin with: it must be what the objects have.
func TestLayers(t *testing.T) {
	for want, is := range map[string]string{
		bpfobj.IntProgRadarIntIngress: system.INT.Program(hook.Ingress), bpfobj.IntProgRadarIntEgress: system.INT.Program(hook.Egress),
	} {
		if is != want {
			t.Errorf("program %s is called %s", want, is)
		}
	}
	for name, layer := range map[string]system.Layer{
		bpfobj.DutProgDutSent: system.DUT, bpfobj.DutProgDutReceived: system.DUT,
	} {
		const kept = 15 // characters of a program's name, in the kernel
		if len(layer.Programs) > kept || !strings.HasPrefix(name, layer.Programs) {
			t.Errorf("program %s is of a layer whose programs' names begin with %s", name, layer.Programs)
		}
	}
}
