// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"math/bits"
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// story is a packet that is being assembled.
type story struct {
	packet.Packet
	held bool // lost where a copy may live on: may be withdrawn later than others
}

// decode fills p from copies of slots, as things stood at now (CLOCK_MONOTONIC):
//
//	head only           a packet alone, a whole train, or segment 0 of a cut one
//	head and member     another segment of a cut train: common history, then its own
//	member only         the same when the head was overwritten: history not known
func (d *Decoder) decode(p *story, head, member *slot, now uint64) {
	own := head
	ok := true
	d.events = d.events[:0]
	if member != nil {
		own = member
		if head != nil {
			d.events, ok = parseEvents(d.events, head, true)
		}
	}
	shared := len(d.events)
	ev, ownOK := parseEvents(d.events, own, false)
	d.events = ev
	if !ok && shared < len(ev) {
		ev[shared].gap = true // the train's log had no room for events before it
	}

	f := own.fields()
	p.held = false
	p.Packet = packet.Packet{Hops: p.Hops[:0], Drops: p.Drops[:0]} // field by field: a whole one would be copied
	p.Pos, p.T0, p.IPv6, p.Proto, p.Len, p.Segs = f.Pos, f.T0Ns, f.State&stIPv6 != 0, f.Proto, uint32(f.Len), 1
	p.LatencyNs = packet.NoTime
	p.Truncated = !ok || !ownOK || head == nil
	if head != nil {
		d.fillSource(&p.Packet, head, f.Seg)
		if member == nil && f.Cut&cutTrain == 0 && f.Segs > 1 {
			p.Segs, p.Len = int(f.Segs), f.TrainLen
		}
		d.fillTCP(&p.Packet, head, f.Seg)
		p.SentTTL, p.SentTOS = sentBits(head, member)
	}
	d.takeInner(p)
	d.rectify(p)
	d.assemble(p, f.State, f.Cut, ownOK, now)
	if p.State == record.Lost && member != nil && f.State&stLost == 0 {
		p.held = true // lost with the whole train, but other segments were seen again
	}
}

// takeInner takes the packet inside out of the events: it is no part of the path.
func (d *Decoder) takeInner(p *story) {
	for i := 0; i < len(d.events); {
		if d.events[i].kind != evInner {
			i++
			continue
		}
		p.Inner = d.events[i].data1
		d.events = slices.Delete(d.events, i, i+1)
	}
}

// fillSource sets what the source saw of segment seg of the head's train.
func (d *Decoder) fillSource(p *packet.Packet, head *slot, seg uint8) {
	f := head.fields()
	p.HasTuple = true
	p.SrcPort, p.DstPort = bits.ReverseBytes16(f.Sport), bits.ReverseBytes16(f.Dport)
	p.FragOff = bits.ReverseBytes16(f.FragOff)
	p.ICMP = [2]uint8{f.IcmpType, f.IcmpCode}
	p.Later = f.Flags&slotFragment != 0
	p.TTL, p.TOS = f.FirstTtl, f.FirstTos
	if p.IPv6 {
		at := head.eventCells()
		p.Src = addr6(head.cell(at), head.cell(at+1))
		p.Dst = addr6(head.cell(at+2), head.cell(at+3))
		p.Label = bits.ReverseBytes32(f.Saddr) & labelMask
		p.FragID = bits.ReverseBytes32(f.Daddr)
		return
	}
	p.Src, p.Dst = addr(f.Saddr), addr(f.Daddr)
	p.ID = bits.ReverseBytes16(f.FirstId) + uint16(seg)
}

// fillTCP sets what the source saw of the TCP header of p, which is the head's train, or segment seg of it.
// Each segment but the first has no CWR, each but the last no FIN and no PSH, as the kernel cuts trains
// (tcp_gso_segment()).
func (d *Decoder) fillTCP(p *packet.Packet, head *slot, seg uint8) {
	f := head.fields()
	rest := bits.ReverseBytes32(f.TcpRest)
	if p.Proto != record.ProtoTCP || p.Later || rest>>28 < tcpMinWords || f.Hdr == 0 {
		return
	}
	p.HasTCP = true
	p.TCP = packet.TCP{
		Seq: f.Tag + uint32(seg)*uint32(f.GsoSize), Ack: bits.ReverseBytes32(f.TcpAck),
		Flags: uint16(rest>>16) & tcpFlags, Window: uint16(rest),
	}
	if bytes := uint32(p.Segs) * uint32(f.Hdr); p.Len > bytes {
		p.TCP.Payload = p.Len - bytes
	}
	if seg > 0 {
		p.TCP.Flags &^= packet.TCPCwr
	}
	if int(seg)+p.Segs < int(f.Segs) {
		p.TCP.Flags &^= packet.TCPFin | packet.TCPPsh
	}
}

