// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Content that is changed between two hooks of radar: by rules on a link, and by programs of a node's
// owner behind the hook.

// options are a SYN's, with the window scale first: so the MSS is where others have the time stamps.
func options(mss uint16) []byte {
	b := []byte{1, 3, 3, 7, 2, 4, 0, 0, 4, 2, 8, 10, 0, 0, 1, 2, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(b[6:], mss)
	return b
}

// synsAndData are packets of TCP with options.
func synsAndData(w *World, src, dst string) (list []*Packet) {
	for i := range 20 {
		p := w.TCP(src, dst, SYN, 0)
		p.TCPOptions, p.Ack = options(1400+uint16(i)), p.Token
		// A SYN without payload has no token; with one it is TCP Fast Open.
		p.Payload = Payload(p.Token, 16)
		list = append(list, p)
		p = w.TCP(src, dst, ACK, 100+i)
		p.Ack, p.TCPOptions = p.Token, []byte{1, 1, 8, 10, 0, 0, 1, byte(i), 0, 0, 2, 0}
		list = append(list, p)
	}
	return list
}

// setContents are rules that change options of TCP.
func setContents(family, hook string) string {
	return fmt.Sprintf(`table %s t {
		chain c { type filter hook %s priority 0
			tcp flags & (syn | ack) == syn tcp option maxseg size set 1000
			tcp flags & (syn | ack) == ack reset tcp option timestamp
		}
	}`, family, hook)
}

// setContentOnBridge is setOnBridge with rules that change content.
func setContentOnBridge(name, shows string, rules func(w *World)) Case {
	c := setOnBridge(name, shows, rules)
	c.Name, c.Needs = "content/"+name, []string{"tcp-reset"}
	build := c.Build
	c.Build = func(w *World) {
		build(w)
		// Nobody answers: answers would have no tokens.
		w.NFT("out", "table inet silent {\nchain c { type filter hook prerouting priority 0\ntcp dport 7 drop\n}\n}")
	}
	c.Send = func(w *World) {
		for _, way := range [][2]string{{"10.0.1.1", "10.0.1.4"}, {"fd00:1::1", "fd00:1::4"}} {
			for _, p := range synsAndData(w, way[0], way[1]) {
				w.SendFrame("h1", "a0", mac("out", "a0"), p.Bytes())
				w.Expect(p.Token)
			}
		}
	}
	c.Counters = map[string]int{"content_changed": some}
	return c
}

var (
	_ = add(setContentOnBridge("set-on-bridge", "TCP options that a bridge between nodes changes, by rules of its family", func(w *World) {
		w.NFT("a", setContents("bridge", "forward"))
	}))
	_ = add(setContentOnBridge("set-by-br_netfilter", "the same by a router's rules that the bridge asks (br_netfilter)", func(w *World) {
		w.Sysctl("a", "bridge/bridge-nf-call-iptables", "1")
		w.Sysctl("a", "bridge/bridge-nf-call-ip6tables", "1")
		w.NFT("a", setContents("inet", "forward"))
	}))
	_ = add(Case{
		Name: "content/translated-in-node", Point: 5,
		Shows: "a router that translates addresses, and changes options of TCP",
		Needs: []string{"nat", "tcp-reset"}, Fresh: true,
		Build: func(w *World) {
			chain(w)
			w.NFT("r2", setContents("inet", "forward"))
			w.NFT("r2", `table ip n {
				chain p { type nat hook postrouting priority 100
					oifname "eth1" counter masquerade
				}
			}`)
			w.NFT("far", "table inet silent {\nchain c { type filter hook prerouting priority 0\ntcp dport 7 drop\n}\n}")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			for _, p := range synsAndData(w, "10.0.1.1", "10.0.4.2") {
				w.Send("out", p)
			}
			for i := range 5 {
				w.Send("out", w.UDP("10.0.1.1", "10.0.4.2", 40+i))
			}
		},
		Counters: map[string]int{"content_changed": orNone},
		Limits: []Limit{
			{Modes: []Mode{Header}, Text: carriesNothing, Match: `no capture saw it at r2/eth0 out|it is left, want|passed r2/eth0 in`},
		},
	})
	_ = add(Case{
		Name: "content/tc-program", Point: 9,
		Shows: "a TC program of a node's owner, behind radar's, that changes acknowledgements of TCP and payload",
		Needs: []string{"tcx"},
		Build: func(w *World) {
			chain(w)
			w.changeContent("r1", "eth1")
			w.Listen("far", "0.0.0.0:7")
			w.NFT("far", "table inet silent {\nchain c { type filter hook prerouting priority 0\ntcp dport 7 drop\n}\n}")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			for _, p := range synsAndData(w, "10.0.1.1", "10.0.4.2") {
				w.Send("out", p)
			}
			for i := range 20 {
				p := w.UDP("10.0.1.1", "10.0.4.2", 60+i)
				p.Payload = append(make([]byte, 8), p.Payload...) // what is changed is no token
				w.Send("out", p)
			}
			for _, n := range []int{2, 5} {
				p := w.TCP("10.0.1.1", "10.0.4.2", ACK, n*1000-300)
				w.SendTrain("out", "eth0", mac("r1", "eth0"), p, 1000)
			}
		},
		Counters: map[string]int{"content_changed": some},
	})
)

// changeContent attaches a TC program to a port's egress, behind what comes before it: it sets the
// acknowledgement of TCP, and the first bytes of a datagram's payload, over IPv4 without options.
func (w *World) changeContent(node, port string) {
	w.T.Helper()
	const (
		ack, tcpSum     = 34 + 8, 34 + 16
		payload, udpSum = 34 + 8, 34 + 6
	)
	load := func(off, n int32) asm.Instructions { // the bytes at off are at -16 of the stack
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, off),
			asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, -16), asm.Mov.Imm(asm.R4, n),
			asm.FnSkbLoadBytes.Call(), asm.JNE.Imm(asm.R0, 0, "pass"),
		}
	}
	change := func(at, sum int32, name string) asm.Instructions {
		prog := load(at, 4)
		prog[0] = prog[0].WithSymbol(name)
		return append(prog,
			asm.LoadMem(asm.R7, asm.R10, -16, asm.Word),
			asm.Mov.Reg(asm.R8, asm.R7), asm.Xor.Imm(asm.R8, 0x20202020),
			asm.StoreMem(asm.R10, -16, asm.R8, asm.Word),
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, sum), asm.Mov.Reg(asm.R3, asm.R7), asm.Mov.Reg(asm.R4, asm.R8), asm.Mov.Imm(asm.R5, 4),
			asm.FnL4CsumReplace.Call(),
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, at), asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, -16), asm.Mov.Imm(asm.R4, 4), asm.Mov.Imm(asm.R5, 0),
			asm.FnSkbStoreBytes.Call(),
			asm.Ja.Label("pass"),
		)
	}
	prog := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	prog = append(prog, load(12, 12)...)
	prog = append(prog,
		asm.LoadMem(asm.R7, asm.R10, -16, asm.Half), asm.JNE.Imm(asm.R7, 0x0008, "pass"), // IPv4, as x86 reads it
		asm.LoadMem(asm.R7, asm.R10, -16+11, asm.Byte),
		asm.JEq.Imm(asm.R7, unix.IPPROTO_TCP, "tcp"), asm.JNE.Imm(asm.R7, unix.IPPROTO_UDP, "pass"))
	prog = append(prog, change(payload, udpSum, "udp")...)
	prog = append(prog, change(ack, tcpSum, "tcp")...)
	prog = append(prog, asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"), asm.Return())
	loaded, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: prog})
	if err != nil {
		w.T.Fatalf("load a TC program: %v", err)
	}
	defer loaded.Close()
	index := w.Index(node, port)
	w.in(node, func() error {
		l, err := link.AttachTCX(link.TCXOptions{Program: loaded, Interface: index, Attach: ebpf.AttachTCXEgress})
		if err == nil {
			w.T.Cleanup(func() { l.Close() })
		}
		return err
	})
}
