// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/export"
)

func ptr[T any](v T) *T { return &v }

// chain is a domain h1 - r1 - ... - rN - h2; eth0 is interface 2, eth1 3 everywhere.
func chain(routers int) export.Network {
	d := export.Network{Name: "t"}
	add := func(name string, ports int) {
		id := uint16(len(d.Nodes) + 1)
		d.Nodes = append(d.Nodes, export.Node{Number: id, Name: name})
		for p := range ports {
			d.Ports = append(d.Ports, export.Port{Node: id, Name: fmt.Sprintf("eth%d", p), Ifindex: 2 + p})
		}
	}
	add("h1", 1)
	for i := range routers {
		add(fmt.Sprintf("r%d", i+1), 2)
	}
	add("h2", 1)
	return d
}

func encoder(t testing.TB, d export.Network, v export.Version, mark export.Mark, perHop bool) *export.Encoder {
	t.Helper()
	n, err := export.NewNumbers(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := export.NewEncoder(v, mark, n)
	if err != nil {
		t.Fatal(err)
	}
	e.PerHop = perHop
	return e
}

const start = 1_795_398_910_803_000_000 // ns

// delivered is a UDP packet from h1 to h2 of chain(routers).
func delivered(routers int) record.Record {
	r := record.Record{
		V: 1, ID: "00000001-2", Source: record.EBPF, State: record.Delivered, TNs: start,
		IPVersion: 4, Src: "10.0.1.1", Dst: "10.0.4.2", Proto: "udp", Sport: ptr(40001), Dport: ptr(9000),
		Len: 106, Segs: 1, TTL: 64, TTLSent: ptr(64 - routers), DSCP: 10, ECN: 1, IPID: 7, IPFlags: ptr(2),
	}
	if routers == 0 {
		r.TTLSent = nil
	}
	at := int64(0)
	r.Hops = []record.Hop{{Node: "h1", NodeID: 1, Port: "eth0", Role: record.Source, AtNs: ptr(at)}}
	for i := range routers {
		at += 3000
		r.Hops = append(r.Hops, record.Hop{Node: fmt.Sprintf("r%d", i+1), NodeID: i + 2, InPort: "eth0", Port: "eth1", Role: record.Transit, AtNs: ptr(at), NodeNs: ptr(int64(1000 + i))})
	}
	at += 3000
	r.Hops = append(r.Hops, record.Hop{Node: "h2", NodeID: routers + 2, InPort: "eth0", Role: record.Sink, AtNs: ptr(at)})
	return r
}

// reports are what is emitted for a record.
func reports(e *export.Encoder, r record.Record) (list [][]byte) {
	e.Encode(&r, func(b []byte) { list = append(list, bytes.Clone(b)) })
	return list
}

// read are the messages of reports, which must be beyond doubt.
func read(t testing.TB, list [][]byte) (all []*intwire.Message) {
	t.Helper()
	for _, b := range list {
		m := &intwire.Message{}
		(&intwire.Decoder{}).Decode(m, intwire.StartUDP, append([]byte{0x80, 0, 0x7f, 0xfe, byte((len(b) + 8) >> 8), byte(len(b) + 8), 0, 0}, b...))
		if m.Profile == nil || len(m.Anomalies) > 0 {
			t.Fatalf("%x: %v", b, m.Anomalies)
		}
		all = append(all, m)
	}
	return all
}

// back is what radar's own collector makes of reports.
func back(t testing.TB, d export.Network, list [][]byte) (records []record.Record) {
	t.Helper()
	tr := &collect.Translator{Join: time.Second, Names: make(map[uint32]string)}
	for _, n := range d.Nodes {
		tr.Names[uint32(n.Number)] = n.Name
	}
	tr.Emit = func(p *collect.Reported) { records = append(records, *p.Record()) }
	if err := tr.SetSource("192.0.2.1", "radar"); err != nil {
		t.Fatal(err)
	}
	if list != nil && list[0][0]>>4 == 1 {
		tr.Sources = nil
	}
	for i, b := range list {
		ip := []byte{0x45, 0, byte((len(b) + 28) >> 8), byte(len(b) + 28), 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
			0x80, 0, 0x7f, 0xfe, byte((len(b) + 8) >> 8), byte(len(b) + 8), 0, 0}
		tr.Translate(collect.Packet{At: time.Unix(0, start+int64(i)), IP: append(ip, b...)}, uint64(i))
	}
	tr.End()
	if tr.Counts.Rejected+tr.Counts.NoPacket+tr.Counts.Anomalous > 0 {
		t.Errorf("the collector: %+v", tr.Counts)
	}
	return records
}

// asCollected is what of a packet reports can say, as the collector has it: where which port
// is, by its index, when the last node saw it.
func asCollected(d export.Network, r record.Record) record.Record {
	index := func(node, port string) string {
		for _, n := range d.Nodes {
			for _, p := range d.Ports {
				if n.Name == node && p.Node == n.Number && p.Name == port {
					return fmt.Sprint(p.Ifindex)
				}
			}
		}
		return "0"
	}
	if r.TTLSent != nil {
		r.TTL = *r.TTLSent
	}
	if r.State == record.Delivered {
		r.State = record.Left
	}
	r.TTLSent, r.Source, r.ID, r.TNs, r.Time, r.LatencyNs = nil, record.INT, "", 0, "", nil
	hops := r.Hops
	r.Hops = nil
	for i := range hops {
		h := record.Hop{Node: hops[i].Node, InPort: index(hops[i].Node, hops[i].InPort), Port: index(hops[i].Node, hops[i].Port), Role: record.Transit}
		switch i {
		case 0:
			h.Role = record.Source
		case len(hops) - 1:
			h.Role = record.Sink
		}
		if hops[i].NodeNs != nil {
			h.NodeNs = ptr(*hops[i].NodeNs)
			if hops[i].QueueNs != nil {
				*h.NodeNs += *hops[i].QueueNs
			}
		}
		r.Hops = append(r.Hops, h)
	}
	return r
}

// bare takes out what only a collector knows.
func bare(r record.Record) record.Record {
	r.ID, r.TNs, r.Time = "", 0, ""
	for i := range r.Hops {
		r.Hops[i].INT = nil
	}
	if r.Loss != nil {
		r.Loss.Skbs = 0
	}
	return r
}

// TestBytes holds a report of each version against words written by hand from the texts.
func TestBytes(t *testing.T) {
	r := delivered(1)
	r.Hops[1].QueueNs = ptr(int64(500))
	words := func(list ...uint32) (b []byte) {
		for _, w := range list {
			b = append(b, byte(w>>24), byte(w>>16), byte(w>>8), byte(w))
		}
		return b
	}
	const hi, lo = start >> 32, start & 0xffffffff
	got := reports(encoder(t, chain(1), export.TR20, export.Mark{}, false), r)
	want := words(
		2<<28, 3, // group: version 2, hw_id 0, sequence 0; node 3
		0x14_00_00_20|34<<16, // type 1 (INT), IPv4 inside; 34 words behind this one; F
		0, 0,                 // no metadata
		0x45_29_00_00|(106+100),     // 20 IP, 8 UDP, 100 of INT: 4 shim, 12 header, 3 hops of 7 words
		7<<16|0x4000, 63<<24|17<<16, // the checksum is put in below
		0x0a000101, 0x0a000402,
		40001<<16|5000, (86+100)<<16,
		0x14000000|24<<16|9000, // MD, NPT 1, 24 words, the original port
		2<<28|7<<8|33, 0xec00<<16, 0,
		3, 2<<16, 0xffffffff, hi, lo+6000, 0xffffffff, 0xffffffff,
		2, 2<<16|3, 1500, hi, lo+2000, hi, lo+3500,
		1, 2, 0xffffffff, 0xffffffff, 0xffffffff, hi, lo,
	)
	copy(want[30:], []byte{0x21, 0xed})
	if len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("2.0:\n got %x\nwant %x", got, want)
	}
	if sum := intwire.Sum(want[20:40], 0); sum != 0xffff {
		t.Errorf("the checksum of what is quoted is wrong: %x", sum)
	}
	r.State, r.Loss = record.Lost, &record.Loss{Node: "h2", At: record.AtNode, Reason: "NETFILTER_DROP"}
	got = reports(encoder(t, chain(1), export.TR10, export.Mark{}, false), r)
	want = words(
		0x15_20_00_00|0x0002<<15|0x140, // version 1, 5 words, IPv4, RepMdBit 4 (drop), D, F
		3, 0, lo+6000,                  // node, sequence, ingress time
		80<<16, // queue 0, reason
		0x455d0000|(106+72), 7<<16|0x4000, 63<<24|17<<16, 0x0a000101, 0x0a000402,
		40001<<16|9000, (86+72)<<16,
		0x01001200|10<<2,
		1<<28|5<<8|47, 0xec00<<16,
		3, 2<<16, 0xffffffff, lo+6000, 0xffffffff,
		2, 2<<16|3, 1500, lo+2000, lo+3500,
		1, 2, 0xffffffff, 0xffffffff, lo,
	)
	copy(want[30:], []byte{0x21, 0xd5})
	if len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("1.0:\n got %x\nwant %x", got, want)
	}
	// By each node: what is not known has no bit.
	r.Hops[2].AtNs = nil
	got = reports(encoder(t, chain(1), export.TR20, export.Mark{}, true), r)
	head := func(node, md, bits uint32) []byte {
		return words(2<<28, node, 0x14_00_00_20|(2+md+7)<<16|md<<8, bits<<16, 0)
	}
	for i, want := range [][]byte{
		append(head(1, 3, 0x4400), words(2, hi, lo)...),
		append(head(2, 6, 0x6c00), words(2<<16|3, 1500, hi, lo+2000, hi, lo+3500)...),
		append(words(2<<28, 3, 0x14_00_02_a0|11<<16, 0x4001<<16, 0), words(2<<16, 80<<16)...),
	} {
		if !bytes.HasPrefix(got[i], want) || len(got[i]) != len(want)+28 {
			t.Errorf("node %d:\n got %x\nwant %x...", i, got[i], want)
		}
	}
}

