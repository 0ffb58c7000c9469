// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

var (
	everybody = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	theGroup  = "239.1.2.3"
)

// reports are left out: hosts send them when they join, and again when a timer says so.
var reports = Rule{
	Name: "igmp-reports", Why: "reports of membership follow timers",
	Skip: func(s *sighting) bool {
		return s.decoded != nil && s.decoded.proto == unix.IPPROTO_IGMP && s.dst == netip.MustParseAddr("224.0.0.22")
	},
}

// groupMAC is where frames for a multicast group go (RFC 1112, 6.4).
func groupMAC(group string) net.HardwareAddr {
	ip := net.ParseIP(group).To4()
	return net.HardwareAddr{0x01, 0x00, 0x5e, ip[1] & 0x7f, ip[2], ip[3]}
}

func putNative16(b []byte, v uint16) { binary.NativeEndian.PutUint16(b, v) }
func putNative32(b []byte, v uint32) { binary.NativeEndian.PutUint32(b, v) }

// segment is a bridge in a namespace that is not attached, between attached nodes and
// one that is outside.
func segment(w *World, link, network string, outside string, nodes ...string) {
	w.Nodes(link)
	var ports []string
	for i, n := range append(nodes, outside) {
		addr := network + "." + string(rune('1'+i)) + "/24"
		if n == "r" {
			addr = network + ".254/24"
		}
		w.Link(n, link+"0", addr, link, "to-"+n, "")
		ports = append(ports, "to-"+n)
	}
	w.Bridge(link, "br", ports...)
	w.Inside(link)
}

// members opens a socket that is a member of the group.
func member(w *World, node, addr string) {
	s := w.Listen(node, "0.0.0.0:7")
	w.Join(s, theGroup, addr)
}

// oneReport has interfaces report a membership once, before anybody captures.
func oneReport(w *World, nodes ...string) {
	for _, n := range nodes {
		w.Sysctl(n, "ipv4/igmp_qrv", "1")
	}
}

var _ = add(Case{
	Name: "groups/bridge", Point: 4,
	Shows: "multicast and broadcast over a bridge between nodes: every copy restored, one outcome for each",
	Build: func(w *World) {
		w.Nodes("h1", "h2", "h3", "out")
		segment(w, "a", "10.0.1", "out", "h1", "h2", "h3")
		oneReport(w, "h1", "h2", "h3", "out")
		member(w, "h2", "10.0.1.2")
		member(w, "out", "10.0.1.4")
		w.Listen("h3", "0.0.0.0:7")
		w.Attach("h1", "h2", "h3")
	},
	Send: func(w *World) {
		for _, ttl := range []uint8{64, 9, 8, 7, 2, 1} {
			for _, clear := range []bool{false, true} {
				p := w.UDP("10.0.1.1", theGroup, 60)
				p.TTL, p.MayFrag = ttl, clear
				w.SendFrame("h1", "a0", groupMAC(theGroup), p.Bytes())
				w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "h3 ignored", "a left", "a left")
			}
		}
		p := w.UDP("10.0.1.1", "10.0.1.255", 60)
		w.SendFrame("h1", "a0", everybody, p.Bytes())
		w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "h3 delivered", "a left", "a left")
		p = w.UDP("0.0.0.0", "255.255.255.255", 60) // as DHCP does; the bridge's node takes it, too
		w.SendFrame("h1", "a0", everybody, p.Bytes())
		w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "h3 delivered", "a delivered", "a left")
	},
	Rules: []Rule{reports},
})

// again is a packet that looks like p to radar: only its last bytes differ.
func again(w *World, p *Packet) *Packet {
	q := *p
	q.Token = w.Token()
	q.Payload = append(append([]byte(nil), p.Payload[:24]...), Payload(q.Token, len(p.Payload)-24)...)
	return &q
}

var _ = add(Case{
	Name: "groups/equal", Point: 4,
	Shows: "the same packet for a group again and again: the first one's copies are not mixed with the others'",
	Build: func(w *World) {
		w.Nodes("h1", "h2", "h3", "out")
		segment(w, "a", "10.0.1", "out", "h1", "h2", "h3")
		oneReport(w, "h1", "h2", "h3", "out")
		member(w, "h2", "10.0.1.2")
		member(w, "out", "10.0.1.4")
		w.Attach("h1", "h2", "h3")
	},
	Send: func(w *World) {
		for _, ttl := range []uint8{64, 2, 1} {
			for _, clear := range []bool{false, true} {
				first := w.UDP("10.0.1.1", theGroup, 60)
				first.TTL, first.MayFrag = ttl, clear
				first.Payload = append(make([]byte, 24), first.Payload[24:]...)
				for i := range 3 {
					p := first
					if i > 0 {
						p = again(w, first)
					}
					w.SendFrame("h1", "a0", groupMAC(theGroup), p.Bytes())
					s := w.Expect(p.Token)
					if keyed := ttl < 8 || clear; keyed && i > 0 {
						s.Unmeasured()
						continue
					}
					s.Ends("delivered").Branches("h2 delivered", "h3 ignored", "a left", "a left")
				}
			}
		}
	},
	Counters: map[string]int{"not_measured_key_in_flight": 10},
	Rules:    []Rule{reports},
})

