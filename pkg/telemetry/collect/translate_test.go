// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/quote"
)

// frames are the shared frames, from their IP header on, by name.
func frames(t testing.TB) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile("../../intwire/testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Name, Hex string }
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string][]byte)
	for _, f := range list {
		data, err := hex.DecodeString(f.Hex)
		if err != nil {
			t.Fatal(err)
		}
		if byName[f.Name] = quote.BehindLink(data, 12); byName[f.Name] == nil {
			t.Fatalf("%s: no IP in Ethernet", f.Name)
		}
	}
	return byName
}

var noon = time.Unix(1795392000, 123456789)

// translate returns the records of one packet.
func translate(t *Translator, ip []byte) []record.Record {
	var list []record.Record
	t.Emit = func(p *Reported) { list = append(list, *p.Record()) }
	t.Translate(Packet{noon, ip}, 0xabc)
	t.End()
	return list
}

// TestFrames: who was where, by the frames' own descriptions (the data of 40 bytes is a TCP
// SYN, that of 28 and 36 UDP with 0 and 8 bytes).
func TestFrames(t *testing.T) {
	all := frames(t)
	for _, c := range []struct {
		name    string
		profile string
		state   record.State
		nodes   []string // with ports
		proto   string
		dport   int
		length  int
		latency int64
		reason  string
	}{
		{name: "tr20-ex-baseline-ipv4", nodes: []string{"11:int-3:12"}, proto: "tcp", dport: 80, length: 40},
		{name: "tr20-ex-embedded-int-md", nodes: []string{":int-1:", ":int-2:", ":int-3:"}, proto: "tcp", dport: 80, length: 40},
		{name: "tr10-flow-embedded-int10", nodes: []string{":int-1:", ":int-2:"}, proto: "tcp", dport: 80, length: 40},
		{name: "tr05-local", nodes: []string{"3:int-171:4"}, proto: "tcp", dport: 80, length: 40},
		{name: "fabric-tna-local-report", nodes: []string{"132:int-1:140"}, proto: "tcp", dport: 80, length: 40},
		{name: "p4studio-switch-v2-drop", state: record.Lost, nodes: []string{"0:int-286331153:511"}, proto: "tcp", dport: 80, length: 40, reason: "INT_80"},
		{name: "p4studio-switch-v2-drop", profile: "switch-p4-16", state: record.Lost, nodes: []string{"0:int-286331153:511"}, proto: "tcp", dport: 80, length: 40, reason: "ACL_DROP"},
		{name: "intcollector-e2e-p0", nodes: []string{"2:int-6:3", "2:int-5:3", "5:int-4:3"}, proto: "udp", dport: 5000, length: 28, latency: 408},
		{name: "geant-bmv2-report", nodes: []string{"1:int-1:2", "2:int-2:3"}, proto: "udp", dport: 8080, length: 36, latency: 203000},
		{name: "onos-basic-int-report", nodes: []string{":int-1:", ":int-2:"}, proto: "udp", dport: 8080, length: 28},
		{name: "hostint-report-ipv4", nodes: []string{"7:int-2:7", "8:int-9:8"}, proto: "tcp", dport: 80, length: 40},
	} {
		var tr Translator
		if c.profile != "" {
			if err := tr.SetSource("10.9.0.3", c.profile); err != nil {
				t.Fatal(err)
			}
		}
		if c.state == "" {
			c.state = record.Left
		}
		got := translate(&tr, all[c.name])
		if len(got) != 1 {
			t.Errorf("%s: %d records", c.name, len(got))
			continue
		}
		r := got[0]
		var nodes []string
		for _, h := range r.Hops {
			nodes = append(nodes, h.InPort+":"+h.Node+":"+h.Port)
		}
		latency, reason := int64(0), ""
		if r.LatencyNs != nil {
			latency = *r.LatencyNs
		}
		if r.Loss != nil {
			reason = r.Loss.Reason
		}
		if r.State != c.state || !slices.Equal(nodes, c.nodes) || r.Proto != c.proto || r.Dport == nil || *r.Dport != c.dport ||
			r.Len != c.length || latency != c.latency || reason != c.reason {
			t.Errorf("%s: %s %v %s port %v, %d bytes, %d ns, %q; want %+v", c.name, r.State, nodes, r.Proto, r.Dport, r.Len, latency, reason, c)
		}
		if r.Source != record.INT || r.GUID != "" || r.ID != "00000000-iabc" || r.TNs != noon.UnixNano() || r.Src != "10.0.0.1" || r.Segs != 1 {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestNoReports: what holds INT, but is no report, or neither, makes no record and is counted.
func TestNoReports(t *testing.T) {
	var tr Translator
	all := frames(t)
	for _, name := range []string{"int21-md-ipv4-udp-dscp", "int21-mx-ipv4-vxlan-gpe", "mmtdpi-dscp-only-not-int"} {
		if got := translate(&tr, all[name]); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	translate(&tr, nil)
	translate(&tr, []byte{0x45})
	if want := (Counts{Packets: 5, Rejected: 5, Anomalous: tr.Counts.Anomalous}); tr.Counts != want {
		t.Errorf("counts %+v, want %+v", tr.Counts, want)
	}
}

// TestHopJSON: everything that a node sent is in its hop, by the names of radar int decode.
func TestHopJSON(t *testing.T) {
	tr := Translator{Names: map[uint32]string{1: "leaf1"}}
	r := translate(&tr, frames(t)["geant-bmv2-report"])[0]
	b, err := json.Marshal(r.Hops[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"node":"leaf1","in_port":"1","port":"2","role":"source","node_ns":101000,"int":{"egress_ts":1000000000000101,"egress_tx_util":0,` +
		`"hop_latency":101,"ingress_ts":1000000000000001,"l1_in":1,"l1_out":2,"l2_in":1,"l2_out":2,"node_id":1,"queue_id":0,"queue_occ":1}}`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Error(diff)
	}
}

// TestCutReports: cut anywhere, a report makes a record or none, and never a panic.
func TestCutReports(t *testing.T) {
	var tr Translator
	for _, ip := range frames(t) {
		for n := range ip {
			for _, r := range translate(&tr, ip[:n:n]) {
				if r.Src == "" || r.Len < 0 {
					t.Errorf("cut to %d bytes: %+v", n, r)
				}
			}
		}
	}
}

// clockOf is a domain without nodes, whose stamps are so many ns before Unix time.
type clockOf int64

func (clockOf) NodeName(uint16) string { return "?" }
func (clockOf) PortName(uint16) string { return "" }
func (clockOf) PortNode(uint16) uint16 { return packet.NoNode }
func (c clockOf) WallOffset() int64    { return int64(c) }
func (c clockOf) Host() string         { return "" }

// TestNumbers: aggregates count packets of reports beside a domain's, those that are older than its
// clock, too.
func TestNumbers(t *testing.T) {
	const offset = 1700000000e9
	numbers, agg := &packet.Registry{Domain: clockOf(offset)}, aggregate.New(offset)
	tr := Translator{Numbers: numbers, Emit: func(p *Reported) { agg.Add(&p.Packet) }}
	for _, at := range []int64{offset + 10e9, offset - 10e9} {
		tr.Translate(Packet{time.Unix(0, at), frames(t)["geant-bmv2-report"]}, 0)
	}
	flows := agg.Flows(numbers, nil)
	if len(flows) != 1 || flows[0].FirstNs != offset-10e9 || flows[0].DurationNs != 20e9+203000 || flows[0].Packets != 2 {
		t.Errorf("%+v", flows)
	}
	paths := agg.Paths(numbers)
	if len(paths) != 1 || paths[0].Path != "int-1 > int-2" || paths[0].Left != 2 {
		t.Errorf("%+v", paths)
	}
	rows := agg.Latency(aggregate.ByNode, numbers)
	if len(rows) != 2 || len(agg.Latency(aggregate.ByLink, numbers)) != 0 {
		t.Errorf("%+v; links, whose times nobody knows: %+v", rows, agg.Latency(aggregate.ByLink, numbers))
	}
}

// FuzzTranslate: whatever comes makes records that are whole, or none.
func FuzzTranslate(f *testing.F) {
	for _, ip := range frames(f) {
		f.Add(ip)
	}
	for _, text := range []string{sentP4INT, sentTS, sentE, sentCut, sentMX[0].payload, sentSFlow, sentE + "0000000000000000"} {
		f.Add(reportPacket(f, unhex(f, text)))
	}
	numbers, agg := &packet.Registry{}, aggregate.New(0)
	f.Fuzz(func(t *testing.T, ip []byte) {
		counted := Translator{Numbers: numbers, Emit: func(p *Reported) { agg.Add(&p.Packet) }}
		counted.Translate(Packet{noon, ip}, 0)
		var tr Translator
		for _, r := range translate(&tr, ip) {
			if r.Src == "" || r.Dst == "" || r.Proto == "" || len(r.Hops) > 255 {
				t.Fatalf("%+v", r)
			}
			if _, err := json.Marshal(r.JSON()); err != nil {
				t.Fatal(err)
			}
		}
		if c := tr.Counts; c.Packets != 1 || c.Rejected > 1 || c.Reports != c.Records+c.NoPacket {
			t.Fatalf("counts %+v", c)
		}
	})
}

// TestEachVersion: what radar's own nodes send is read as theirs, whichever versions of INT and reports they were told
// to use.
func TestEachVersion(t *testing.T) {
	for _, short := range []bool{false, true} {
		var got []string
		tr := &Translator{Join: time.Second, Emit: func(p *Reported) {
			r := p.Record()
			got = append(got, fmt.Sprint(nodesOf(r), " ", p.Undated))
		}}
		if err := tr.SetSource("10.9.0.1", "radar"); err != nil {
			t.Fatal(err)
		}
		day := uint64(noon.UnixNano())
		for node := range uint32(2) {
			in := day - 5000 + 1000*uint64(node)
			tr.Translate(timed{"10.9.0.1", 1 + node, in, in + 400, 400, short}.packet(t, noon), uint64(node))
		}
		tr.End()
		if len(got) != 1 || got[0] != "int-1 int-2 false" || tr.Counts.Rejected > 0 {
			t.Errorf("TR 1.0 %v: %q, counts %+v", short, got, tr.Counts)
		}
	}
}
