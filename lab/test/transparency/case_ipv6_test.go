// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// The ends of chain.
const (
	out6 = "fd00:1::1"
	far6 = "fd00:4::2"
)

// chain6 is chain with all routers attached and a UDP socket at its end.
func chain6(w *World) {
	chain(w)
	w.Route("r1", "fd00:3::/64", "fd00:2::2")
	w.Listen("far", "[::]:7")
	w.RawSocket("far", unix.IPPROTO_UDP)
	w.Attach("r1", "r2", "r3")
}

// kinds6 are packets of every kind of IPv6 that hosts send.
func kinds6(w *World, src, dst string) []*Packet {
	list := []*Packet{
		w.UDP(src, dst, 60), w.UDP(src, dst, 0), w.TCP(src, dst, SYN, 0), w.TCP(src, dst, ACK, 100),
		w.Echo(src, dst, 56), w.packet(src, dst, 253, 40),
	}
	for i, p := range list {
		p.TOS = []uint8{0, 0x28, 0xb8, 0x02}[i%4]
		p.Label = uint32(i*0x23456) & 0xfffff
	}
	return list
}

var _ = add(Case{
	Fresh: true, // hop limits and labels that look like bits of older packets are counted (stale)
	Name:  "ipv6/hop-limits", Point: 3,
	Shows: "hop limits in and out of the bands, every traffic class, flow labels of 0 and others",
	Build: chain6,
	Send: func(w *World) {
		for _, ttl := range []uint8{5, 20, 64, 65, 72, 80, 96, 97, 128, 129, 150, 200, 224, 225, 255} {
			for i, p := range kinds6(w, out6, far6) {
				p.TTL, p.TOS = ttl, ttl*7+uint8(i)
				w.Send("out", p)
			}
		}
		for _, label := range []uint32{0, 1, 0x0ffff, 0x10000, 0xf0000, 0xfffff} {
			p := w.UDP(out6, far6, 100)
			p.Label = label
			w.Send("out", p)
		}
	},
})

var _ = add(Case{
	Name: "ipv6/expiry", Point: 3,
	Shows: "errors of routers in the domain to IPv6 packets whose hop limit ends there, of every kind",
	Build: chain6,
	Send: func(w *World) {
		routers := []string{"r1", "r2", "r3"}
		for ttl := range 5 {
			for _, p := range kinds6(w, out6, far6) {
				p.TTL = uint8(ttl + 1)
				s := w.Send("out", p)
				if ttl < len(routers) {
					s.Lost(routers[ttl], "IP_INHDR")
				}
			}
		}
	},
})

var _ = add(Case{
	Name: "ipv6/too-big", Point: 3,
	Shows: "packet too big, with the next link's MTU, from a router in the domain",
	Build: func(w *World) {
		chain6(w)
		narrow(w, 1300)
	},
	Send: func(w *World) {
		for _, size := range []int{1200, 1400, 1500} {
			for i, p := range kinds6(w, out6, far6) {
				if i == 1 || i == 2 { // an empty datagram is small, a SYN too
					w.Send("out", p)
					continue
				}
				p.Payload = append(p.Payload, Payload(p.Token, size-len(p.Bytes()))...)
				// A socket would heed the answers.
				w.SendFrame("out", "eth0", mac("r1", "eth0"), p.Bytes())
				if s := w.Expect(p.Token); size > 1300 {
					s.Lost("r2", "PKT_TOO_BIG")
				}
			}
		}
	},
})

// Fragments6 cuts a packet into fragments of at most size bytes, a multiple of 8.
func Fragments6(p *Packet, id uint32, size int) [][]byte {
	whole := p.Bytes()
	var list [][]byte
	for off := 40; off < len(whole); off += size {
		end := min(off+size, len(whole))
		b := append([]byte(nil), whole[:40]...)
		b = append(b, p.Proto, 0)
		field := uint16(off - 40)
		if end < len(whole) {
			field |= 1
		}
		b = binary.BigEndian.AppendUint16(b, field)
		b = binary.BigEndian.AppendUint32(b, id)
		b = append(b, whole[off:end]...)
		b[6] = unix.IPPROTO_FRAGMENT
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
		list = append(list, b)
	}
	return list
}

