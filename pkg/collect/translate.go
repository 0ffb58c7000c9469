// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

// Counts are what became of packets and of the reports in them.
type Counts struct {
	Packets  uint64 `json:"packets"`  // looked at
	Rejected uint64 `json:"rejected"` // packets that hold no report
	Reports  uint64 `json:"reports"`
	NoPacket uint64 `json:"no_packet"` // reports that quote none: they make no record
	Records  uint64 `json:"records"`
	Alone    uint64 `json:"alone"`  // postcards of packets of which no other node sent one
	Doubts   uint64 `json:"doubts"` // packets with reports of which the decoder has doubts: radar int decode shows them
}

// Translator makes records of reports.
type Translator struct {
	// Emit is called for each record, which is Emit's.
	Emit func(*record.Record)
	// Join is for how long after its first postcard others of a packet are waited for.
	Join time.Duration

	Profiles map[netip.Addr]*intwire.Profile // of sources; of others the variant is recognised
	Names    map[uint32]string               // of nodes by node (switch) id; others are int-ID
	Ports    []uint16                        // that only reports come to
	Counts   Counts

	decoders map[*intwire.Profile]*intwire.Decoder
	message  intwire.Message
	quoted   quotedParser
	cards    postcards
}

// SetProfile says which variant a source, an IP address, sends.
func (t *Translator) SetProfile(source, profile string) error {
	addr, err := netip.ParseAddr(source)
	if err != nil {
		return fmt.Errorf("source %q: no IP address", source)
	}
	p := intwire.ProfileByName(profile)
	if p == nil {
		return fmt.Errorf("source %s: unknown profile %q", source, profile)
	}
	if t.Profiles == nil {
		t.Profiles = make(map[netip.Addr]*intwire.Profile)
	}
	t.Profiles[addr.Unmap()] = p
	return nil
}

// Translate makes records of the packet's reports; those of postcards are emitted when their
// time is over, see Until. id names the packet, and with a number behind it each record. It
// returns what the packet was, valid until the next call.
func (t *Translator) Translate(p Packet, id string) *intwire.Message {
	m := &t.message
	t.Counts.Packets++
	t.decoder(p.IP).Decode(m, intwire.StartIP, p.IP)
	if !isReport(m) {
		t.Counts.Rejected++
		return m
	}
	if len(m.Anomalies) > 0 {
		t.Counts.Doubts++
	}
	n := 0
	add := func(r *record.Record, postcard *identity) {
		t.Counts.Reports++
		if r == nil {
			t.Counts.NoPacket++
			return
		}
		r.V, r.Source, r.Segs = record.Version, record.INT, 1
		r.ID = id
		if n++; n > 1 {
			r.ID += "." + strconv.Itoa(n)
		}
		r.TNs = p.At.UnixNano()
		r.Time = record.TimeString(r.TNs)
		if postcard != nil && t.Join > 0 {
			t.postcards().add(*postcard, r)
			return
		}
		t.Counts.Records++
		t.Emit(r)
	}
	if m.HasGroup {
		for i := range m.Reports {
			add(t.single(m, &m.Reports[i]))
		}
	} else {
		add(t.report(m))
	}
	return m
}

func (t *Translator) postcards() *postcards {
	t.cards.window, t.cards.counts, t.cards.emit = int64(t.Join), &t.Counts, t.Emit
	return &t.cards
}

// Until emits packets whose postcards are no longer waited for at that time.
func (t *Translator) Until(now time.Time) { t.postcards().until(now.UnixNano()) }

// End emits all that is still waited for.
func (t *Translator) End() { t.postcards().all() }

func isReport(m *intwire.Message) bool {
	return m.Profile != nil && (m.HasGroup || m.Report.Layout != intwire.NoReport)
}

// decoder is the one for the packet's source.
func (t *Translator) decoder(ip []byte) *intwire.Decoder {
	var profile *intwire.Profile
	if len(t.Profiles) > 0 {
		profile = t.Profiles[source(ip)]
	}
	d := t.decoders[profile]
	if d == nil {
		if t.decoders == nil {
			t.decoders = make(map[*intwire.Profile]*intwire.Decoder)
		}
		d = &intwire.Decoder{Profile: profile, ReportPorts: t.Ports}
		t.decoders[profile] = d
	}
	return d
}

// source is the packet's source address.
func source(ip []byte) netip.Addr {
	switch {
	case len(ip) >= ipv4Header && ip[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(ip[12:]))
	case len(ip) >= 40 && ip[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(ip[8:])).Unmap()
	}
	return netip.Addr{}
}

// single makes a record of a report of TR 2.0, nil if it quotes no packet.
func (t *Translator) single(m *intwire.Message, s *intwire.Single) (*record.Record, *identity) {
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
	return t.record(m.Profile, about{node: m.Group.NodeID, hasNode: true, values: &s.Values, dropped: s.D, quote: quote}, in)
}

// report makes a record of a report of TR 0.5 or 1.0.
func (t *Translator) report(m *intwire.Message) (*record.Record, *identity) {
	r := &m.Report
	var in *intwire.INT
	if len(m.INT) > 0 {
		in = &m.INT[0]
	}
	return t.record(m.Profile, about{node: r.SwitchID, hasNode: r.HasSwitch, values: &r.Values, dropped: r.D, quote: r.Inner}, in)
}

// about is what a report of any version says itself.
type about struct {
	node    uint32 // that reports
	hasNode bool
	values  *intwire.Values
	dropped bool
	quote   []byte
}

