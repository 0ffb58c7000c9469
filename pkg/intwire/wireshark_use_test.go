// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// Preferences, and filters of the documentation: which packets each lets through.
func TestWiresharkPreferences(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("takes long: make test runs it")
	}
	md := shim20(0xa000, 0, 2, []byte{0, 0, 0, 3, 0, 1, 0x86, 0xa1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff}) // latency 100001, and none
	odd := shim20(0x8000, 0, 1, []byte{0, 0, 0, 7})
	odd[6] = 9 // Hop ML: only a mark lets it through
	frame := func(dscp byte, port uint16, payload []byte) []byte {
		f := wrap(payload, port)
		f[15] = dscp << 2
		return f
	}
	packets := [][]byte{
		frame(0x17, 9999, odd), frame(0x2a, 9999, odd), frame(0, 5000, odd), frame(0, 7777, odd), // 1 to 4
		frame(0, 9999, append([]byte{1, 2, 3, 4, 5, 6, 7, 8}, md...)), // 5: behind a marker
		frame(0, 9999, md), wrap(group(0x2000, []byte{0, 1, 0x86, 0xa2}), 32766), wrap(report10(0, nil), 9999), // 6, 7, 8
	}
	file := writeCapture(t, 1, packets)
	for _, c := range []struct{ want, filter, prefs string }{
		{"1 3 5 6", "int", ""},
		{"1 3 5 6", "int", "ip.try_heuristic_first:FALSE"}, // it is set again
		{"1 2 3 5 6", "int", "int.dscp:23,42"},
		{"2 3 5 6", "int", "int.dscp:40 int.dscp_mask:56"},
		{"2 5 6", "int", "int.dscp:42 int.ports:1"},
		{"1 4 5 6", "int", "int.ports:7777"},
		{"1 3", "int", "int.by_form:FALSE"},
		{"1 3 6", "int", "int.marker:1122334455667788"},
		{"1 3 5", "int", "int.by_form:FALSE int.marker:0102030405060708"},
		{"", "int.version == 2", "int.source:spec-1.0"},
		{"3", "int", "int.look:FALSE"},
		{"3 4", "int", "int.look:FALSE -d udp.port==7777,int"},
		{"7 8", "int_report", ""},
		{"7", "int_report", "int.by_form:FALSE"},
		{"1 2 5 6 8", "int_report", "int.by_form:FALSE int_report.ports:9999"}, // a port of reports wins over what is not quite INT
		{"7", "int_report", "int.look:FALSE"},
		{"5 6 7", "int.hop_latency > 100000", ""},
		{"5 6", `int.unavailable == "hop_latency"`, ""},
		{"5 6", "int.hops == 2", ""},
		{"5 6 7", "int.node_id == 3", ""}, // of a hop, or of the report
		{"7", "int_report.node_id == 3", ""},
		{"7 8", "int_report.seq > 4", ""},
		{"1 3", "int.expert.other_hop_ml", ""},
		{"5", "int.probe_marker == 0x0102030405060708", ""},
	} {
		args := []string{"-Y", c.filter}
		prefs, decodeAs, _ := strings.Cut(c.prefs, "-d ")
		for _, p := range strings.Fields(prefs) {
			args = append(args, "-o", p)
		}
		if decodeAs != "" {
			args = append(args, "-d", decodeAs)
		}
		var got []string
		for _, p := range tshark(t, file, args...) {
			got = append(got, of(&p, "frame.number"))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s with %q: packets %s, want %s", c.filter, c.prefs, s, c.want)
		}
	}
}