var _ = add(Case{
	Name: "ipv6/fragments", Point: 3,
	Shows: "IPv6 datagrams that arrive as fragments, to outside and to a router's own socket",
	Build: func(w *World) {
		chain6(w)
		w.Listen("r3", "[::]:7")
	},
	Send: func(w *World) {
		for _, dst := range []string{far6, "fd00:3::2"} {
			for i, size := range []int{1000, 3000, 9000} {
				p := w.UDP(out6, dst, size)
				for _, b := range Fragments6(p, uint32(i+1)<<20, 800) {
					w.SendBytes("out", b)
				}
				w.Expect(p.Token)
			}
		}
	},
})

// option is a header of options (RFC 8200, 4.3 and 4.6) with padding alone.
func option(words int) []byte {
	b := make([]byte, 8*words)
	b[1] = byte(words - 1)
	b[2], b[3] = 1, byte(8*words-4)
	return b
}

var _ = add(Case{
	Name: "ipv6/extensions", Point: 3,
	Shows: "extension headers: hop by hop, destination options, routing, several of them",
	Build: chain6,
	Send: func(w *World) {
		routing := []byte{0, 2, 4, 0, 0, 0, 0, 0, 0xfd, 0, 0, 4, 15: 0, 23: 2} // of segments, none left
		for _, ext := range []struct {
			next    []uint8
			headers [][]byte
		}{
			{[]uint8{0}, [][]byte{option(1)}},
			{[]uint8{60}, [][]byte{option(1)}},
			{[]uint8{60}, [][]byte{option(8)}},
			{[]uint8{43}, [][]byte{routing}},
			{[]uint8{0, 60}, [][]byte{option(1), option(2)}},
			{[]uint8{0, 60, 43}, [][]byte{option(1), option(1), routing}},
		} {
			for _, ttl := range []uint8{64, 80} {
				p := w.UDP(out6, far6, 200)
				p.TTL, p.Next, p.Extensions = ttl, ext.next, ext.headers
				w.Send("out", p)
			}
		}
	},
})

var _ = add(Case{
	Name: "ipv6/nodes-in", Point: 3,
	Shows: "what nodes of the domain send to outside by IPv6: flow labels that the kernel draws for its sockets, datagrams that it cuts",
	Build: chain6,
	Send: func(w *World) {
		w.Sysctl("r1", "ipv6/auto_flowlabels", "0") // with labels each run has others
		for i, size := range []int{10, 500, 1400, 3000, 8000} {
			s := w.Socket("r1", "[::]:5000"+string('0'+rune(i)))
			s.Connect("[" + far6 + "]:7")
			for range 3 {
				s.Send("", size)
			}
		}
	},
	Rules: []Rule{fragmentID},
})

// fragmentID makes fragments equal that kernels cut.
var fragmentID = Rule{
	Name: "fragment-id", Why: "the kernel draws the Identification of IPv6 fragments that it makes",
	Apply: func(frame []byte, d *decoded) {
		if d == nil || d.version != 6 || !d.fragment {
			return
		}
		if at := d.l3 + 40; frame[d.l3+6] == unix.IPPROTO_FRAGMENT && at+8 <= len(frame) {
			clear(frame[at+4 : at+8])
		}
	},
}

var _ = add(Case{
	Name: "ipv6/nat", Point: 3,
	Shows:  "masquerade and port translation of IPv6 in the domain",
	Needs:  []string{"nat"},
	Limits: headerNAT(`its records say 0 times`),
	Build: func(w *World) {
		chain6(w)
		w.NFT("r2", `table ip6 t {
			chain c { type nat hook postrouting priority 100
				oifname "eth1" masquerade
			}
			chain d { type nat hook prerouting priority -100
				udp dport 9 dnat to [fd00:4::2]:7
			}
		}`)
	},
	Send: func(w *World) {
		for i := range 10 {
			w.Send("out", w.UDP(out6, far6, 100+i))
			w.Send("out", w.Echo(out6, far6, 100+i))
			p := w.UDP(out6, "fd00:3::2", 50+i)
			p.Dport = 9
			w.Send("out", p)
		}
	},
})

