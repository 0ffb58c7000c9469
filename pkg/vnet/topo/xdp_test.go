// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// attachXDP puts a program on an interface that passes everything.
func attachXDP(t *testing.T, n *nstest.Net, name, port string) {
	t.Helper()
	const xdpPass = 2
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	index := n.Index(name, port)
	spec := specs(t, n, name)[0]
	err = spec.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: index})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
