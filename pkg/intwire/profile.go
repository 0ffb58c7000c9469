// SPDX-License-Identifier: Apache-2.0

package intwire

import "strconv"

// INTTraits are the differences among programs that send INT headers.
type INTTraits struct {
	Layout       Format // INT05, INT10 or INT20: where the fields lie
	Ver          uint8  // what the header's Ver says of that layout
	Options      Option // rows of metadata that differ
	CountsShim   bool   // 2.x: the shim's Length counts the shim
	LateFlags    bool   // 2.x: two reserved bits before D, E, M
	FlowSequence bool   // 0.5: shim type 3, and a word with the flow's sequence number behind the stack
	SinkStack    bool   // 2.x: the reporting node's metadata lie behind an MX header, in the shim's Length
	HighProto    bool   // 2.x, NPT 2: the IP protocol is in the shim's third byte, not in the fourth
}

// ReportTraits are the differences among programs that send reports.
type ReportTraits struct {
	Layout      ReportLayout
	Ver         uint8
	FlagsFirst  bool // 1.0: D, Q, F before the six reserved bits, not behind
	FreeLength  bool // 1.0: Length says nothing; the header has 16 bytes and what RepMdBits add
	SmallHwID   bool // 2.0: 4 bits of hw_id, 24 of sequence number
	ShortSeq    bool // 2.0: 16 bits of sequence number, 6 of padding
	MainAlways  bool // 2.0: main contents although RepType is 0
	Ethernet2   bool // 2.0: InType 2 is Ethernet
	Loose       bool // 2.0: Report Length 0 reaches to the end, InType says nothing
	HostNProtos bool // 0.5: NProto 3 is a summary of drops, 4 an IPv4 packet
}

// Profile is how one program, or family of programs, writes INT.
type Profile struct {
	Name    string
	Title   string
	Differs string // from the texts; empty: it does not
	From    string // the source of this
	INT     INTTraits
	Report  ReportTraits
	// EachVersion: the program writes all versions, each as its text says. INT and Report are of the newest one.
	EachVersion bool

	// What the texts leave to devices. HopLatencyNs is the unit of hop latencies, ns; 0: it is
	// not known, and 1 is assumed. TimeNs is that of times of ingress and egress; 0: it is not
	// known.
	HopLatencyNs uint32
	TimeNs       uint32
	OneClock     bool         // all nodes that a source reports have one clock
	Reasons      *[256]string // of drops, by number; nil: not known
}

// DropReason is the name of a reason for a drop, or its number if it has no name.
func (p *Profile) DropReason(reason uint8) string {
	if p.Reasons != nil && p.Reasons[reason] != "" {
		return p.Reasons[reason]
	}
	return "INT_" + strconv.Itoa(int(reason))
}

// ReportLayout is where a report's fields lie.
type ReportLayout uint8

// The layouts of reports.
const (
	NoReport ReportLayout = iota
	Report05
	Report10
	Report20
)

