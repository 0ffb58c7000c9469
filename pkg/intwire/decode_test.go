// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Every frame is cut at every byte: nothing panics, nothing is read past the end, and an anomaly
// says that it is cut. Values that are still there are those of the whole frame.
func TestCut(t *testing.T) {
	var d Decoder
	var m Message
	for _, f := range frames(t) {
		for n := range f.data {
			// A slice of its own size: a read past the end panics.
			data := bytes.Clone(f.data[:n:n])
			d.Decode(&m, StartEthernet, data)
			checkMessage(t, &m, data)
			if len(m.Anomalies) == 0 {
				t.Errorf("%s cut to %d of %d bytes: no anomaly", f.Name, n, len(f.data))
			}
			if m.Has(MarkedNotINT) && n < 46 { // it ends before INT could begin
				t.Errorf("%s cut to %d of %d bytes: %q", f.Name, n, len(f.data), codesOf(&m))
			}
			if !m.Has(CutLink) && !m.Has(CutIP) {
				t.Errorf("%s cut to %d of %d bytes: %q", f.Name, n, len(f.data), codesOf(&m))
			}
		}
	}
}

// INT is cut: the hops that are whole are shown, and only those.
func TestCutStack(t *testing.T) {
	var d Decoder
	var m Message
	frame := frameByName(t, "int21-md-ipv4-udp-dscp") // 14+20+8+4+12 bytes before the stack, 40 a hop
	for n, hops := range map[int]int{58: 0, 97: 0, 98: 1, 137: 1, 138: 2} {
		d.Decode(&m, StartEthernet, frame[:n])
		if len(m.INT) != 1 || len(m.INT[0].Hops) != hops || m.Has(CutINT) != (n < 138) || len(m.INT[0].Rest) != (n-58)%40 {
			t.Errorf("%d bytes: %s", n, m.AppendJSON(nil))
		}
	}
}

// put returns a copy of b with bytes at an offset changed.
func put(b []byte, at int, v ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], v)
	return b
}

// malformedCase is a frame in which a few bytes are wrong, the anomaly that says so, and what must be shown of it.
type malformedCase struct {
	name  string
	frame []byte
	code  Code
	shown string // in the JSON
}

