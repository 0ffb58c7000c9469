// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"slices"
)

// kinds are packets of every kind that routers answer with errors: what they quote
// differs.
func kinds(w *World, src, dst string) []*Packet {
	options := w.UDP(src, dst, 80)
	options.Options = []byte{1, 1, 1, 1, 1, 1, 1, 0}
	short := w.UDP(src, dst, 0) // only its port differs from others
	sctp := w.packet(src, dst, 132, 40)
	sctp.Payload = append([]byte{0x30, 0x39, 0, 7, 0, 0, 0x12, byte(sctp.Token), 0, 0, 0, 0, 0, 3, 0, 24, 0, 0, 0, byte(sctp.Token)}, sctp.Payload...)
	other := w.packet(src, dst, 253, 40) // RFC 3692: for experiments
	list := []*Packet{
		w.UDP(src, dst, 60), w.TCP(src, dst, SYN, 0), w.TCP(src, dst, ACK, 100), w.Echo(src, dst, 56), options, short, sctp, other,
	}
	for i, p := range list {
		p.TOS = []uint8{0, 0x28, 0xb8, 0x02}[i%4]
	}
	return list
}

// hidden is a chain whose middle router radar is not attached to.
func hidden(w *World) {
	chain(w)
	w.Inside("r2")
	w.Attach("r1", "r3")
}

var aroundHidden = []string{"--role", "r1/eth1=internal", "--role", "r3/eth0=internal"}

// narrow makes the link between r2 and r3 smaller than the others.
func narrow(w *World, mtu int) {
	w.Run("r2", "ip", "link", "set", "eth1", "mtu", fmt.Sprint(mtu))
	w.Run("r3", "ip", "link", "set", "eth0", "mtu", fmt.Sprint(mtu))
}

var _ = add(Case{
	Name: "ttl/hidden", Point: 1,
	Shows: "errors of a router in the domain that radar is not attached to, to packets whose TTL ends there",
	Flags: aroundHidden,
	Build: func(w *World) {
		hidden(w)
		w.Listen("far", "0.0.0.0:7")
	},
	Send: func(w *World) {
		for ttl := range 4 {
			for _, p := range kinds(w, "10.0.1.1", "10.0.4.2") {
				p.TTL = uint8(ttl + 1)
				s := w.Send("out", p)
				switch ttl {
				case 0:
					s.Lost("r1", "IP_INHDR")
				case 1:
					s.Ends("expired")
				case 2:
					s.Lost("r3", "IP_INHDR")
				}
			}
		}
	},
})

var _ = add(Case{
	Name: "pmtu/attached", Point: 1,
	Shows: "what an attached router answers to packets that do not fit into its next link (ICMP 3/4 with its MTU)",
	Build: func(w *World) {
		chain(w)
		narrow(w, 1300)
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: tooLarge(func(s *Sent) { s.Lost("r2", "PKT_TOO_BIG") }),
})

var _ = add(Case{
	Name: "pmtu/hidden", Point: 1,
	Shows: "what a router in the domain that radar is not attached to answers to packets that do not fit",
	Flags: aroundHidden,
	Build: func(w *World) {
		hidden(w)
		narrow(w, 1300)
		w.Listen("far", "0.0.0.0:7")
	},
	Send: tooLarge(func(s *Sent) { s.Ends("expired") }),
})

// dscpBits are two bits of the DSCP more in use than the default layout has: an error
// takes its own DSCP from the packet that it answers.
var dscpBits = []string{"--guid-bits", "22"}

// withDSCP is a case of another file with two bits of the DSCP in use.
func withDSCP(name string) Case {
	i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })
	c := cases[i]
	c.Name += "-22"
	c.Point = 1
	c.Shows += ", with two bits of the DSCP in use"
	c.Flags = append(slices.Clone(c.Flags), dscpBits...)
	return c
}

func init() {
	for _, name := range []string{"ttl/expiry", "ttl/hidden", "pmtu/attached", "pmtu/hidden", "ipv6/expiry", "ipv6/too-big", "errors/to-nodes",
		"errors/dscp-attached", "errors/dscp-hidden"} {
		add(withDSCP(name))
	}
}

// everyDSCP are packets of every DSCP that do not fit into the link from r2.
func everyDSCP(ends func(*Sent)) func(w *World) {
	return func(w *World) {
		for dscp := range 64 {
			for _, p := range []*Packet{w.UDP("10.0.1.1", "10.0.4.2", 1400), w.UDP(out6, far6, 1400)} {
				p.TOS = uint8(dscp<<2 | dscp/4%4)
				w.SendFrame("out", "eth0", mac("r1", "eth0"), p.Bytes())
				ends(w.Expect(p.Token))
			}
		}
	}
}

var (
	_ = add(Case{
		Name: "errors/dscp-attached", Point: 1,
		Shows: "every DSCP, in what a router answers to packets that do not fit",
		Build: func(w *World) {
			chain6(w)
			narrow(w, 1300)
		},
		Send: everyDSCP(func(s *Sent) { s.Lost("r2", "PKT_TOO_BIG") }),
	})
	_ = add(Case{
		Name: "errors/dscp-hidden", Point: 1,
		Shows: "the same by a router that radar is not attached to",
		Flags: aroundHidden,
		Build: func(w *World) {
			hidden(w)
			w.Route("r1", "fd00:3::/64", "fd00:2::2")
			narrow(w, 1300)
		},
		Send: everyDSCP(func(s *Sent) { s.Ends("expired") }),
	})
)

var _ = add(Case{
	Name: "errors/to-nodes", Point: 1,
	Shows: "every DSCP: the error's own, and the one that it quotes; ports where nobody listens, at a router and at a host",
	Build: func(w *World) {
		chain6(w)
	},
	Send: func(w *World) {
		for dscp := range 64 {
			for _, to := range [][2]string{{"10.0.1.1", "10.0.3.2"}, {"10.0.1.1", "10.0.4.2"}, {out6, "fd00:3::2"}, {out6, far6}} {
				p := w.UDP(to[0], to[1], 50)
				p.Dport, p.TOS, p.Label = 9, uint8(dscp<<2), uint32(dscp*31)
				w.Send("out", p)
			}
		}
	},
	LocalDrops: true,
	Counters:   map[string]int{"local_drop": some},
	Limits:     headerLocalDrops,
})

// tooLarge sends packets of every kind below and above 1,300 bytes.
func tooLarge(lost func(*Sent)) func(w *World) {
	return func(w *World) {
		for _, size := range []int{1200, 1400, 1500} {
			for i, p := range kinds(w, "10.0.1.1", "10.0.4.2") {
				if i == 1 || i == 5 { // a SYN is small, an empty datagram too
					w.Send("out", p)
					continue
				}
				p.Payload = append(p.Payload, Payload(p.Token, size-len(p.Bytes()))...)
				s := w.Send("out", p)
				if size > 1300 {
					lost(s)
				}
			}
		}
	}
}
