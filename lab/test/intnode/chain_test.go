// SPDX-License-Identifier: Apache-2.0

package intnode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// sameAtEnds wants what h2 got to be what h1 sent, but for the frame's addresses, the TTL and the IP
// checksum.
func sameAtEnds(t *testing.T, sent, got []packet) {
	t.Helper()
	if len(sent) != len(got) || len(got) == 0 {
		t.Fatalf("%d packets were sent, %d have come", len(sent), len(got))
	}
	for i := range sent {
		a, b := sent[i], got[i]
		if err := b.check(); err != nil {
			t.Errorf("packet %d as it came: %v", i, err)
		}
		if !bytes.Equal(a.l4, b.l4) || a.dscp != b.dscp || a.ecn != b.ecn || a.ttl != b.ttl+3 || a.src != b.src || a.dst != b.dst {
			t.Errorf("packet %d was sent as\n% x\nand came as\n% x", i, a.frame, b.frame)
		}
	}
}

// withINT wants packets to bear INT of these nodes, newest first, and what was sent behind it.
func withINT(t *testing.T, sent, got []packet, nodes ...hop) (stacks []stack) {
	t.Helper()
	if len(sent) != len(got) {
		t.Fatalf("%d packets were sent, %d were seen with INT", len(sent), len(got))
	}
	for i, p := range got {
		if err := p.check(); err != nil {
			t.Errorf("packet %d: %v", i, err)
		}
		s, err := readStack(p.payload)
		if err != nil || p.dscp != 0x17 || s.dscp != sent[i].dscp || !bytes.Equal(s.rest, sent[i].payload) {
			t.Fatalf("packet %d: %v, DSCP %#x, payload\n% x\nsent\n% x", i, err, p.dscp, s.rest, sent[i].payload)
		}
		if len(s.hops) != len(nodes) || int(s.remaining) != 16-len(nodes) {
			t.Fatalf("packet %d: %d hops, want %d; %d may still come", i, len(s.hops), len(nodes), s.remaining)
		}
		for k, h := range s.hops {
			if h.node != nodes[k].node || h.in != nodes[k].in || h.out != nodes[k].out {
				t.Errorf("packet %d, hop %d: %+v, want %+v", i, k, h, nodes[k])
			}
			if h.left < h.came || h.left-h.came != uint64(h.latency) || k > 0 && s.hops[k].left > s.hops[k-1].came {
				t.Errorf("packet %d, hop %d: times %d to %d, latency %d, the next node at %d", i, k, h.came, h.left, h.latency, s.hops[max(k-1, 0)].came)
			}
		}
		stacks = append(stacks, s)
	}
	return stacks
}

// at is what a node writes that a packet passes by e0 and e1.
func (w *world) at(name string, id uint32) hop {
	return hop{node: id, in: uint16(w.Index(name, "e0")), out: uint16(w.Index(name, "e1"))}
}

// TestChain: packets have INT between the routers and nowhere else, and come as they were sent. Reports,
// counters and captures agree.
func TestChain(t *testing.T) {
	for _, by := range []string{"tcx", "clsact"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t)
			w.nodes("--hook", by)
			reports := w.collector("r2")
			first, second, third, last := w.capture("h1", "e1"), w.capture("r1", "e1"), w.capture("r2", "e1"), w.capture("h2", "e0")
			const n = 300
			w.send(flow{"h1", "h2", "10.0.3.2", 5001, n})
			w.send(flow{"h1", "h2", "fd00:3::2", 5002, n})
			sent, one, two, got := first.packets(false), second.packets(false), third.packets(false), last.packets(true)
			stacks := make(map[int][]stack)
			for _, port := range []int{5001, 5002} { // a packet without INT has no report: captures name it first
				s := ofPort(sent, port)
				sameAtEnds(t, s, ofPort(got, port))
				withINT(t, s, ofPort(one, port), w.at("r1", 1))
				stacks[port] = withINT(t, s, ofPort(two, port), w.at("r2", 3), w.at("r1", 1))
			}
			list := reports.reports(2 * n)
			for port, of := range stacks {
				w.checkReports(t, list, ofPort(two, port), of, port)
			}
			st := w.status()
			for name, want := range map[string]string{"r1": "source", "r2": "transit", "r3": "sink"} {
				if c := st.of(name); c[want] != 2*n || c["source"]+c["transit"]+c["sink"] != 2*n {
					t.Errorf("%s: %v, want %s %d", name, c, want, 2*n)
				}
			}
			if c := st.of("r3"); c["reports"] != 2*n || st.Lost != 0 {
				t.Errorf("r3: %v, %d lost", c, st.Lost)
			}
			w.agentSent(2 * n)
			w.radar("int", "detach")
			w.left()
		})
	}
}

