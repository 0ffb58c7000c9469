// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/pkg/record"
)

// world is a made-up network h1 - r1 - r2 - h2 with captures and records that
// agree. Tests spoil one thing in it and see whether it is found.
type world struct {
	domain  Domain
	wire    map[string][]shot // node -> capture
	hooks   map[string][]shot
	sockets map[string][]shot
	sent    map[string][]shot
	records []record.Record
	summary []Losses
	drops   []Drop
	blind   func(from, to int64, reasons []string) bool

	observer time.Duration
	busy     bool // the machine may be busy: no bounds on times by captures
	// notMeasured is how many packets radar says it did not measure.
	notMeasured int
}

// shot is one captured buffer.
type shot struct {
	at   int64
	port int // interface index
	out  bool
	ip   []byte
}

var (
	addr1 = netip.MustParseAddr("10.0.1.1")
	addr2 = netip.MustParseAddr("10.0.3.2")
)

const (
	mss      = 1448
	start    = int64(1_700_000_000_000_000_000)
	dropPort = 9999 // destination port that r1 drops
)

func topology() *Topology {
	a := netip.MustParseAddr
	p := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	return &Topology{Nodes: []Node{
		{"h1", []netip.Addr{addr1}, []Port{{"e0", 11, Ref{"r1", "e0"}, nil, p("10.0.1.1/24")}}},
		{"r1", []netip.Addr{a("10.0.1.2"), a("10.0.2.1")}, []Port{
			{"e0", 21, Ref{"h1", "e0"}, nil, p("10.0.1.2/24")}, {"e1", 22, Ref{"r2", "e0"}, nil, p("10.0.2.1/24")},
		}},
		{"r2", []netip.Addr{a("10.0.2.2"), a("10.0.3.1")}, []Port{
			{"e0", 31, Ref{"r1", "e1"}, nil, p("10.0.2.2/24")},
			{"e1", 32, Ref{"h2", "e0"}, &Queue{Kind: "tbf", MaxBytes: 2000}, p("10.0.3.1/24")},
		}},
		{"h2", []netip.Addr{addr2}, []Port{{"e0", 41, Ref{"r2", "e1"}, nil, p("10.0.3.2/24")}}},
	}}
}

// step is one sighting on the path from h1 to h2; the path back is its mirror.
type step struct {
	node string
	port int
	out  bool
}

var outward = []step{
	{"h1", 11, true}, {"r1", 21, false}, {"r1", 22, true},
	{"r2", 31, false}, {"r2", 32, true}, {"h2", 41, false},
}

func mirror() []step {
	back := slices.Clone(outward)
	slices.Reverse(back)
	for i := range back {
		back[i].out = !back[i].out
	}
	return back
}

// Times between sightings, ns: in a node, on a link.
const (
	nodeTime  = 3000
	queueTime = 9000 // in r2, and in the queue toward h2
	queuePort = 32
	linkTime  = 5000
)

// opts of one made-up packet.
type opts struct {
	back  bool         // from h2 to h1
	stop  int          // last step that it is seen at; 0: all
	cutAt int          // from this step on its train travels in segments; 0: never
	segs  int          // packets of the train; 0: one
	state record.State // "": delivered, or left
	loss  *record.Loss
}

// send lets a packet travel: it appears in the captures, changed within the
// domain as radar changes it, and gets its record.
func (w *world) send(at int64, ip []byte, o opts) {
	steps, truth := outward, clone(ip)
	if o.back {
		steps = mirror()
	}
	if o.stop == 0 {
		o.stop = len(steps) - 1
	}
	o.segs = max(o.segs, 1)
	w.record(at, ip, steps, o)
	w.hooks[steps[0].node] = append(w.hooks[steps[0].node], shot{at: at - 1, out: true, ip: clone(truth)})
	for i, s := range steps[:o.stop+1] {
		if i > 0 {
			at += elapsed(s)
		}
		if i > 0 && s.out {
			setTTL(truth, truth[8]-1)
		}
		trains := [][]byte{truth}
		if o.cutAt > 0 && i >= o.cutAt {
			trains = segment(truth, o.segs)
		}
		for k, b := range trains {
			w.see(s, i, at+int64(k)*100, b, i == len(steps)-1, steps)
		}
	}
}

