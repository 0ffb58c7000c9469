// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"strconv"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/parquet"
)

// How much a row group holds. Readers keep a few of them in memory.
const (
	mostRows = 1 << 16
	mostHops = 1 << 19
	mostRare = 1 << 20 // values of columns that few rows have
)

// texts are those of a column, each once.
type texts struct {
	index map[string]uint32
	dict  []string
	last  string // the one that came last, and its index
	at    uint32
}

func (t *texts) add(s string) uint32 {
	if s == t.last && len(t.dict) > 0 {
		return t.at
	}
	i, ok := t.index[s]
	if !ok {
		if t.index == nil {
			t.index = make(map[string]uint32)
		}
		i = uint32(len(t.dict))
		t.dict, t.index[s] = append(t.dict, s), i
	}
	t.last, t.at = s, i
	return i
}

func (t *texts) reset() {
	clear(t.index)
	t.dict, t.last = t.dict[:0], ""
}

// values are those of a column, by row, by header, by path or by hop; of a column that few rows have
// with the row, and the hop, of each. A text is its index.
type values struct {
	v    []int64
	row  []uint32
	hop  []uint32
	text texts
}

func (c *values) reset() {
	c.v, c.row, c.hop = c.v[:0], c.row[:0], c.hop[:0]
	c.text.reset()
}

// class is what packets of a flow have in common for the most part: those with the same one share
// their values in many columns.
type class struct {
	tuple        packet.Tuple
	label        uint32
	frag         uint16
	source, host uint16
	icmp         [2]uint8
	proto        uint8
	ttl, tos     uint8
	sentTTL      uint8
	sentTOS      uint8
	cut          packet.Cut
	bits         uint8
	_            uint8
}

// Bits of a class.
const (
	bitTuple = 1 << iota
	bitIPv6
	bitLater
)

// batch is packets that become a row group.
type batch struct {
	meta    *Meta
	rows    int
	hops    int // entries
	rareAll int
	first   int64 // the earliest t, and the latest
	last    int64

	cols [numColumns]values
	// class and path are those of each row, flows the flow of each class.
	class, path []uint32
	classes     map[class]uint32
	flows       map[packet.Tuple]uint32
	flowOf      []uint32
	paths       paths
	lastClass   class
	lastIndex   uint32

	sources, hosts texts
	scope          packet.Scope // of the packet before
	names          *packet.Translation
	scopes         *scopes
	used           *packet.Numbers
	scratch        []byte
}

func newBatch(m *Meta, s *scopes) *batch {
	b := &batch{meta: m, scopes: s, classes: make(map[class]uint32), flows: make(map[packet.Tuple]uint32)}
	b.reset()
	return b
}

func (b *batch) reset() {
	for i := range b.cols {
		b.cols[i].reset()
	}
	b.rows, b.hops, b.rareAll = 0, 0, 0
	b.class, b.path, b.flowOf = b.class[:0], b.path[:0], b.flowOf[:0]
	clear(b.classes)
	clear(b.flows)
	b.paths.reset()
	b.sources.reset()
	b.hosts.reset()
	b.scope, b.names, b.used = nil, nil, packet.NewNumbers()
}

// full reports whether no further packet should be added.
func (b *batch) full() bool {
	return b.rows >= mostRows || b.hops >= mostHops || b.rareAll >= mostRare
}

func (b *batch) put(col int, v int64) { b.cols[col].v = append(b.cols[col].v, v) }

// rare adds a value of the unfinished row.
func (b *batch) rare(col int, v int64) {
	c := &b.cols[col]
	c.v, c.row = append(c.v, v), append(c.row, uint32(b.rows))
	b.rareAll++
}

func (b *batch) rareText(col int, s string) { b.rare(col, int64(b.cols[col].text.add(s))) }

func (b *batch) flag(col int, is bool) {
	if is {
		b.rare(col, 1)
	}
}

// rareHop adds a value of a hop of the unfinished row.
func (b *batch) rareHop(col, hop int, v int64) {
	b.rare(col, v)
	b.cols[col].hop = append(b.cols[col].hop, uint32(hop))
}

func (b *batch) rareHopText(col, hop int, s string) {
	b.rareHop(col, hop, int64(b.cols[col].text.add(s)))
}

