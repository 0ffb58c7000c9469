// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Errors that quote little, or that quote packets whose addresses somebody changed to
// whom radar is not attached.

// Meet returns the packets, n of them, that come in at a port while send is at work.
func (w *World) Meet(node, port string, n int, send func()) []*sighting {
	w.T.Helper()
	c := &capture{node: node, port: port}
	index := w.Index(node, port)
	w.in(node, func() (err error) {
		c.fd, err = openCapture(index)
		return err
	})
	defer unix.Close(c.fd)
	send()
	var met []*sighting
	for end := time.Now().Add(mostWait); len(met) < n; time.Sleep(time.Millisecond) {
		if _, err := c.read(); err != nil {
			w.T.Fatal(err)
		}
		met = met[:0]
		for _, s := range c.seen {
			if s.decoded != nil && s.dir == in && s.token != 0 {
				met = append(met, s)
			}
		}
		if time.Now().After(end) {
			w.T.Fatalf("%d packets came in at %s/%s, want %d", len(met), node, port, n)
		}
	}
	return met
}

// Answer sends an ICMP error from a node, with the first size bytes of what it met
// behind the IP header.
func (w *World) Answer(node, from string, s *sighting, size int) {
	w.T.Helper()
	e := &Packet{Src: netip.MustParseAddr(from), Dst: s.src, Proto: unix.IPPROTO_ICMP, ICMPType: 3, ICMPCode: 13, TOS: 0xc0, ID: 1}
	if s.version == 6 {
		e.Proto, e.ICMPType, e.ICMPCode, e.TOS = unix.IPPROTO_ICMPV6, 1, 1, 0
	}
	e.Payload = s.frame[s.decoded.l3:min(s.l4+size, s.end)]
	w.SendBytes(node, e.Bytes())
}

var _ = add(Case{
	Name: "errors/eight-bytes", Point: 1,
	Shows: "errors that quote eight bytes behind the IP header (RFC 792), from a router in the domain that radar is not attached to",
	Flags: aroundHidden,
	Build: func(w *World) {
		refusing(w)
		w.Route("r1", "fd00:3::/64", "fd00:2::2")
	},
	Send: func(w *World) {
		for _, size := range []int{8, 16, 20, 28} {
			for _, p := range kinds(w, "10.0.1.1", "10.0.4.2") {
				if len(p.Payload) < 8 {
					continue // without a token
				}
				for _, s := range w.Meet("r2", "eth0", 1, func() { w.Send("out", p).Ends("expired") }) {
					w.Answer("r2", "10.0.2.2", s, size)
				}
			}
			for _, p := range kinds6(w, out6, far6) {
				if len(p.Payload) < 8 {
					continue
				}
				for _, s := range w.Meet("r2", "eth0", 1, func() { w.Send("out", p).Ends("expired") }) {
					w.Answer("r2", "fd00:2::2", s, size)
				}
			}
		}
	},
})

// refusing is a chain whose hidden router drops what it is to pass on; a case answers.
func refusing(w *World) {
	hidden(w)
	w.NFT("r2", `table inet t {
		chain c { type filter hook forward priority 0
			meta l4proto { icmp, ipv6-icmp } iifname "eth1" accept
			drop
		}
	}`)
}

// quotedTrains sends trains, each of whose segments the hidden router quotes.
func quotedTrains(proto uint8) func(w *World) {
	return func(w *World) {
		for _, segments := range []int{2, 7} {
			p := w.packet("10.0.1.1", "10.0.4.2", proto, segments*1000-300)
			p.Sport, p.Dport, p.Flags, p.Seq = firstPort+uint16(p.Token), 7, ACK, 5000
			met := w.Meet("r2", "eth0", segments, func() { w.SendTrain("out", "eth0", mac("r1", "eth0"), p, 1000).Ends("expired") })
			for _, s := range met {
				w.Answer("r2", "10.0.2.2", s, 8)
			}
		}
	}
}

var _ = add(Case{
	Name: "errors/eight-bytes-tcp-train", Point: 1,
	Shows: "errors that quote eight bytes of segments of TCP trains",
	Flags: aroundHidden,
	Build: refusing,
	Send:  quotedTrains(unix.IPPROTO_TCP),
})

var _ = add(Case{
	Name: "errors/eight-bytes-udp-train", Point: 1,
	Shows: "errors that quote eight bytes of datagrams of trains",
	Flags: aroundHidden,
	Needs: []string{"udp-gso"},
	Build: refusing,
	Send:  quotedTrains(unix.IPPROTO_UDP),
	Limits: []Limit{{
		Text:  "8-byte quotes of UDP trains are not restored",
		Match: `1 10.0.2.2 > 10.0.1.1 type 3`, Times: 7,
	}},
})

