// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

// Counts are what became of packets and of the reports in them.
type Counts struct {
	Packets  uint64 `json:"packets"`  // looked at
	Rejected uint64 `json:"rejected"` // packets that hold no report, or nothing that has its form
	Reports  uint64 `json:"reports"`
	NoPacket uint64 `json:"no_packet"` // reports that were to become records, and quote no packet
	Records  uint64 `json:"records"`
	Alone    uint64 `json:"alone"` // postcards of packets of which no other node sent one
	// Unordered are packets of which the order of the nodes is not known.
	Unordered uint64     `json:"unordered"`
	Joins     JoinCounts `json:"joins"`
	Doubts    uint64     `json:"doubts"` // packets with reports of which the decoder has doubts: radar int decode shows them

	ClockFaults uint64 `json:"clock_faults,omitempty"` // times between nodes of one clock that cannot be: below 0, or above mostBetween
	Untimed     uint64 `json:"untimed,omitempty"`      // reports without a time, where it was asked for
	Skewed      uint64 `json:"skewed,omitempty"`       // reports whose time was too far from when they came
}

// Translator makes records of reports.
type Translator struct {
	// Emit is called for each record, which is Emit's.
	Emit func(*record.Record)
	// Join is for how long after its first postcard others of a packet are waited for.
	Join time.Duration

	Sources map[netip.Addr]Source // of others the variant is recognised
	Names   map[uint32]string     // of nodes by node (switch) id; others are int-ID
	Ports   []uint16              // that only reports come to
	// MostSkew asks for the time that a report says itself, and is how far that may be from when it
	// came: else that counts. 0: that counts for all.
	MostSkew time.Duration
	Counts   Counts
	// Stories, if not nil, are asked for the packets of postcards.
	Stories Stories

	decoders map[Source]*intwire.Decoder
	message  intwire.Message
	clock    clock // of the message's source
	observer observer
	stays    []stay // of a report
	cards    postcards[recorded]
}

// Source is what is known of one that sends reports. The zero value is nothing.
type Source struct {
	Profile   *intwire.Profile // nil: it is recognised
	LatencyNs uint32           // ns that hop latencies count by; 0: as the profile says
	TimeNs    uint32           // the same of times of ingress and egress
	Clock     bool             // its nodes take times by one clock, which is that of all such sources
}

// AnyProfile is the name of a profile that is to be recognised.
const AnyProfile = "auto"

// units are those of latencies and times, ns.
var units = map[string]uint32{"ns": 1, "us": 1e3, "ms": 1e6}

// ParseSource reads PROFILE, and behind it SETTING=VALUE, each after a comma.
func ParseSource(text string) (s Source, err error) {
	name, settings, _ := strings.Cut(text, ",")
	if s.Profile = intwire.ProfileByName(name); s.Profile == nil && name != AnyProfile {
		return s, fmt.Errorf("unknown profile %q", name)
	}
	for settings != "" {
		var setting string
		setting, settings, _ = strings.Cut(settings, ",")
		if err := s.set(setting); err != nil {
			return s, err
		}
	}
	return s, nil
}

// SourceSettings are what may stand behind a profile, for ParseSource.
var SourceSettings = []string{"latency=", "time=", "clock="}

func (s *Source) set(setting string) error {
	name, value, _ := strings.Cut(setting, "=")
	to := map[string]*uint32{"latency": &s.LatencyNs, "time": &s.TimeNs}[name]
	switch {
	case name == "clock" && s.Clock, to != nil && *to > 0:
		return fmt.Errorf("%q: %s is said twice", setting, name)
	case name == "clock" && value == "shared":
		s.Clock = true
	case name == "clock":
		return fmt.Errorf("%q: use clock=shared", setting)
	case to == nil:
		return fmt.Errorf("%q: use latency=, time= or clock=shared", setting)
	case units[value] == 0:
		return fmt.Errorf("%q: use %s=ns, %s=us or %s=ms", setting, name, name, name)
	default:
		*to = units[value]
	}
	return nil
}

// SetSource says what a source, an IP address, sends; see ParseSource.
func (t *Translator) SetSource(source, sends string) error {
	addr, err := netip.ParseAddr(source)
	if err != nil {
		return fmt.Errorf("source %q: no IP address", source)
	}
	s, err := ParseSource(sends)
	if err != nil {
		return fmt.Errorf("source %s: %w", source, err)
	}
	if t.Sources == nil {
		t.Sources = make(map[netip.Addr]Source)
	}
	t.Sources[addr.Unmap()] = s
	return nil
}

// Translate makes records of the packet's reports, as Decode and Records do. nil: there are none.
func (t *Translator) Translate(p Packet, id string) *intwire.Message {
	m := t.Decode(p)
	if m != nil {
		t.Records(m, p.At, id)
	}
	return m
}

// Decode reads the packet, which is valid as long as its memory, until the next call; nil: it
// holds no report.
func (t *Translator) Decode(p Packet) *intwire.Message {
	m := &t.message
	t.Counts.Packets++
	t.decoder(p.IP).Decode(m, intwire.StartIP, p.IP)
	if !m.Sure || !m.HasGroup && m.Report.Layout == intwire.NoReport {
		t.Counts.Rejected++
		return nil
	}
	if len(m.Anomalies) > 0 {
		t.Counts.Doubts++
	}
	reports := 1
	if m.HasGroup {
		reports = len(m.Reports)
	}
	t.Counts.Reports += uint64(reports)
	return m
}

