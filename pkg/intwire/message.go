// SPDX-License-Identifier: Apache-2.0

package intwire

import "net/netip"

// Carrier is the protocol that has an INT header in it.
type Carrier uint8

// The carriers.
const (
	NoCarrier Carrier = iota
	OverUDP
	OverTCP
	OverGRE
	OverVXLAN
	OverGeneve
)

var carrierNames = []string{"", "udp", "tcp", "gre", "vxlan-gpe", "geneve"}

func (c Carrier) String() string { return carrierNames[c] }

// Mark is how an INT header or report was found.
type Mark uint8

// The marks.
const (
	ByForm    Mark = iota // no known mark
	ByDSCP                // a DSCP that INT programs use
	ByPort                // a port that they use, or NPT says that a port marks it
	ByMarker              // eight bytes of probe marker
	ByCarrier             // the protocol type, code or class that the carrier has for INT
	ByReport              // the report around it says that there may be INT
	ByProfile             // the caller says so
)

var markNames = []string{"form", "dscp", "port", "marker", "carrier", "report", "profile"}

func (m Mark) String() string { return markNames[m] }

// Packet is the outermost packet, by its headers.
type Packet struct {
	Version          uint8 // of IP; 0: none was read
	Proto            uint8
	DSCP, ECN, TTL   uint8
	HasPorts         bool
	SrcPort, DstPort uint16
	Src, Dst         netip.Addr
}

// Message is what one packet holds. The zero value is ready for use.
type Message struct {
	Profile *Profile // nil: neither INT nor a report was found
	Packet  Packet
	Mark    Mark // of the report, or of INT if there is none
	// LatencyNs is the unit of hop latencies, ns: Decoder.LatencyNs, else the profile's, else 1.
	LatencyNs uint32
	// TimeNs is the same for times of ingress and egress.
	TimeNs uint32

	// Sure: the report has the form of one. If a known port or a profile says that there is one, it is
	// read even if it does not.
	Sure bool

	Report   Report // TR 0.5 and 1.0; NoReport in Layout: there is none
	Group    Group  // TR 2.0
	HasGroup bool
	Reports  []Single // TR 2.0; empty if there is none

	// INT in the packet itself, or in the packet that a report 0.5 or 1.0 quotes.
	// More than one only if INT headers follow each other.
	INT []INT
	// Embedded is INT in packets that reports 2.0 quote, see Single.Embedded.
	Embedded []INT

	Anomalies []Anomaly

	hops []Hop
	tlvs []TLV
}

// reset empties m and keeps its memory.
func (m *Message) reset() {
	m.Profile, m.Mark, m.Sure = nil, ByForm, false
	m.Packet, m.Report, m.Group, m.HasGroup = Packet{}, Report{}, Group{}, false
	m.Reports, m.INT, m.Embedded = m.Reports[:0], m.INT[:0], m.Embedded[:0]
	m.Anomalies, m.hops, m.tlvs = m.Anomalies[:0], m.hops[:0], m.tlvs[:0]
}

// Types of INT headers (INT 2.1, "INT Header Types").
const (
	TypeMD          = 1 // hop by hop in INT 0.5 and 1.0
	TypeDestination = 2 // its format was never defined
	TypeMX          = 3
)

// ShimForm is which fields a shim has.
type ShimForm uint8

// The forms of shims.
const (
	NoShim     ShimForm = iota // Geneve: the option's header takes its place
	ShimOld                    // 0.5, 1.0 over TCP and UDP
	ShimOldGPE                 // 1.0 in VXLAN-GPE
	Shim20                     // 2.x over TCP and UDP
	ShimGRE                    // 2.x
	ShimGPE                    // 2.x in VXLAN-GPE
)

// Shim is the word before an INT header (INT 2.1, "INT over TCP/UDP", "INT over
// GRE", "INT over VXLAN GPE"). Length counts words, the shim itself only in 0.5 and
// 1.0.
type Shim struct {
	Form         ShimForm
	Type         uint8
	Length       uint8
	NPT          uint8  // Shim20
	OrigDSCP     uint8  // ShimOld of 1.0; Shim20 with NPT 0. It may not have been set
	OrigDstPort  uint16 // Shim20 with NPT 1
	IPProto      uint8  // Shim20 with NPT 2
	G            bool   // ShimGRE, ShimGPE: the source has added the carrier, or changed it
	NextProtocol uint16 // ShimGRE (an EtherType), ShimGPE, ShimOldGPE
	Reserved     uint32 // the reserved bits, in their places
}