// Profiles are all that are known. Those of the texts come first: if no packet shows a
// difference between two, the first one is named.
var Profiles = []Profile{
	{
		Name: "spec-2.1", Title: "INT 2.0 and 2.1, Telemetry Report 2.0",
		From:   "P4.org, INT v2.0 (2020-02-14), v2.1 (2020-11-11), Telemetry Report v2.0 (2020-10-08)",
		INT:    INTTraits{Layout: INT20, Ver: 2},
		Report: ReportTraits{Layout: Report20, Ver: 2},
	},
	{
		Name: "spec-1.0", Title: "INT 1.0, Telemetry Report 1.0",
		From:   "P4.org, INT v1.0 and Telemetry Report v1.0 (2018-04-20)",
		INT:    INTTraits{Layout: INT10, Ver: 1},
		Report: ReportTraits{Layout: Report10, Ver: 1},
	},
	{
		Name: "spec-0.5", Title: "INT 0.5, Telemetry Report 0.5",
		From:   "P4.org, INT v0.5 (2017-12-11), Telemetry Report v0.5 (2017-11-10)",
		INT:    INTTraits{Layout: INT05},
		Report: ReportTraits{Layout: Report05},
	},
	{
		Name: "onos-basic", Title: "ONOS pipelines/basic",
		Differs:      "report 1.0 with D, Q, F before the reserved bits; INT 1.0 header with Ver 0; sequence number always 0",
		From:         "opennetworkinglab/onos, pipelines/basic",
		INT:          INTTraits{Layout: INT10},
		Report:       ReportTraits{Layout: Report10, Ver: 1, FlagsFirst: true},
		HopLatencyNs: 1000, // BMv2
	},
	{
		Name: "geant", Title: "GEANT int-platforms, BMv2 and Tofino",
		Differs: "INT 1.0 with timestamps of 8 bytes, level-2 ports in one word, and a sequence number in the header's reserved 16 bits; on BMv2 latencies in us beside times in ns",
		From:    "GEANT-DataPlaneProgramming/int-platforms, p4src/int_v1.0",
		INT:     INTTraits{Layout: INT10, Ver: 1, Options: LongTimes | ShortL2},
		Report:  ReportTraits{Layout: Report10, Ver: 1},
		// On BMv2; on Tofino latencies are ns too.
		HopLatencyNs: 1000, TimeNs: 1,
	},
	{
		Name: "intcollector", Title: "what INTCollector and its relatives expect",
		Differs: "report 1.0 whose Length says 1; INT 1.0 header with Ver 0, level-2 ports in one word, queue id and occupancy of 16 bits each",
		From:    "tu-nv/INTCollector",
		INT:     INTTraits{Layout: INT10, Options: ShortL2 | EvenQueues},
		Report:  ReportTraits{Layout: Report10, Ver: 1, FreeLength: true},
	},
	{
		Name: "host-int", Title: "Host-INT",
		Differs: "INT 0.5 with shim type 3 and a flow sequence number behind the stack; report 0.5 with NProto 3 (summary of drops) and 4 (IPv4)",
		From:    "intel/host-int, docs/Host_INT_fmt.md",
		INT:     INTTraits{Layout: INT05, FlowSequence: true},
		Report:  ReportTraits{Layout: Report05, HostNProtos: true},
	},
	{
		Name: "fabric-tna", Title: "Stratum fabric-tna",
		Differs:      "report 0.5 with ports of 9, queue ids of 5 and occupancies of 19 bits in the low bits of their fields; timestamps in ns",
		From:         "stratum/fabric-tna, p4src/shared",
		INT:          INTTraits{Layout: INT05},
		Report:       ReportTraits{Layout: Report05},
		HopLatencyNs: 1, TimeNs: 1, Reasons: &reasonsFabric,
	},
	{
		Name: "switch-p4-16", Title: "Open P4 Studio switch-p4-16",
		Differs:      "report 2.0 with 4 bits of hw_id and 24 of sequence number (the texts': 6 and 22); timestamps of 48 bits; 1 to 3 bytes behind the counted length",
		From:         "Open P4 Studio, pkgsrc/switch-p4-16",
		INT:          INTTraits{Layout: INT20, Ver: 2},
		Report:       ReportTraits{Layout: Report20, Ver: 2, SmallHwID: true},
		HopLatencyNs: 1, TimeNs: 1, Reasons: &reasonsSwitch16,
	},
	{
		Name: "tps", Title: "transparent-security",
		Differs:      "INT 2.x whose shim Length counts the shim, two reserved bits before D, E, M; report 2.0 with RepType 0 and main contents, InType 2 for Ethernet, sequence number of 16 bits",
		From:         "cablelabs/transparent-security",
		INT:          INTTraits{Layout: INT20, Ver: 2, CountsShim: true, LateFlags: true},
		Report:       ReportTraits{Layout: Report20, Ver: 2, ShortSeq: true, MainAlways: true, Ethernet2: true},
		HopLatencyNs: 1000, // BMv2
	},
	{
		Name: "p4int-laofan", Title: "laofan13/P4-INT, INT-MX on BMv2",
		Differs:      "report 2.0 with Ver 1, Report Length 0, InType 4 before an Ethernet frame; the reporting node's metadata behind the MX header of that frame",
		From:         "laofan13/P4-INT",
		INT:          INTTraits{Layout: INT20, Ver: 2, SinkStack: true},
		Report:       ReportTraits{Layout: Report20, Ver: 1, Loose: true},
		HopLatencyNs: 1000, TimeNs: 1000, // BMv2
	},
	{
		Name: "p4int", Title: "P4-INT and P4INT_Mininet, INT-MD on BMv2",
		Differs:      "report 2.0 with Report Length 0 although it has contents",
		From:         "laofan13/P4-INT as of 2024-03, p4src/include/int_sink.p4",
		INT:          INTTraits{Layout: INT20, Ver: 2},
		Report:       ReportTraits{Layout: Report20, Ver: 2, Loose: true},
		HopLatencyNs: 1000, TimeNs: 1000, // BMv2
	},
	{
		Name: "scapy-4230", Title: "INT layers proposed for scapy",
		Differs: "NPT 2: the IP protocol is in the first of the shim's last two bytes",
		From:    "secdev/scapy, pull request 4230",
		INT:     INTTraits{Layout: INT20, Ver: 2, HighProto: true},
		Report:  ReportTraits{Layout: Report20, Ver: 2},
	},
	{
		Name: "radar", Title: "radar export int, radar int attach", EachVersion: true,
		Differs:      "nothing on the wire, in any version; latencies and times in ns, reasons of drops of its own from 192 on",
		From:         "docs/int/export.md, docs/int/nodes.md",
		INT:          INTTraits{Layout: INT20, Ver: 2},
		Report:       ReportTraits{Layout: Report20, Ver: 2},
		HopLatencyNs: 1, TimeNs: 1, OneClock: true, Reasons: &reasonsRadar, // of one host
	},
}