// agentSent waits until the agent says that it has sent so many reports.
func (w *world) agentSent(n uint64) {
	w.Helper()
	var s status
	nstest.WaitFor(w.TB, fmt.Sprintf("%d reports in the status", n), func() bool {
		s = w.status()
		return s.Agent.Reports == n
	})
	if s.Agent.Sent != s.Agent.Datagrams || s.Agent.Failed > 0 || s.Agent.Sent == 0 || s.Agent.Sent > n {
		w.Errorf("the agent says %+v", s.Agent)
	}
}

// checkReports wants one report of the sink about each packet, which quotes it as it came.
func (w *world) checkReports(t *testing.T, list []single, came []packet, stacks []stack, port int) {
	t.Helper()
	at, next := 0, uint32(0)
	for i, r := range list {
		if i == 0 {
			next = r.sequence
		}
		if r.sequence != next && r.sequence != next+1 || r.node != 2 {
			t.Errorf("report %d: of node %d, number %d behind %d", i, r.node, r.sequence, next)
		}
		next = r.sequence
		quote, version := r.quote, byte(4)
		if r.inner == 5 {
			version = 6
		}
		p, ok := parse(append([]byte{12: map[byte]byte{4: 8, 6: 0x86}[version], 13: map[byte]byte{4: 0, 6: 0xdd}[version]}, padded(quote)...))
		if !ok || quote[0]>>4 != version || int(p.dport) != port {
			continue
		}
		if at == len(came) {
			t.Fatal("more reports than packets")
		}
		c := came[at]
		whole := append(bytes.Clone(c.head), c.l4...)
		n := min(len(quote), len(whole))
		quoteTTL, wholeTTL := bytes.Clone(quote[:n]), whole[:n]
		// Over veths nobody writes the UDP checksum of what the machine itself sends: the node has the
		// packet, and quotes it, with the sum of the pseudo header in its place.
		for _, b := range [][]byte{quoteTTL, wholeTTL} {
			copy(b[len(c.head)+6:], []byte{0, 0})
		}
		const ttl4, sum4, ttl6 = 8, 10, 7
		if version == 4 { // r3 has lowered the TTL by the time
			quoteTTL[ttl4], wholeTTL[ttl4] = 0, 0
			copy(quoteTTL[sum4:], []byte{0, 0})
			copy(wholeTTL[sum4:], []byte{0, 0})
		} else {
			quoteTTL[ttl6], wholeTTL[ttl6] = 0, 0
		}
		if !bytes.Equal(quoteTTL, wholeTTL) {
			t.Fatalf("report %d quotes\n% x\nof\n% x", i, quoteTTL, wholeTTL)
		}
		if r.flags != 0x20 || r.bits != 0x7c00 || len(r.values) != 28 {
			t.Fatalf("report %d: flags %#x, bits %#x, %d bytes of values", i, r.flags, r.bits, len(r.values))
		}
		h := readHop(r.values, r.bits, false)
		want := w.at("r3", 0)
		if h.in != want.in || h.out != want.out || h.left-h.came != uint64(h.latency) || h.came < stacks[at].hops[0].left {
			t.Errorf("report %d: %+v, want %+v, behind %+v", i, h, want, stacks[at].hops[0])
		}
		at++
	}
	if at != len(came) {
		t.Errorf("port %d: %d reports about %d packets", port, at, len(came))
	}
}

// padded makes a quote so long as its headers say, as parse wants it.
func padded(quote []byte) []byte {
	size := int(binary.BigEndian.Uint16(quote[2:]))
	if quote[0]>>4 == 6 {
		size = 40 + int(binary.BigEndian.Uint16(quote[4:]))
	}
	return append(bytes.Clone(quote), make([]byte, max(0, size-len(quote)))...)
}

