// SPDX-License-Identifier: Apache-2.0

package intwire

import "fmt"

// Code is a kind of anomaly.
type Code uint8

// The anomalies. The text in codes says what A and B of an Anomaly are.
const (
	CutLink Code = iota
	NotIP
	CutIP
	BadIP
	Fragment
	CutL4
	BadL4Length
	CutTunnel
	TooDeep

	NothingFound
	LooksLikeINT
	OrdinaryClass
	UnknownMark
	MarkedNotINT
	ForeignMarker
	PortWithoutINT
	NotTheProfile
	PastOptions
	AnotherINT

	CutINT
	BadType
	BadVersion
	BadLength
	LengthPastPacket
	ReservedBits
	NoHopML
	OtherHopML
	TraitsByHopML
	LeftOver
	SourceWords
	NoTail
	BadHopCount
	BadInsCount
	EmptyBitmap
	ReservedInstr
	NoDomain
	UnknownDomain
	VerOfOther
	HighProtoUsed
	ShimInLength
	StackBehindMX
	ComplementInMX
	OtherUnits

	WeakReport
	CutReport
	ZeroWords
	BadReportVer
	BadReportLength
	ReportReserved
	BadNProto
	FlagsMoved
	BadMDLength
	NoReportLength
	ReservedMD
	NodeIDBit
	ShortInner
	TailBytes
	BadInType
	BadRepType
	CutTLV
	INTWithoutF
	OtherContents
	MainInType0
	ReportVersions
	RestOfReport

	NumCodes
)