var _ = add(Case{
	Name: "groups/control", Point: 4,
	Shows: "link-local control traffic, and frames for bridges, pass untouched and unmeasured",
	Build: func(w *World) {
		w.Nodes("h1", "h2", "out")
		segment(w, "a", "10.0.1", "out", "h1", "h2")
		w.Attach("h1", "h2")
	},
	Send: func(w *World) {
		for _, c := range []struct {
			dst   string
			proto uint8
		}{{"224.0.0.5", 89}, {"224.0.0.18", 112}, {"224.0.0.251", unix.IPPROTO_UDP}, {theGroup, unix.IPPROTO_IGMP}} {
			p := w.UDP("10.0.1.1", c.dst, 60)
			p.Proto, p.TTL = c.proto, 255
			w.SendFrame("h1", "a0", groupMAC(c.dst), p.Bytes())
			w.Expect(p.Token).Unmeasured()
		}
		// LLC frames of a spanning tree; whatever else is for a bridge.
		bpdu := append([]byte{0x42, 0x42, 3}, make([]byte, 46)...)
		w.SendRaw("h1", "a0", ethernet(net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0}, mac("h1", "a0"), 38, bpdu))
		for _, last := range []byte{0x00, 0x0e} {
			p := w.UDP("10.0.1.1", "10.0.1.2", 60)
			w.SendFrame("h1", "a0", net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, last}, p.Bytes())
			w.Expect(p.Token).Unmeasured()
		}
	},
	Counters: map[string]int{"not_measured_multicast": some},
})

var _ = add(Case{
	Name: "groups/router", Point: 4,
	Shows: "multicast over two bridges and a multicast router: each branch has its own TTL",
	Build: func(w *World) {
		w.Nodes("h1", "h2", "h3", "h4", "r", "out1", "out2")
		segment(w, "a", "10.0.1", "out1", "h1", "h2", "r")
		segment(w, "b", "10.0.2", "out2", "h3", "h4", "r")
		oneReport(w, "h1", "h2", "h3", "h4", "r", "out1", "out2")
		w.Forward("r")
		w.MulticastRoute("r", "10.0.1.1", theGroup, "a0", "b0")
		member(w, "h2", "10.0.1.2")
		member(w, "h4", "10.0.2.2")
		w.Attach("h1", "h2", "h3", "h4", "r")
	},
	Send: func(w *World) {
		for _, ttl := range []uint8{64, 9, 8, 3} {
			for _, clear := range []bool{false, true} {
				p := w.UDP("10.0.1.1", theGroup, 60)
				p.TTL, p.TOS, p.MayFrag = ttl, 0x28, clear
				w.SendFrame("h1", "a0", groupMAC(theGroup), p.Bytes())
				w.Expect(p.Token).Ends("delivered").Branches(
					"h2 delivered", "a left", "a left", "h3 ignored", "h4 delivered", "b left", "b left")
			}
		}
	},
	Rules: []Rule{reports},
})

var _ = add(Case{
	Name: "groups/switch", Point: 4,
	Shows: "a node that is a switch itself: floods of unknown unicast, multicast, broadcast",
	Build: func(w *World) {
		w.Nodes("h1", "h2", "h3", "h4", "sw", "out")
		var ports []string
		for i, h := range []string{"h1", "h2", "h3", "h4", "out"} {
			w.Link(h, "eth0", "10.0.1."+string(rune('1'+i))+"/24", "sw", "to-"+h, "")
			ports = append(ports, "to-"+h)
		}
		w.Bridge("sw", "br", ports...)
		oneReport(w, "h1", "h2", "h3", "h4", "out")
		member(w, "h2", "10.0.1.2")
		w.Listen("h3", "0.0.0.0:7")
		w.Attach("h1", "h2", "h3", "h4", "sw")
	},
	Send: func(w *World) {
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.1.1", theGroup, 60)
			p.MayFrag = clear
			w.SendFrame("h1", "eth0", groupMAC(theGroup), p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "h3 ignored", "h4 ignored", "sw left")
		}
		p := w.UDP("10.0.1.1", "255.255.255.255", 60)
		w.SendFrame("h1", "eth0", everybody, p.Bytes())
		w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "h3 delivered", "h4 delivered", "sw delivered", "sw left")
		for _, clear := range []bool{false, true} { // nobody has learned h3's address
			p := w.UDP("10.0.1.1", "10.0.1.3", 60)
			p.MayFrag = clear
			w.Send("h1", p).Ends("delivered").Branches("h2 ignored", "h3 delivered", "h4 ignored", "sw left")
		}
	},
	LocalDrops: true,
	Rules:      []Rule{reports},
})
