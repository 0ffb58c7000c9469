// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// packet fills p with a row. p keeps its memory.
func (g *group) packet(p *Packet, row uint32, scope *scope, text *[]byte) {
	hops, drops := p.Hops[:0], p.Drops[:0]
	*p = Packet{}
	p.Hops, p.Drops = hops, drops
	p.T0 = uint64(g.cols[colT].Ints[row] - scope.offset)
	p.Pos = uint64(g.cols[colPos].Ints[row])
	p.State = record.State(g.text(colState, row))
	p.Source, p.Host = g.text(colSource, row), g.text(colHost, row)
	if p.LatencyNs = g.time(colLatency, row); p.LatencyNs == packet.NoTime {
		p.LatencyNs = g.time(colLostAfter, row)
	}
	g.header(p, row)
	if seq, ok := g.int(colTCPSeq, row); ok {
		p.HasTCP = true
		p.TCP = packet.TCP{
			Seq: uint32(seq), Ack: uint32(g.num(colTCPAck, row)), Flags: uint16(g.num(colTCPFlags, row)),
			Window: uint16(g.num(colTCPWindow, row)), Payload: uint32(g.num(colTCPPayload, row)),
		}
	}
	p.Tree, p.Lost, p.LocalDrop, p.Missing = g.is(colTree, row), g.is(colLost, row), g.is(colLocalDrop, row), g.is(colMissing, row)
	p.Undated = g.is(colUndated, row)
	p.Moved, p.Truncated, p.Apart, p.Open = g.is(colMoved, row), g.is(colTruncated, row), g.is(colApart, row), g.is(colOpen, row)
	if node, ok := g.int(colLossNodeID, row); ok {
		p.Loss = g.loss(row, node)
	}
	p.LossHop = int(g.num(colLossHop, row))
	g.hops(p, row)
	g.branches(p, row)
	last := int64(0)
	for i := range p.Hops {
		h := &p.Hops[i]
		last = max(last, h.InNs, h.OutNs, h.DequeueNs)
	}
	p.LastNs = lastOf(&p.Packet, last)
	if v, ok := g.int(colLast, row); ok {
		p.LastNs = v
	}
	g.said(p, row)
	g.names(p, row, text)
}

// header fills in what the source saw of the packet.
func (g *group) header(p *Packet, row uint32) {
	if src, ok := g.word(colSrc, row); ok {
		p.HasTuple, p.Src = true, g.src[src]
	}
	if dst, ok := g.word(colDst, row); ok {
		p.Dst = g.dst[dst]
	}
	p.SrcPort, p.DstPort = uint16(g.num(colSport, row)), uint16(g.num(colDport, row))
	if id, ok := g.int(colICMPID, row); ok {
		p.SrcPort, p.DstPort = uint16(id), uint16(g.num(colICMPSeq, row))
	}
	p.IPv6 = g.num(colIPVersion, row) == 6
	p.Proto = g.protos[g.cols[colProto].Index[row]]
	p.FragOff, p.FragID = uint16(g.num(colFragBits, row)), uint32(g.num(colFragID, row))
	p.ICMP = [2]uint8{uint8(g.num(colICMPType, row)), uint8(g.num(colICMPCode, row))}
	p.Later, p.Cut = g.is(colLater, row), packet.Cut(g.num(colCut, row))
	p.Packet.ID, p.Label = uint16(g.num(colIPID, row)), uint32(g.num(colFlowLabel, row))
	ttl, dscp, ecn := g.num(colTTL, row), g.num(colDSCP, row), g.num(colECN, row)
	p.TTL, p.TOS = uint8(ttl), uint8(dscp<<2|ecn)
	if v, ok := g.int(colTTLSent, row); ok {
		ttl = v
	}
	if v, ok := g.int(colDSCPSent, row); ok {
		dscp = v
	}
	if v, ok := g.int(colECNSent, row); ok {
		ecn = v
	}
	p.SentTTL, p.SentTOS = uint8(ttl), uint8(dscp<<2|ecn)
	p.Len, p.Segs = uint32(g.num(colLen, row)), int(uint32(g.num(colSegs, row)))
}