// Positions in Profiles of those of the texts.
const (
	spec21 = 0
	spec10 = 1
	spec05 = 2
)

// ProfileByName returns the profile of a name, nil if there is none.
func ProfileByName(name string) *Profile {
	for i := range Profiles {
		if Profiles[i].Name == name {
			return &Profiles[i]
		}
	}
	return nil
}

// sameINT reports whether a packet of that profile can have the observed traits, without
// those that no packet shows.
func sameINT(p, observed INTTraits) bool {
	p.Options &^= EvenQueues
	observed.Options &^= EvenQueues
	return p == observed
}

func sameReport(p, observed ReportTraits) bool {
	p.SmallHwID, observed.SmallHwID = false, false
	return p == observed
}

// profileOf returns the profile with the observed traits; either may be nil. One that has both
// wins over one that has the rarer of them. If none has either, the layout decides.
func profileOf(i *INTTraits, r *ReportTraits) *Profile {
	best, most := (*Profile)(nil), 0
	for n := range Profiles {
		p, score := &Profiles[n], 0
		if i != nil && sameINT(p.INT, *i) {
			score += 2
			if n > spec05 && !isSpecINT(*i) {
				score++
			}
		}
		if r != nil && sameReport(p.Report, *r) {
			score += 2
			if n > spec05 && !isSpecReport(*r) {
				score++
			}
		}
		if score > most {
			best, most = p, score
		}
	}
	switch {
	case best != nil:
		return best
	case r != nil:
		return specOfReport(r.Layout)
	case i != nil:
		return specOfINT(i.Layout)
	}
	return nil
}

func isSpecINT(t INTTraits) bool       { return sameINT(specOfINT(t.Layout).INT, t) }
func isSpecReport(t ReportTraits) bool { return sameReport(specOfReport(t.Layout).Report, t) }

func specOfINT(f Format) *Profile {
	switch f {
	case INT05:
		return &Profiles[spec05]
	case INT10:
		return &Profiles[spec10]
	}
	return &Profiles[spec21]
}

func specOfReport(l ReportLayout) *Profile {
	switch l {
	case Report05:
		return &Profiles[spec05]
	case Report10:
		return &Profiles[spec10]
	}
	return &Profiles[spec21]
}

// domainWords is how many words the source alone adds for a DS Instruction of a known domain.
// Without that they look like hops (INT 2.1, "Domain Specific Extensions").
func domainWords(domain, instruction uint16) int {
	// "TS" of transparent-security: bit 0 is the source device, 6 bytes of address and 2 of padding.
	if domain == DomainTS && instruction&0x8000 != 0 {
		return 2
	}
	return 0
}

// DomainTS is the domain of transparent-security.
const DomainTS = 0x5453

// Marks that INT programs are known to use (docs/int/decode.md). With one, a header that is not
// quite right is shown too. None is needed, and none is proof.
func knownDSCP(dscp uint8) bool { return dscp == 0x17 || dscp == 0x20 || dscp == 0x01 }

func knownINTPort(port uint16) bool {
	switch port {
	case 33122, 555, 5000, 0x4568:
		return true
	}
	return false
}

func knownReportPort(port uint16) bool {
	switch port {
	case 32766, 54321, 5900, 6000, 556, 1234, 8090:
		return true
	}
	return false
}

// ordinaryDSCP reports whether a DSCP is a class of traffic that any packet may have (RFC 2474,
// 2597, 3246, 5865): there an INT 0.5 or 1.0 header is no more likely than a payload that looks
// like one.
func ordinaryDSCP(dscp uint8) bool {
	switch {
	case knownDSCP(dscp):
		return false
	case dscp%8 == 0, dscp == 46, dscp == 44: // default and CS, EF, VOICE-ADMIT
		return true
	case dscp >= 10 && dscp <= 38 && dscp%2 == 0 && dscp%8 != 0: // AF11 to AF43
		return true
	}
	return false
}
