// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/packet"
)

// Counts are what became of packets and of the reports in them.
type Counts struct {
	Packets  uint64 `json:"packets"`  // looked at
	Rejected uint64 `json:"rejected"` // packets that hold no report, or nothing that has its form
	Reports  uint64 `json:"reports"`
	NoPacket uint64 `json:"no_packet"` // reports that were to become records, and quote no packet
	Records  uint64 `json:"records"`
	// UnmatchedPostcards are those of packets of which no other node sent one.
	UnmatchedPostcards uint64 `json:"unmatched_postcards"`
	// Unordered are packets of which the order of the nodes is not known.
	Unordered uint64     `json:"unordered"`
	Joins     JoinCounts `json:"joins"`
	Anomalous uint64     `json:"anomalous"` // packets with reports in which the decoder finds anomalies: radar int decode shows them

	ClockFaults uint64 `json:"clock_faults,omitempty"` // times between nodes of one clock that cannot be: below 0, or above mostBetween
	Untimed     uint64 `json:"untimed,omitempty"`      // reports without a time, where it was asked for
	// NoArrival are visits of nodes that say when the packet left, and 0 for when it came: what they took it for is none.
	NoArrival uint64 `json:"no_arrival,omitempty"`
	Skewed    uint64 `json:"skewed,omitempty"` // reports whose time was too far from when they came
}