func orNull(v int64, there bool) int64 {
	if there {
		return v
	}
	return parquet.Null
}

func timeOrNull(ns int64) int64 { return orNull(ns, ns != packet.NoTime) }

// add adds a packet.
func (b *batch) add(p *Packet, of packet.Scope) {
	b.setScope(of)
	t := p.UnixNs(of)
	if b.rows == 0 {
		b.first, b.last = t, t
	}
	b.first, b.last = min(b.first, t), max(b.last, t)
	echo := p.IsEcho()
	b.class = append(b.class, b.classOf(p, of, echo))
	b.path = append(b.path, b.pathOf(p))
	b.put(colT, t)
	b.put(colState, int64(b.cols[colState].text.add(string(p.State))))
	b.put(colPos, int64(p.Pos))
	b.put(colLen, int64(p.Len))
	b.put(colSegs, int64(p.Segs))
	b.put(colIPID, orNull(int64(p.Packet.ID), p.HasTuple && !p.IPv6 || p.Packet.ID != 0))
	if lost := p.State == record.Lost || p.Missing; !lost || p.LatencyNs == packet.NoTime {
		b.put(colLatency, timeOrNull(p.LatencyNs))
	} else { // a time to where it was lost is no latency
		b.put(colLatency, parquet.Null)
		b.rare(colLostAfter, p.LatencyNs)
	}
	b.addTCP(p)
	if echo {
		b.rare(colICMPID, int64(p.SrcPort))
		b.rare(colICMPSeq, int64(p.DstPort))
	}
	b.addNames(p)
	b.addTimes(p)
	b.addFlags(p)
	b.addRareHops(p)
	if p.Loss != (packet.Drop{}) || p.Lost || p.Missing || p.LocalDrop {
		b.addLoss(p)
	}
	for i := range p.Drops {
		b.addBranch(&p.Drops[i])
	}
	for i, said := range p.INT {
		b.addINT(i, said)
	}
	b.rows++
	b.hops += len(p.Hops)
}

// setScope makes ready what the names of a Scope need.
func (b *batch) setScope(of packet.Scope) {
	if b.names != nil && canCompare(of) && canCompare(b.scope) && b.scope == of {
		return
	}
	b.scope, b.names = of, b.scopes.of(of)
	b.paths.forget() // numbers are another scope's
}

func (b *batch) addTCP(p *Packet) {
	t := &p.TCP
	b.put(colTCPSeq, orNull(int64(t.Seq), p.HasTCP))
	b.put(colTCPAck, orNull(int64(t.Ack), p.HasTCP && (t.Flags&packet.TCPAck != 0 || t.Ack != 0)))
	b.put(colTCPFlags, orNull(int64(t.Flags), p.HasTCP))
	b.put(colTCPWindow, orNull(int64(t.Window), p.HasTCP))
	b.put(colTCPPayload, orNull(int64(t.Payload), p.HasTCP))
}

// classOf is the number of the packet's class.
func (b *batch) classOf(p *Packet, of packet.Scope, echo bool) uint32 {
	k := class{
		tuple: p.Tuple, label: p.Label, frag: p.FragOff, icmp: p.ICMP, proto: p.Proto, ttl: p.TTL, tos: p.TOS,
		sentTTL: p.SentTTL, sentTOS: p.SentTOS, cut: p.Cut,
	}
	if echo {
		k.tuple.SrcPort, k.tuple.DstPort = 0, 0
	}
	if p.HasTuple {
		k.bits |= bitTuple
	}
	if p.IPv6 {
		k.bits |= bitIPv6
	}
	if p.Later {
		k.bits |= bitLater
	}
	host := p.Host
	if host == "" {
		host = of.Host()
	}
	k.source, k.host = uint16(b.sources.add(p.Source)), uint16(b.hosts.add(host))
	if len(b.flowOf) > 0 && k == b.lastClass {
		return b.lastIndex
	}
	i, ok := b.classes[k]
	if !ok {
		i = b.newClass(p, k, echo)
	}
	b.lastClass, b.lastIndex = k, i
	return i
}