// byOneClock gives what the collector has of a packet the times between the nodes that saw it.
func byOneClock(want, r *record.Record) {
	came := func(h *record.Hop) int64 {
		if h.NodeNs != nil {
			return *h.AtNs - *h.NodeNs
		}
		return *h.AtNs // at the ends it was seen once
	}
	left := func(h *record.Hop) int64 {
		if h.QueueNs != nil {
			return *h.AtNs + *h.QueueNs
		}
		return *h.AtNs
	}
	for i := 1; i < len(r.Hops); i++ {
		want.Hops[i].LinkNs = ptr(came(&r.Hops[i]) - left(&r.Hops[i-1]))
	}
	want.LatencyNs = ptr(left(&r.Hops[len(r.Hops)-1]) - came(&r.Hops[0]))
}

// kinds are packets of all kinds that can have a report.
func kinds() map[string]func(*record.Record) {
	v6 := func(r *record.Record) {
		r.IPVersion, r.IPID, r.IPFlags, r.FlowLabel, r.Src, r.Dst = 6, 0, nil, ptr(0x54321), "2001:db8::1", "2001:db8:0:4::2"
	}
	without := func(r *record.Record, proto string) { r.Proto, r.Sport, r.Dport = proto, nil, nil }
	tcp := func(r *record.Record, headers int) {
		r.Proto = "tcp"
		r.TCPSeq, r.TCPAck, r.TCPFlags, r.TCPWindow, r.TCPPayload = ptr(4000000000), ptr(3000000000), ptr(0x118), ptr(501), ptr(r.Len-headers)
	}
	echo := func(r *record.Record, proto string, kind int) {
		without(r, proto)
		r.ICMPType, r.ICMPCode, r.ICMPID, r.ICMPSeq = ptr(kind), ptr(0), ptr(4711), ptr(3)
	}
	return map[string]func(*record.Record){
		"udp":         func(*record.Record) {},
		"empty udp":   func(r *record.Record) { r.Len = 28 },
		"tcp":         func(r *record.Record) { tcp(r, 40) },
		"tcp options": func(r *record.Record) { tcp(r, 52) },
		"sctp":        func(r *record.Record) { r.Proto = "sctp" },
		"vxlan":       func(r *record.Record) { r.Dport = ptr(4789) },
		"geneve":      func(r *record.Record) { r.Dport = ptr(6081) },
		"our port":    func(r *record.Record) { r.Dport = ptr(export.DefaultPort) },
		"report port": func(r *record.Record) { r.Dport = ptr(32766) },
		"gre":         func(r *record.Record) { without(r, "gre") },
		"ipip":        func(r *record.Record) { without(r, "ipip") },
		"253":         func(r *record.Record) { without(r, "253") },
		"echo":        func(r *record.Record) { echo(r, "icmp", 8) },
		"unreachable": func(r *record.Record) { without(r, "icmp"); r.ICMPType = ptr(3) },
		"udp6":        v6,
		"tcp6":        func(r *record.Record) { v6(r); tcp(r, 60) },
		"echo6":       func(r *record.Record) { v6(r); echo(r, "icmpv6", 129) },
		"train":       func(r *record.Record) { r.Len = 64000; tcp(r, 40) },
		"fragment":    func(r *record.Record) { r.FragOff, r.IPFlags, r.Len = ptr(0), ptr(1), 1500 },
		"fragment 2":  func(r *record.Record) { r.FragOff, r.IPFlags, r.Len = ptr(1480), ptr(0), 1500; without(r, "udp") },
		"fragment6":   func(r *record.Record) { v6(r); r.FragOff, r.IPFlags, r.FragID = ptr(0), ptr(1), ptr(0xabcdef) },
		"fragment6 2": func(r *record.Record) {
			v6(r)
			r.FragOff, r.IPFlags, r.FragID = ptr(1448), ptr(1), ptr(77)
			without(r, "tcp")
		},
		"dropped": func(r *record.Record) {
			r.State = record.Lost
			r.Hops, r.TTLSent = r.Hops[:2], nil
			r.Loss = &record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf"}
		},
	}
}