func elapsed(s step) int64 {
	switch {
	case s.port == queuePort && s.out:
		return queueTime
	case s.out:
		return nodeTime
	}
	return linkTime
}

// see adds one sighting to the captures.
func (w *world) see(s step, i int, at int64, truth []byte, last bool, steps []step) {
	onWire := clone(truth)
	peer := i + 1
	if !s.out {
		peer = i - 1
	}
	if w.domain[s.node] && w.domain[steps[peer].node] && truth[6]&0x40 != 0 { // only with DF set
		setID(onWire, binary.BigEndian.Uint16(truth[4:])*7+1)
		setTTL(onWire, 72)
	}
	w.wire[s.node] = append(w.wire[s.node], shot{at, s.port, s.out, onWire})
	if s.out {
		return
	}
	w.hooks[s.node] = append(w.hooks[s.node], shot{at: at, ip: clone(truth)})
	if last {
		w.sockets[s.node] = append(w.sockets[s.node], shot{at: at, ip: clone(truth)})
	}
}

func clone(b []byte) []byte { return slices.Clone(b) }

func fixSum(ip []byte) {
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:int(ip[0]&15)*4], 0))
}

func setTTL(ip []byte, ttl uint8) { ip[8] = ttl; fixSum(ip) }
func setID(ip []byte, id uint16)  { binary.BigEndian.PutUint16(ip[4:], id); fixSum(ip) }

// UDP trains of the made-up network.
const (
	trainPort = 6000
	trainSize = 1000
)

// segment cuts a train as the kernel does.
func segment(ip []byte, segs int) [][]byte {
	p, _ := decode(ip)
	head, size := p.hdrLen+p.l4Len, mss
	if p.isUDP() {
		size = trainSize
	}
	var out [][]byte
	for k := range segs {
		b := append(clone(ip[:head]), ip[head+k*size:min(head+(k+1)*size, len(ip))]...)
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		if p.isUDP() {
			binary.BigEndian.PutUint16(b[24:], uint16(len(b)-20))
		} else {
			binary.BigEndian.PutUint32(b[24:], binary.BigEndian.Uint32(ip[24:])+uint32(k*size))
		}
		if p.isTCP() && k < segs-1 {
			b[33] &^= tcpPSH
		}
		setID(b, uint16(p.ID)+uint16(k))
		var pseudo uint32
		for i := 12; i < 20; i += 2 {
			pseudo += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		at := 20 + p.sumAt()
		b[at], b[at+1] = 0, 0
		binary.BigEndian.PutUint16(b[at:], checksum(b[20:], pseudo+uint32(p.Proto)+uint32(len(b)-20)))
		out = append(out, b)
	}
	return out
}

// packet builds an IPv4 packet.
func buildPacket(t *testing.T, ip layers.IPv4, l4 gopacket.SerializableLayer, payload []byte) []byte {
	t.Helper()
	ip.Version, ip.TTL = 4, max(ip.TTL, 64)
	if ip.SrcIP == nil {
		ip.SrcIP, ip.DstIP = addr1.AsSlice(), addr2.AsSlice()
	}
	switch l := l4.(type) {
	case *layers.UDP:
		ip.Protocol = layers.IPProtocolUDP
		l.SetNetworkLayerForChecksum(&ip)
	case *layers.TCP:
		ip.Protocol = layers.IPProtocolTCP
		l.SetNetworkLayerForChecksum(&ip)
	case *layers.ICMPv4:
		ip.Protocol = layers.IPProtocolICMPv4
	}
	buf := gopacket.NewSerializeBuffer()
	opt := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opt, &ip, l4, gopacket.Payload(payload)); err != nil {
		t.Fatalf("build packet: %v", err)
	}
	return clone(buf.Bytes())
}