// TestModes: what is on the links, and who reports, in other modes.
func TestModes(t *testing.T) {
	const n = 50
	for _, c := range []struct {
		mode    string
		args    []string
		bytes   int // that a packet is longer by behind r1
		reports map[uint32]int
	}{
		{"md1.0", []string{"--mode", "md1.0", "--instructions", "node-id,hop-latency"}, 4 + 8 + 8, map[uint32]int{2: n}},
		{"mx", []string{"--mode", "mx"}, 4 + 12, map[uint32]int{1: n, 2: n, 3: n}},
		{"xd", []string{"--mode", "xd"}, 0, map[uint32]int{1: n, 2: n, 3: n}},
		{"port", []string{"--mark", "port=5555", "--instructions", "0xc000"}, 4 + 12 + 8, map[uint32]int{2: n}},
		{"not watched", []string{"--watch", "udp port 9"}, 0, nil},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.nodes(c.args...)
			reports := w.collector("r2")
			first, second, last := w.capture("h1", "e1"), w.capture("r1", "e1"), w.capture("h2", "e0")
			w.send(flow{"h1", "h2", "10.0.3.2", 5001, n})
			sent, inside, got := ofPort(first.packets(false), 5001), second.packets(false), last.packets(true)
			sameAtEnds(t, sent, ofPort(got, 5001))
			if len(inside) != n {
				t.Fatalf("%d packets between r1 and r2", len(inside))
			}
			for i, p := range inside {
				if err := p.check(); err != nil || len(p.payload) != len(sent[i].payload)+c.bytes || (p.dscp == 0x17) != (c.bytes > 0 && c.mode != "port") || (p.dport == 5555) != (c.mode == "port") {
					t.Fatalf("packet %d: %v, %d bytes of payload, sent %d, DSCP %#x, port %d; r1: %v", i, err, len(p.payload), len(sent[i].payload), p.dscp, p.dport, w.status().of("r1"))
				}
			}
			all := 0
			for _, k := range c.reports {
				all += k
			}
			by := make(map[uint32]int)
			for _, r := range reports.reports(all) {
				by[r.node]++
			}
			if fmt.Sprint(by) != fmt.Sprint(c.reports) && all > 0 {
				t.Errorf("reports by node: %v, want %v", by, c.reports)
			}
			if c.mode == "not watched" && w.status().of("r1")["not_watched"] < n {
				t.Errorf("counters: %v", w.status().of("r1"))
			}
		})
	}
}

// TestOldReports: TR 1.0 has one report a datagram.
func TestOldReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes("--report", "1.0", "--mode", "md1.0")
	c := w.collector("r2")
	const n = 20
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, n})
	b := make([]byte, 2000)
	_ = c.SetReadDeadline(time.Now().Add(nstest.Patience))
	for i := range n {
		size, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		// Version 1, length by RepMdBits: ports, latency, queue, time of egress; IPv4 is NProto 1; F.
		w := binary.BigEndian.Uint32(b)
		if w>>28 != 1 || w>>24&15 != 8 || w>>21&7 != 1 || w>>15&0x3f != 0x3c || w&0x1c0 != 0x40 ||
			binary.BigEndian.Uint32(b[4:]) != 2 || binary.BigEndian.Uint32(b[8:]) != uint32(i) || size < 32+28 || b[32] != 0x45 {
			t.Fatalf("report %d: % x", i, b[:min(size, 64)])
		}
	}
}

// TestCollect: radar's own collector makes paths of the reports.
func TestCollect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes()
	cmd := exec.Command("nsenter", "--net="+w.Path("r2"), w.bin, "collect", "--all", "--source", "127.0.0.1=radar", "--node", "1=r1,2=r3,3=r2")
	cmd.Env = w.command().Env
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() { _ = cmd.Process.Kill() })
	nstest.WaitFor(t, "the collector", func() bool {
		listening, _ := w.Try("r2", "ss", "-lun")
		return strings.Contains(listening, ":32766")
	})
	const n = 40
	began := time.Now()
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, n})
	ended := time.Now()
	type path struct {
		Path    string
		Packets uint64
	}
	var rows []path
	nstest.WaitFor(t, "all packets in the paths", func() bool {
		text, err := w.command("paths", "-o", "json").Output()
		if err != nil {
			return false
		}
		rows = rows[:0]
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var row path
			if d.Decode(&row) != nil {
				break
			}
			rows = append(rows, row)
		}
		return len(rows) == 1 && rows[0].Packets == n
	})
	if rows[0].Path != "r1 > r2 > r3" {
		t.Errorf("the path is %s\n%s", rows[0].Path, out.String())
	}
	// Packets have the times that nodes tell, not those at which reports came: which is in batches, and later.
	var f struct {
		FirstNs        int64    `json:"first_ns"`
		LastNs         int64    `json:"last_ns"`
		ReorderedRatio *float64 `json:"reordered_ratio"`
	}
	text, err := w.command("flows", "-o", "json").Output()
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	const slack = int64(time.Millisecond) // between the machine's clocks
	if err != nil || f.FirstNs < began.UnixNano()-slack || f.LastNs > ended.UnixNano()+slack || f.ReorderedRatio == nil || *f.ReorderedRatio != 0 {
		t.Errorf("%v: packets were sent from %d to %d, the flow is %s", err, began.UnixNano(), ended.UnixNano(), text)
	}
}
