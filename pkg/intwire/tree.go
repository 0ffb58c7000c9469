// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/hex"
	"fmt"
	"strconv"
)

// Item is one named value of a decoded packet, for printing: a number or a text, an
// object, or a list of items without names.
type Item struct {
	Name string
	Text string // of a number or text, without quotes
	Kind ItemKind
	Sub  []Item // of an object or list
}

// ItemKind is what an Item is.
type ItemKind uint8

// The kinds.
const (
	Number ItemKind = iota
	Text
	Object
	List
)

func num[T uint8 | uint16 | uint32 | uint64 | int](name string, v T) Item {
	return Item{Name: name, Text: strconv.FormatUint(uint64(v), 10)}
}

func text(name, v string) Item           { return Item{Name: name, Kind: Text, Text: v} }
func hex16(name string, v uint16) Item   { return text(name, fmt.Sprintf("0x%04x", v)) }
func hexText(name string, v []byte) Item { return text(name, hex.EncodeToString(v)) }
func object(name string, sub []Item) Item {
	return Item{Name: name, Kind: Object, Sub: sub}
}
func list(name string, sub []Item) Item { return Item{Name: name, Kind: List, Sub: sub} }

func flag(name string, v bool) Item {
	if v {
		return num(name, 1)
	}
	return num(name, 0)
}

// Tree returns everything in m, with the names of the JSON form, which are a contract
// (docs/int/decode.md). What is not known has no item. It allocates: it is for printing.
func (m *Message) Tree() []Item {
	var t []Item
	if m.Profile != nil {
		t = append(t, text("profile", m.Profile.Name))
	}
	if p := m.Packet.tree(); len(p) > 0 {
		t = append(t, object("packet", p))
	}
	if m.Profile != nil {
		t = append(t, text("found_by", m.Mark.String()))
	}
	if m.Report.Layout != NoReport {
		t = append(t, object("report", m.Report.tree()))
	}
	if m.HasGroup {
		t = append(t, object("group", m.Group.tree()))
		var reports []Item
		for i := range m.Reports {
			reports = append(reports, object("", m.single(&m.Reports[i])))
		}
		t = append(t, list("reports", reports))
	}
	for i := range m.INT {
		if i == 0 {
			t = append(t, m.INT[0].tree()...)
			continue
		}
		if i == 1 {
			t = append(t, list("more", nil))
		}
		more := &t[len(t)-1]
		more.Sub = append(more.Sub, object("", m.INT[i].tree()))
	}
	var anomalies []Item
	for _, a := range m.Anomalies {
		anomalies = append(anomalies, text("", a.String()))
	}
	return append(t, list("anomalies", anomalies))
}

func (p *Packet) tree() (t []Item) {
	if p.Version != 0 {
		t = append(t, num("ip_version", p.Version))
		if p.Src.IsValid() {
			t = append(t, text("src", p.Src.String()), text("dst", p.Dst.String()))
		}
		t = append(t, num("proto", p.Proto))
	}
	if p.HasPorts {
		t = append(t, num("sport", p.SrcPort), num("dport", p.DstPort))
	}
	if p.Version != 0 {
		t = append(t, num("ttl", p.TTL), num("dscp", p.DSCP), num("ecn", p.ECN))
	}
	return t
}

func (in *INT) tree() []Item {
	t := []Item{text("carrier", in.Carrier.String())}
	switch in.Carrier {
	case OverGRE:
		t = append(t, hex16("gre_protocol", in.Class))
	case OverGeneve:
		t = append(t, hex16("option_class", in.Class), num("option_type", in.Header.Type))
	case OverVXLAN:
		t = append(t, text("vxlan_next_protocol", fmt.Sprintf("0x%02x", in.Next)))
	}
	if in.Mark == ByMarker {
		t = append(t, text("probe_marker", fmt.Sprintf("0x%016x", in.Marker)))
	}
	if in.Incomplete {
		t = append(t, num("incomplete", uint8(1)))
	}
	if in.Shim.Form != NoShim {
		t = append(t, object("shim", in.Shim.tree(in.Header.Layout)))
	}
	if in.HasHeader {
		t = append(t, object("header", in.Header.tree()))
		if in.Header.Type != TypeMX || in.Hops != nil {
			var hops []Item
			for i := range in.Hops {
				h := &in.Hops[i]
				sub := h.tree()
				if len(h.Reserved) > 0 {
					sub = append(sub, hexText("reserved_hex", h.Reserved))
				}
				if len(h.DS) > 0 {
					sub = append(sub, hexText("ds_metadata_hex", h.DS))
				}
				hops = append(hops, object("", sub))
			}
			t = append(t, list("hops_top_first", hops))
		}
	}
	if len(in.SourceWords) > 0 {
		t = append(t, hexText("source_words_hex", in.SourceWords))
	}
	if len(in.Rest) > 0 {
		t = append(t, hexText("rest_hex", in.Rest))
	}
	if in.HasFlowSeq {
		t = append(t, num("flow_sequence", in.FlowSequence))
	}
	if in.HasTail {
		t = append(t, object("tail", []Item{num("ip_proto", in.Tail.Proto), num("orig_dst_port", in.Tail.DstPort), num("orig_dscp", in.Tail.DSCP)}))
	}
	return t
}