// natChain is out - r1 - n - r2 - h - r3 - far with a narrow link between h and r3.
// radar is attached to r1, r2 and r3; n translates, h answers.
func natChain(w *World, rules string) {
	w.Nodes("out", "r1", "n", "r2", "h", "r3", "far")
	line := []string{"out", "r1", "n", "r2", "h", "r3", "far"}
	for i := range len(line) - 1 {
		a, b := fmt.Sprintf("10.0.%d.1/24", i+1), fmt.Sprintf("10.0.%d.2/24", i+1)
		port := "eth1"
		if i == 0 {
			port = "eth0"
		}
		w.Link(line[i], port, a, line[i+1], "eth0", b)
	}
	for i, n := range line {
		for to := 1; to <= 6; to++ {
			if to < i {
				w.Route(n, fmt.Sprintf("10.0.%d.0/24", to), fmt.Sprintf("10.0.%d.1", i))
			} else if to > i+1 {
				w.Route(n, fmt.Sprintf("10.0.%d.0/24", to), fmt.Sprintf("10.0.%d.2", i+1))
			}
		}
	}
	w.Forward(line[1:6]...)
	w.Run("h", "ip", "link", "set", "eth1", "mtu", "1300")
	w.Run("r3", "ip", "link", "set", "eth0", "mtu", "1300")
	w.NFT("n", rules)
	w.Inside("n", "h")
}

// withR2 and withoutR2 attach to the routers of natChain: r2 sees translated addresses.
func withR2(w *World)    { w.Attach("r1", "r2", "r3") }
func withoutR2(w *World) { w.Attach("r1", "r3"); w.Inside("r2") }

var (
	aroundN   = []string{"--role", "r1/eth1=internal", "--role", "r3/eth0=internal"}
	aroundNAT = append(aroundN[:len(aroundN):len(aroundN)], "--role", "r2/eth0=internal", "--role", "r2/eth1=internal")
	// What a function does that radar is not attached to shows where radar looks next.
	shownLater = Limit{
		Text:  "addresses that a function changed that is not attached show as changed in the next attached node",
		Match: `at r[23]/eth0 in captures saw|at r[12]/eth1 in captures saw`,
	}
)

// tooLargeFor are packets that do not fit into h's next link, with and without DF.
func tooLargeFor(dst string) func(w *World) {
	return func(w *World) {
		for i := range 4 {
			for _, proto := range []uint8{unix.IPPROTO_UDP, unix.IPPROTO_TCP, unix.IPPROTO_ICMP} {
				p := w.packet("10.0.1.1", dst, proto, 1400)
				p.TOS = uint8(i * 8)
				switch p.Sport, p.Dport = firstPort+uint16(p.Token), 7; proto {
				case unix.IPPROTO_TCP:
					p.Flags, p.Seq = ACK, p.Token*7919
				case unix.IPPROTO_ICMP:
					p.ICMPType, p.EchoID = 8, 0x7000+uint16(p.Token)
				}
				w.Send("out", p).Ends("expired")
			}
		}
		w.Send("out", w.UDP("10.0.1.1", dst, 100))
	}
}

// natCase is errors of h, behind n with some rules.
func natCase(name, shows string, rules string, flags []string, attach func(*World), limits ...Limit) Case {
	return Case{
		Name: "errors/" + name, Point: 1, Shows: shows,
		Needs: []string{"nat"}, Flags: flags, Limits: limits,
		Build: func(w *World) {
			natChain(w, rules)
			w.Run("r2", "ip", "route", "add", "10.0.3.77", "via", "10.0.3.1")
			w.Listen("far", "0.0.0.0:7")
			attach(w)
		},
		Send: func(w *World) {
			tooLargeFor("10.0.6.2")(w)
			if rules == tracked {
				tooLargeFor("10.0.2.2")(w)
			}
		},
	}
}

const (
	tracked = `table ip t {
		chain c { type nat hook postrouting priority 100
			oifname "eth1" masquerade
		}
		chain d { type nat hook prerouting priority -100
			ip daddr 10.0.2.2 dnat to 10.0.6.2
		}
	}`
	stateless = `table ip t {
		chain c { type filter hook prerouting priority -300
			iifname "eth0" ip saddr 10.0.1.1 ip saddr set 10.0.3.77
			iifname "eth1" ip daddr 10.0.3.77 ip daddr set 10.0.1.1
		}
	}`
)

var (
	_ = add(natCase("behind-nat", "errors whose quoted packet a node has translated that radar is not attached to, between attached ones",
		tracked, aroundNAT, withR2, shownLater))
	_ = add(natCase("behind-nat-hidden", "the same where radar is attached to nothing between who translates and who answers",
		tracked, aroundN, withoutR2, shownLater))
	_ = add(natCase("stateless-nat", "errors that keep the translated addresses in what they quote, attached nodes between",
		stateless, aroundNAT, withR2, shownLater))
	_ = add(natCase("stateless-nat-hidden", "the same where radar is attached to nothing between who translates and who answers",
		stateless, aroundN, withoutR2, shownLater, Limit{
			Text:  "quotes are not restored where a function changed the packet's addresses, but not the quote's, and none that radar is attached to is between it and who answers",
			Match: `type 3: differs in behind the header`,
		}))
)
