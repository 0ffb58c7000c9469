// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"fmt"
	"math/rand/v2"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// testScope gives names to numbers 0 to 63, and to virtual machines' ends of ports.
type testScope struct {
	offset int64
	prefix string
}

func (s *testScope) NodeName(n uint16) string {
	if n > 63 {
		return "?"
	}
	return fmt.Sprint(s.prefix, "n", n)
}

func (s *testScope) PortName(n uint16) string {
	if n&^packet.VMSide > 255 {
		return ""
	}
	return fmt.Sprint(s.prefix, "e", n&^packet.VMSide)
}

func (s *testScope) PortNode(n uint16) uint16 {
	if n&^packet.VMSide > 255 {
		return packet.NoNode
	}
	return n % 64
}
func (s *testScope) WallOffset() int64 { return s.offset }
func (s *testScope) Host() string      { return s.prefix + "host" }

// base is the Unix time of tests.
const base = 1_795_000_000_000_000_000

// generator makes packets of all forms.
type generator struct {
	*rand.Rand
	now uint64
	pos uint64
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 1)), now: 1e12}
}

func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func (g *generator) node() uint16 {
	if g.one(50) {
		return packet.NoNode
	}
	return uint16(g.IntN(64))
}

func (g *generator) port() uint16 {
	switch {
	case g.one(20):
		return packet.NoPort
	case g.one(50):
		return uint16(g.IntN(256)) | packet.VMSide
	}
	return uint16(g.IntN(256))
}

func (g *generator) addr(ipv6 bool) (a packet.Addr) {
	if !ipv6 {
		return packet.AddrFrom4([4]byte{10, 0, byte(g.IntN(3)), byte(g.IntN(256))})
	}
	a = packet.Addr{0: 0x20, 1: 0x01, 15: byte(g.IntN(4))}
	if g.one(20) {
		a = packet.AddrFrom4([4]byte{1, 2, 3, 4}) // of IPv6 all the same
	}
	return a
}

func (g *generator) tuple(ipv6 bool) packet.Tuple {
	return packet.Tuple{Src: g.addr(ipv6), Dst: g.addr(ipv6), SrcPort: uint16(g.IntN(4)), DstPort: uint16(g.Uint32())}
}

func (g *generator) time() int64 {
	if g.one(10) {
		return packet.NoTime
	}
	return g.Int64N(1e6)
}

func (g *generator) drop() packet.Drop {
	d := packet.Drop{
		Node: g.node(), Port: g.port(), At: record.AtQueue, AtNs: g.time(), First: g.one(2),
		Reason: []string{"", "QDISC_DROP", record.NotSeen}[g.IntN(3)], Qdisc: []string{"", "tbf"}[g.IntN(2)],
	}
	if g.one(2) {
		d.Function = packet.NamedFunction([]string{"tbf_enqueue", "ip_forward"}[g.IntN(2)])
	}
	return d
}

// packet makes one.
func (g *generator) packet() *Packet {
	p := &Packet{Source: record.EBPF}
	g.now += g.Uint64N(2000)
	g.pos += 1 + g.Uint64N(2)
	p.Pos, p.T0 = g.pos, g.now
	if g.one(10) {
		p.T0 -= min(g.Uint64N(1e6), p.T0)
	}
	p.State = []record.State{record.Delivered, record.Left, record.Lost, record.Expired, record.InFlight}[g.IntN(5)]
	p.LatencyNs = g.time()
	g.header(p)
	g.hops(p)
	if p.State == record.Lost || g.one(10) {
		p.Lost, p.LocalDrop, p.Missing = g.one(2), g.one(3), g.one(4)
		if p.Lost || p.LocalDrop || p.Missing {
			p.Loss = g.drop()
		}
	}
	p.LastNs = g.Int64N(1e6)
	p.Truncated, p.Moved, p.Open = g.one(10), g.one(20), g.one(20)
	p.ID, p.GUID = fmt.Sprintf("%08x-%x", 0xabc, p.Pos), fmt.Sprintf("0x%x", p.Pos%1024)
	if g.one(15) {
		p.Packet.Inner = g.Uint64()
		p.Inner = fmt.Sprintf("%08x-%x", 0xabc, p.Packet.Inner)
	}
	if g.one(8) {
		g.report(p)
	}
	p.Host = []string{"host", "other"}[g.IntN(2)]
	return p
}