// In the third word of a TCP header (RFC 9293, 3.1): the least data offset, in words, and its flags.
const (
	tcpMinWords = 5
	tcpFlags    = 0x1ff
)

// labelMask is the flow label in the first word of an IPv6 header (RFC 8200, 3).
const labelMask = 0xfffff

// sentBits returns the TTL and TOS that the last egress noted: the segment's own, if it
// has them, else those of its train.
func sentBits(head, member *slot) (ttl, tos uint8) {
	h := head.fields()
	if member == nil {
		return h.Ttl, h.Tos
	}
	switch m := member.fields(); {
	case m.Cut&ownBits != 0:
		return m.Ttl, m.Tos
	case h.Cut&cutTrain != 0:
		return h.TrainTtl, h.TrainTos
	}
	return h.Ttl, h.Tos
}

// assemble works out hops, state and loss from the events. state and cut are bits of the
// slot, used only if its log is not complete.
func (d *Decoder) assemble(p *story, state, cut uint8, complete bool, now uint64) {
	d.assembleEvents(p, state, cut, complete, now)
	d.findUnseen(&p.Packet)
}

func (d *Decoder) assembleEvents(p *story, state, cut uint8, complete bool, now uint64) {
	ev := d.events
	// If the log overflowed, the state bits describe one linear path: build no tree.
	if group := state&stGroup != 0; group || complete && d.branches(ev) {
		d.assembleTree(p, group, complete, now)
		return
	}
	drops := trailingDrops(ev)
	last, nat, stamps := d.follow(p, ev[:len(ev)-drops])
	ended := drops > 0 || last != nil && last.kind == evDeliver
	if n := len(p.Hops); nat != nil && ended && n > 0 && p.Hops[n-1].Out == packet.NoPort {
		// Delivered behind other addresses, or lost with them.
		p.Hops[n-1].Changed, p.Hops[n-1].Tuple = true, nat.tuple()
	}
	if last != nil {
		p.LastNs = max(p.LastNs, last.at)
		// The source's own stamp is T0, even if its event is not known.
		if complete && (stamps > 1 || !p.HasTuple) {
			p.LatencyNs = p.LastNs
		}
	}
	arrived := p.LastNs
	p.State = d.stateOf(p, last, now)
	if drops > 0 {
		d.endAsDrop(p, lastDrop(ev), last)
	}
	if !complete {
		d.endByBits(p, state, cut, last, now)
		if !p.Open && p.HasTuple && p.State != record.Lost {
			p.LatencyNs = arrived // begin and end are known
		}
	}
	p.held = p.State == record.Lost && state&stHeld != 0
	d.outsideVM(p)
	if p.State == record.Expired && !p.Open && last != nil {
		if p.Moved = last.moved; !p.Moved {
			p.Missing, p.Loss = true, d.missing(p, last)
		}
	}
}

// follow adds the events of a linear path to the hops. last is the last sighting, nat new
// addresses that no egress has followed, both nil if there are none.
func (d *Decoder) follow(p *story, path []event) (last, nat *event, stamps int) {
	var copied *event // the kernel's drop of its own copy
	for i := range path {
		switch e := &path[i]; e.kind {
		case evLoss: // seen again later: withdrawn
			copied = nil
			if isOwnCopy(e, last) {
				copied = e
			}
		case evAddr, evAddr6:
			nat = e
		case evDequeue:
			p.dequeue(e)
			p.LastNs = max(p.LastNs, e.at)
			stamps++
		default:
			if copied != nil && e.out() && d.PortNode(e.port) == d.PortNode(last.port) {
				d.forwarders[d.PortNode(e.port)] = true
			}
			copied = nil
			d.leaveVM(p, e)
			d.visit(p, e, nat)
			d.enterVM(p, e)
			if e.out() {
				nat = nil
			}
			last = e
			stamps++
		}
	}
	return last, nat, stamps
}

// trailingDrops returns how many events at the end are losses that no later
// sighting withdrew, with address changes between them.
func trailingDrops(ev []event) int {
	n := 0
	for i := len(ev) - 1; i >= 0 && (ev[i].kind == evLoss || ev[i].readdressed()); i-- {
		if ev[i].kind == evLoss {
			n = len(ev) - i
		}
	}
	return n
}

// lastDrop returns the last loss; there is one.
func lastDrop(ev []event) *event {
	for i := len(ev) - 1; ; i-- {
		if ev[i].kind == evLoss {
			return &ev[i]
		}
	}
}