// hops fills in the hops.
func (g *group) hops(p *Packet, row uint32) {
	steps := g.paths[g.cols[colPlaces].Index[row]]
	at := g.hopAt[row]
	exact, links := g.is(colStamps, row), g.is(colLinks, row)
	sent := int64(packet.NoTime)
	for i := range steps {
		st, e := &steps[i], at+uint32(i)
		h := packet.Hop{
			Node: st.Node, In: st.In, Out: st.Out, OnLink: st.Flags&stepOnLink != 0, Gap: st.Flags&stepGap != 0,
			Copy: st.Flags&stepCopy != 0, From: st.From,
			Outcome: record.State(g.text(colHopOutcome, e)), Moved: g.is(colHopMoved, e), Unread: g.is(colHopUnread, e), QueueUnseen: g.is(colHopQueueUnseen, e),
		}
		if exact {
			h.InNs, h.OutNs, h.DequeueNs = g.time(colHopInNs, e), g.time(colHopOutNs, e), g.time(colHopDequeueNs, e)
		} else {
			s := stampsOf(i, st.In != packet.NoPort, h.OnLink, sent, g.time(colHopLink, e), g.time(colHopHere, e), g.time(colHopQueue, e))
			h.InNs, h.OutNs, h.DequeueNs = s.in, s.out, s.dequeue
			sent = s.sent()
		}
		if src, ok := g.word(colHopSrc, e); ok {
			h.Changed = true
			h.Tuple = packet.Tuple{Src: g.hopSrc[src], SrcPort: uint16(g.num(colHopSport, e)), DstPort: uint16(g.num(colHopDport, e))}
			if dst, ok := g.word(colHopDst, e); ok {
				h.Tuple.Dst = g.hopDst[dst]
			}
		}
		if links {
			p.Links = append(p.Links, g.time(colHopLink, e))
		}
		if st.Flags&stepNamed != 0 {
			p.Nodes = append(p.Nodes, st.Name)
		}
		p.Hops = append(p.Hops, h)
	}
}

func (g *group) loss(row uint32, node int64) packet.Drop {
	d := packet.Drop{
		Node: g.of.names.FoundNode(uint16(node)), Port: g.of.names.FoundPort(uint16(g.num(colLossPortID, row))), At: record.At(g.text(colLossAt, row)),
		Reason: g.text(colLossReason, row), Qdisc: g.text(colLossQdisc, row), AtNs: g.time(colLossAtNs, row), First: g.is(colLossFirst, row),
	}
	if f, ok := g.word(colLossFunction, row); ok {
		d.Function = g.lossFunctions[f]
	}
	return d
}

func (g *group) branches(p *Packet, row uint32) {
	for e := g.lossAt[row]; e < g.lossAt[row+1]; e++ {
		d := packet.BranchDrop{Hop: int(g.num(colBranchHop, e)), Local: g.is(colBranchLocal, e)}
		d.Node, d.Port = g.of.names.FoundNode(uint16(g.num(colBranchNodeID, e))), g.of.names.FoundPort(uint16(g.num(colBranchPortID, e)))
		d.At, d.Reason, d.Qdisc = record.At(g.text(colBranchAt, e)), g.text(colBranchReason, e), g.text(colBranchQdisc, e)
		d.AtNs, d.First = g.time(colBranchAtNs, e), g.is(colBranchFirst, e)
		if f, ok := g.word(colBranchFunction, e); ok {
			d.Function = g.branchFunctions[f]
		}
		p.Drops = append(p.Drops, d)
	}
}

// said fills in what nodes have said.
func (g *group) said(p *Packet, row uint32) {
	e, end := g.intAt[row], g.intAt[row+1]
	if e == end {
		return
	}
	values, hops := make([]Value, 0, end-e), g.cols[colINTHop].Ints // one memory for all hops
	for e < end {
		hop, begin := hops[e], len(values)
		for ; e < end && hops[e] == hop; e++ {
			values = append(values, Value{g.text(colINTName, e), uint64(g.cols[colINTValue].Ints[e])})
		}
		if hop < 0 || hop >= int64(len(p.Hops)) {
			continue
		}
		if p.INT == nil {
			p.INT = make([]Said, len(p.Hops))
		}
		if said := values[begin:len(values):len(values)]; p.INT[hop] == nil {
			p.INT[hop] = said
		} else { // of a file that has a hop's values in several places
			p.INT[hop] = append(p.INT[hop], said...)
		}
	}
}

// names fills in what the packet is called by.
func (g *group) names(p *Packet, row uint32, text *[]byte) {
	m := g.of.meta
	b := appendID((*text)[:0], uint32(g.num(colEpoch, row)), p.Pos)
	id := len(b)
	b = appendGUID(b, m, p.Pos, p.Source)
	guid := len(b)
	if inner, ok := g.int(colInnerPos, row); ok {
		p.Packet.Inner = uint64(inner)
		b = appendID(b, uint32(g.num(colEpoch, row)), p.Packet.Inner)
	}
	*text = b
	all := string(b) // one for all
	p.ID, p.GUID, p.Inner = all[:id], all[id:guid], all[guid:]
	if w, ok := g.word(colID, row); ok {
		p.ID = g.cols[colID].Dict[w]
	}
	if w, ok := g.word(colGUID, row); ok {
		p.GUID = g.cols[colGUID].Dict[w]
	}
	if w, ok := g.word(colInner, row); ok {
		p.Inner = g.cols[colInner].Dict[w]
	}
}
