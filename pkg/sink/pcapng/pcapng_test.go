// SPDX-License-Identifier: Apache-2.0

package pcapng_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/sink/pcapng"
)

const start = 1772446504123456789

func ptr[T any](v T) *T { return &v }

// delivered is a packet of h1 that r1 and r2 have sent on to h2.
func delivered() record.Record {
	return record.Record{
		V: 1, ID: "5f3a9c01-1", GUID: "0x1", Source: record.EBPF, State: record.Delivered, TNs: start,
		IPVersion: 4, Src: "10.0.1.1", Dst: "10.0.4.2", Proto: "udp", Sport: ptr(40001), Dport: ptr(9000),
		Len: 28, Segs: 1, TTL: 64, TTLSent: ptr(62), IPID: 7, IPFlags: ptr(2), LatencyNs: ptr(int64(9000)),
		Hops: []record.Hop{
			{Node: "h1", Port: "e0", AtNs: ptr(int64(0))},
			{Node: "r1", InPort: "e0", Port: "e1", AtNs: ptr(int64(3000)), NodeNs: ptr(int64(1000)), LinkNs: ptr(int64(2000)), QueueNs: ptr(int64(500))},
			{Node: "r2", InPort: "e0", Port: "e1", AtNs: ptr(int64(6000)), NodeNs: ptr(int64(1000)), LinkNs: ptr(int64(1500))},
			{Node: "h2", InPort: "e0", AtNs: ptr(int64(9000)), LinkNs: ptr(int64(3000))},
		},
	}
}