// codes are the text of each anomaly, and its name in counters.
var codes = [NumCodes]struct{ name, text string }{
	CutLink:     {"cut_link", "the link-layer header is cut: %d of %d bytes"},
	NotIP:       {"not_ip", "no IPv4 or IPv6: EtherType or version 0x%04x"},
	CutIP:       {"cut_ip", "the packet is cut: %d bytes are here, the IP header says %d"},
	BadIP:       {"bad_ip", "the IP header is malformed (version and header length 0x%02x, length %d)"},
	Fragment:    {"fragment", "a fragment that is not the first: its transport header is elsewhere"},
	CutL4:       {"cut_l4", "the transport or tunnel header is cut or malformed: %d bytes, at least %d needed"},
	BadL4Length: {"bad_l4_length", "the UDP length is %d, IP leaves room for %d"},
	CutTunnel:   {"cut_tunnel", "the tunnel header is cut: %d bytes, %d needed"},
	TooDeep:     {"too_deep", "more than %d tunnels in each other: what is inside was not looked at"},

	NothingFound:   {"nothing_found", "no INT and no telemetry report found"},
	LooksLikeINT:   {"looks_like_int", "what follows the transport header begins like INT %d.x but is not taken for it: a strict test failed, and nothing marks it"},
	OrdinaryClass:  {"ordinary_class", "what follows the transport header has the form of INT, but DSCP 0x%02x is an ordinary class of traffic: not taken for INT (a profile decodes it)"},
	UnknownMark:    {"unknown_mark", "told by its form alone: neither DSCP 0x%02x nor port %d is one that INT programs are known to use"},
	MarkedNotINT:   {"marked_not_int", "DSCP 0x%02x is used for INT, but what follows the transport header is none (first word 0x%08x)"},
	ForeignMarker:  {"foreign_marker", "the probe marker 0xaaaaaaaa 0xbbbbbbbb, behind which vendors use other layouts than those of P4.org"},
	PortWithoutINT: {"port_without_int", "port %d is used for INT or reports, but what follows is neither (first word 0x%08x)"},
	NotTheProfile:  {"not_the_profile", "does not look like the profile that was asked for (first word 0x%08x)"},
	PastOptions:    {"past_options", "INT lies before the TCP options"},
	AnotherINT:     {"another_int", "another INT header follows"},

	CutINT:           {"cut_int", "the INT header or stack is cut: %d bytes are here, its length says %d"},
	BadType:          {"bad_type", "type %d is none that is defined"},
	BadVersion:       {"bad_version", "the INT header's version is %d, expected %d"},
	BadLength:        {"bad_length", "the shim's length of %d words is too short for the INT header: at least %d"},
	LengthPastPacket: {"length_past_packet", "the shim's length of %d words reaches past the end of the packet, which leaves room for %d"},
	ReservedBits:     {"reserved_bits", "reserved bits are set: 0x%x in the shim, 0x%x in the header"},
	NoHopML:          {"no_hop_ml", "Hop ML is 0: hops add nothing, and the %d words of the stack cannot be divided"},
	OtherHopML:       {"other_hop_ml", "a hop has %d words (Hop ML), the instruction bitmap asks for %d"},
	TraitsByHopML:    {"traits_by_hop_ml", "a hop has %d words (Hop ML) where the text asks for %d: read with other widths of timestamps or level-2 ports, which add up"},
	LeftOver:         {"left_over", "%d bytes of the stack are no whole hop of %d bytes"},
	SourceWords:      {"source_words", "%d bytes behind the last hop belong to domain 0x%04x"},
	NoTail:           {"no_tail", "no INT 0.5 tail header: the length counts %d words where %d with a tail were expected"},
	BadHopCount:      {"bad_hop_count", "total hop count is %d, the stack has %d whole hops"},
	BadInsCount:      {"bad_ins_count", "instruction count is %d, the bitmap has %d bits"},
	EmptyBitmap:      {"empty_bitmap", "no instruction bit is set"},
	ReservedInstr:    {"reserved_instruction", "reserved instruction bits are set: 0x%04x"},
	NoDomain:         {"no_domain", "domain-specific instructions 0x%04x, flags 0x%04x without a domain"},
	UnknownDomain:    {"unknown_domain", "domain 0x%04x is not known: what its instructions 0x%04x stand for is shown as bytes"},
	VerOfOther:       {"ver_of_other", "the INT header's version is %d, its layout that of 1.0"},
	HighProtoUsed:    {"high_proto", "the IP protocol %d is in the shim's third byte, where the text has zeros"},
	ShimInLength:     {"shim_in_length", "the shim's length of %d words counts the shim"},
	StackBehindMX:    {"stack_behind_mx", "%d bytes of metadata behind an MX header, read as a hop's"},
	ComplementInMX:   {"complement_in_mx", "the checksum complement's bit is not defined for INT-MX"},

	OtherUnits: {"other_units", "a node's hop latency is %d, its egress less its ingress time %d: other units than those that the source is taken to have («collect ‹source› ADDRESS=PROFILE,latency=us»)"},

	CutReport:       {"cut_report", "the report is cut: %d bytes are here, %d needed"},
	WeakReport:      {"weak_report", "taken for a report by its port or the profile alone: neither its lengths nor what it quotes are those of one («collect» counts it as no report)"},
	ZeroWords:       {"zero_words", "%d bytes of zeros where a report could begin: padding"},
	BadReportVer:    {"bad_report_ver", "the report's version is %d, expected %d"},
	BadReportLength: {"bad_report_length", "the report's length says %d words, there are %d"},
	ReportReserved:  {"report_reserved", "reserved bits of the report's header are set: 0x%x"},
	BadNProto:       {"bad_nproto", "next protocol %d is not defined"},
	FlagsMoved:      {"flags_moved", "D, Q, F lie before the six reserved bits, not behind (0x%08x)"},
	BadMDLength:     {"bad_md_length", "metadata have %d words, the bits ask for %d"},
	NoReportLength:  {"no_report_length", "the report's length is 0: read as all %d bytes that follow"},
	ReservedMD:      {"reserved_md", "reserved metadata bits are set: 0x%04x"},
	NodeIDBit:       {"node_id_bit", "metadata bit 0 is set, which is reserved: the node id is in the group header"},
	ShortInner:      {"short_inner", "the report's length of %d words is too short for its main contents: at least %d"},
	TailBytes:       {"tail_bytes", "%d bytes behind the last report's length: taken for the end of what it quotes"},
	BadInType:       {"bad_in_type", "inner type %d is not defined"},
	BadRepType:      {"bad_rep_type", "report type %d has no contents that are defined"},
	CutTLV:          {"cut_tlv", "a TLV is cut: %d bytes are here, %d needed"},
	INTWithoutF:     {"int_without_f", "INT inside although F is not set"},
	OtherContents:   {"other_contents", "inner type %d is said, what follows begins otherwise"},
	MainInType0:     {"main_in_type_0", "report type 0 with main contents"},
	ReportVersions:  {"report_versions", "INT of layout %d.x inside a report of layout %d.x"},
	RestOfReport:    {"rest_of_report", "%d bytes behind the last report could not be read"},
}

// String is the code's name, as in counters.
func (c Code) String() string {
	if c >= NumCodes {
		return "unknown"
	}
	return codes[c].name
}

// Anomaly is one anomaly, as numbers. Text is made only when it is asked for.
type Anomaly struct {
	Code Code
	A, B uint32
}

// String is the anomaly as text. It names a setting that helps as ‹source›, a command as «collect».
func (a Anomaly) String() string {
	if a.Code >= NumCodes {
		return "unknown"
	}
	text, verbs := codes[a.Code].text, 0
	for i := range len(text) - 1 {
		if text[i] == '%' {
			verbs++
		}
	}
	return fmt.Sprintf(text, []any{a.A, a.B}[:verbs]...)
}