func pcap(t *testing.T, link layers.LinkType, shots []shot, frame func(shot) []byte) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	w := pcapgo.NewWriterNanos(&buf)
	if err := w.WriteFileHeader(262144, link); err != nil {
		t.Fatal(err)
	}
	for _, s := range shots {
		b := frame(s)
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, s.at), CaptureLength: len(b), Length: len(b)}
		if err := w.WritePacket(info, b); err != nil {
			t.Fatal(err)
		}
	}
	return &buf
}

func cooked(s shot) []byte {
	b := make([]byte, 20, 20+len(s.ip))
	binary.BigEndian.PutUint16(b, 0x0800)
	binary.BigEndian.PutUint32(b[4:], uint32(s.port))
	binary.BigEndian.PutUint16(b[8:], 1)
	if s.out {
		b[10] = 4
	}
	b[11] = 6
	return append(b, s.ip...)
}

func nflog(s shot) []byte {
	hook := byte(0)
	if s.out {
		hook = hookLocalOut
	}
	b := []byte{2, 0, 0, 7}
	b = append(binary.NativeEndian.AppendUint16(b, 8), 1, 0, 8, 0, hook, 0)
	ip := s.ip
	if len(ip) < 28 || ip[9] != 17 || binary.BigEndian.Uint16(ip[22:]) != trainPort {
		ip = ip[:min(len(ip), 128)]
	}
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(ip)))
	b = binary.NativeEndian.AppendUint16(b, nflogPayload)
	return append(append(b, ip...), make([]byte, (4-len(ip)%4)%4)...)
}

func raw(s shot) []byte { return s.ip }

// report runs every check on the world.
func (w *world) report(t *testing.T) *Report {
	t.Helper()
	c, err := NewCaptures(topology())
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c.SegmentUDP(trainPort, trainSize)
	for node, shots := range w.wire {
		check(c.AddWire(node, pcap(t, layers.LinkTypeLinuxSLL2, shots, cooked)))
	}
	for node, shots := range w.hooks {
		check(c.AddHook(node, pcap(t, layers.LinkType(239), shots, nflog)))
	}
	for node, shots := range w.sockets {
		for _, proto := range []uint8{1, 6, 17} {
			mine := slices.DeleteFunc(slices.Clone(shots), func(s shot) bool { return s.ip[9] != proto })
			check(c.AddSocket(node, proto, pcap(t, layers.LinkTypeRaw, mine, raw)))
		}
	}
	for node, shots := range w.sent {
		check(c.AddSent(node, pcap(t, layers.LinkTypeRaw, shots, raw)))
	}
	truth := c.Reconstruct()
	r := &Report{Title: t.Name()}
	r.Add(truth.CheckCaptures(w.domain), truth.CheckTrains(true, false), truth.CheckOutside(w.domain))
	r.Add(truth.CheckInside(w.domain), truth.CheckSockets(w.domain), truth.CheckQuotes(w.domain))
	r.Add(truth.CheckDrops(NewDomain("h1", "r1", "r2", "h2"), w.drops)...)
	cmp := truth.Compare(w.domain, w.drops, w.records)
	if w.blind != nil {
		cmp.Unseen(w.blind)
	}
	r.Add(cmp.Rows(w.notMeasured)...)
	r.Add(cmp.CheckLossCounts(w.summary)...)
	r.Add(cmp.CheckStamps()...)
	b := Bounds{P99: 20 * time.Microsecond, Bias: 2 * time.Microsecond, Clock: time.Millisecond, Observer: w.observer, Unjudged: w.busy}
	r.Add(cmp.Latency(b)...)
	r.Add(cmp.Clock(b))
	return r
}