// write makes a capture of records.
func write(t *testing.T, records ...record.Record) (file string, stats pcapng.Stats) {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapng.New(&b, pcapng.Options{Application: "radar"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := w.Add(&records[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, w.Stats()
}

// tshark shows fields of a capture, one line a frame. It verifies every checksum that it can.
func tshark(t *testing.T, file string, fields ...string) string {
	t.Helper()
	need.Programs(t, "tshark")
	args := []string{"-n", "-r", file, "-T", "fields", "-E", "occurrence=f",
		"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	out, err := exec.Command("tshark", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestPath: a frame for each port, when the packet was there, with the TTL that it had there.
func TestPath(t *testing.T) {
	r := delivered()
	r.Hops[1].Src, r.Hops[1].Sport = "192.0.2.1", ptr(1024) // NAT
	file, _ := write(t, r)
	got := tshark(t, file, "frame.time_epoch", "frame.interface_name", "frame.packet_flags_direction", "ip.src", "udp.srcport", "ip.ttl", "ip.id", "ip.flags", "ip.checksum.status", "udp.checksum.status")
	want := `1772446504.123456789 h1/e0 2 10.0.1.1 40001 64 0x0007 0x02 1 1
1772446504.123458789 r1/e0 1 10.0.1.1 40001 64 0x0007 0x02 1 1
1772446504.123459789 r1/e1 2 192.0.2.1 1024 63 0x0007 0x02 1 1
1772446504.123461789 r2/e0 1 192.0.2.1 1024 63 0x0007 0x02 1 1
1772446504.123462789 r2/e1 2 192.0.2.1 1024 62 0x0007 0x02 1 1
1772446504.123465789 h2/e0 1 192.0.2.1 1024 62 0x0007 0x02 1 1
`
	if diff := cmp.Diff(want, strings.NewReplacer("0x0000000", "", "\t", " ").Replace(got)); diff != "" {
		t.Error(diff)
	}
}

// kind is a kind of packet, with fields that tshark must show of it.
type kind struct {
	change func(*record.Record)
	fields string
	want   string
}

// kinds are those of which a header is made in a way of its own.
func kinds() map[string]kind {
	return map[string]kind{
		"TCP": {func(r *record.Record) {
			r.Proto, r.Len, r.TCPSeq, r.TCPAck = "tcp", 40, ptr(4294967295), ptr(7)
			r.TCPFlags, r.TCPWindow, r.TCPPayload = ptr(0x118), ptr(502), ptr(0)
		}, "tcp.seq_raw tcp.ack_raw tcp.flags tcp.window_size_value tcp.checksum.status tcp.len", "4294967295 7 0x0118 502 1 0"},
		"TCP with options": {func(r *record.Record) {
			r.Proto, r.Len, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "tcp", 52+1000, ptr(1), ptr(2), ptr(3), ptr(1000)
		}, "tcp.hdr_len tcp.len frame.cap_len frame.len ip.len", "32 1000 52 1052 1052"},
		"a train": {func(r *record.Record) {
			r.Proto, r.Len, r.Segs, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "tcp", 14980, 10, ptr(1), ptr(16), ptr(3), ptr(14460)
		}, "tcp.hdr_len tcp.len frame.len ip.len", "32 14460 14512 14512"},
		"TCP behind options of IP": {func(r *record.Record) {
			r.Proto, r.Len, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "tcp", 24+60+1000, ptr(1), ptr(2), ptr(3), ptr(1000)
		}, "ip.len tcp.srcport tcp.dstport tcp.hdr_len frame.cap_len frame.len", "1084 40001 9000  32 1084"},
		"a train whose lengths do not add up": {func(r *record.Record) {
			r.Proto, r.Len, r.Segs, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "tcp", 14985, 10, ptr(1), ptr(16), ptr(3), ptr(14460)
		}, "tcp.srcport tcp.hdr_len frame.cap_len", "40001  32"},
		"a train behind extension headers": {func(r *record.Record) {
			r.IPVersion, r.Src, r.Dst, r.FlowLabel = 6, "2001:db8::1", "2001:db8::2", ptr(1)
			r.Proto, r.Len, r.Segs, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "tcp", 2*(40+48+32+1000), 2, ptr(1), ptr(16), ptr(3), ptr(2000)
		}, "tcp.srcport tcp.hdr_len frame.cap_len frame.len", "40001  52 2120"},
		"a train of datagrams":       {func(r *record.Record) { r.Len, r.Segs = 10*1028, 10 }, "ip.len udp.length", "10028 10008"},
		"TCP of which nothing known": {func(r *record.Record) { r.Proto, r.Len = "tcp", 1500 }, "tcp.srcport tcp.dstport frame.cap_len frame.len", "40001 9000 24 1500"},
		"a first fragment":           {func(r *record.Record) { r.FragOff, r.IPFlags, r.Len = ptr(0), ptr(1), 1500 }, "ip.flags.mf udp.srcport frame.cap_len ip.len", "1 40001 24 1500"},
		"a later fragment": {func(r *record.Record) { r.FragOff, r.IPFlags, r.Len, r.Sport = ptr(1480), ptr(0), 100, nil },
			"ip.flags.mf ip.frag_offset frame.cap_len ip.len", "0 185 20 100"},
		"an echo": {func(r *record.Record) {
			r.Proto, r.Sport, r.Dport, r.ICMPType, r.ICMPCode, r.ICMPID, r.ICMPSeq = "icmp", nil, nil, ptr(8), ptr(0), ptr(77), ptr(3)
		}, "icmp.type icmp.ident icmp.seq icmp.checksum.status", "8 77 3 1"},
		"an ICMP error": {func(r *record.Record) {
			r.Proto, r.Sport, r.Dport, r.ICMPType, r.ICMPCode, r.Len = "icmp", nil, nil, ptr(3), ptr(4), 576
		}, "icmp.type icmp.code frame.len", "3 4 576"},
		"IPv6": {func(r *record.Record) {
			r.IPVersion, r.Src, r.Dst, r.FlowLabel, r.Len, r.DSCP, r.ECN = 6, "2001:db8::1", "2001:db8::2", ptr(0x54321), 48, 10, 1
		}, "ipv6.src ipv6.flow ipv6.hlim ipv6.plen ipv6.tclass.dscp ipv6.tclass.ecn udp.srcport udp.checksum.status", "2001:db8::1 0x054321 64 8 10 1 40001 1"},
		"IPv6 with a payload": {func(r *record.Record) {
			r.IPVersion, r.Src, r.Dst, r.FlowLabel, r.Len = 6, "2001:db8::1", "2001:db8::2", ptr(1), 148
		}, "udp.srcport udp.length frame.cap_len", "40001 108 46"},
		"a fragment of IPv6": {func(r *record.Record) {
			r.IPVersion, r.Src, r.Dst, r.FlowLabel, r.Len = 6, "2001:db8::1", "2001:db8::2", ptr(1), 148
			r.FragOff, r.FragID, r.IPFlags = ptr(1448), ptr(0xabcdef), ptr(1)
		}, "ipv6.fraghdr.ident ipv6.fraghdr.offset ipv6.fraghdr.more ipv6.plen", "0x00abcdef 181 1 108"},
		"a header that was overwritten": {func(r *record.Record) { r.Src, r.Dst = "", "" }, "frame.cap_len frame.len frame.interface_name", "0 28 h1/e0"},
		"more than IP can say":          {func(r *record.Record) { r.Proto, r.Len = "253", 100_000 }, "ip.proto frame.len", "253 100000"},
	}
}

// TestHeaders: one frame of each kind of packet, as tshark reads it.
func TestHeaders(t *testing.T) {
	var records []record.Record
	var names, fields []string
	for name, c := range kinds() {
		r := delivered()
		c.change(&r)
		r.TNs += int64(len(names))
		r.Hops = r.Hops[:1]
		records, names, fields = append(records, r), append(names, name), append(fields, strings.Fields(c.fields)...)
	}
	slices.Sort(fields)
	fields = slices.Compact(fields)
	file, _ := write(t, records...)
	lines := strings.Split(strings.TrimSuffix(tshark(t, file, fields...), "\n"), "\n")
	if len(lines) != len(names) {
		t.Fatalf("%d frames of %d", len(lines), len(names))
	}
	for i, name := range names {
		c, values := kinds()[name], strings.Split(lines[i], "\t")
		var got []string
		for _, f := range strings.Fields(c.fields) {
			got = append(got, values[slices.Index(fields, f)])
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s: got %s, want %s", name, c.fields, got, c.want)
		}
	}
}

// TestComment: the form that the plugin and others read, with its order.
func TestComment(t *testing.T) {
	r := delivered()
	r.State, r.Hops, r.DSCPSent = record.Lost, r.Hops[:3], ptr(10)
	r.Loss = &record.Loss{Node: "r2", Port: "e1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: "f", AtNs: ptr(int64(6100))}
	file, stats := write(t, r)
	const lost = `"loss":{"node":"r2","port":"e1","at":"queue","reason":"QDISC_DROP","qdisc":"tbf","function":"f","at_ns":6100}`
	got := strings.Split(tshark(t, file, "frame.comment"), "\n")
	for i, want := range map[int]string{
		1: `{"radar":1,"id":"5f3a9c01-1","guid":"0x1","hop":1,"node":"r1","port":"e0","direction":"in","state":"lost","segs":1,"link_ns":2000,` + lost + `}`,
		2: `{"radar":1,"id":"5f3a9c01-1","guid":"0x1","hop":1,"node":"r1","port":"e1","direction":"out","state":"lost","segs":1,"node_ns":1000,"queue_ns":500,` + lost + `,"assumed":["dscp"]}`,
		5: `{"radar":1,"id":"5f3a9c01-1","guid":"0x1","hop":2,"node":"r2","port":"e1","direction":"lost","state":"lost","segs":1,` + lost + `}`,
	} {
		if len(got) != 7 || got[i] != want {
			t.Errorf("frame %d:\n got %s\nwant %s", i, got[min(i, len(got)-1)], want)
		}
	}
	if want := (pcapng.Stats{Packets: 1, Lost: 1, Frames: 6, Interfaces: 5}); stats != want {
		t.Errorf("%+v, want %+v", stats, want)
	}
}

// TestOrder: Advance writes what is from before, in order; what comes too late is counted.
func TestOrder(t *testing.T) {
	var b bytes.Buffer
	w, err := pcapng.New(&b, pcapng.Options{Interfaces: []string{"h1/e0"}, At: func(node, _ string) bool { return node == "h1" }})
	if err != nil {
		t.Fatal(err)
	}
	add := func(after int64) {
		r := delivered()
		r.TNs += after
		if err := w.Add(&r, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []int64{300, 100, 200} {
		add(after)
	}
	if err := w.Advance(start + 201); err != nil || w.Stats().Frames != 2 {
		t.Errorf("%+v, %v", w.Stats(), err)
	}
	add(50)
	if err := w.Flush(); err != nil || w.Stats().Late != 1 {
		t.Errorf("%+v, %v", w.Stats(), err)
	}
	r, err := pcapgo.NewNgReader(&b, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		t.Fatal(err)
	}
	var times []int64
	for {
		_, ci, err := r.ReadPacketData()
		if err != nil {
			break
		}
		times = append(times, ci.Timestamp.UnixNano()-start)
	}
	if diff := cmp.Diff([]int64{100, 200, 50, 300}, times); diff != "" {
		t.Error(diff)
	}
}

// TestAnyRecord: records of any content, as a file or other programs can have them, make a capture that
// another reader reads to its end.
func TestAnyRecord(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() *int {
		return []*int{nil, ptr(0), ptr(rng.IntN(70000) - 100), ptr(rng.IntN(1 << 33)), ptr(-1)}[rng.IntN(5)]
	}
	long := func() *int64 {
		return []*int64{nil, ptr(int64(0)), ptr(rng.Int64N(1e12) - 1e6), ptr(int64(-1 << 63))}[rng.IntN(4)]
	}
	text := func() string {
		return []string{"", "h1", "10.0.0.1", "2001:db8::1", "::ffff:1.2.3.4", "fe80::1%eth0", "\x00\xff{\"", strings.Repeat("n", 70000)}[rng.IntN(8)]
	}
	var b bytes.Buffer
	w, err := pcapng.New(&b, pcapng.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		r := record.Record{ID: text(), State: record.Lost, TNs: rng.Int64N(2e18), IPVersion: 4 + 2*rng.IntN(2), Src: text(), Dst: text(),
			Proto: []string{"tcp", "udp", "icmp", "icmpv6", "sctp", "x"}[rng.IntN(6)], Sport: number(), Dport: number(), FlowLabel: number(),
			ICMPType: number(), ICMPCode: number(), ICMPID: number(), ICMPSeq: number(), TCPSeq: number(), TCPPayload: number(), TCPFlags: number(),
			Len: rng.IntN(200000) - 100, Segs: rng.IntN(50) - 2, FragOff: number(), FragID: number(), IPFlags: number(), TTLSent: number()}
		for range rng.IntN(6) {
			r.Hops = append(r.Hops, record.Hop{Node: text(), InPort: text(), Port: text(), Prev: number(), Copy: rng.IntN(4) == 0, AtNs: long(), NodeNs: long(), LinkNs: long(), QueueNs: long(), Src: text(), Sport: number()})
		}
		if rng.IntN(2) == 0 {
			r.Loss = &record.Loss{Node: text(), Port: text(), AtNs: long()}
		} else {
			r.Losses = []record.BranchLoss{{Hop: rng.IntN(9) - 2}}
		}
		if err := w.Add(&r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewNgReader(&b, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for ; ; n++ {
		if _, _, err = r.ReadPacketData(); err != nil {
			break
		}
	}
	if err != io.EOF || n != w.Stats().Frames || n < 1000 {
		t.Errorf("%d frames of %d, then %v", n, w.Stats().Frames, err)
	}
}

// BenchmarkAdd is the cost of a packet that was seen at six ports.
func BenchmarkAdd(b *testing.B) {
	w, err := pcapng.New(io.Discard, pcapng.Options{})
	if err != nil {
		b.Fatal(err)
	}
	r := delivered()
	b.ReportAllocs()
	for b.Loop() {
		r.TNs += 10_000
		r.ID = fmt.Sprint(r.TNs)
		if err := w.Add(&r, nil); err != nil {
			b.Fatal(err)
		}
		if err := w.Advance(r.TNs); err != nil {
			b.Fatal(err)
		}
	}
}