func (g *generator) header(p *Packet) {
	p.Len, p.Segs = g.Uint32N(1<<20), 1
	if g.one(10) {
		p.Segs = 1 + g.IntN(60)
	}
	p.IPv6 = g.one(3)
	p.Proto = []uint8{record.ProtoTCP, record.ProtoUDP, record.ProtoICMP, record.ProtoICMPv6, 200, 50}[g.IntN(6)]
	if p.HasTuple = !g.one(20); !p.HasTuple {
		return
	}
	p.Tuple = g.tuple(p.IPv6)
	p.TTL, p.TOS = uint8(g.IntN(256)), uint8(g.IntN(256))
	p.SentTTL, p.SentTOS = uint8(g.IntN(256)), uint8(g.IntN(256))
	p.FragOff = uint16(g.IntN(2)) << 14
	if p.IPv6 {
		p.Label, p.FragID, p.FragOff = g.Uint32N(1<<20), uint32(g.IntN(2))*g.Uint32(), 0
	} else {
		p.Packet.ID = uint16(g.Uint32())
	}
	if g.one(10) {
		p.SetFragment(8*g.IntN(100), g.IntN(4))
	}
	if p.Proto == record.ProtoICMP || p.Proto == record.ProtoICMPv6 {
		p.ICMP = [2]uint8{[]uint8{0, 8, 128, 129, 3}[g.IntN(5)], uint8(g.IntN(3))}
	}
	if p.Later {
		p.SrcPort, p.DstPort, p.ICMP = 0, 0, [2]uint8{}
	}
	p.Cut = packet.Cut(g.IntN(12))
	if p.Cut > packet.CutAll {
		p.Cut = packet.NotCut
	}
	if p.Proto == record.ProtoTCP && !p.Later {
		p.HasTCP = true
		p.TCP = packet.TCP{Seq: g.Uint32(), Ack: g.Uint32() * uint32(g.IntN(2)), Flags: uint16(g.IntN(512)), Window: uint16(g.Uint32()), Payload: g.Uint32N(1 << 20)}
	}
}

// hops makes a common path, or one whose stamps are anything, or a tree.
func (g *generator) hops(p *Packet) {
	n := g.IntN(5)
	at := int64(0)
	wild := g.one(4)
	p.Tree, p.Apart, p.Undated = g.one(10), g.one(20), g.one(20)
	for i := range n {
		h := packet.Hop{Node: g.node(), In: g.port(), Out: g.port(), InNs: packet.NoTime, OutNs: packet.NoTime, DequeueNs: packet.NoTime}
		step := func() int64 { at += g.Int64N(5000); return at }
		switch {
		case wild:
			h.InNs, h.OutNs, h.DequeueNs = g.time(), g.time(), g.time()
		case i == 0:
			h.In, h.OutNs = packet.NoPort, 0
		default:
			h.InNs = step()
			if i < n-1 {
				h.OutNs = step()
			}
			if h.OutNs >= 0 && g.one(3) {
				h.DequeueNs = step()
			}
		}
		h.OnLink, h.Gap = g.one(30), g.one(30)
		if g.one(8) {
			h.Changed, h.Tuple = true, g.tuple(p.IPv6)
		}
		if p.Tree {
			h.From, h.Copy, h.Moved, h.Unread = int16(g.IntN(i+1)-1), g.one(5), g.one(10), g.one(10)
			h.Outcome = []record.State{"", record.Delivered, record.Ignored}[g.IntN(3)]
		}
		p.Hops = append(p.Hops, h)
	}
	for i := 0; p.Tree && i < g.IntN(3); i++ {
		p.Drops = append(p.Drops, packet.BranchDrop{Hop: g.IntN(n + 1), Local: g.one(2), Drop: g.drop()})
	}
}

// report makes it a packet of reports.
func (g *generator) report(p *Packet) {
	p.Source, p.ID, p.GUID = record.INT, fmt.Sprintf("0000abcd-i%x.2", g.Uint32()), ""
	p.LossHop = g.IntN(len(p.Hops) + 1)
	if g.one(2) && len(p.Hops) > 0 {
		for i := range p.Hops {
			p.Nodes = append(p.Nodes, fmt.Sprint("int-", g.Uint32()))
			p.Links = append(p.Links, g.time())
			p.Hops[i].Node = packet.NoNode
		}
	}
	if len(p.Hops) == 0 {
		return
	}
	p.INT = make([]Said, len(p.Hops))
	for i := range p.INT {
		if i == 0 || g.one(2) {
			p.INT[i] = Said{{"node_id", g.Uint64()}, {"queue_occ", uint64(g.IntN(100))}}
		}
	}
}