// Observe calls fn for each report of a message; what it gets is valid until it returns.
func (t *Translator) Observe(m *intwire.Message, fn func(*Observed)) {
	t.observer.each(m, func(o *Observed) {
		o.clock = t.clock
		fn(o)
	})
}

// Records makes records of a message's reports that came at a time; those of postcards are
// emitted when their time is over, see Until. id names the message, and with a number behind it
// each record.
func (t *Translator) Records(m *intwire.Message, at time.Time, id string) {
	n := 0
	t.Observe(m, func(o *Observed) {
		if !o.Quoted {
			t.Counts.NoPacket++
			return
		}
		r := t.record(o)
		r.V, r.Source, r.Segs = record.Version, record.INT, 1
		r.ID = id
		if n++; n > 1 {
			r.ID += "." + strconv.Itoa(n)
		}
		r.TNs = at.UnixNano()
		r.Time = record.TimeString(r.TNs)
		if o.Postcard && t.Join > 0 {
			c := cardOf(o, r.TNs, recorded{r, o.stay(0)})
			var why Unjoined
			if c.story, why = t.storyOf(o, r.TNs); why != Joins {
				t.Counts.Joins.count(why, 1)
			}
			t.postcards().add(o.seen, c)
			return
		}
		t.Counts.Records++
		t.Emit(r)
	})
}

func (t *Translator) postcards() *postcards[recorded] {
	t.cards.window, t.cards.emit = int64(t.Join), t.joined
	return &t.cards
}

// Until emits packets whose postcards are no longer waited for at that time.
func (t *Translator) Until(now time.Time) { t.postcards().until(now.UnixNano()) }

// forget forgets what it keeps from one packet to the next for speed alone: a panic may have left it
// half done.
func (t *Translator) forget() {
	t.decoders, t.message, t.observer, t.stays = nil, intwire.Message{}, observer{}, nil
}

// End emits all that is still waited for.
func (t *Translator) End() { t.postcards().all() }

// decoder is the one for the packet's source.
func (t *Translator) decoder(ip []byte) *intwire.Decoder {
	var from Source
	t.clock = clock{}
	if len(t.Sources) > 0 {
		addr := source(ip)
		from = t.Sources[addr]
		t.clock = from.clock(addr)
	}
	d := t.decoders[from]
	if d == nil {
		if t.decoders == nil {
			t.decoders = make(map[Source]*intwire.Decoder)
		}
		d = &intwire.Decoder{Profile: from.Profile, LatencyNs: from.LatencyNs, TimeNs: from.TimeNs, ReportPorts: t.Ports}
		t.decoders[from] = d
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

// record makes the record of a packet that is quoted.
func (t *Translator) record(o *Observed) *record.Record {
	r := &record.Record{State: record.Left, Hops: make([]record.Hop, 0, len(o.Hops))}
	o.Header.fill(r)
	for i := range o.Hops {
		r.Hops = append(r.Hops, t.hop(&o.Hops[i], o.LatencyNs))
	}
	roles(r)
	if r.Truncated = o.Partial; !o.Partial {
		r.LatencyNs = sumOfHops(r.Hops)
		t.timed(r, o.appendStays(nil))
	}
	if o.Dropped {
		r.State, r.Loss = record.Lost, loss(o, r)
	}
	return r
}

// NodeName is how the node of an id is called.
func (t *Translator) NodeName(id uint32) string {
	if name := t.Names[id]; name != "" {
		return name
	}
	return fmt.Sprintf("int-%d", id)
}

// hop makes a hop of one node's metadata. unit is how many ns its latency counts by.
func (t *Translator) hop(v *intwire.Values, unit uint32) record.Hop {
	h := record.Hop{Node: "?", INT: make(map[string]uint64)}
	for f := range intwire.NumFields {
		if value, ok := v.Get(f); ok {
			h.INT[f.String()] = value
		}
	}
	if id, ok := v.Get(intwire.NodeID); ok {
		h.Node = t.NodeName(uint32(id))
	}
	if port, ok := v.Get(intwire.L1In); ok {
		h.InPort = strconv.FormatUint(port, 10)
	}
	if port, ok := v.Get(intwire.L1Out); ok {
		h.Port = strconv.FormatUint(port, 10)
	}
	if raw, ok := v.Get(intwire.HopLatency); ok {
		ns := int64(raw) * int64(unit)
		h.NodeNs = &ns
	}
	return h
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
func loss(o *Observed, r *record.Record) *record.Loss {
	l := &record.Loss{Node: "?", At: record.AtNode, Skbs: 1}
	if n := len(r.Hops); n > 0 {
		l.Node, l.Port = r.Hops[n-1].Node, r.Hops[n-1].Port
		if reason, ok := o.Hops[n-1].Get(intwire.DropReason); ok {
			l.Reason = o.Profile.DropReason(uint8(reason))
		}
	}
	return l
}
