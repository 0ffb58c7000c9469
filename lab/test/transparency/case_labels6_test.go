// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// What kernels make of IPv6 by themselves: flow labels, trains of datagrams, large echoes.

// drawnLabels makes packets equal whose flow label the kernel has drawn.
var drawnLabels = Rule{
	Name: "flow-label", Why: "the kernel hashes flow labels from a number that it draws",
	Apply: func(frame []byte, d *decoded) {
		if d != nil && d.version == 6 {
			clearLabel(frame[d.l3:])
		}
	},
}

func labelOf(s *sighting) uint32 {
	return binary.BigEndian.Uint32(s.frame[s.decoded.l3:]) & 0xfffff
}

func clearLabel(ip []byte) {
	binary.BigEndian.PutUint32(ip, binary.BigEndian.Uint32(ip)&^0xfffff)
}

var _ = add(Case{
	Name: "ipv6/auto-labels", Point: 3,
	Shows: "flow labels that kernels draw (auto_flowlabels): one for each flow, and the same behind the domain",
	Build: func(w *World) {
		chain6(w)
		for _, n := range []string{"out", "r1", "far"} {
			w.Sysctl(n, "ipv6/auto_flowlabels", "1")
		}
	},
	Send: func(w *World) {
		for i := range 6 {
			port := ":500" + string(rune('0'+i))
			for _, at := range [][2]string{{"out", out6}, {"r1", "fd00:2::1"}} {
				s := w.Socket(at[0], "["+at[1]+"]"+port)
				for _, size := range []int{20, 700, 3000} {
					s.Send("["+far6+"]:7", size)
				}
			}
		}
	},
	Rules: []Rule{drawnLabels, fragmentID},
	Check: func(r *Run) {
		sent, labels := make(map[unit]uint32), make(map[unit]uint32)
		flows := make(map[string]uint32)
		for _, c := range r.captures {
			for _, s := range c.seen {
				if s.decoded == nil || s.version != 6 || s.l4proto() != unix.IPPROTO_UDP {
					continue
				}
				switch {
				case c.node == "out" && s.dir == out:
					sent[unitOf(s)] = labelOf(s)
				case c.node == "far" && s.dir == in:
					labels[unitOf(s)] = labelOf(s)
					if s.fragOff > 0 || s.fragment {
						continue // a datagram that is cut has a label of its own
					}
					if known, ok := flows[s.tuple()]; ok && known != labelOf(s) {
						r.T.Errorf("%s has the labels %#x and %#x", s.tuple(), known, labelOf(s))
					}
					flows[s.tuple()] = labelOf(s)
				}
			}
		}
		for u, label := range sent {
			if labels[u] != label || label == 0 {
				r.T.Errorf("%v was sent with the label %#x and arrived with %#x", u, label, labels[u])
			}
		}
		if len(sent) < 18 || len(flows) != 12 {
			r.T.Errorf("%d packets sent, %d flows arrived", len(sent), len(flows))
		}
	},
})

func (s *sighting) l4proto() uint8 { return s.decoded.proto }

// udpTrains6 sends trains of datagrams over IPv6 from a node. distinct: no two datagrams
// begin alike.
func udpTrains6(distinct bool, queue ...string) (build, send func(w *World)) {
	var s *Socket
	build = func(w *World) {
		chain6(w)
		if len(queue) > 0 {
			w.Queue("r2", "eth1", queue...)
		}
		w.Sysctl("out", "ipv6/auto_flowlabels", "0")
		s = w.Socket("out", "["+out6+"]:5555", [3]int{unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000})
		s.Connect("[" + far6 + "]:7")
	}
	send = func(w *World) {
		for _, size := range []int{900, 2000, 4700, 20000} {
			token := w.Token()
			b := Payload(token, size)
			for i := 0; distinct && i < size; i += 1000 {
				binary.BigEndian.PutUint32(b[i:], token<<16|uint32(i))
			}
			if err := w.onCPU(func() error { _, err := unix.Write(s.fd, b); return err }); err != nil {
				w.T.Fatalf("send a train of %d bytes: %v", size, err)
			}
			time.Sleep(gap)
			w.Expect(token)
			w.Send("out", w.UDP(out6, far6, 64))
		}
	}
	return build, send
}

func udpTrainCase6(name, shows string, distinct bool, needs string, queue ...string) Case {
	build, send := udpTrains6(distinct, queue...)
	c := Case{
		Name: "ipv6/udp-trains" + name, Point: 3, Shows: shows, Needs: []string{"udp-gso", needs},
		Build: build, Send: send,
	}
	if !distinct { // they look alike
		c.Counters = map[string]int{"not_measured_segs": 27}
	}
	return c
}

var (
	_ = add(udpTrainCase6("", "trains of IPv6 datagrams that differ, from outside", true, "udp-gso"))
	_ = add(udpTrainCase6("-cut", "the same, cut by a token bucket in the domain", true, "tbf",
		"handle", "1:", "tbf", "rate", "50mbit", "burst", "3000", "limit", "500kb"))
	_ = add(udpTrainCase6("-alike", "trains of IPv6 datagrams that begin alike, cut in the domain", false, "tbf",
		"handle", "1:", "tbf", "rate", "50mbit", "burst", "3000", "limit", "500kb"))
)

// pingTime6 is pingTime for IPv6.
var pingTime6 = Rule{
	Name: "ping-time-6", Why: "ping writes the time into its payload, and draws its identifier",
	Apply: func(frame []byte, d *decoded) {
		if d != nil && d.version == 6 && d.fragOff == 0 && d.isEcho() && d.l4+24 <= len(frame) {
			clear(frame[d.l4+2 : d.l4+6])
			clear(frame[d.l4+8 : d.l4+24])
		}
	},
}

var _ = add(Case{
	Name: "ipv6/ping", Point: 2,
	Shows: "IPv6 echoes of up to 65,500 bytes, from outside and from a node of the domain",
	Needs: []string{"ping"},
	Build: func(w *World) {
		chain6(w)
		w.Route("r3", "fd00:2::/64", "fd00:3::1")
	},
	Send: func(w *World) {
		for _, size := range []string{"100", "1453", "8000", "65500"} {
			for i, n := range []string{"out", "r1"} {
				w.Run(n, "ping", "-6", "-n", "-c", "1", "-W", "120", "-p", "a7726454"+"000000"+string(rune('0'+i))+size[:1], "-s", size, far6)
			}
		}
	},
	Rules: []Rule{pingTime6, drawnLabels, fragmentID},
})
