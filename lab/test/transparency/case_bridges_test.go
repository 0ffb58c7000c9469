// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
)

// silent makes nodes that send nothing by themselves: what a bridge has learned is what
// the case has sent.
func silent(w *World, names ...string) {
	w.T.Helper()
	w.Nodes(names...)
	for _, n := range names {
		w.Sysctl(n, "ipv6/conf/all/disable_ipv6", "1")
		w.Sysctl(n, "ipv6/conf/default/disable_ipv6", "1")
	}
}

// hosts wires hosts to a switch; the last one's address ends in their number.
func hosts(w *World, sw string, names ...string) (ports []string) {
	w.T.Helper()
	for i, h := range names {
		w.Link(h, "eth0", fmt.Sprintf("10.0.1.%d/24", i+1), sw, "to-"+h, "")
		ports = append(ports, "to-"+h)
	}
	return ports
}

// wait calls ready until it says so.
func (w *World) wait(what string, ready func() bool) {
	w.T.Helper()
	for end := time.Now().Add(mostWait); !ready(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			w.T.Fatalf("%s: not within %v", what, mostWait)
		}
	}
}

// The states of ports, IEEE 802.1D as linux/if_bridge.h numbers them.
const (
	stpForwarding = 3
	stpBlocking   = 4
)

// ring wires three switches to each other, each with a host; the root is s1, and the
// port of s3 to s2 blocks.
func ring(w *World) {
	silent(w, "h1", "h2", "out", "s1", "s2", "s3")
	w.Link("s1", "to-s2", "", "s2", "to-s1", "")
	w.Link("s2", "to-s3", "", "s3", "to-s2", "")
	w.Link("s3", "to-s1", "", "s1", "to-s3", "")
	for i, h := range []string{"h1", "h2", "out"} {
		sw := fmt.Sprintf("s%d", i+1)
		w.Link(h, "eth0", fmt.Sprintf("10.0.1.%d/24", i+1), sw, "to-"+h, "")
		w.Run(sw, "ip", "link", "add", "name", "br", "type", "bridge", "mcast_snooping", "0", "stp_state", "1",
			"priority", fmt.Sprint(4096*(i+1)), "forward_delay", "200", "hello_time", "100", "max_age", "600")
		w.fixMAC(sw, "br")
		for _, l := range w.ports(sw) {
			w.Run(sw, "ip", "link", "set", l.Attrs().Name, "master", "br")
		}
		w.Up(sw, "br")
	}
	w.wait("a tree", func() bool {
		for _, at := range []struct {
			node, port string
			want       int
		}{
			{"s1", "to-h1", stpForwarding}, {"s1", "to-s2", stpForwarding}, {"s1", "to-s3", stpForwarding},
			{"s2", "to-h2", stpForwarding}, {"s2", "to-s1", stpForwarding}, {"s2", "to-s3", stpForwarding},
			{"s3", "to-out", stpForwarding}, {"s3", "to-s1", stpForwarding}, {"s3", "to-s2", stpBlocking},
		} {
			if w.stpState(at.node, at.port) != at.want {
				return false
			}
		}
		return true
	})
}

// stpState of a bridge's port.
func (w *World) stpState(node, port string) int {
	w.T.Helper()
	for i, name := range []string{"disabled", "listening", "learning", "forwarding", "blocking"} {
		if strings.Contains(w.Run(node, "bridge", "link", "show", "dev", port), "state "+name) {
			return i
		}
	}
	return -1
}

var bridgeGroup = net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0}

// wantBPDUs: each bridge protocol frame that left a port came in at the other end as it
// was. ends are pairs of "node/port".
func (r *Run) wantBPDUs(ends ...[2]string) {
	r.T.Helper()
	frames := func(end string, dir direction) (list [][]byte) {
		for _, c := range r.captures {
			for _, s := range c.seen {
				if c.node+"/"+c.port == end && s.dir == dir && bytes.HasPrefix(s.frame, bridgeGroup) {
					list = append(list, s.frame)
				}
			}
		}
		return list
	}
	seen := 0
	for _, e := range ends {
		for _, way := range [][2]string{e, {e[1], e[0]}} {
			left, came := frames(way[0], out), frames(way[1], in)
			seen += len(came)
			for i := range max(len(left), len(came)) {
				// The last one may be in flight.
				if i >= len(left) || i < len(came) && !bytes.Equal(left[i], came[i]) || i >= len(came) && i < len(left)-1 {
					r.T.Errorf("bridge protocol frame %d from %s to %s differs, or is missing: %d left, %d came", i+1, way[0], way[1], len(left), len(came))
					break
				}
			}
		}
	}
	if seen < len(ends) {
		r.T.Errorf("%d bridge protocol frames on %d links", seen, len(ends))
	}
}

