// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/quote"
)

// Observed is what one individual report says, of whatever version, in numbers.
type Observed struct {
	Profile *intwire.Profile
	// LatencyNs is how many ns hop latencies count by.
	LatencyNs uint32
	// TimeNs is the same of times; Short says that these have 32 bits.
	TimeNs    uint32
	Short     bool
	IngressTS uint32 // of the report's own header, which has 32 bits for it; 0: none
	Quoted    bool   // the report quotes a packet: Header
	Header    quote.Header
	Hops      []intwire.Values // the way through the INT domain, oldest first
	Own       bool             // the last of Hops is the node that reports
	Postcard  bool             // nobody but that node says anything
	Partial   bool             // nodes are missing in Hops, or may be
	Dropped   bool             // by the node that reports (D)
	NoArrival int              // of Hops that have lost when the packet came
	Queued    bool             // the packet was in a congested queue there (Q)

	l4      []byte // of the quote: what is behind the IP header
	content []byte // of UDP: what is quoted of the payload of the packet without INT
	// unsummed: nobody has worked out the checksum of UDP yet, or there is none. The field has the sum of the
	// pseudo header, as Linux leaves it to whoever sends the packet on by an interface that cannot.
	unsummed bool
	first    []byte       // the same of the packet without INT, as far as identityOf looks
	withINT  quote.Header // as it is quoted, if carried: with what INT has added and changed
	carried  bool         // the quote has INT in it
	clock    clock        // by which all times are
}

// observer makes Observed of messages, in memory that it uses again.
type observer struct {
	quoted quote.Parser
	now    Observed
	first  [udpHeader]byte
}

// each calls fn for each report of a message.
func (o *observer) each(m *intwire.Message, fn func(*Observed)) {
	if !m.HasGroup {
		r := &m.Report
		var in *intwire.INT
		if len(m.INT) > 0 {
			in = &m.INT[0]
		}
		o.now = Observed{Profile: m.Profile, LatencyNs: m.LatencyNs, TimeNs: m.TimeNs, Short: true, IngressTS: r.IngressTS, Dropped: r.D, Queued: r.Q, Hops: o.now.Hops[:0]}
		o.fill(about{r.SwitchID, r.HasSwitch, &r.Values, r.Inner}, in)
		fn(&o.now)
		return
	}
	for i := range m.Reports {
		s := &m.Reports[i]
		var in *intwire.INT
		if s.Embedded > 0 {
			in = &m.Embedded[s.Embedded-1]
		}
		quote := s.Inner
		for _, tlv := range s.TLVs {
			if tlv.Type >= 1 && tlv.Type <= 3 {
				quote = tlv.Data
			}
		}
		o.now = Observed{Profile: m.Profile, LatencyNs: m.LatencyNs, TimeNs: m.TimeNs, Dropped: s.D, Queued: s.Q, Hops: o.now.Hops[:0]}
		// An intermediate report is a transit node's: its packet goes on (TR 2.0, "I"). Some set it in postcards.
		o.now.Partial = s.I && in != nil && in.Header.Type == intwire.TypeMD
		o.fill(about{m.Group.NodeID, true, &s.Values, quote}, in)
		fn(&o.now)
	}
}

// quoted is the packet's header as the quote has it: what tells the packet from others wherever a node
// has seen it.
func (o *Observed) quoted() *quote.Header {
	if o.carried {
		return &o.withINT
	}
	return &o.Header
}

// about is what a report of any version says itself.
type about struct {
	node    uint32 // that reports
	hasNode bool
	values  *intwire.Values
	quote   []byte
}

func (o *observer) fill(a about, in *intwire.INT) {
	now := &o.now
	l4, quoted := o.quoted.Header(&now.Header, a.quote)
	now.Quoted, now.l4 = quoted, l4
	if in != nil {
		if quoted {
			now.withINT, now.carried = now.Header, true
			withoutINT(now.Profile, &now.Header, in)
		}
		now.Partial = now.Partial || in.Incomplete
		now.Short = in.ShortTimes()
		for i := len(in.Hops) - 1; i >= 0; i-- { // the newest is first in the stack
			now.Hops = append(now.Hops, in.Hops[i].Values)
		}
	}
	stack := len(now.Hops)
	if a.hasNode {
		now.reporter(a)
	}
	for i := range now.Hops {
		if lostArrival(&now.Hops[i]) {
			now.NoArrival++
		}
	}
	// Behind an MX header lie the metadata of the node that reports, of no other.
	now.Postcard = len(now.Hops) == 1 && !now.Partial && (stack == 0 || in.Header.Type == intwire.TypeMX)
	now.first = l4
	if quoted && len(l4) >= udpHeader && now.quoted().Proto == record.ProtoUDP {
		now.unsummed = isUnsummed(now.quoted(), l4)
		switch {
		case in == nil:
			now.content = l4[udpHeader:]
		case in.Carrier == intwire.OverUDP:
			now.content = in.Payload
		}
	}
	if now.Postcard && now.carried {
		o.before(in)
	}
}

