// SPDX-License-Identifier: Apache-2.0

package transparency

import "fmt"

// threeClasses makes classes 1:10 to 1:30 at r2 toward r3.
func threeClasses(w *World) {
	line(w)
	w.Queue("r2", "eth1", "handle", "1:", "htb", "default", "30")
	for _, c := range [][2]string{{"1:10", "4mbit"}, {"1:20", "2mbit"}, {"1:30", "1mbit"}} {
		w.Run("r2", "tc", "class", "add", "dev", "eth1", "parent", "1:", "classid", c[0], "htb", "rate", c[1], "burst", "2000", "cburst", "2000")
	}
	w.Socket("far", "0.0.0.0:7") // in which order classes arrive, only times say
	w.QueueCounters("r2", "eth1")
	w.Attach("r1", "r2", "r3")
}

// flower adds a filter of r2.
func flower(w *World, port, parent string, prio int, args ...string) {
	w.Run("r2", append([]string{"tc", "filter", "add", "dev", port, "parent", parent, "protocol", "ip", "prio", fmt.Sprint(prio), "flower"}, args...)...)
}

// ofThreeTTLs sends packets that routers at r2 see with a TTL of 63, 40 or 20, when they
// come in.
func ofThreeTTLs(w *World) {
	for i := range 24 {
		p := w.UDP("10.0.1.1", "10.0.4.2", 200+i*37)
		p.TTL, p.TOS = [3]uint8{64, 41, 21}[i%3], [3]uint8{0xb8, 0x88, 0}[i%3]
		p.Sport = 5000 + uint16(i%3)
		w.Send("out", p)
	}
}

var (
	_ = add(Case{
		Name: "queues/flower-dscp", Point: 7,
		Shows: "classes by DSCP (flower) at a port inside: what each class sends, and its order",
		Needs: []string{"htb", "flower"},
		Build: func(w *World) {
			threeClasses(w)
			flower(w, "eth1", "1:", 1, "ip_tos", "0xb8/0xfc", "classid", "1:10")
			flower(w, "eth1", "1:", 2, "ip_tos", "0x88/0xfc", "classid", "1:20")
		},
		Send: ofThreeTTLs,
	})
	_ = add(Case{
		Name: "queues/flower-ttl-in", Point: 7,
		Shows: "classes by TTL, chosen where packets come in (flower, two bits of the mark): the true TTL counts",
		Needs: []string{"htb", "flower"},
		Build: func(w *World) {
			threeClasses(w)
			w.Run("r2", "tc", "qdisc", "add", "dev", "eth0", "clsact")
			for i, c := range [][2]string{{"63", "1:10"}, {"40", "1:20"}} {
				mark := fmt.Sprintf("%d/0x3", i+1)
				flower(w, "eth0", "ffff:fff2", 10+i, "ip_ttl", c[0], "action", "skbedit", "mark", mark)
				w.Run("r2", "tc", "filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "prio", fmt.Sprint(i+1), "handle", mark, "fw", "classid", c[1])
			}
		},
		Send: ofThreeTTLs,
		Limits: []Limit{{
			Modes: []Mode{Header},
			Text:  "in a node that carries the header, tc filters see the rewritten TTL and ID",
			Match: `queues of r2/eth1`,
		}},
	})
	_ = add(Case{
		Name: "queues/flower-ttl-out", Point: 7,
		Shows: "classes by TTL behind the egress hook of a port inside: they see the TTL of the link",
		Needs: []string{"htb", "flower"},
		Build: func(w *World) {
			threeClasses(w)
			flower(w, "eth1", "1:", 1, "ip_ttl", "62", "classid", "1:10")
			flower(w, "eth1", "1:", 2, "ip_ttl", "39", "classid", "1:20")
		},
		Send: ofThreeTTLs,
		Limits: []Limit{{
			Text:  "classifiers by TTL, hop limit or IP ID behind the egress hook of a port inside the domain (of its queue, and tc egress filters) see the rewritten ones: packets change classes; by DSCP, addresses and ports they do not",
			Match: `queues of r2/eth1`,
		}},
	})
)
