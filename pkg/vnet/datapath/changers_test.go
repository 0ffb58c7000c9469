// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// others attaches a TC program that does nothing to an interface of a node, behind what is there, and returns what takes
// it off.
func (l *lab) others(node, name string, at ebpf.AttachType) (off func()) {
	l.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "somebody", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	defer prog.Close()
	index := l.Index(node, name)
	var x link.Link
	err = l.specs(node)[0].Do(func() (err error) {
		x, err = link.AttachTCX(link.TCXOptions{Program: prog, Interface: index, Attach: at})
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	off = func() { x.Close() }
	l.t.Cleanup(off)
	return off
}

// TestChangers: programs of others on links inside the domain are told at attach and when they come later; those at
// edges, and behind radar's inside nodes, are not.
func TestChangers(t *testing.T) {
	if !program.Probe().TCX {
		need.Lack(t, need.Kernel, "TCX: Linux 6.6")
	}
	l := newChain(t, program.HookAuto)
	l.others("r", "e1", ebpf.AttachTCXEgress) // to b, which is not attached
	off := l.others("a", "e0", ebpf.AttachTCXEgress)
	r := l.attach("a", "r")
	want := func(what string, texts []string, one string) {
		t.Helper()
		if one == "" && len(texts) > 0 || one != "" && (len(texts) != 1 || !strings.Contains(texts[0], "("+one+")")) {
			t.Errorf("%s: %q, want %q", what, texts, one)
		}
	}
	want("at attach", r.Notes, `a/e0 egress: program "somebody"`)
	off()
	now := func() []string {
		h := l.open()
		defer h.Close()
		return Changers(t.Context(), h.Domain)
	}
	want("it is off", now(), "")
	off = l.others("r", "e0", ebpf.AttachTCXIngress)
	want("behind radar's, in a node", now(), "")
	off()
	l.others("r", "e0", ebpf.AttachTCXEgress)
	want("later", now(), `r/e0 egress: program "somebody"`)
}

// TestBridgeChangers: the same of rules of a bridge's node, and of programs at the bridge's ends.
func TestBridgeChangers(t *testing.T) {
	if !program.Probe().TCX {
		need.Lack(t, need.Kernel, "TCX: Linux 6.6")
	}
	l := newBridgeLab(t, program.HookAuto)
	l.Run("sw", "nft", "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c tcp option maxseg size set 1000; add rule bridge t c ip ttl set 5")
	r := l.attach("a", "b")
	const rule = "change content of packets on bridges inside the domain (nft bridge t c: tcp option maxseg size set 1000): "
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], rule) {
		t.Errorf("attach notes %q", r.Notes)
	}
	l.others("sw", "pa", ebpf.AttachTCXIngress)
	h := l.open()
	defer h.Close()
	got := Changers(t.Context(), h.Domain)
	if len(got) != 2 || !strings.Contains(got[0], `/pa ingress: program "somebody"`) || !strings.Contains(got[1], rule) {
		t.Errorf("later %q", got)
	}
}