func malformed(t *testing.T) []malformedCase {
	t.Helper()
	md := frameByName(t, "int21-md-ipv4-udp-dscp") // shim at 42
	mx := frameByName(t, "int21-mx-ipv4-udp-dscp")
	old := frameByName(t, "int10-md-tcp-dscp") // shim at 54
	host := frameByName(t, "hostint-report-ipv4")
	geneve := frameByName(t, "int21-ex-md-geneve") // option at 50
	gpe := frameByName(t, "int21-mx-ipv4-vxlan-gpe")
	tr20 := frameByName(t, "tr20-ex-embedded-int-md") // group at 42
	tr10 := frameByName(t, "tr10-flow-embedded-int10")
	tr05 := frameByName(t, "tr05-local")
	var tail []byte
	for _, c := range foreign {
		if strings.HasPrefix(c.name, "INT 0.5") {
			tail = append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}, c.bytes(t)...)
		}
	}
	return []malformedCase{
		{"length past the packet", put(md, 43, 0xff), LengthPastPacket, `"length_words":255`},
		{"length too short", put(md, 43, 2), BadLength, `"length_words":2`},
		{"length 0", put(md, 43, 0), BadLength, `"length_words":0`},
		{"length a word too long", put(md, 43, 24), SourceWords, `"source_words_hex":"61616161"`},
		{"version 3", put(md, 46, 0x30), BadVersion, `"version":3`},
		{"Hop ML 0", put(md, 48, 0), NoHopML, `"hop_ml":0`},
		{"Hop ML too small", put(md, 48, 5), OtherHopML, `"hop_ml":5`},
		{"reserved bits of the shim", put(md, 42, 0x11), ReservedBits, `"reserved":"0x01000000"`},
		{"reserved bits of the header", put(md, 47, 0x20), ReservedBits, `"reserved":"0x00200000"`},
		{"reserved instruction", put(md, 51, 0x40), ReservedInstr, `"instruction_bitmap":"0xfe40"`},
		{"no instruction", put(md, 50, 0, 0, 0, 0, 0, 0), EmptyBitmap, `"instruction_bitmap":"0x0000"`},
		{"instructions of no domain", put(md, 52, 0, 0), NoDomain, `"ds_instruction":"0x8888"`},
		{"flags of no domain", put(md, 52, 0, 0, 0, 0), NoDomain, `"ds_flags":"0x9999"`},
		{"complement in MX", put(mx, 51, 1), ComplementInMX, `"instruction_bitmap":"0xfe01"`},
		{"MX with words", put(mx, 43, 4), SourceWords, `"source_words_hex":"61616161"`},
		{"1.0: length past the packet", put(old, 56, 0xff), LengthPastPacket, `"length_words":255`},
		{"1.0: stack is no whole hops", put(old, 56, 6), LeftOver, `"rest_hex":"00000001"`},
		{"1.0: Hop ML 0", put(old, 60, 0), NoHopML, `"hop_ml":0`},
		{"1.0: version 7", put(old, 58, 0x70), BadVersion, `"version":7`},
		{"1.0: reserved half word", put(old, 64, 1, 2), ReservedBits, `"reserved16":"0x0102"`},
		{"1.0: type 2", put(old, 54, 2), MarkedNotINT, ``},
		{"0.5: too many hops", put(host, 14+20+8+12+4+20+20+7, 9), BadHopCount, `"total_hop":9`},
		{"0.5: instruction count", put(tail, 14+20+8+5, 3), BadInsCount, `"ins_cnt":3`},
		{"0.5: no tail", put(tail, 14+20+8+2, 7), NoTail, `"length_words":7`},
		{"0.5: instruction count, in a report", put(host, 14+20+8+12+4+20+20+5, 3), LooksLikeINT, `"F":1`},
		{"Geneve: version 4", put(geneve, 54, 0x40), BadVersion, `"version":4`},
		{"Geneve: option past the header", put(geneve, 53, 31), CutINT, `"option_class":"0x0103"`},
		{"VXLAN-GPE: version 4", put(gpe, 54, 0x40), BadVersion, `"version":4`},
		{"VXLAN-GPE: type 5", put(gpe, 50, 0x50), BadType, ``},
		{"report 2.0: version 5", put(tr20, 42, 0x50), PortWithoutINT, ``},
		{"report 2.0: length past the packet", put(tr20, 51, 200), CutReport, `"report_length":200`},
		{"report 2.0: length too short", put(tr20, 51, 1), ShortInner, `"report_length":1`},
		{"report 2.0: metadata too long", put(tr20, 52, 200), ShortInner, `"md_length":200`},
		{"report 2.0: metadata not what the bits ask", put(tr20, 54, 0x70), BadMDLength, `"rep_md_bits":"0x7000"`},
		{"report 2.0: metadata bit 0", put(tr20, 54, 0x90), NodeIDBit, `"rep_md_bits":"0x9000"`},
		{"report 2.0: inner type 9", put(tr20, 50, 0x19), BadInType, `"in_type":9`},
		{"report 2.0: report type 2", put(tr20, 50, 0x24), BadRepType, `"rep_type":2`},
		{"report 2.0: report type 7", put(tr20, 50, 0x74), BadRepType, `"rep_type":7`},
		{"report 2.0: inner type Ethernet", put(tr20, 50, 0x13), NothingFound, `"in_type":3`},
		{"report 1.0: length", put(tr10, 42, 0x15), BadReportLength, `"length_words_field":5`},
		{"report 1.0: reserved bits", put(tr10, 44, 0x02), ReportReserved, `"reserved":"0x0001"`},
		{"report 1.0: NProto 5", put(tr10, 43, 0xa0), BadNProto, `"nproto":5`},
		{"report 1.0: NProto IPv6", put(tr10, 43, 0x40), OtherContents, `"nproto":2`},
		{"report 0.5: NProto 9", put(tr05, 42, 0x09), BadNProto, `"nproto":9`},
		{"report 0.5: reserved bits", put(tr05, 43, 0x61), ReportReserved, `"reserved":"0x0400"`},
	}
}

// Malformed INT behind a known mark: what can be read is shown, with an anomaly.
func TestMalformed(t *testing.T) {
	for _, c := range malformed(t) {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			var m Message
			d.Decode(&m, StartEthernet, c.frame)
			checkMessage(t, &m, c.frame)
			got := string(m.AppendJSON(nil))
			if c.code != NothingFound && !m.Has(c.code) || !strings.Contains(got, c.shown) {
				t.Errorf("no %v, or no %s in %s", c.code, c.shown, got)
			}
			if d.Counts[c.code] == 0 && c.code != NothingFound || d.Packets != 1 {
				t.Errorf("not counted: %d packets, %v", d.Packets, d.Counts)
			}
		})
	}
}

// With a profile nothing is guessed: the same bytes are read as the profile says.
func TestProfiles(t *testing.T) {
	notINT := frameByName(t, "mmtdpi-dscp-only-not-int")
	onos := frameByName(t, "onos-basic-int-report")
	geant := frameByName(t, "geant-bmv2-report")
	drop := put(frameByName(t, "p4studio-switch-v2-drop"), 42, 0x21, 0x00, 0x00, 0x03)
	for _, c := range []struct {
		profile string
		frame   []byte
		want    string
		anomaly Code
	}{
		{"spec-1.0", notINT, `"hops_top_first":[{"node_id":2684354560},{"node_id":2684354561}]`, NumCodes},
		{"spec-2.1", notINT, `"anomalies":["does not look like`, NotTheProfile},
		{"onos-basic", onos, `"D":0,"Q":0,"F":1,"hw_id":1`, FlagsMoved},
		{"spec-1.0", onos, `"D":0,"Q":0,"F":0,"hw_id":1`, ReportReserved},
		{"spec-1.0", geant, `"ingress_ts":232830`, OtherHopML},
		{"geant", geant, `"ingress_ts":1000000000000002`, TraitsByHopML},
		{"switch-p4-16", drop, `"hw_id":1,"sequence":3`, TailBytes},
		{"spec-2.1", drop, `"hw_id":4,"sequence":3`, TailBytes},
		{"spec-0.5", drop, `"anomalies":["does not look like`, NotTheProfile},
	} {
		t.Run(c.profile, func(t *testing.T) {
			d := Decoder{Profile: ProfileByName(c.profile)}
			var m Message
			d.Decode(&m, StartEthernet, c.frame)
			got := string(m.AppendJSON(nil))
			if !strings.Contains(got, c.want) || c.anomaly < NumCodes && !m.Has(c.anomaly) {
				t.Errorf("no %s, or no %v in %s", c.want, c.anomaly, got)
			}
		})
	}
	if ProfileByName("no such") != nil {
		t.Error("a profile that is not there")
	}
	for i := range Profiles {
		p := &Profiles[i]
		if ProfileByName(p.Name) != p || p.Title == "" || p.From == "" || (p.Differs == "") != (i <= spec05) {
			t.Errorf("profile %d: %+v", i, p)
		}
	}
}

