// SPDX-License-Identifier: Apache-2.0

package intwire

// Start is where the bytes of a packet begin.
type Start uint8

// The starts.
const (
	StartEthernet Start = iota
	StartIP             // IPv4 or IPv6
	StartUDP
	StartCooked  // Linux "cooked" capture, SLL
	StartCooked2 // SLL2
)

// Decoder decodes packets. The zero value recognises every variant by itself. It
// has caches and counters, and is not safe for concurrent use.
type Decoder struct {
	// Profile says how the source writes INT. nil: it is recognised.
	Profile *Profile
	// LatencyNs is the unit of hop latencies, ns; 0: as the profile says.
	LatencyNs uint32
	// TimeNs is the unit of times of ingress and egress, ns; 0: as the profile says.
	TimeNs uint32
	// ReportPorts are UDP ports of reports besides those that programs are known to use.
	ReportPorts []uint16

	Packets uint64           // decoded
	Counts  [NumCodes]uint64 // anomalies

	plans  planCache
	report ReportTraits // of the report that is being read, if it is one
	named  [3]struct {  // by reports alone, INT alone, INT in reports
		i       INTTraits
		r       ReportTraits
		profile *Profile
	}
}

// Decode fills m with the INT in a packet, or with the report that it is. m points
// into data. There is no error: see [Message.Anomalies].
func (d *Decoder) Decode(m *Message, start Start, data []byte) {
	m.reset()
	d.report = ReportTraits{}
	c := walk{m: m, ints: &m.INT}
	switch start {
	case StartIP:
		d.ip(&c, data)
	case StartUDP:
		c.pkt.Proto = protoUDP
		d.udp(&c, data, len(data))
	case StartCooked:
		d.cooked(&c, data, 16, 14)
	case StartCooked2:
		d.cooked(&c, data, 20, 0)
	default:
		d.ethernet(&c, data)
	}
	m.Packet = c.pkt
	if m.Profile == nil {
		m.note(NothingFound, 0, 0)
	}
	d.units(m)
	d.count(m)
}

// DecodeReport fills m with a telemetry report, the payload of a UDP datagram. Unlike
// Decode, which collectors use, it does not check whether payload is one.
func (d *Decoder) DecodeReport(m *Message, payload []byte) {
	m.reset()
	c := walk{m: m, ints: &m.INT}
	var t ReportTraits
	if d.Profile == nil {
		var g grade
		g, t = d.recogniseReport(payload, len(payload))
		m.Sure = g >= shaped
	} else {
		g, _ := d.recogniseReport(payload, len(payload))
		m.Sure = g >= shaped
	}
	d.readReport(&c, payload, t, ByProfile)
	if m.Profile == nil {
		m.note(NothingFound, 0, 0)
	}
	d.units(m)
	d.count(m)
}

func (d *Decoder) count(m *Message) {
	d.Packets++
	for _, a := range m.Anomalies {
		d.Counts[a.Code]++
	}
}

// name finds the profile of what was observed; either may be nil. The last answers are
// kept: sources repeat themselves.
func (d *Decoder) name(i *INTTraits, r *ReportTraits) *Profile {
	if d.Profile != nil {
		return d.Profile
	}
	slot := &d.named[0]
	switch {
	case i != nil && r != nil:
		if slot = &d.named[2]; slot.profile != nil && slot.i == *i && slot.r == *r {
			return slot.profile
		}
		slot.i, slot.r = *i, *r
	case i != nil:
		if slot = &d.named[1]; slot.profile != nil && slot.i == *i {
			return slot.profile
		}
		slot.i = *i
	default:
		if slot.profile != nil && slot.r == *r {
			return slot.profile
		}
		slot.r = *r
	}
	slot.profile = profileOf(i, r)
	return slot.profile
}

// walk is what is known so far of a packet's headers.
type walk struct {
	m       *Message
	ints    *[]INT
	report  *ReportTraits // the packet is quoted by a report: it may be cut, and is no report itself
	f       bool          // the report says that there may be INT
	hasIP   bool
	first   bool  // it is the first of several IP fragments
	depth   uint8 // tunnels
	dscp    uint8 // of the innermost IP header so far
	dstPort uint16
	noted   bool // there is an anomaly that says why there is no INT
	pkt     Packet
	traits  INTTraits // of the INT that was found
}

func (c *walk) quoted() bool { return c.report != nil }

// grade is how much like INT, or like a report, something looks.
type grade uint8

const (
	isNot   grade = iota
	touches       // type and version are right
	shaped        // lengths are too
	strict        // everything is right
)