// isUnsummed reports whether the checksum in a UDP header says nothing of its packet. One of 65,536 that are worked out
// looks like that, too.
func isUnsummed(h *quote.Header, udp []byte) bool {
	src, dst := h.Src.As16(), h.Dst.As16()
	from := 0
	if h.Src.Is4() {
		from = 12 // of the form in which IPv6 has it
	}
	pseudo := intwire.Sum(dst[from:], uint32(intwire.Sum(src[from:], uint32(h.Proto)+uint32(binary.BigEndian.Uint16(udp[4:])))))
	sum := binary.BigEndian.Uint16(udp[6:])
	return sum == 0 || sum == pseudo || sum^pseudo == 0xffff && (sum == 0xffff || pseudo == 0xffff)
}

// lostArrival takes back the time at which a packet came where it is 0, and the hop latency that is no difference but
// the time of departure itself. Sinks that report by a clone of the packet say so: it has left its metadata behind.
func lostArrival(v *intwire.Values) bool {
	in, hasIn := v.Get(intwire.IngressTS)
	out, hasOut := v.Get(intwire.EgressTS)
	if !hasIn || !hasOut || in != 0 || out == 0 {
		return false
	}
	v.Invalid |= 1 << intwire.IngressTS
	if latency, ok := v.Get(intwire.HopLatency); ok && uint32(latency) == uint32(out) {
		v.Invalid |= 1 << intwire.HopLatency
	}
	return true
}

// before works out what the packet had behind its IP header before the source put INT into it: the
// source's own postcard may be of that. A UDP checksum is worked out from what INT has changed (RFC 1624),
// unless something is there that the source cannot have put in.
func (o *observer) before(in *intwire.INT) {
	now := &o.now
	n := bytesOf(now.Profile, in)
	switch {
	case in.Shim.Form == intwire.Shim20 && in.Shim.NPT == 2:
		now.first = in.Payload
	case in.Carrier == intwire.OverUDP && len(in.Hops) == 0 && len(now.l4) >= udpHeader+n:
		if now.unsummed {
			return
		}
		sum := binary.BigEndian.Uint16(now.l4[6:])
		copy(o.first[:], now.l4)
		added := uint32(intwire.Sum(now.l4[udpHeader:][:n], uint32(2*n))) // both lengths count
		if in.Shim.NPT == 1 {
			added += uint32(now.withINT.DstPort) + uint32(^now.Header.DstPort)
		}
		sum = ^intwire.Sum(nil, uint32(^sum)+uint32(^intwire.Sum(nil, added)))
		if sum == 0 {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(o.first[6:], sum)
		now.first = o.first[:]
	}
}

// reporter adds the node that reports, if it says more of itself than its id (which some
// leave 0), or nobody else says anything. A sink may be in the stack already: then it is one hop.
func (o *Observed) reporter(a about) {
	values := *a.values
	values.Set(intwire.NodeID, uint64(a.node))
	if n := len(o.Hops); n > 0 {
		last := &o.Hops[n-1]
		if id, ok := last.Get(intwire.NodeID); ok && uint32(id) == a.node {
			o.Own = true
			for f := range intwire.NumFields {
				if v, ok := values.Get(f); ok && !known(last, f) {
					last.Set(f, v)
				}
			}
			return
		}
		if a.values.Has == 0 && !o.Dropped {
			return
		}
	}
	o.Own = true
	o.Hops = append(o.Hops, values)
}

func known(v *intwire.Values, f intwire.Field) bool {
	_, ok := v.Get(f)
	return ok
}

// withoutINT undoes in the header what INT has added to the packet and changed.
func withoutINT(profile *intwire.Profile, h *quote.Header, in *intwire.INT) {
	added := bytesOf(profile, in)
	h.Len -= added
	h.L4Len -= added
	if h.HasTCP && in.Carrier == intwire.OverTCP {
		h.TCP.Payload -= min(h.TCP.Payload, uint32(max(added, 0)))
	}
	if in.Carrier != intwire.OverUDP && in.Carrier != intwire.OverTCP || isTunnel(h) {
		return // then the shim is about a header further inside
	}
	switch {
	case in.HasTail && in.Tail.DstPort != 0: // 0.5
		h.DstPort = in.Tail.DstPort
	case in.Shim.Form != intwire.Shim20:
	case in.Shim.NPT == 1: // the port said that there is INT
		h.DstPort = in.Shim.OrigDstPort
	case in.Shim.NPT == 2: // the UDP header was added, too
		h.Len -= udpHeader
		h.L4Len -= udpHeader
		h.Proto = in.Shim.IPProto
		h.Transport(in.Payload)
	}
}

// isTunnel says whether the packet is one that carries others: not TCP or UDP, or UDP to a port
// of VXLAN (RFC 7348), VXLAN-GPE or Geneve (RFC 8926).
func isTunnel(h *quote.Header) bool {
	switch {
	case !h.HasPorts:
		return true
	case layers.IPProtocol(h.Proto) == layers.IPProtocolUDP:
		return isTunnelPort(h.DstPort)
	}
	return layers.IPProtocol(h.Proto) != layers.IPProtocolTCP
}

func isTunnelPort(port uint16) bool { return port == 4789 || port == 4790 || port == 6081 }

// bytesOf is how many bytes INT takes in the packet, from the shim on; with the marker
// before it. Of Geneve, where it is an option, that is not asked.
func bytesOf(profile *intwire.Profile, in *intwire.INT) int {
	if in.Shim.Form == intwire.NoShim {
		return 0
	}
	n := 4 * int(in.Shim.Length)
	if in.Header.Layout == intwire.INT20 && !profile.INT.CountsShim {
		n += 4
	}
	if in.Mark == intwire.ByMarker {
		n += 8
	}
	return n
}