// record makes the record, nil if no packet is quoted. If it is a postcard, what one node
// alone says, the identity of its packet comes with it.
func (t *Translator) record(profile *intwire.Profile, a about, in *intwire.INT) (*record.Record, *identity) {
	r := &record.Record{State: record.Left, Hops: []record.Hop{}}
	l4, ok := t.quoted.header(r, a.quote)
	if !ok {
		return nil, nil
	}
	seen := identityOf(r, l4)
	if in != nil {
		withoutINT(profile, r, in)
		for i := len(in.Hops) - 1; i >= 0; i-- { // the newest is first in the stack
			r.Hops = append(r.Hops, t.hop(profile, &in.Hops[i].Values))
		}
	}
	if a.hasNode {
		t.reporter(profile, r, a)
	}
	roles(r)
	r.LatencyNs = sumOfHops(r.Hops)
	if a.dropped {
		r.State = record.Lost
		r.Loss = t.loss(profile, r, a)
	}
	if len(r.Hops) == 1 && (in == nil || len(in.Hops) == 0) {
		return r, &seen
	}
	return r, nil
}

// withoutINT undoes in the header what INT has added to the packet and changed.
func withoutINT(profile *intwire.Profile, r *record.Record, in *intwire.INT) {
	r.Len -= bytesOf(profile, in)
	if in.Carrier != intwire.OverUDP && in.Carrier != intwire.OverTCP || isTunnel(r) {
		return // then the shim is about a header further inside
	}
	switch {
	case in.HasTail && in.Tail.DstPort != 0: // 0.5
		port := int(in.Tail.DstPort)
		r.Dport = &port
	case in.Shim.Form != intwire.Shim20:
	case in.Shim.NPT == 1: // the port said that there is INT
		port := int(in.Shim.OrigDstPort)
		r.Dport = &port
	case in.Shim.NPT == 2: // the UDP header was added, too
		r.Len -= udpHeader
		r.Proto, r.Sport, r.Dport = record.ProtoName(in.Shim.IPProto), nil, nil
		ports(r, layers.IPProtocol(in.Shim.IPProto), in.Payload)
	}
}

// isTunnel says whether the packet is one that carries others: not TCP or UDP, or UDP to a port
// of VXLAN (RFC 7348), VXLAN-GPE or Geneve (RFC 8926).
func isTunnel(r *record.Record) bool {
	switch {
	case r.Dport == nil:
		return true
	case r.Proto == "udp":
		return *r.Dport == 4789 || *r.Dport == 4790 || *r.Dport == 6081
	}
	return r.Proto != "tcp"
}

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

// nodeName is how the node of an id is called.
func (t *Translator) nodeName(id uint32) string {
	if name := t.Names[id]; name != "" {
		return name
	}
	return fmt.Sprintf("int-%d", id)
}

// hop makes a hop of one node's metadata.
func (t *Translator) hop(profile *intwire.Profile, v *intwire.Values) record.Hop {
	h := record.Hop{Node: "?", INT: make(map[string]uint64)}
	for f := range intwire.NumFields {
		if value, ok := v.Get(f); ok {
			h.INT[f.String()] = value
		}
	}
	if id, ok := v.Get(intwire.NodeID); ok {
		h.Node = t.nodeName(uint32(id))
	}
	if port, ok := v.Get(intwire.L1In); ok {
		h.InPort = strconv.FormatUint(port, 10)
	}
	if port, ok := v.Get(intwire.L1Out); ok {
		h.Port = strconv.FormatUint(port, 10)
	}
	if raw, ok := v.Get(intwire.HopLatency); ok {
		ns := profile.LatencyNs(raw)
		h.NodeNs = &ns
	}
	return h
}

// reporter adds the node that reports, if it says more of itself than its id (which some
// leave 0), or nobody else says anything. A sink may be in the stack already: then it is one hop.
func (t *Translator) reporter(profile *intwire.Profile, r *record.Record, a about) {
	values := *a.values
	values.Set(intwire.NodeID, uint64(a.node))
	h := t.hop(profile, &values)
	if n := len(r.Hops); n > 0 {
		last := &r.Hops[n-1]
		if last.Node == h.Node {
			for name, value := range h.INT {
				if _, there := last.INT[name]; !there {
					last.INT[name] = value
				}
			}
			if last.NodeNs == nil {
				last.NodeNs = h.NodeNs
			}
			if last.InPort == "" {
				last.InPort = h.InPort
			}
			if last.Port == "" {
				last.Port = h.Port
			}
			return
		}
		if a.values.Has == 0 && !a.dropped {
			return
		}
	}
	r.Hops = append(r.Hops, h)
}

// roles numbers the hops' parts in the INT domain.
func roles(r *record.Record) {
	for i := range r.Hops {
		switch i {
		case 0:
			r.Hops[i].Role = record.Source
		case len(r.Hops) - 1:
			r.Hops[i].Role = record.Sink
		default:
			r.Hops[i].Role = record.Transit
		}
	}
}

// sumOfHops is the time in all nodes; nil unless all say theirs.
func sumOfHops(hops []record.Hop) *int64 {
	if len(hops) == 0 {
		return nil
	}
	sum := int64(0)
	for i := range hops {
		if hops[i].NodeNs == nil {
			return nil
		}
		sum += *hops[i].NodeNs
	}
	return &sum
}

// loss is where and why the reporting node dropped the packet.
func (t *Translator) loss(profile *intwire.Profile, r *record.Record, a about) *record.Loss {
	l := &record.Loss{Node: "?", At: record.AtNode, Skbs: 1}
	if n := len(r.Hops); n > 0 {
		l.Node, l.Port = r.Hops[n-1].Node, r.Hops[n-1].Port
	}
	if reason, ok := a.values.Get(intwire.DropReason); ok {
		l.Reason = profile.DropReason(uint8(reason))
	}
	return l
}