// awaitBPDUs waits until a bridge protocol frame has passed each of these ports, which are
// {node, port}.
func (w *World) awaitBPDUs(ports ...[2]string) {
	w.T.Helper()
	for _, p := range ports {
		c := &capture{node: p[0], port: p[1]}
		index := w.Index(p[0], p[1])
		w.in(p[0], func() (err error) {
			c.fd, err = openCapture(index)
			return err
		})
		w.wait("bridge protocol frames at "+p[0]+"/"+p[1], func() bool {
			if _, err := c.read(); err != nil {
				w.T.Fatal(err)
			}
			return slices.ContainsFunc(c.seen, func(s *sighting) bool { return bytes.HasPrefix(s.frame, bridgeGroup) })
		})
		unix.Close(c.fd)
	}
}

// wantBranchLoss: each record with copies has a loss of one branch at that port (of none,
// if it is a device above them) by that function, for that reason where the kernel has one.
func (r *Run) wantBranchLoss(node, port, function string, reasons ...string) {
	r.T.Helper()
	trees := 0
	for i := range r.Records {
		rec := &r.Records[i]
		if !branched(rec) {
			continue
		}
		trees++
		if !slices.ContainsFunc(rec.Losses, func(l record.BranchLoss) bool {
			return l.Node == node && l.Port == port && l.Function == function && (l.Reason == "" || slices.Contains(reasons, l.Reason))
		}) {
			r.T.Errorf("no loss at %s/%s in %s for %q: %+v\n  record %s", node, port, function, reasons, rec.Losses, show(rec))
		}
	}
	if trees == 0 {
		r.T.Error("no record has copies")
	}
}

// wantNoLoop: no packet passed a port twice in one direction.
func (r *Run) wantNoLoop() {
	r.T.Helper()
	for _, c := range r.captures {
		times := make(map[string]int)
		for _, s := range c.seen {
			if s.decoded != nil && s.token != 0 {
				times[fmt.Sprintf("token %d %s", s.token, s.dir)]++
			}
		}
		for what, n := range times {
			if n > 1 {
				r.T.Errorf("%s/%s: %s %d times", c.node, c.port, what, n)
			}
		}
	}
}

var _ = add(Case{
	Name: "bridges/stp", Point: 4,
	Shows: "a ring of switches with a spanning tree: one port blocks, nothing loops, BPDUs pass untouched",
	Build: func(w *World) {
		ring(w)
		for _, h := range []string{"h1", "h2", "out"} {
			w.Listen(h, "0.0.0.0:7")
		}
		w.Attach("h1", "h2", "s1", "s2", "s3")
	},
	Send: func(w *World) {
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.1.1", "10.0.1.255", 60)
			p.MayFrag = clear
			w.SendFrame("h1", "eth0", everybody, p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "s3 lost", "s3 left")
		}
		// Learned by now: h1, from everywhere.
		w.Send("h2", w.UDP("10.0.1.2", "10.0.1.1", 60))
		w.SendFrame("out", "eth0", mac("h1", "eth0"), w.UDP("10.0.1.3", "10.0.1.1", 60).Bytes())
		w.Send("h1", w.UDP("10.0.1.1", "10.0.1.2", 60))
		w.Send("h1", w.UDP("10.0.1.1", "10.0.1.3", 60))
		w.Send("h2", w.UDP("10.0.1.2", "10.0.1.3", 60))                                            // around the blocked port, by the root
		w.awaitBPDUs([2]string{"s2", "to-s1"}, [2]string{"s3", "to-s2"}, [2]string{"s1", "to-s3"}) // hellos come every second
	},
	Check: func(r *Run) {
		if r.Mode == Without {
			return
		}
		r.wantNoLoop()
		r.wantBranchLoss("s3", "to-s2", "br_handle_frame", "NOT_SPECIFIED", "BRIDGE_INGRESS_STP_STATE")
		r.wantBPDUs([2]string{"s1/to-s2", "s2/to-s1"}, [2]string{"s2/to-s3", "s3/to-s2"}, [2]string{"s3/to-s1", "s1/to-s3"})
	},
})