func (b *batch) newClass(p *Packet, k class, echo bool) uint32 {
	i := uint32(len(b.flowOf))
	b.classes[k] = i
	flow, ok := b.flows[k.tuple]
	if !ok {
		flow = uint32(len(b.flows))
		b.flows[k.tuple] = flow
	}
	b.flowOf = append(b.flowOf, flow)
	words := func(col int, s string) { b.put(col, int64(b.cols[col].text.add(s))) }
	words(colSource, b.sources.dict[k.source])
	words(colHost, b.hosts.dict[k.host])
	words(colProto, record.ProtoName(k.proto))
	b.put(colEpoch, int64(b.meta.Epoch))
	b.put(colIPVersion, 4+int64(k.bits&bitIPv6))
	if p.HasTuple {
		words(colSrc, k.tuple.Src.Text(p.IPv6))
		words(colDst, k.tuple.Dst.Text(p.IPv6))
	} else {
		b.put(colSrc, parquet.Null)
		b.put(colDst, parquet.Null)
	}
	ports := p.HasPorts() || !echo && (p.SrcPort != 0 || p.DstPort != 0)
	b.put(colSport, orNull(int64(p.SrcPort), ports))
	b.put(colDport, orNull(int64(p.DstPort), ports))
	b.put(colFlowLabel, orNull(int64(p.Label), p.IPv6 && p.HasTuple || p.Label != 0))
	icmp := p.IsICMP() || p.ICMP != [2]uint8{}
	b.put(colICMPType, orNull(int64(p.ICMP[0]), icmp))
	b.put(colICMPCode, orNull(int64(p.ICMP[1]), icmp))
	header := p.HasTuple || p.TTL|p.TOS|p.SentTTL|p.SentTOS != 0
	b.put(colTTL, orNull(int64(p.TTL), header))
	b.put(colDSCP, orNull(int64(p.TOS>>2), header))
	b.put(colECN, orNull(int64(p.TOS&3), header))
	b.put(colTTLSent, orNull(int64(p.SentTTL), header && p.SentTTL != p.TTL))
	b.put(colDSCPSent, orNull(int64(p.SentTOS>>2), header && p.SentTOS>>2 != p.TOS>>2))
	b.put(colECNSent, orNull(int64(p.SentTOS&3), header && p.SentTOS&3 != p.TOS&3))
	offset, fragment := p.Offset()
	b.put(colFragOff, orNull(int64(offset), fragment))
	b.put(colFragBits, int64(p.FragOff))
	b.put(colLater, orNull(1, p.Later))
	b.put(colCut, orNull(int64(p.Cut), p.Cut != packet.NotCut))
	return i
}

// addNames adds what a packet is called by, where that does not follow from its position.
func (b *batch) addNames(p *Packet) {
	if p.ID != "" && string(b.idOf(p.Pos)) != p.ID {
		b.rareText(colID, p.ID)
	}
	if p.GUID != "" && string(b.guidOf(p.Pos, p.Source)) != p.GUID {
		b.rareText(colGUID, p.GUID)
	}
	if p.Packet.Inner != 0 {
		b.rare(colInnerPos, int64(p.Packet.Inner))
	}
	if p.Inner != "" && (p.Packet.Inner == 0 || string(b.idOf(p.Packet.Inner)) != p.Inner) {
		b.rareText(colInner, p.Inner)
	}
}

func (b *batch) idOf(pos uint64) []byte {
	b.scratch = appendID(b.scratch[:0], b.meta.Epoch, pos)
	return b.scratch
}

func (b *batch) guidOf(pos uint64, source string) []byte {
	b.scratch = appendGUID(b.scratch[:0], b.meta, pos, source)
	return b.scratch
}

// appendID appends the ID of the packet at a position of the ring.
func appendID(to []byte, epoch uint32, pos uint64) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		to = append(to, "0123456789abcdef"[epoch>>shift&15])
	}
	return strconv.AppendUint(append(to, '-'), pos, 16)
}

// appendGUID appends the GUID of a packet at a position; none of others than radar's own packets.
func appendGUID(to []byte, m *Meta, pos uint64, source string) []byte {
	if source != record.EBPF || m.Slots == 0 {
		return to
	}
	return strconv.AppendUint(append(to, "0x"...), pos%m.Slots, 16)
}
