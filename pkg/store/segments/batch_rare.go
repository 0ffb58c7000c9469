// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"github.com/vnetradar/radar/pkg/packet"
)

// addTimes adds the times of hops. Those on the link, in the node and in the queue say all stamps of a
// common packet. Where they do not, the stamps themselves are added.
func (b *batch) addTimes(p *Packet) {
	exact := p.Tree || p.Apart || p.Links != nil
	last, sent := int64(0), int64(packet.NoTime)
	for i := range p.Hops {
		h := &p.Hops[i]
		link, node, queue := p.LinkNs(i), h.NodeNs(), h.QueueNs()
		if i < len(p.Links) {
			link = p.Links[i]
		}
		b.put(colHopLink, timeOrNull(link))
		b.put(colHopHere, timeOrNull(node))
		b.put(colHopQueue, timeOrNull(queue))
		if !exact {
			s := stampsOf(i, h.In != packet.NoPort, h.OnLink, sent, link, node, queue)
			exact = s != stamps{h.InNs, h.OutNs, h.DequeueNs}
			sent = s.sent()
		}
		last = max(last, h.InNs, h.OutNs, h.DequeueNs)
	}
	if exact {
		b.flag(colStamps, true)
		for i := range p.Hops {
			h := &p.Hops[i]
			b.rareHop(colHopInNs, i, timeOrNull(h.InNs))
			b.rareHop(colHopOutNs, i, timeOrNull(h.OutNs))
			b.rareHop(colHopDequeueNs, i, timeOrNull(h.DequeueNs))
		}
	}
	b.flag(colLinks, p.Links != nil)
	if last = lastOf(&p.Packet, last); p.LastNs != last {
		b.rare(colLast, p.LastNs)
	}
}

// lastOf is when the last event of a packet was, of which last is the latest stamp of a hop.
func lastOf(p *packet.Packet, last int64) int64 {
	if p.Lost || p.LocalDrop {
		last = max(last, p.Loss.AtNs)
	}
	for i := range p.Drops {
		last = max(last, p.Drops[i].AtNs)
	}
	return last
}

// stamps are the times of a hop.
type stamps struct{ in, out, dequeue int64 }

// sent is when the packet went onto the link behind the hop.
func (s stamps) sent() int64 {
	if s.dequeue != packet.NoTime {
		return s.dequeue
	}
	return s.out
}

// stampsOf are the stamps of hop i that follow from when the packet was sent before, and from its times.
// The first stamp of a packet is 0.
func stampsOf(i int, hasIn, onLink bool, sent, link, node, queue int64) stamps {
	s := stamps{packet.NoTime, packet.NoTime, packet.NoTime}
	switch {
	case i == 0 && hasIn:
		s.in, s.out = 0, node
	case i == 0:
		s.out = 0
	case link == packet.NoTime || sent == packet.NoTime:
	case onLink:
		s.out = sent + link
	default:
		s.in = sent + link
		if node != packet.NoTime {
			s.out = s.in + node
		}
	}
	if queue != packet.NoTime && s.out != packet.NoTime {
		s.dequeue = s.out + queue
	}
	return s
}

func (b *batch) addFlags(p *Packet) {
	b.flag(colTruncated, p.Truncated)
	b.flag(colMoved, p.Moved)
	b.flag(colTree, p.Tree)
	b.flag(colApart, p.Apart)
	b.flag(colUndated, p.Undated)
	b.flag(colOpen, p.Open)
	b.flag(colLost, p.Lost)
	b.flag(colMissing, p.Missing)
	b.flag(colLocalDrop, p.LocalDrop)
	if p.FragID != 0 {
		b.rare(colFragID, int64(p.FragID))
	}
	if p.LossHop != 0 {
		b.rare(colLossHop, int64(p.LossHop))
	}
}