var _ = add(Case{
	Name: "bridges/hairpin", Point: 4,
	Shows: "a switch, and a bridge between nodes, that hand frames back by the port that they came by",
	Build: func(w *World) {
		silent(w, "h1", "h2", "out", "sw", "g1", "g2", "far")
		segment(w, "a", "10.0.2", "far", "g1", "g2")
		w.Run("a", "ip", "link", "set", "dev", "to-g1", "type", "bridge_slave", "hairpin", "on")
		w.Listen("g2", "0.0.0.0:7")
		w.Bridge("sw", "br", hosts(w, "sw", "h1", "h2", "out")...)
		w.Run("sw", "ip", "link", "set", "dev", "to-h1", "type", "bridge_slave", "hairpin", "on")
		for _, h := range []string{"h1", "h2", "out"} {
			w.Listen(h, "0.0.0.0:7")
		}
		w.Attach("h1", "h2", "sw", "g1", "g2")
	},
	Send: func(w *World) {
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.2.1", "10.0.2.255", 60)
			p.MayFrag = clear
			w.SendFrame("g1", "a0", everybody, p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("a left", "a left", "g1 delivered", "g2 delivered")
			p = w.UDP("10.0.1.1", "255.255.255.255", 60)
			p.MayFrag = clear
			w.SendFrame("h1", "eth0", everybody, p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("h1 delivered", "h2 delivered", "sw delivered", "sw left")
			// Unknown unicast.
			p = w.UDP("10.0.1.1", "10.0.1.2", 60)
			p.MayFrag = clear
			w.SendFrame("h1", "eth0", mac("h2", "eth0"), p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("h1 ignored", "h2 delivered", "sw left")
		}
		w.Send("h2", w.UDP("10.0.1.2", "10.0.1.1", 60))
		w.Send("h1", w.UDP("10.0.1.1", "10.0.1.2", 60))
	},
	LocalDrops: true, // a host takes no packet that comes from its own address
})

// queries are left out: what a querier asks follows timers.
var queries = Rule{
	Name: "igmp-queries", Why: "queries of membership, and the answers, follow timers",
	Skip: func(s *sighting) bool { return s.decoded != nil && s.decoded.proto == unix.IPPROTO_IGMP },
}

// snoop has a bridge send copies to members only, and waits until it does.
func snoop(w *World, node, br string, members ...string) {
	w.T.Helper()
	w.Run(node, "ip", "link", "set", "dev", br, "type", "bridge", "mcast_snooping", "1", "mcast_query_response_interval", "10",
		"mcast_startup_query_interval", "20", "mcast_startup_query_count", "20")
	w.Run(node, "ip", "link", "set", "dev", br, "type", "bridge", "mcast_querier", "1")
	w.wait("members", func() bool {
		mdb := w.Run(node, "bridge", "mdb", "show", "dev", br)
		for _, m := range members {
			if !strings.Contains(mdb, "port "+m+" grp "+theGroup) {
				return false
			}
		}
		return true
	})
	time.Sleep(patience * 300 * time.Millisecond) // it floods until the first answers are due
}

var _ = add(Case{
	Name: "bridges/snooping", Point: 4,
	Shows: "IGMP snooping, in a switch and in a bridge between nodes: copies go to members only",
	Build: func(w *World) {
		silent(w, "h1", "h2", "h3", "out", "sw", "g1", "g2", "g3", "far")
		w.Bridge("sw", "br", hosts(w, "sw", "h1", "h2", "h3", "out")...)
		segment(w, "a", "10.0.2", "far", "g1", "g2", "g3")
		member(w, "h2", "10.0.1.2")
		member(w, "out", "10.0.1.4")
		member(w, "g2", "10.0.2.2")
		member(w, "far", "10.0.2.4")
		snoop(w, "sw", "br", "to-h2", "to-out")
		snoop(w, "a", "br", "to-g2", "to-far")
		w.Attach("h1", "h2", "h3", "sw", "g1", "g2", "g3")
	},
	Send: func(w *World) {
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.1.1", theGroup, 60)
			p.MayFrag = clear
			w.SendFrame("h1", "eth0", groupMAC(theGroup), p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "sw left")
			p = w.UDP("10.0.2.1", theGroup, 60)
			p.MayFrag = clear
			w.SendFrame("g1", "a0", groupMAC(theGroup), p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("g2 delivered", "a left")
		}
	},
	Check: func(r *Run) { r.wantNone("h3", "g3") },
	Rules: []Rule{queries},
})

// wantNone: no packet with a token came to the nodes.
func (r *Run) wantNone(nodes ...string) {
	r.T.Helper()
	for _, c := range r.captures {
		for _, s := range c.seen {
			if slices.Contains(nodes, c.node) && s.decoded != nil && s.token != 0 {
				r.T.Errorf("token %d came to %s", s.token, c.node)
			}
		}
	}
}

var _ = add(Case{
	Name: "bridges/joins", Point: 4,
	Shows: "a port of a switch that is put into its bridge, and taken out, while packets pass",
	Build: func(w *World) {
		silent(w, "h1", "h2", "new", "out", "sw")
		ports := hosts(w, "sw", "h1", "h2", "out", "new")
		w.Bridge("sw", "br", ports[:3]...)
		for _, h := range []string{"h2", "new", "out"} {
			w.Listen(h, "0.0.0.0:7")
		}
		w.Attach("h1", "h2", "sw")
	},
	Send: func(w *World) {
		flood := func(more ...string) {
			for _, clear := range []bool{false, true} {
				p := w.UDP("10.0.1.1", "10.0.1.255", 60)
				p.MayFrag = clear
				w.SendFrame("h1", "eth0", everybody, p.Bytes())
				w.Expect(p.Token).Ends("delivered").Branches(append(more, "h2 delivered", "sw left")...)
			}
		}
		flood()
		w.Run("sw", "ip", "link", "set", "to-new", "master", "br")
		flood("sw left")
		w.SendFrame("new", "eth0", mac("h2", "eth0"), w.UDP("10.0.1.4", "10.0.1.2", 60).Bytes())
		w.Run("sw", "ip", "link", "set", "to-new", "nomaster")
		flood()
	},
	Limits: []Limit{{
		Modes: []Mode{Header},
		Text:  "under --carry header copies that a switch makes of a packet from outside are packets of their own; one that comes to a node that it is not for ends as expired",
		Match: `it is expired, want delivered[^[]*\[ sw to-h1\] \[eth0 h1 \]`,
	}},
})