// visit adds a sighting to the hops. Several ports of a node may see the packet: it is one
// hop until the packet comes in after it went out.
func (d *Decoder) visit(p *story, e, nat *event) {
	node := d.PortNode(e.port)
	if node == packet.NoNode {
		d.unlisted = true
	}
	place := d.closing(e.port)
	var h *packet.Hop
	// Each sighting at a closing port is a hop: nothing passes through such a node.
	if n := len(p.Hops); n > 0 && node != packet.NoNode && p.Hops[n-1].Node == node && place == "" &&
		!e.gap && (e.out() || p.Hops[n-1].Out == packet.NoPort) {
		h = &p.Hops[n-1]
	} else {
		p.Hops = append(p.Hops, packet.Hop{})
		h = &p.Hops[n]
		h.Node, h.In, h.Out, h.Gap = node, packet.NoPort, packet.NoPort, e.gap
		h.InNs, h.OutNs, h.DequeueNs = packet.NoTime, packet.NoTime, packet.NoTime
	}
	switch {
	case e.kind == evLeft && place == domain.Bridge: // up to the host
		h.In, h.InNs = e.port, e.at
	case e.out():
		h.OnLink = e.kind == evLeft && place == domain.BridgePort
		h.Out, h.OutNs = e.port, e.at
		if nat != nil {
			h.Changed, h.Tuple = true, nat.tuple()
		}
	case h.In == packet.NoPort:
		h.In, h.InNs = e.port, e.at
	}
}

// dequeue notes that the packet left the queue of the port by which it went out last. A
// packet that the device did not take leaves the queue again; if the packet has gone on
// by then, that is a copy.
func (p *story) dequeue(e *event) {
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if h.In == e.port|packet.VMSide && h.Out == packet.NoPort {
			h.InNs = e.at // a virtual machine gets it from the tap's queue
		}
		if h.Out != e.port {
			continue
		}
		if i == len(p.Hops)-1 || h.DequeueNs == packet.NoTime {
			h.DequeueNs = e.at
		}
		return
	}
}

// stateOf is the state after the last sighting.
func (d *Decoder) stateOf(p *story, last *event, now uint64) record.State {
	switch {
	case last != nil && last.kind == evDeliver:
		return record.Delivered
	case last != nil && last.kind == evLeft && d.inVM(p) != 0:
		return record.Delivered
	case last != nil && last.kind == evLeft:
		return record.Left
	}
	return d.openState(p, now)
}

// openState is the state of a packet that is not known to have ended.
func (d *Decoder) openState(p *story, now uint64) record.State {
	if now > p.T0 && now-p.T0 > d.timeoutNs {
		return record.Expired
	}
	return record.InFlight
}

// endAsDrop ends the story with a loss, or a drop after delivery.
func (d *Decoder) endAsDrop(p *story, e, last *event) {
	if p.State == record.Left && e.port != last.port {
		return // freed outside of the domain
	}
	if p.State == record.Delivered && e.port != packet.NoPort && d.PortNode(e.port) != d.PortNode(last.port) {
		return // of a copy: the packet has arrived elsewhere
	}
	p.LastNs = max(p.LastNs, e.at)
	dequeued := len(p.Hops) > 0 && p.Hops[len(p.Hops)-1].DequeueNs != packet.NoTime
	if e.gap && (last == nil || !last.gap || p.State != record.Delivered) {
		last, dequeued = nil, false // it may have been seen elsewhere since
	}
	p.Loss = d.drop(e, last, dequeued)
	if p.State == record.Delivered {
		p.LocalDrop = true
		return
	}
	p.Lost = true
	p.State = record.Lost
}

// endByBits corrects the state of a packet some of whose events did not fit: the slot's bits
// still say whether it has ended, and whether it was lost. p.Open is false if the log has
// that end.
func (d *Decoder) endByBits(p *story, state, cut uint8, last *event, now uint64) {
	lost, done := state&stLost != 0, state&stDone != 0
	switch {
	case lost:
		p.Open = p.State != record.Lost
	case last == nil || !done:
		p.Open = true
	default:
		p.Open = !(last.kind == evDeliver || last.kind == evLeft && cut&cutLeft == 0)
	}
	if lost != p.Lost {
		p.Loss = packet.Drop{} // the log's last event is not the last one
	}
	switch {
	case lost && p.State == record.Lost:
	case lost: // the event that says where is missing
		p.State, p.LocalDrop = record.Lost, false
	case !done:
		p.State, p.Lost, p.LocalDrop, p.Loss = d.openState(p, now), false, false, packet.Drop{}
	default:
		// Delivered, or left: the slot's bits say which, if no event does.
		p.Lost = false
		if cut&cutLeft != 0 {
			p.State = record.Left
		} else if p.State != record.Left {
			p.State = record.Delivered
		}
		p.LocalDrop = state&stLocalDrop != 0 && p.State == record.Delivered
		if p.LocalDrop && p.Loss == (packet.Drop{}) {
			p.Loss = packet.Drop{Node: packet.NoNode, Port: packet.NoPort, At: record.AtNode, AtNs: packet.NoTime}
			if last != nil {
				p.Loss.Node = d.PortNode(last.port)
			}
		}
	}
}