// addRareHops adds what few hops have.
func (b *batch) addRareHops(p *Packet) {
	for i := range p.Hops {
		h := &p.Hops[i]
		if !p.Tree && !h.Changed && !h.Copy && !h.Gap && !h.Moved && !h.Unread && !h.QueueUnseen && h.Outcome == "" {
			continue
		}
		if p.Tree && int(h.From) != i-1 {
			b.rareHop(colHopPrev, i, int64(h.From))
		}
		if h.Copy {
			b.rareHop(colHopCopy, i, 1)
		}
		if h.Gap {
			b.rareHop(colHopGap, i, 1)
		}
		if h.Outcome != "" {
			b.rareHopText(colHopOutcome, i, string(h.Outcome))
		}
		if h.Moved {
			b.rareHop(colHopMoved, i, 1)
		}
		if h.Unread {
			b.rareHop(colHopUnread, i, 1)
		}
		if h.QueueUnseen {
			b.rareHop(colHopQueueUnseen, i, 1)
		}
		if h.Changed {
			b.rareHopText(colHopSrc, i, h.Tuple.Src.Text(p.IPv6))
			b.rareHopText(colHopDst, i, h.Tuple.Dst.Text(p.IPv6))
			b.rareHop(colHopSport, i, int64(h.Tuple.SrcPort))
			b.rareHop(colHopDport, i, int64(h.Tuple.DstPort))
		}
	}
}

// addLoss adds where a packet was freed, or not seen again.
func (b *batch) addLoss(p *Packet) {
	d := &p.Loss
	node, port := b.names.Node(d.Node), b.names.Port(d.Port)
	b.use(node, port)
	name := b.names.To.NodeName(node)
	if at := p.LossHop - 1; at >= 0 && at < len(p.Nodes) {
		name = p.Nodes[at]
	}
	b.rareText(colLossNode, name)
	b.rareText(colLossPort, b.names.To.PortName(port))
	b.rareText(colLossAt, string(d.At))
	b.rareText(colLossReason, d.Reason)
	b.rareText(colLossQdisc, d.Qdisc)
	b.rareText(colLossFunction, d.Function.Name())
	b.rare(colLossAtNs, timeOrNull(d.AtNs))
	b.flag(colLossFirst, d.First)
	b.rare(colLossNodeID, int64(node))
	b.rare(colLossPortID, int64(port))
}

// addBranch adds where a branch of a tree was freed.
func (b *batch) addBranch(d *packet.BranchDrop) {
	node, port := b.names.Node(d.Node), b.names.Port(d.Port)
	b.use(node, port)
	b.rare(colBranchHop, int64(d.Hop))
	b.rare(colBranchLocal, orNull(1, d.Local))
	b.rareText(colBranchNode, b.names.To.NodeName(node))
	b.rareText(colBranchPort, b.names.To.PortName(port))
	b.rareText(colBranchAt, string(d.At))
	b.rareText(colBranchReason, d.Reason)
	b.rareText(colBranchQdisc, d.Qdisc)
	b.rareText(colBranchFunction, d.Function.Name())
	b.rare(colBranchAtNs, timeOrNull(d.AtNs))
	b.rare(colBranchFirst, orNull(1, d.First))
	b.rare(colBranchNodeID, int64(node))
	b.rare(colBranchPortID, int64(port))
}

// addINT adds what the node of a hop has said.
func (b *batch) addINT(hop int, said Said) {
	for _, v := range said {
		b.rare(colINTHop, int64(hop))
		b.rareText(colINTName, v.Name)
		b.rare(colINTValue, int64(v.Value))
	}
}

// use notes numbers that the file has to name.
func (b *batch) use(node, port uint16) {
	if node != packet.NoNode {
		b.used.Nodes[node] = b.names.To.NodeName(node)
	}
	if port == packet.NoPort {
		return
	}
	if p, ok := b.names.To.Ports[port]; ok {
		b.used.Ports[port] = p
		b.use(p.Node, packet.NoPort)
	}
	if tap, ok := packet.TapOf(port); ok {
		b.use(packet.NoNode, tap)
	}
}