// Translator makes packets of reports.
type Translator struct {
	// Emit is called for each packet, which is valid until it returns. nil: nobody wants them.
	Emit func(*Reported)
	// Join is for how long after its first postcard others of a packet are waited for.
	Join time.Duration

	Epoch   uint32                // the first part of the IDs of records
	Sources map[netip.Addr]Source // of others the variant is recognised
	Names   map[uint32]string     // of nodes by node (switch) id; others are int-ID
	Ports   []uint16              // that only reports come to
	// Numbers gives the packets' nodes and ports theirs, and says by which clock stamps are. nil: none has
	// a number, and stamps are Unix time.
	Numbers *packet.Registry
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
	cards    postcards
	way      func(cards []*card, story *packet.Packet) // what else is made of a packet's postcards; nil: nothing
	numbers  map[uint32]uint16                         // of nodes, by id

	// Of the packet under way.
	now, own       Reported
	said           []intwire.Values
	came           []card // a message's
	list, keptList []*card
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

// Translate emits the packets that a datagram's reports tell of, as Decode and Packets do. nil: it holds
// no report.
func (t *Translator) Translate(p Packet, number uint64) *intwire.Message {
	m := t.Decode(p)
	if m != nil {
		t.Packets(m, p.At, number)
	}
	return m
}

// Decode reads the packet, which is valid as long as its memory, until the next call; nil: it
// holds no report.
func (t *Translator) Decode(p Packet) *intwire.Message {
	m := &t.message
	t.Counts.Packets++
	d, as := t.decoder(p.IP)
	d.Decode(m, intwire.StartIP, p.IP)
	if as != nil && m.Profile != nil {
		m.Profile = as
	}
	if !m.Sure || !m.HasGroup && m.Report.Layout == intwire.NoReport {
		t.Counts.Rejected++
		return nil
	}
	if len(m.Anomalies) > 0 {
		t.Counts.Anomalous++
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

// Packets emits the packets that a message's reports tell of, which came at a time; those of postcards
// when their time is over, see Until. number names the message.
func (t *Translator) Packets(m *intwire.Message, at time.Time, number uint64) {
	nth, cards, came := 0, 0, at.UnixNano()
	t.Observe(m, func(o *Observed) {
		t.Counts.NoArrival += uint64(o.NoArrival)
		if !o.Quoted {
			t.Counts.NoPacket++
			return
		}
		nth++
		id := reportID{number, nth}
		if t.isCard(o) {
			if cards == len(t.came) { // whoever has measured it has them
				t.came = append(t.came, t.card(o, came))
			}
			t.keep(&t.came[cards], o, id)
			cards++
			return
		}
		t.Counts.Records++
		t.emit(t.packet(o, came, id))
	})
	t.join()
}

// isCard says whether a report waits for those of other nodes.
func (t *Translator) isCard(o *Observed) bool { return o.Postcard && o.Quoted && t.Join > 0 }

// join lets a message's postcards wait.
func (t *Translator) join() {
	cards := t.postcards()
	for i := range t.came {
		cards.add(&t.came[i])
	}
	t.came = t.came[:0]
}

func (t *Translator) postcards() *postcards {
	if t.cards.Emit == nil {
		t.cards.Window, t.cards.Emit = int64(t.Join), t.joined
	}
	return &t.cards
}

func (t *Translator) emit(p *Reported) {
	if t.Emit != nil {
		t.Emit(p)
	}
}

// recordID is what a record of a report is called.
func (t *Translator) recordID(id reportID) string {
	text := fmt.Sprintf("%08x-i%x", t.Epoch, id.datagram)
	if id.nth > 1 {
		text += "." + strconv.Itoa(id.nth)
	}
	return text
}

// offset is from stamps to Unix time, ns.
func (t *Translator) offset() int64 {
	if t.Numbers == nil {
		return 0
	}
	return t.Numbers.WallOffset()
}

// host is the machine that has taken the reports; "" if nobody knows.
func (t *Translator) host() string {
	if t.Numbers == nil {
		return ""
	}
	return t.Numbers.Host()
}

// Until emits packets whose postcards are no longer waited for at that time.
func (t *Translator) Until(now time.Time) { t.postcards().Until(now.UnixNano()) }

// forget forgets what it keeps from one packet to the next for speed alone: a panic may have left it
// half done.
func (t *Translator) forget() {
	t.decoders, t.message, t.observer, t.stays = nil, intwire.Message{}, observer{}, nil
	t.now, t.own, t.said, t.came, t.list, t.keptList = Reported{}, Reported{}, nil, nil, nil, nil
}

// End emits all that is still waited for.
func (t *Translator) End() { t.postcards().All() }

// decoder is the one for the packet's source. as is the profile of what it recognises, where the source sends any
// version; else nil.
func (t *Translator) decoder(ip []byte) (d *intwire.Decoder, as *intwire.Profile) {
	var from Source
	t.clock = clock{}
	if len(t.Sources) > 0 {
		addr := source(ip)
		from = t.Sources[addr]
		t.clock = from.clock(addr)
	}
	if p := from.Profile; p != nil && p.EachVersion {
		as, from.Profile = p, nil
		from.LatencyNs, from.TimeNs = cmp.Or(from.LatencyNs, p.HopLatencyNs), cmp.Or(from.TimeNs, p.TimeNs)
	}
	d = t.decoders[from]
	if d == nil {
		if t.decoders == nil {
			t.decoders = make(map[Source]*intwire.Decoder)
		}
		d = &intwire.Decoder{Profile: from.Profile, LatencyNs: from.LatencyNs, TimeNs: from.TimeNs, ReportPorts: t.Ports}
		t.decoders[from] = d
	}
	return d, as
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

// packet makes the packet that a report quotes, in memory that is used again.
func (t *Translator) packet(o *Observed, at int64, id reportID) *Reported {
	p := &t.now
	p.reset(t, at, id)
	o.Header.Fill(&p.Packet)
	for i := range o.Hops {
		p.add(&o.Hops[i], o.LatencyNs)
	}
	p.Said = o.Hops
	if p.Truncated = o.Partial; !o.Partial {
		p.sum()
		if o.clock.shared {
			t.stays = o.appendStays(t.stays[:0])
			t.timed(p, t.stays, at)
		}
	}
	if o.Dropped {
		last := len(p.Hops) - 1
		p.lose(last, o.dropReason(last))
	}
	return p
}

// dropReason is why the node of the last hop dropped the packet.
func (o *Observed) dropReason(hop int) string {
	if hop < 0 {
		return ""
	}
	reason, ok := o.Hops[hop].Get(intwire.DropReason)
	if !ok {
		return ""
	}
	return o.Profile.DropReason(uint8(reason))
}

// NodeName is how the node of an id is called.
func (t *Translator) NodeName(id uint32) string {
	if name := t.Names[id]; name != "" {
		return name
	}
	return "int-" + strconv.FormatUint(uint64(id), 10)
}

// number is the number of the node of an id.
func (t *Translator) number(id uint32) uint16 {
	number, ok := t.numbers[id]
	if ok {
		return number
	}
	if number = t.Numbers.Node(t.NodeName(id)); number != packet.NoNode {
		if t.numbers == nil {
			t.numbers = make(map[uint32]uint16)
		}
		t.numbers[id] = number
	}
	return number
}
