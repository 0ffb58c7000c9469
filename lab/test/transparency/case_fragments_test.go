// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Fragments cuts a packet into fragments of at most size bytes of payload.
func Fragments(p *Packet, size int) [][]byte {
	whole := p.Bytes()
	hdr := int(whole[0]&15) * 4
	var list [][]byte
	for off := hdr; off < len(whole); off += size {
		part := *p
		part.FragOff, part.More = off-hdr, off+size < len(whole)
		part.Proto, part.Payload = p.Proto, whole[off:min(off+size, len(whole))]
		b := append(part.header(), part.Payload...)
		b[2], b[3] = byte(len(b)>>8), byte(len(b))
		sumIPv4(b)
		list = append(list, b)
	}
	return list
}

var _ = add(Case{
	Name: "fragments/sent", Point: 2,
	Shows: "datagrams that arrive at the domain as fragments, forwarded to outside and to a router's own socket",
	Build: func(w *World) {
		chain(w)
		w.Listen("far", "0.0.0.0:7")
		w.Listen("r3", "0.0.0.0:7")
		w.RawSocket("r3", unix.IPPROTO_UDP)
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, dst := range []string{"10.0.4.2", "10.0.3.2"} {
			for _, size := range []int{1000, 3000, 9000} {
				p := w.UDP("10.0.1.1", dst, size)
				p.MayFrag = true
				for _, b := range Fragments(p, 800) {
					w.SendBytes("out", b)
				}
				w.Expect(p.Token)
			}
		}
	},
})

var _ = add(Case{
	Name: "fragments/midway", Point: 2,
	Shows: "datagrams that a router in the domain has to cut",
	Build: func(w *World) {
		chain(w)
		narrow(w, 1300)
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, size := range []int{1200, 1300, 1400} {
			p := w.UDP("10.0.1.1", "10.0.4.2", size)
			p.MayFrag = true
			w.Send("out", p)
			q := w.Echo("10.0.1.1", "10.0.4.2", size)
			q.MayFrag = true
			w.Send("out", q)
		}
	},
})

var _ = add(Case{
	Name: "fragments/conntrack", Point: 2,
	Shows: "fragments that a router joins for connection tracking and sends on in pieces",
	Needs: []string{"nat"},
	Build: func(w *World) {
		chain(w)
		w.NFT("r2", `table ip t {
			chain c { type filter hook forward priority 0
				ct state new counter
			}
		}`)
		w.Listen("far", "0.0.0.0:7")
		w.Counters("r2")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, size := range []int{1000, 3000, 9000} {
			p := w.UDP("10.0.1.1", "10.0.4.2", size)
			p.MayFrag = true
			for _, b := range Fragments(p, 800) {
				w.SendBytes("out", b)
			}
			w.Expect(p.Token)
		}
		p := w.UDP("10.0.1.1", "10.0.4.2", 400)
		w.Send("out", p)
	},
})

var _ = add(Case{
	Name: "fragments/nat", Point: 2,
	Shows: "packets with DF clear, and fragments, behind a NAT",
	// Nothing but the key names such a packet where nodes have no marks.
	Limits: []Limit{{
		Modes: []Mode{Header}, Match: `want delivered \(token|passed r[123]/|no record of token 4[01]`,
		Text: "stories of packets with DF clear end, as expired, where NAT changes their addresses", Times: 227,
	}},
	Needs: []string{"nat"},
	Build: func(w *World) {
		chain(w)
		w.NFT("r2", `table ip t {
			chain c { type nat hook postrouting priority 100
				oifname "eth1" masquerade
			}
		}`)
		w.Listen("far", "0.0.0.0:7")
		w.Counters("r2")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for i := range 20 {
			p := w.UDP("10.0.1.1", "10.0.4.2", 100+i)
			p.MayFrag = true
			w.Send("out", p)
			q := w.Echo("10.0.1.1", "10.0.4.2", 100+i)
			q.MayFrag = true
			w.Send("out", q)
		}
		p := w.UDP("10.0.1.1", "10.0.4.2", 3000)
		p.MayFrag = true
		for _, b := range Fragments(p, 800) {
			w.SendBytes("out", b)
		}
		w.Expect(p.Token)
	},
})

var _ = add(Case{
	Name: "fragments/ping", Point: 2,
	Shows: "echoes of up to 65,507 bytes, sent by a node of the domain",
	Needs: []string{"ping"},
	Build: func(w *World) {
		chain(w)
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		// The pattern is a token; ping's own time stamp comes before it.
		for _, size := range []string{"100", "1473", "8000", "65507"} {
			w.Run("out", "ping", "-n", "-c", "1", "-W", "120", "-M", "dont", "-p", "a7726454"+"0000000"+size[:1], "-s", size, "10.0.4.2")
			w.Run("r1", "ping", "-n", "-c", "1", "-W", "120", "-M", "dont", "-p", "a7726454"+"0000001"+size[:1], "-s", size, "10.0.4.2")
		}
	},
	Rules: []Rule{pingTime},
})

var _ = add(Case{
	Name: "fragments/repeated-id", Point: 2,
	Shows: "datagrams with DF clear that have the ID and the ports of one that is still in flight, and begin as it does",
	Build: func(w *World) {
		chain(w)
		// Slower than they are sent, however slow that is.
		w.Queue("r1", "eth1", "tbf", "rate", fmt.Sprintf("%dkbit", 1000/patience), "burst", "2000", "limit", "100000")
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		var list []*Packet
		for range 20 {
			p := w.UDP("10.0.1.1", "10.0.4.2", 1200)
			p.MayFrag, p.ID, p.Sport = true, 4711, firstPort
			clear(p.Payload[:24]) // they are equal in all that radar looks at
			list = append(list, p)
		}
		w.Burst("out", list...)
	},
	Needs:    []string{"tbf"},
	Counters: map[string]int{"not_measured_key_in_flight": some},
})

var _ = add(Case{
	Name: "fragments/one-id", Point: 2,
	Shows: "packets with DF clear that all have the same ID (as scapy sends them) and are in flight at once: each has its story",
	Needs: []string{"tbf"},
	Build: func(w *World) {
		chain(w)
		// Slower than they are sent, however slow that is.
		w.Queue("r1", "eth1", "tbf", "rate", fmt.Sprintf("%dkbit", 400/patience), "burst", "2000", "limit", "100000")
		w.NFT("r2", `table ip t {
			chain c { type filter hook forward priority 0
				udp dport 9 drop
			}
		}`)
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		lost := make(map[uint32]bool)
		var list []*Packet
		for i := range 90 {
			p := w.UDP("10.0.1.1", "10.0.4.2", 200)
			switch i % 3 {
			case 0: // another payload, from the same port
				p.Sport = firstPort
			case 1: // another port, with a payload that begins alike
				clear(p.Payload[:24])
			case 2:
				p.Sport, p.Dport = firstPort, 9
				lost[p.Token] = true
			}
			p.MayFrag, p.ID = true, 1
			list = append(list, p)
		}
		w.Burst("out", list...)
		for _, s := range w.sent {
			if lost[s.Token] {
				s.Lost("r2", "NETFILTER_DROP")
			}
		}
	},
})