// A message that is used again is as if it were new, and nothing is allocated.
func TestReuse(t *testing.T) {
	var d Decoder
	var m Message
	all := frames(t)
	for range 2 {
		for _, f := range all {
			var fresh Message
			d.Decode(&m, StartEthernet, f.data)
			(&Decoder{}).Decode(&fresh, StartEthernet, f.data)
			if a, b := string(m.AppendJSON(nil)), string(fresh.AppendJSON(nil)); a != b {
				t.Errorf("%s: %s\nfresh: %s", f.Name, a, b)
			}
		}
	}
	payload := sixHops(t)
	for name, decode := range map[string]func(){
		"frames": func() {
			for i := range all {
				d.Decode(&m, StartEthernet, all[i].data)
			}
		},
		"a report of six hops": func() { d.DecodeReport(&m, payload) },
	} {
		decode()
		if n := testing.AllocsPerRun(100, decode); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The text of each anomaly takes its numbers, and each has its own name.
func TestAnomalies(t *testing.T) {
	seen := map[string]bool{}
	for c := range NumCodes {
		text := Anomaly{Code: c, A: 1, B: 2}.String()
		if text == "" || strings.Contains(text, "%!") || seen[c.String()] || c.String() == "" {
			t.Errorf("%d %q: %q", c, c, text)
		}
		seen[c.String()] = true
	}
	if s := fmt.Sprint(NumCodes, Anomaly{Code: NumCodes}); s != "unknown unknown" {
		t.Error(s)
	}
}

// A datagram as large as UDP allows: memory is bounded by a multiple of its size.
func TestMany(t *testing.T) {
	var d Decoder
	var m Message
	b := append([]byte{0x20, 0, 0, 1, 0, 0, 0, 1}, bytes.Repeat([]byte{0x00, 0x00, 0x00, 0x80}, 16000)...)
	d.DecodeReport(&m, b)
	if len(m.Reports) != 16000 {
		t.Errorf("%d reports", len(m.Reports))
	}
	checkMessage(t, &m, b)
	var v any
	if err := json.Unmarshal(m.AppendJSON(nil), &v); err != nil {
		t.Error(err)
	}
}

// A hop that is too short for its instructions has the fields that fit, and no others.
func TestShortHop(t *testing.T) {
	var d Decoder
	var m Message
	d.Decode(&m, StartEthernet, put(frameByName(t, "int21-md-ipv4-udp-dscp"), 48, 5))
	got := string(m.AppendJSON(nil))
	if want := `"hops_top_first":[{"node_id":2850,"l1_in":20,"l1_out":21,"hop_latency":0,"queue_id":0,"queue_occ":0},`; !strings.Contains(got, want) {
		t.Errorf("no %s in %s", want, got)
	}
	for i, v := range m.INT[0].Hops[0].V {
		if v != 0 && !m.INT[0].Hops[0].Has.Has(Field(i)) {
			t.Errorf("%v is %d, and absent", Field(i), v)
		}
	}
}

// A length past the end is compared with the IP header: the packet is not cut.
func TestLengthPastPacket(t *testing.T) {
	var d Decoder
	var m Message
	d.Decode(&m, StartEthernet, put(frameByName(t, "int21-md-ipv4-udp-dscp"), 43, 0xff))
	if got := codesOf(&m); got != "length_past_packet unknown_domain source_words" {
		t.Errorf("%q", got)
	}
}

// The padding of a frame is no part of the packet.
func TestPadding(t *testing.T) {
	var d Decoder
	var m Message
	frame := append(frameByName(t, "int10-md-tcp-dscp"), 1, 2, 3, 4)
	d.Decode(&m, StartEthernet, frame)
	if len(m.INT) != 1 || string(m.INT[0].Payload) != "payload!" || len(m.Anomalies) != 0 {
		t.Errorf("%s", m.AppendJSON(nil))
	}
	frame = append(frameByName(t, "tr20-ex-baseline-ipv4"), 0, 0, 0, 0)
	if d.Decode(&m, StartEthernet, frame); len(m.Reports) != 1 || len(m.Anomalies) != 0 {
		t.Errorf("%s", m.AppendJSON(nil))
	}
}
