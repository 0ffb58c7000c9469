// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"time"

	"golang.org/x/sys/unix"
)

// mixture sends packets of all kinds and sizes from out to far, of several classes.
func mixture(w *World, rounds int) {
	for i := range rounds {
		size := 100 + i*97%1300
		for _, p := range []*Packet{
			w.UDP("10.0.1.1", "10.0.4.2", size), w.TCP("10.0.1.1", "10.0.4.2", ACK, size), w.Echo("10.0.1.1", "10.0.4.2", 56),
			w.UDP("10.0.1.1", "10.0.4.2", size/2),
		} {
			// Voice, video, bulk and the rest; each with and without ECN.
			p.TOS = [4]uint8{0xb8, 0x88, 0x20, 0}[i%4] | uint8(i/4%4)
			p.MayFrag = i%3 == 1 // found by key
			w.Send("out", p)
		}
	}
}

// burst sends more at once from out to far than a queue with a rate lets pass.
func burst(w *World) {
	var list []*Packet
	for range 12 {
		list = append(list, w.UDP("10.0.1.1", "10.0.4.2", 1300))
	}
	w.Burst("out", list...)
}

// trains sends GSO trains of TCP and UDP from out to far, with lone packets between.
func trains(w *World, udp *Socket) {
	for i := range 6 {
		p := w.TCP("10.0.1.1", "10.0.4.2", ACK, 1000*(2+i*3))
		w.SendTrain("out", "eth0", mac("r1", "eth0"), p, 1000)
		udp.Send("10.0.4.2:7", 800*(1+i*2))
		w.Send("out", w.UDP("10.0.1.1", "10.0.4.2", 64))
	}
}

const udpSegment = 103 // UDP_SEGMENT of linux/udp.h

// trainCase is trains through a queue at r2, which takes them whole or cuts them.
func trainCase(name, shows string, needs []string, offload bool, queue ...string) Case {
	var udp *Socket
	return Case{
		Name: name, Point: 7, Shows: shows, Needs: append(needs, "udp-gso"),
		Build: func(w *World) {
			line(w)
			w.Queue("r2", "eth1", queue...)
			if !offload {
				w.Run("out", "ethtool", "-K", "eth0", "tso", "off", "gso", "off")
			}
			udp = w.Socket("out", "10.0.1.1:9", [3]int{unix.IPPROTO_UDP, udpSegment, 800},
				[3]int{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO}) // the IDs begin with 0
			w.Listen("far", "0.0.0.0:7")
			w.QueueCounters("r2", "eth1")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) { trains(w, udp) },
	}
}