// Header is an INT metadata header (INT 2.1 "INT-MD Metadata Header", "INT-MX
// Header"; INT 1.0 and 0.5 "INT Hop-by-Hop Metadata Header").
type Header struct {
	Layout        Format // INT05, INT10 or INT20
	Type          uint8  // the shim's, or the Geneve option's: TypeMD or TypeMX
	Version       uint8  // as sent
	D             bool   // 2.x: the sink discards the packet
	E             bool   // a node added nothing, because of the hop count
	M             bool   // a node added nothing, because of the MTU; not in 0.5
	C             bool   // 0.5, 1.0: a copy
	Rep           uint8  // 0.5, 1.0: replication asked for
	HopML         uint8  // words; not in 0.5 and MX
	RemainingHops uint8  // not in 0.5 and MX
	InsCnt        uint8  // 0.5
	MaxHop        uint8  // 0.5
	TotalHop      uint8  // 0.5
	Bitmap        uint16
	DomainID      uint16 // 2.x
	DSInstruction uint16 // 2.x
	DSFlags       uint16 // 2.x
	Reserved      uint32 // reserved bits of the first word, in their places
	Reserved16    uint16 // 0.5, 1.0: the second half of the second word
}

// Hop is one node's metadata.
type Hop struct {
	Values
	Reserved []byte // words of reserved instruction bits
	DS       []byte // domain-specific words
}

// INT is one INT header with its stack.
type INT struct {
	Carrier   Carrier
	Mark      Mark
	Marker    uint64 // ByMarker
	Class     uint16 // OverGeneve: the option's class; OverGRE: the protocol type
	Next      uint8  // OverVXLAN: the code that said INT
	Shim      Shim
	Header    Header
	HasHeader bool   // Header was there
	Hops      []Hop  // the newest first; nil in MX
	Stack     []byte // from the first of them to the end of the packet
	Stride    int    // bytes from one to the next
	// Incomplete: nodes are missing in the stack, or may be: E or M is set, it is cut, it is longer
	// than the packet, it is not whole hops, or the packet is the first fragment of one.
	Incomplete bool
	Options    Option // for Places

	SourceWords []byte // MX: inserted by the source; MD: behind the last hop, of the domain
	Rest        []byte // of the stack: no whole hop

	HasTail      bool // 0.5
	Tail         Tail
	HasFlowSeq   bool // INTTraits.FlowSequence
	FlowSequence uint32

	Payload []byte // what follows INT
}

// Tail is the last word of INT 0.5 ("INT Tail Header").
type Tail struct {
	Proto   uint8
	DstPort uint16
	DSCP    uint8 // the last byte: which six bits are the DSCP is not said
}

// Report is a report of TR 0.5 or 1.0 with its optional metadata.
type Report struct {
	Layout    ReportLayout // NoReport: there is none
	Version   uint8        // as sent
	Length    uint8        // 1.0: words, as sent
	OddLength bool         // Length is not the length
	NProto    uint8
	RepMdBits uint8 // 1.0: six bits, the first one is 0x20
	D, Q, F   bool
	HwID      uint8
	Sequence  uint32
	HasSwitch bool
	SwitchID  uint32
	IngressTS uint32 // ns
	Reserved  uint16 // reserved bits, moved down
	Values    Values // selected by RepMdBits, or of the drop and local header

	HasGap                                  bool   // a summary of drops: ReportTraits.HostNProtos
	GapSource, GapTS, GapSequence, GapCount uint32 // source node, time, first flow sequence number, count
	Inner                                   []byte // the quoted packet
}

// Group is the header of a group of reports of TR 2.0 ("Telemetry Report Group Header").
type Group struct {
	Version  uint8
	HwID     uint8
	Sequence uint32 // modulo 2^22
	NodeID   uint32
}

// Inner types of reports that quote a packet (TR 2.0, "InType"). NProto of TR 1.0 is these
// minus InnerEthernet.
const (
	InnerEthernet = 3
	InnerIPv4     = 4
	InnerIPv6     = 5
)

// Single is one individual report of TR 2.0.
type Single struct {
	RepType    uint8
	InType     uint8
	Length     uint8 // words; 255: to the end
	MDLength   uint8 // words
	D, Q, F, I bool
	Reserved   uint8

	HasMain    bool // the fields below
	RepMdBits  uint16
	Domain     uint16
	DSMdBits   uint16
	DSMdStatus uint16
	Values     Values
	MDReserved []byte // words of reserved bits
	DSMetadata []byte

	TLVs     []TLV  // InType 1
	Inner    []byte // InType 2 and above, and what could not be read
	Embedded int    // INT in Inner: Message.Embedded[Embedded-1]; 0: none
}

// TLV is a TLV of a report (TR 2.0, "TLV").
type TLV struct {
	Type     uint8
	Length   uint8 // words behind the first one
	Template uint16
	Reserved uint8
	Data     []byte
}

func (m *Message) note(c Code, a, b int) {
	m.Anomalies = append(m.Anomalies, Anomaly{Code: c, A: uint32(a), B: uint32(b)})
}

// Has reports whether there is an anomaly of that kind.
func (m *Message) Has(c Code) bool {
	for _, a := range m.Anomalies {
		if a.Code == c {
			return true
		}
	}
	return false
}