// TestBack: what every kind of packet says of itself comes back, in each form of reports.
func TestBack(t *testing.T) {
	d := chain(3)
	for name, change := range kinds() {
		for _, form := range []struct {
			name    string
			version export.Version
			mark    export.Mark
			perHop  bool
		}{
			{"2.0 port", export.TR20, export.Mark{}, false},
			{"2.0 DSCP", export.TR20, export.Mark{DSCP: 0x17}, false},
			{"2.0 each", export.TR20, export.Mark{}, true},
			{"1.0 DSCP", export.TR10, export.Mark{}, false},
			{"1.0 each", export.TR10, export.Mark{}, true},
		} {
			t.Run(name+" "+form.name, func(t *testing.T) {
				r := delivered(3)
				r.Hops[2].QueueNs = ptr(int64(1234)) // less than until r3 has it
				change(&r)
				want := asCollected(d, r)
				if form.version == export.TR20 { // of the others nobody says which clock they have
					byOneClock(&want, &r)
				}
				e := encoder(t, d, form.version, form.mark, form.perHop)
				list := reports(e, r)
				if e.Counts.Failed > 0 || e.Counts.Reported != 1 {
					t.Fatalf("%+v", e.Counts)
				}
				byNode := form.perHop || e.Counts.NoStack > 0
				if canCarry := r.FragOff == nil && (form.mark.DSCP == 0 && form.version == export.TR20 || r.Proto == "tcp" || r.Proto == "udp" && *r.Dport < 6081 && *r.Dport != 4789 || r.Proto == "udp" && *r.Dport > 6081); byNode == canCarry && !form.perHop {
					t.Errorf("by each node: %v, a stack is possible: %v", byNode, canCarry)
				}
				if byNode {
					// The first node's TTL, by which the collector puts them in order.
					want.TTL = r.TTL
				} else if form.mark.DSCP != 0 || form.version == export.TR10 {
					want.DSCP = 0x17 // the mark stays
				}
				if want.Loss != nil {
					want.Loss = &record.Loss{Node: "r1", Port: "3", At: record.AtNode, Reason: "TRAFFIC_MANAGER"}
					if form.version == export.TR10 {
						want.Loss.Reason = "INT_71"
					}
				}
				got := back(t, d, list)
				if len(got) != 1 {
					t.Fatalf("%d records: %+v", len(got), got)
				}
				if diff := cmp.Diff(want, bare(got[0])); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestRandom: whatever a record says, reports are beyond doubt, and have all of its hops.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	maybe := func(v int64) *int64 {
		if rng.IntN(3) == 0 {
			return nil
		}
		return ptr(v)
	}
	d := chain(60)
	changes := kinds()
	for n := range 3000 {
		r := delivered(rng.IntN(61))
		for name := range changes { // in the order of chance
			if changes[name](&r); rng.IntN(2) == 0 {
				break
			}
		}
		for i := range r.Hops {
			h := &r.Hops[i]
			h.AtNs, h.NodeNs, h.QueueNs = maybe(rng.Int64N(1<<40)), maybe(rng.Int64N(1<<33)), maybe(rng.Int64N(1<<33))
			switch rng.IntN(8) {
			case 0:
				h.Node, h.NodeID = "?", 0
			case 1:
				h.Port, h.InPort = "", ""
			case 2:
				h.InPort = "gone"
			}
		}
		e := encoder(t, d, export.Version(n%2), export.Mark{}, n%4 > 1)
		list := reports(e, r)
		if e.Counts.Failed > 0 || len(list) == 0 {
			t.Fatalf("%+v: %+v", r, e.Counts)
		}
		hops := 0
		for _, m := range read(t, list) {
			switch {
			case len(m.Embedded) == 1:
				hops += len(m.Embedded[0].Hops)
			case len(m.INT) == 1:
				hops += len(m.INT[0].Hops)
			default:
				hops++
			}
		}
		more := 0
		if r.Loss != nil && (len(r.Hops) < 2 || r.Hops[len(r.Hops)-1].Node != r.Loss.Node) && (e.PerHop || e.Counts.NoStack > 0) {
			more = 1 // the node that dropped it
		}
		if hops != len(r.Hops)+more {
			t.Fatalf("%d hops of %d in %+v", hops, len(r.Hops)+more, r)
		}
	}
}