// segment is a TCP segment of 10.0.0.1 to 10.0.0.2 port 80, under a DSCP: options are those of TCP.
func segment(dscp byte, seq uint32, options []byte, payload ...[]byte) []byte {
	tcp := binary.BigEndian.AppendUint32([]byte{0x30, 0x39, 0, 80}, seq)
	tcp = append(tcp, 0, 0, 0, 1, byte(5+len(options)/4)<<4, 0x18, 0x20, 0, 0, 0, 0, 0)
	tcp = slices.Concat(tcp, options, slices.Concat(payload...))
	frame := wrap(nil, 0)[:34]
	frame[15], frame[23] = dscp<<2, protoTCP
	copy(frame[26:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	binary.BigEndian.PutUint16(frame[16:], uint16(20+len(tcp)))
	return append(frame, tcp...)
}

// What INT is in goes on as Wireshark shows it without: TCP counts no bytes of INT, options behind INT are options, the
// payload gets its dissector, and a quoted packet does not change what the packet list says of the report.
func TestWiresharkAround(t *testing.T) {
	md := shim20(0x8000, 0, 1, []byte{0, 0, 0, 7})
	get, rest := []byte("GET / HTTP/1.1\r\nHost: "), []byte("radar\r\n\r\n")
	dns := []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1}
	to53 := bytes.Clone(md)
	to53[0], to53[3] = 0x14, 53
	inUDP := slices.Concat([]byte{0x9c, 0x40, 0, 53, 0, 27, 0, 0}, dns)
	pushed := bytes.Clone(md)
	pushed[0], pushed[3] = 0x18, 17
	frames := [][]byte{
		segment(0x17, 1, nil, md, get),                                                         // 1
		segment(0x17, 1+uint32(len(get)), nil, md, rest),                                       // 2
		segment(0x17, 1+uint32(len(get)+len(rest)), nil, md),                                   // 3: no payload
		segment(0x17, 5000, []byte{1, 1, 4, 2}, []byte("text")),                                // 4: see below
		wrap(slices.Concat(to53, dns), 5000),                                                   // 5: NPT 1
		wrap(slices.Concat(pushed, inUDP), 5000),                                               // 6: NPT 2
		wrap(slices.Concat(group(0, nil)[:20], segment(0x17, 1, nil, md, get)[14:]), 32766),    // 7: a report of 1
		func() []byte { f := wrap(slices.Concat(md, dns), 53); f[15] = 0x17 << 2; return f }(), // 8: NPT 0, a port of others
		wrap(dns, 53), // 9: without INT
		wrap(slices.Concat(shim05(0x8000, 1, 1, []byte{0, 0, 0, 7})[:16], []byte{17, 0, 53, 0}, dns), 33122),     // 10: the tail's port
		wrap(slices.Concat([]byte{5, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 3, 1, 4}, md[4:], wrap(dns, 53)), portGeneve), // 11
		wrap([]byte("\x00\x01file\x00octet\x00"), 69),                                                            // 12: the answer comes to port 0
		marked(wrap(md, 0)), // 13: whose conversation has a dissector
		func() []byte { f := marked(wrap(md, 7777)); f[39] = 3; return f }(), // 14: UDP's length is wrong
	}
	frames[3] = slices.Insert(frames[3], 14+20+20, shim20(0x8000, 0, 1, []byte{0, 0, 0, 8})...) // before the options
	frames[3][17] += 20
	frames[6][42+9] = byte(2 + (len(frames[6])-42-20)/4) // Report Length
	file := writeCapture(t, 1, frames)
	packets := tshark(t, file)
	text := func(n int, name string) string { return of(&packets[n-1], name) }
	for _, c := range []struct {
		n          int
		name, want string
	}{
		{1, "tcp.len", "22"}, {2, "tcp.len", "9"}, {2, "http.host", "radar"}, {3, "tcp.len", "0"}, {2, "tcp.analysis.flags", ""}, {3, "tcp.analysis.flags", ""},
		{4, "tcp.options.sack_perm", "04:02"}, {4, "tcp.len", "4"}, {4, "int.node_id", "8"},
		{5, "udp.dstport", "5000"}, {5, "dns.qry.name", "a"}, {6, "udp.dstport", "53"}, {6, "dns.qry.name", "a"},
		{7, "int.node_id", "7"}, {8, "dns.qry.name", "a"}, {8, "udp.length", "47"}, {9, "dns.qry.name", "a"}, {9, "int.version", ""},
		{10, "udp.dstport", "33122"}, {10, "dns.qry.name", "a"}, {11, "int.node_id", "7"}, {11, "dns.qry.name", "a"},
		{13, "int.node_id", "7"}, {14, "int.node_id", "7"}, {14, "udp.length", "3"},
	} {
		if got := text(c.n, c.name); got != c.want {
			t.Errorf("packet %d: %s is %q, want %q", c.n, c.name, got, c.want)
		}
	}
	var lines []string
	for _, p := range trees(t, "psml", file) {
		var columns []string
		for _, c := range p.Sub {
			columns = append(columns, c.Text)
		}
		lines = append(lines, strings.Join(columns, " "))
	}
	for n, want := range map[int]string{
		2:  "INT 83 GET / HTTP/1.1  [INT-MD 2.x, 1 hop: 7]",
		5:  "INT 81 Standard query 0x0001 A a [INT-MD 2.x, 1 hop: 7]",
		7:  "10.9.0.3 10.9.9.9 INT_REPORT 144 Telemetry Report 2.0, node 3, seq 5, tracked flow; INT-MD 2.x, 1 hop: 7",
		9:  "DNS 61 Standard query 0x0001 A a",
		11: "INT 131 Standard query 0x0001 A a [INT-MD 2.x, 1 hop: 7]",
	} {
		if !strings.HasSuffix(lines[n-1], want) {
			t.Errorf("packet %d: %q, want %q", n, lines[n-1], want)
		}
	}
}

// Labels: what is not available, what bits ask for, and numbers in the unit of the preferences.
func TestWiresharkLabels(t *testing.T) {
	md := shim20(0xbc00, 0, 7, slices.Concat([]byte{0, 0, 0, 3, 0, 1, 0x86, 0xa1, 0xff, 0xff, 0xff, 0xff}, make([]byte, 7), []byte{9, 0, 0, 0, 0, 0x3b, 0x9a, 0xca, 1}))
	file := writeCapture(t, 1, [][]byte{wrap(md, 5000)})
	for _, c := range []struct {
		name, label string
		prefs       []string
	}{
		{"int.hop_latency", "Hop latency: 100001", nil},
		{"int.hop_latency", "Hop latency: 100001 (100.001 ms)", []string{"-o", "int.latency_unit:us"}},
		{"int.hop_latency", "Hop latency: 100001 (100.001 us)", []string{"-o", "int.latency_unit:ns"}},
		{"int.ingress_ts", "Ingress time: 9 (9 us)", []string{"-o", "int.time_unit:us"}},
		{"int.egress_ts", "Egress time: 1000000001 (1.000000001 s)", []string{"-o", "int.time_unit:ns"}},
		{"int.instruction_bitmap", "Instruction bitmap: 0xbc00 (node id, hop latency, queue, ingress time, egress time)", nil},
		{"int.hop_ml", "...0 0111 = Hop ML, words: 7", nil},
		{"int.hop", "Hop: 1, node 3", nil},
		{"int.unavailable", "Queue id: not available", nil},
	} {
		packets := tshark(t, file, c.prefs...)
		found := false
		packets[0].each(func(it *item) { found = found || it.Label == c.label }, c.name)
		if !found {
			t.Errorf("%q: no %s with the label %q", c.prefs, c.name, c.label)
		}
	}
}