// mayHash is a network in whose domain something hashes on the flow label.
func mayHash(build func(w *World)) func(w *World) {
	return func(w *World) {
		chain6(w)
		build(w)
	}
}

// streams are packets of a few flows, each with the label of its flow.
func streams(w *World) {
	for i := range 40 {
		p := w.UDP(out6, far6, 100+i)
		p.Sport, p.Label = 5000+uint16(i%4), 0x1000*uint32(i%4+1)
		w.Send("out", p)
	}
	for _, p := range kinds6(w, out6, far6) {
		w.Send("out", p)
	}
}

var _ = add(Case{
	Name: "ipv6/by-key", Point: 3,
	Shows: "IPv6 found by key, no bit of it changed",
	Flags: []string{"--ipv6", "key"},
	Build: chain6,
	Send: func(w *World) {
		streams(w)
		p := w.UDP(out6, far6, 3000)
		for _, b := range Fragments6(p, 77, 800) {
			w.SendBytes("out", b)
		}
		w.Expect(p.Token)
	},
})

var _ = add(Case{
	Name: "ipv6/fq_codel", Point: 3,
	Shows: "a queue in the domain that separates flows by the label: IPv6 is found by key",
	Needs: []string{"fq_codel"},
	Fresh: true,
	Build: mayHash(func(w *World) {
		w.Run("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "fq_codel")
	}),
	Send:  streams,
	Check: foundByKey,
})

// foundByKey wants attach to have found what hashes on the label.
func foundByKey(r *Run) {
	if r.Status == nil {
		return
	}
	if got := r.Status.Options.IPv6; got != "key" {
		r.T.Errorf("IPv6 is measured by %q, want by key, because of the queue", got)
	}
}

// twoPaths is out - r1 = r2 - far: two links, between which r1 chooses by addresses and
// flow label (fib_multipath_hash_policy 0). r2 counts what comes by each.
func twoPaths(w *World) {
	w.Nodes("out", "r1", "r2", "far")
	w.Link("out", "eth0", "fd00:1::1/64", "r1", "eth0", "fd00:1::2/64")
	w.Link("r1", "eth1", "fd00:2::1/64", "r2", "eth0", "fd00:2::2/64")
	w.Link("r1", "eth2", "fd00:3::1/64", "r2", "eth1", "fd00:3::2/64")
	w.Link("r2", "eth2", "fd00:4::1/64", "far", "eth0", "fd00:4::2/64")
	w.Forward("r1", "r2")
	w.Route("out", "default", "fd00:1::2")
	w.Route("far", "default", "fd00:4::1")
	w.Route("r2", "fd00:1::/64", "fd00:2::1")
	w.Run("r1", "ip", "-6", "route", "add", "fd00:4::/64", "nexthop", "via", "fd00:2::2", "nexthop", "via", "fd00:3::2")
	w.Sysctl("r1", "ipv6/fib_multipath_hash_policy", "0")
	w.NFT("r2", `table ip6 t {
		chain c { type filter hook prerouting priority 0
			iifname "eth0" ip6 nexthdr udp counter
			iifname "eth1" ip6 nexthdr udp counter
		}
	}`)
	w.Counters("r2")
	w.Listen("far", "[::]:7")
	w.Attach("r1", "r2")
}

var _ = add(Case{
	Name: "ipv6/multipath", Point: 3,
	Shows: "a router that chooses its next hop by the flow label takes the same path for each flow",
	Fresh: true,
	Build: twoPaths,
	Send:  streams,
	Check: func(r *Run) {
		// In nodes that see what is on the wire the label has to stay.
		want := map[Mode]string{Mark: "label", Header: "key"}[r.Mode]
		if r.Status != nil && r.Status.Options.IPv6 != want {
			r.T.Errorf("IPv6 is measured by %q, want by %s", r.Status.Options.IPv6, want)
		}
	},
})