var (
	_ = add(Case{
		Name: "queues/tbf", Point: 7,
		Shows: "every kind of packet through a token bucket: bytes, order; the wait in the queue apart from the link",
		Needs: []string{"tbf"},
		Build: func(w *World) {
			line(w)
			w.Queue("r2", "eth1", "handle", "1:", "tbf", "rate", "2mbit", "burst", "2000", "limit", "500kb")
			w.Listen("far", "0.0.0.0:7")
			w.QueueCounters("r2", "eth1")
			w.Attach("r1", "r2", "r3")
		},
		Send:  func(w *World) { mixture(w, 16); burst(w) },
		Check: func(r *Run) { r.wantWaits("r2", "eth1", 5*time.Millisecond) },
	})
	_ = add(Case{
		Name: "queues/tbf-drop", Point: 7,
		Shows: "packets that a queue refuses (larger than its burst): the same ones, counted alike",
		Needs: []string{"tbf"},
		Build: func(w *World) {
			line(w)
			w.Queue("r2", "eth1", "handle", "1:", "tbf", "rate", "20mbit", "burst", "1000", "limit", "500kb")
			w.Listen("far", "0.0.0.0:7")
			w.QueueCounters("r2", "eth1")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			for i := range 30 {
				p := w.UDP("10.0.1.1", "10.0.4.2", 100+i*40)
				if s := w.Send("out", p); len(p.Bytes())+14 > 1000 {
					s.Lost("r2", "QDISC_DROP")
				}
			}
		},
	})
	_ = add(Case{
		Name: "queues/htb-dscp", Point: 7,
		Shows: "classes of an HTB by DSCP (u32) at a port inside: what each class sends, and its order",
		Needs: []string{"htb", "u32"},
		Build: func(w *World) {
			line(w)
			dscpClasses(w)
			w.Attach("r1", "r2", "r3")
		},
		Send:  func(w *World) { classed(w); burst(w) },
		Check: func(r *Run) { r.wantWaits("r2", "eth1", time.Millisecond) },
	})
	_ = add(Case{
		Name: "queues/htb-dscp-22", Point: 7,
		Shows: "the same with two bits of the DSCP in use: attach warns, classes differ",
		Needs: []string{"htb", "u32"}, Flags: []string{"--guid-bits", "22"},
		Build: func(w *World) {
			line(w)
			dscpClasses(w)
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) { classed(w) },
		Limits: []Limit{{
			Text:  "With --guid-bits 21 and more, classifiers behind an egress hook see one or two rewritten bits of the DSCP: packets change classes (attach warns).",
			Match: `queues of r2/eth1`, Times: 3,
		}},
	})
	_ = add(trainCase("queues/trains-tbf", "trains that a token bucket cuts", []string{"tbf"}, true,
		"handle", "1:", "tbf", "rate", "50mbit", "burst", "3000", "limit", "500kb"))
	_ = add(trainCase("queues/trains-htb", "trains through an HTB with a small quantum", []string{"htb"}, true,
		"handle", "1:", "htb", "default", "1", "r2q", "1"))
	_ = add(trainCase("queues/trains-cut-at-sender", "trains that the sender's interface cuts, through a token bucket", []string{"tbf", "ethtool"}, false,
		"handle", "1:", "tbf", "rate", "50mbit", "burst", "3000", "limit", "500kb"))
	_ = add(Case{
		Name: "ecn/marked-in-node", Point: 7,
		Shows: "CE that a rule of a router sets: arrives, the rest of the byte as sent",
		Build: func(w *World) {
			chain(w)
			w.NFT("r2", "table ip t {\n chain c { type filter hook forward priority 0;\n ip ecn { ect0, ect1 } counter ip ecn set ce\n }\n}\n")
			w.Listen("far", "0.0.0.0:7")
			w.Counters("r2")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) { mixture(w, 8) },
	})
	_ = add(Case{
		Name: "ecn/marked-on-link", Point: 7,
		Shows: "CE set on a link between two nodes, on packets with rewritten bits",
		Build: func(w *World) {
			bridgedRouters(w)
			w.NFT("sw", "table bridge t {\n chain c { type filter hook forward priority 0;\n ip ecn { ect0, ect1 } counter ip ecn set ce\n }\n}\n")
			w.Listen("far", "0.0.0.0:7")
			w.Counters("sw")
			w.Attach("r1", "r2")
			w.Inside("sw")
		},
		Send: func(w *World) { mixture(w, 8) },
	})
)

// dscpClasses makes three classes at r2 toward far, with rates that make them wait.
func dscpClasses(w *World) {
	w.Queue("r2", "eth1", "handle", "1:", "htb", "default", "30")
	tc := func(args ...string) { w.Run("r2", append([]string{"tc"}, args...)...) }
	for _, c := range [][2]string{{"1:10", "4mbit"}, {"1:20", "2mbit"}, {"1:30", "1mbit"}} {
		tc("class", "add", "dev", "eth1", "parent", "1:", "classid", c[0], "htb", "rate", c[1], "burst", "2000", "cburst", "2000")
	}
	for _, f := range [][2]string{{"0xb8", "1:10"}, {"0x88", "1:20"}} {
		tc("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "tos", f[0], "0xfc", "flowid", f[1])
	}
	w.Socket("far", "0.0.0.0:7") // in which order classes arrive, only times say
	w.QueueCounters("r2", "eth1")
}

// classed sends the mixture, and flows of several packets, which keep their order.
func classed(w *World) {
	for i := range 24 {
		p := w.UDP("10.0.1.1", "10.0.4.2", 200+i*37)
		p.TOS = [3]uint8{0xb8, 0x88, 0}[i%3]
		p.Sport = 5000 + uint16(i%3)
		w.Send("out", p)
	}
	mixture(w, 12)
}

// bridgedRouters is out - r1 - sw - r2 - far, sw being a bridge that is not attached.
func bridgedRouters(w *World) {
	w.Nodes("out", "r1", "sw", "r2", "far")
	w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
	w.Link("r1", "eth1", "10.0.2.1/24", "sw", "p1", "")
	w.Link("sw", "p2", "", "r2", "eth0", "10.0.2.2/24")
	w.Link("r2", "eth1", "10.0.4.1/24", "far", "eth0", "10.0.4.2/24")
	w.Run("sw", "ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
	for _, p := range []string{"p1", "p2"} {
		w.Run("sw", "ip", "link", "set", p, "master", "br0")
	}
	w.Up("sw", "br0")
	w.Forward("r1", "r2")
	w.Route("out", "default", "10.0.1.2")
	w.Route("r1", "10.0.4.0/24", "10.0.2.2")
	w.Route("r2", "10.0.1.0/24", "10.0.2.1")
	w.Route("far", "default", "10.0.4.1")
}