func (s *Shim) tree(layout Format) []Item {
	t := []Item{num("type", s.Type), num("length_words", s.Length)}
	switch s.Form {
	case ShimOld:
		if layout == INT10 {
			t = append(t, num("orig_dscp", s.OrigDSCP))
		}
	case ShimOldGPE:
		t = append(t, num("next_protocol", s.NextProtocol))
	case ShimGRE:
		t = append(t, flag("G", s.G), hex16("next_protocol", s.NextProtocol))
	case ShimGPE:
		t = append(t, flag("G", s.G), num("next_protocol", s.NextProtocol))
	case Shim20:
		t = append(t, num("npt", s.NPT))
		switch s.NPT {
		case 0:
			t = append(t, num("orig_dscp", s.OrigDSCP))
		case 1:
			t = append(t, num("orig_dst_port", s.OrigDstPort))
		case 2:
			t = append(t, num("ip_proto", s.IPProto))
		}
	}
	if s.Reserved != 0 {
		t = append(t, text("reserved", fmt.Sprintf("0x%08x", s.Reserved)))
	}
	return t
}

func (h *Header) tree() []Item {
	t := []Item{num("version", h.Version)}
	switch h.Layout {
	case INT20:
		t = append(t, flag("D", h.D))
		if h.Type != TypeMX {
			t = append(t, flag("E", h.E), flag("M", h.M), num("hop_ml", h.HopML), num("remaining_hop_count", h.RemainingHops))
		}
		t = append(t, hex16("instruction_bitmap", h.Bitmap), hex16("domain_specific_id", h.DomainID),
			hex16("ds_instruction", h.DSInstruction), hex16("ds_flags", h.DSFlags))
	case INT10:
		t = append(t, num("rep", h.Rep), flag("C", h.C), flag("E", h.E), flag("M", h.M), num("hop_ml", h.HopML),
			num("remaining_hop_count", h.RemainingHops), hex16("instruction_bitmap", h.Bitmap))
	case INT05:
		t = append(t, num("rep", h.Rep), flag("C", h.C), flag("E", h.E), num("ins_cnt", h.InsCnt), num("max_hop", h.MaxHop),
			num("total_hop", h.TotalHop), hex16("instruction_bitmap", h.Bitmap))
	}
	if h.Reserved != 0 {
		t = append(t, text("reserved", fmt.Sprintf("0x%08x", h.Reserved)))
	}
	if h.Reserved16 != 0 {
		t = append(t, hex16("reserved16", h.Reserved16))
	}
	return t
}

// tree returns the values that are there.
func (v *Values) tree() (t []Item) {
	for f := range NumFields {
		switch {
		case !v.Has.Has(f):
		case f == ChecksumComplement:
			t = append(t, text(f.String(), fmt.Sprintf("0x%08x", v.V[f])))
		case v.Invalid.Has(f):
			t = append(t, text(f.String(), "invalid"))
		default:
			t = append(t, num(f.String(), v.V[f]))
		}
	}
	return t
}

func (r *Report) tree() []Item {
	t := []Item{num("version", r.Version)}
	if r.Layout == Report10 {
		t = append(t, num("length_words", r.Length))
		if r.OddLength {
			t = append(t, num("length_words_field", r.Length))
		}
	}
	t = append(t, num("nproto", r.NProto))
	if r.Layout == Report10 {
		t = append(t, num("rep_md_bits", r.RepMdBits))
	}
	t = append(t, flag("D", r.D), flag("Q", r.Q), flag("F", r.F), num("hw_id", r.HwID), num("sequence", r.Sequence))
	if r.HasSwitch {
		t = append(t, num("switch_id", r.SwitchID))
	}
	t = append(t, num("ingress_ts", r.IngressTS))
	t = append(t, r.Values.tree()...)
	if r.HasGap {
		t = append(t, num("gap_source_id", r.GapSource), num("gap_ts", r.GapTS), num("gap_sequence", r.GapSequence), num("gap_count", r.GapCount))
	}
	if r.Reserved != 0 {
		t = append(t, hex16("reserved", r.Reserved))
	}
	return t
}

func (g *Group) tree() []Item {
	return []Item{num("version", g.Version), num("hw_id", g.HwID), num("sequence", g.Sequence), num("node_id", g.NodeID)}
}

func (m *Message) single(s *Single) []Item {
	t := []Item{num("rep_type", s.RepType), num("in_type", s.InType), num("report_length", s.Length), num("md_length", s.MDLength),
		flag("D", s.D), flag("Q", s.Q), flag("F", s.F), flag("I", s.I)}
	if s.Reserved != 0 {
		t = append(t, num("reserved", s.Reserved))
	}
	if s.HasMain {
		t = append(t, hex16("rep_md_bits", s.RepMdBits), hex16("domain", s.Domain), hex16("ds_md_bits", s.DSMdBits), hex16("ds_md_status", s.DSMdStatus))
		t = append(t, s.Values.tree()...)
		if len(s.MDReserved) > 0 {
			t = append(t, hexText("reserved_hex", s.MDReserved))
		}
		if len(s.DSMetadata) > 0 {
			t = append(t, hexText("ds_metadata_hex", s.DSMetadata))
		}
	}
	var tlvs []Item
	for i := range s.TLVs {
		v := &s.TLVs[i]
		tlvs = append(tlvs, object("", []Item{num("type", v.Type), num("length", v.Length), num("template", v.Template), hexText("data", v.Data)}))
	}
	if tlvs != nil {
		t = append(t, list("tlvs", tlvs))
	}
	if s.InType < InnerEthernet && len(s.Inner) > 0 || s.InType > InnerIPv6 && len(s.Inner) > 0 {
		t = append(t, hexText("inner_hex", s.Inner))
	}
	if s.Embedded > 0 {
		t = append(t, object("embedded", m.Embedded[s.Embedded-1].tree()))
	}
	return t
}
