// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// What an XDP program says of a packet (linux/bpf.h).
const (
	xdpDrop = 1
	xdpPass = 2
	xdpTX   = 3
)

// XDP programs may send packets past TC ingress, so the port before restores them.
const behindXDP = "stories end, as left, at the port before one with an XDP program; behind it packets pass unmeasured"

var _ = add(Case{
	Name: "forms/xdp-pass", Point: 9,
	Shows:  "an XDP program at a port in the domain that lets packets pass",
	Limits: []Limit{{Match: `passed r[23]/`, Text: behindXDP, Times: 32}},
	Build: func(w *World) {
		chain(w)
		w.XDP("r2", "eth0", asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()})
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, p := range kinds(w, "10.0.1.1", "10.0.4.2") {
			w.Send("out", p)
		}
	},
})

var _ = add(Case{
	Name: "forms/xdp-switch", Point: 9,
	Shows:  "an XDP program in the domain that drops, sends back (TX) and redirects past the router",
	Needs:  []string{"ethtool"},
	Limits: []Limit{{Match: `passed r[23]/`, Text: behindXDP, Times: 20}},
	Check: func(r *Run) { // without that, nothing is shown
		back, past := 0, 0
		for _, c := range r.captures {
			for _, s := range c.seen {
				if s.decoded != nil && s.dir == in && c.node == "out" && s.sport == portBack {
					back++
				} else if s.decoded != nil && s.dir == in && c.node == "far" && s.dport == portRedirected {
					past++
				}
			}
		}
		if back != 10 || past != 10 {
			r.T.Errorf("%d packets were sent back, %d redirected, want 10 and 10", back, past)
		}
	},
	Build: func(w *World) {
		chain(w)
		w.switchXDP("r2", "eth0", "eth1", mac("r3", "eth0"))
		// What XDP sends comes out of a veth whose own side has a program, or NAPI.
		w.XDP("r1", "eth1", asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()})
		w.Run("r3", "ethtool", "-K", "eth0", "gro", "on")
		w.Listen("far", "0.0.0.0:7")
		w.RawSocket("far", 17)
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for i := range 5 {
			for _, port := range []uint16{7, portDropped, portBack, portRedirected} {
				for _, mayFrag := range []bool{false, true} {
					p := w.UDP("10.0.1.1", "10.0.4.2", 40+i*300)
					p.Dport, p.MayFrag, p.TOS = port, mayFrag, uint8(i*8)
					w.Send("out", p)
				}
			}
		}
	},
})

var _ = add(Case{
	Name: "forms/xdp-edge", Point: 9,
	Shows: "an XDP program where packets enter the domain, and one where they leave it",
	Build: func(w *World) {
		chain(w)
		w.switchXDP("r1", "eth0", "eth1", mac("r2", "eth0"))
		w.XDP("far", "eth0", asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()})
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, p := range kinds(w, "10.0.1.1", "10.0.4.2") {
			w.Send("out", p)
		}
	},
})

// What switchXDP does, by the port that a datagram is for; others pass.
const (
	portDropped    = 9
	portBack       = 11
	portRedirected = 13
)

// switchXDP attaches a program that drops datagrams, sends them back to where they came
// from, or redirects them to another port, where they go to a MAC address.
func (w *World) switchXDP(node, port, other string, to net.HardwareAddr) {
	w.T.Helper()
	// Offsets of fields behind the Ethernet header, of IPv4 without options.
	const kind, version, proto, src, dst, sport, dport = 12, 14, 23, 26, 30, 34, 36
	swap := func(a, b int16, size asm.Size) asm.Instructions {
		return asm.Instructions{
			asm.LoadMem(asm.R4, asm.R2, a, size), asm.LoadMem(asm.R5, asm.R2, b, size),
			asm.StoreMem(asm.R2, a, asm.R5, size), asm.StoreMem(asm.R2, b, asm.R4, size),
		}
	}
	prog := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2), asm.Add.Imm(asm.R4, dport+2),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.LoadMem(asm.R4, asm.R2, kind, asm.Half), asm.JNE.Imm(asm.R4, int32(htons(0x0800)), "pass"),
		asm.LoadMem(asm.R4, asm.R2, version, asm.Byte), asm.JNE.Imm(asm.R4, 0x45, "pass"),
		asm.LoadMem(asm.R4, asm.R2, proto, asm.Byte), asm.JNE.Imm(asm.R4, 17, "pass"),
		asm.LoadMem(asm.R4, asm.R2, dport, asm.Half),
		asm.JEq.Imm(asm.R4, int32(htons(portDropped)), "drop"),
		asm.JEq.Imm(asm.R4, int32(htons(portBack)), "back"),
		asm.JEq.Imm(asm.R4, int32(htons(portRedirected)), "redirect"),
		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("pass"), asm.Return(),
		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"), asm.Return(),
	}
	back := append(swap(0, 6, asm.Word), swap(4, 10, asm.Half)...)
	back = append(back, swap(src, dst, asm.Word)...)
	back = append(back, swap(sport, dport, asm.Half)...)
	back[0] = back[0].WithSymbol("back")
	prog = append(append(prog, back...), asm.Mov.Imm(asm.R0, xdpTX), asm.Return())
	for i, b := range append(append([]byte(nil), to...), mac(node, other)...) {
		ins := asm.StoreImm(asm.R2, int16(i), int64(b), asm.Byte)
		if i == 0 {
			ins = ins.WithSymbol("redirect")
		}
		prog = append(prog, ins)
	}
	prog = append(prog, asm.Mov.Imm(asm.R1, int32(w.Index(node, other))), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return())
	w.XDP(node, port, prog)
}

// XDP attaches a program to a port, in the driver's mode.
func (w *World) XDP(node, port string, instructions asm.Instructions) {
	w.T.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: instructions})
	if err != nil {
		w.T.Fatalf("load an XDP program: %v", err)
	}
	defer prog.Close()
	index := w.Index(node, port)
	w.in(node, func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: link.XDPDriverMode})
		if err == nil {
			w.T.Cleanup(func() { l.Close() })
		}
		return err
	})
}
