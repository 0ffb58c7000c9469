// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// Transparent proxies: packets to others that end in sockets of a router, by marks,
// policy routing and local routes.

// carriesNothing is what a node does that can carry neither mark nor header.
const carriesNothing = "stories end, as left, where packets enter a node that carries nothing, and begin anew where they leave it"

// proxied is a chain whose router r2 takes ports 53 to itself, by rules of which SET says
// how they mark packets.
func proxied(set, rule string) func(w *World) {
	return func(w *World) {
		chain6(w)
		for _, family := range []string{"ip", "ip6"} {
			to := map[string]string{"ip": ":5353", "ip6": ":5353"}[family]
			w.NFT("r2", strings.NewReplacer("FAMILY", family, "TO", to, "SET", set).Replace(`table FAMILY t {
				chain p { type filter hook prerouting priority -150
					meta l4proto { tcp, udp } th dport 53 tproxy to TO meta mark set SET counter accept
				}
			}`))
		}
		for _, version := range []string{"-4", "-6"} {
			w.Run("r2", "ip", version, "rule", "add", "fwmark", rule, "lookup", "100")
			w.Run("r2", "ip", version, "route", "add", "local", "default", "dev", "lo", "table", "100")
		}
		transparent := [3]int{unix.SOL_IP, unix.IP_TRANSPARENT, 1}
		for _, at := range []string{"0.0.0.0:5353", "[::]:5353"} {
			opts := [][3]int{transparent, {unix.SOL_IP, unix.IP_RECVTTL, 1}}
			if strings.HasPrefix(at, "[") {
				opts = [][3]int{{unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1}, {unix.SOL_IPV6, unix.IPV6_V6ONLY, 1}, {unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, 1}}
			}
			s := w.Socket("r2", at, opts...)
			w.Observe("UDP socket "+s.name, func() []string { return w.drain(s.fd, s.name) })
		}
		w.Counters("r2")
	}
}

// sendProxied sends datagrams for the proxy and for others, and has a connection end in it.
func sendProxied(ends string) func(w *World) {
	return func(w *World) {
		for i := range 4 {
			for _, ip := range [][2]string{{"10.0.1.1", "10.0.4.2"}, {out6, far6}} {
				p := w.UDP(ip[0], ip[1], 40+i)
				p.Dport, p.TTL, p.TOS = 53, uint8(50+i*20), 0xb8
				w.Send("out", p).Ends(ends)
				w.Send("out", w.UDP(ip[0], ip[1], 60+i)) // goes on
			}
		}
		from, to := netip.MustParseAddrPort("10.0.1.1:5000"), netip.MustParseAddrPort("10.0.4.2:53")
		listener := w.tcpSocket("r2", netip.MustParseAddrPort("0.0.0.0:5353"), [3]int{unix.SOL_IP, unix.IP_TRANSPARENT, 1})
		client := w.tcpSocket("out", from)
		defer unix.Close(listener)
		defer unix.Close(client)
		if err := unix.Listen(listener, 1); err != nil {
			w.T.Fatalf("listen: %v", err)
		}
		w.talkOver(talk{"out", from.String(), "r2", to.String(), 3000, 1000}, client, to, listener)
	}
}

var (
	_ = add(Case{
		Name: "tproxy/bits", Point: 5,
		Shows: "nft tproxy with one bit of the mark: sockets of the proxy get what they would, a connection is taken over",
		Needs: []string{"tproxy", "local_in"}, Fresh: true,
		Modes: []Mode{Mark}, Flags: []string{"--carry", "auto"},
		Build: proxied("meta mark | 1", "1/1"),
		Send:  sendProxied("delivered"),
		Rules: []Rule{tcpStreams},
		Check: carriesHeader(""),
	})
	_ = add(Case{
		Name: "tproxy/whole-mark", Point: 5,
		Shows: "nft tproxy that sets the whole mark: the proxy's node carries neither mark nor header",
		Needs: []string{"tproxy"}, Fresh: true,
		Modes: []Mode{Mark}, Flags: []string{"--carry", "auto"},
		Build: proxied("1", "1"),
		Send:  sendProxied(""),
		Rules: []Rule{tcpStreams},
		Check: carriesHeader("r2"),
		Limits: []Limit{
			{Text: carriesNothing, Match: `no capture saw it at r2/eth0 out|it is left, want|passed r2/eth0 in`},
		},
	})
	_ = add(Case{
		Name: "tproxy/any-address", Point: 5,
		Shows: "a route of type local to a network (AnyIP), in a node that could only carry the header: its sockets see true headers",
		Fresh: true, Modes: []Mode{Header},
		Build: func(w *World) {
			chain(w)
			w.Run("r2", "ip", "route", "add", "local", "10.0.50.0/24", "dev", "lo")
			w.Route("r1", "10.0.50.0/24", "10.0.2.2")
			s := w.Socket("r2", "0.0.0.0:7", [3]int{unix.SOL_IP, unix.IP_RECVTTL, 1})
			w.Observe("UDP socket "+s.name, func() []string { return w.drain(s.fd, s.name) })
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			for i := range 8 {
				p := w.UDP("10.0.1.1", fmt.Sprintf("10.0.50.%d", i+1), 40+i)
				p.TTL = uint8(50 + i*20)
				w.Send("out", p)
			}
		},
		Limits: []Limit{
			{Text: carriesNothing, Match: `no capture saw it at r2/eth0 out|it is left, want|passed r2/eth0 in`},
		},
	})
	_ = add(Case{
		Name: "marks/accept", Point: 10,
		Shows: "sockets that inherit the mark of who connects to them (tcp_fwmark_accept): none does",
		Fresh: true,
		Modes: []Mode{Mark}, Flags: []string{"--carry", "auto"},
		Needs: []string{"nat"},
		Build: func(w *World) {
			chain(w)
			w.Sysctl("r3", "ipv4/tcp_fwmark_accept", "1")
			w.NFT("r3", `table ip t {
				chain c { type filter hook output priority 0
					meta mark != 0 counter
				}
			}`)
			w.Counters("r3")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			w.Talk(talk{"out", "10.0.1.1:5000", "r3", "10.0.3.2:80", 3000, 3000})
			w.Talk(talk{"far", "10.0.4.2:5000", "r3", "10.0.4.1:80", 3000, 3000})
		},
		Rules: []Rule{tcpStreams},
		Check: carriesHeader("r3"),
	})
)
