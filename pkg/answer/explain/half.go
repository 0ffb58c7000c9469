// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
)

// half is one direction of a connection, as its sender knows it.
type half struct {
	dir     direction
	started bool
	base    int64 // the first sequence number
	nxt     int64 // behind the last that was sent
	una     int64 // behind the last that the sender knows to be acknowledged
	out     board
	dataTo  int64 // behind the last data that was sent
	lostTo  int64 // behind the last that was lost
	ackTo   int64 // behind the last that was sent again since its acknowledgement was lost
	tries   int   // to send again what was lost, since anything was acknowledged last
	tail    bool  // the last new packet was short: there was no more to send

	mss            int
	begun          int64  // since when data could be sent
	first, last    int64  // when data was sent first, and sent or acknowledged last
	packets, plain uint64 // with data, and without
	payload, wire  uint64
	again          uint64 // packets that were sent again
	againBytes     uint64
	goneBytes      uint64 // of datagrams that were lost or dropped
	lost, dropped  uint64 // packets
	marked, late   uint64 // packets with CE; that arrived behind one that was sent later
	unseenAcks     int64  // bytes that were acknowledged, but of which no packet was seen
	reached        int64  // when data was sent last that arrived
	acked          int64  // when an acknowledgement was sent last that arrived
	ackWait        int64  // ns that went by until data was sent again whose acknowledgement was lost
	ackWaited      int64  // until when
	strange        uint64 // packets whose sequence number fits nothing
	fates          [4]uint64
	largest        int   // of the largest that arrived
	came           int64 // behind the last that has come to the receiver
	latency        aggregate.Distribution
	flight         aggregate.Distribution
	rtt            aggregate.Distribution
	leftOut        uint64                 // round trips that are not in rtt: of a recovery, or of data that was sent twice
	turn           aggregate.Distribution // in the receiver's node
	sampled        int64                  // ns of all parts of the round trips
	gaps, closings aggregate.Distribution // with nothing in flight; with a closed window
	sendGaps       aggregate.Distribution // between packets
	shut           int64                  // ns of the closings that were not brief
	gapFrom        int64
	peerData       int64             // when data of the other direction came last
	ownData        int64             // when data was sent last
	waitsForPeer   int64             // ns without data in flight in which the other side was to send
	joins          uint64            // packets that left the attached nodes and came back to them
	slowest        int64             // ns until one of them came back
	cameBy         *route            // of the packet that made came what it is
	forks          map[string]uint64 // packets that were overtaken by others that went another way, by the node where ways part
	slow           int64             // ns in which data was under way that had been sent again, since it took so long
	slowUntil      int64
	slowIn         partTime // the part that took most of that

	window window
	losses lossTable
	// Later fragments of datagrams, which are no packets of their own here.
	pieces, lostPieces uint64
	pieceLosses        lossTable
	resends            resends
	acks               ackLog // of this direction's data, as the receiver sent them
	trace              *trace // nil: nobody asks for it
}

// start begins the sequence space.
func (h *half) start(v int64) {
	if !h.started {
		h.started = true
		h.base = 1<<40 + v
		h.nxt, h.una, h.came = h.base, h.base, h.base
	}
}

// fits unwraps a number of the direction's sequence space. False: it is too far from all that was seen.
func (h *half) fits(v int64) (int64, bool) {
	h.start(v)
	v = unwrap(h.nxt, v)
	return v, v-h.nxt < 1<<30 && h.nxt-v < 1<<30
}

// recovers reports whether the sender waits for what was lost: data, or the acknowledgement of what it has sent again.
func (h *half) recovers() bool { return h.una < max(h.lostTo, h.ackTo) }

// stuck reports whether data is lost again and again, up to the end.
func (h *half) stuck() bool { return h.una < h.lostTo && h.tries >= 2 }

// perPacket is how many IP bytes one packet of a record has, rounded up.
func (p *sent) perPacket() int { return (p.size + p.segs - 1) / p.segs }

// send notes what the source sends. begun is since when it could send data.
func (h *half) send(p *sent, begun int64) {
	h.count(p)
	if p.payload == 0 {
		if p.bytes() > 0 && p.end > h.nxt { // SYN, FIN
			h.nxt = p.end
		}
		return
	}
	h.tick(p.at)
	if h.first == 0 {
		h.begin(p.at, begun)
	} else {
		h.sendGaps.Add(p.at - h.ownData)
	}
	if per := (p.payload + p.segs - 1) / p.segs; per > h.mss {
		h.mss = per
	}
	h.ownData, h.last = p.at, max(h.last, p.at)
	if h.gapFrom > 0 && p.end > h.nxt {
		h.endGap(p.at)
	}
	h.window.over, h.dataTo = false, max(h.dataTo, p.end)
	if p.seq < h.nxt {
		h.sendAgain(p)
	} else if before := h.out.put(p); len(before) > 0 {
		h.strange++
	}
	if p.end > h.nxt {
		h.nxt = p.end
		h.tail = p.payload < p.segs*h.mss && p.flags&packet.TCPPsh != 0
	}
	if p.fate == lost || p.fate == dropped && !p.isOver() {
		h.lostTo = max(h.lostTo, p.end)
	}
	h.flight.Add(h.nxt - h.una)
	h.window.beyond(h.nxt)
}

// begin begins with the first data. Until then the sender had nothing to send, or waited for the other side.
func (h *half) begin(at, begun int64) {
	h.first, h.window.from = at, at
	h.begun = begun
	if begun <= 0 || begun >= at || at-begun >= longest {
		h.begun = at
		return
	}
	for s := range scales {
		h.window.times[s][idle] += at - begun
		h.window.near[s][idle] += at - begun
	}
	h.gapFrom = begun
	h.endGap(at)
}

// endGap ends a time without data in flight.
func (h *half) endGap(at int64) {
	gap := at - h.gapFrom
	h.gaps.Add(gap)
	if h.peerData != 0 && h.peerData > h.gapFrom && h.peerData <= at {
		h.waitsForPeer += h.peerData - h.gapFrom
	}
	h.gapFrom = 0
}

// count counts a packet, whatever it is.
func (h *half) count(p *sent) {
	n := uint64(p.segs)
	h.wire += uint64(p.size)
	if p.payload == 0 {
		h.plain += n
		if p.fate == lost || p.fate == dropped {
			h.losses.add(p)
		}
		return
	}
	h.packets += n
	h.payload += uint64(p.payload)
	h.fates[p.fate] += n
	size := p.perPacket()
	switch p.fate {
	case lost:
		h.lost += n
		h.losses.add(p)
	case dropped:
		h.dropped += n
		h.losses.add(p)
	case arrived:
		h.largest, h.reached = max(h.largest, size), max(h.reached, p.at)
	}
	if p.ce {
		h.marked += n
	}
}

// arrive notes that data has come to the other end.
func (h *half) arrive(p *sent) {
	if p.payload == 0 || p.fate != arrived {
		return
	}
	h.latency.Add(p.arrival - p.at)
	if p.end <= h.came && !p.resent {
		h.overtaken(p)
	}
	if p.end > h.came {
		h.came, h.cameBy = p.end, p.route
	}
}

// overtaken notes that a packet arrived behind one that was sent later.
func (h *half) overtaken(p *sent) {
	p.overtaken = true
	h.late += uint64(p.segs)
	if at := forks(p.route, h.cameBy); at != "" {
		if h.forks == nil {
			h.forks = make(map[string]uint64)
		}
		h.forks[at] += uint64(p.segs) // there are no more than routes
	}
}

// acknowledge notes that an acknowledgement of the direction's data has come to its sender.
func (h *half) acknowledge(p *sent) {
	h.traceAck(p)
	h.tick(p.arrival)
	h.acked = max(h.acked, p.at)
	if p.payload > 0 {
		h.peerData = p.arrival
	}
	if p.ack < h.una {
		return // a newer one has overtaken it
	}
	if p.ack > h.nxt {
		h.unseenAcks += p.ack - h.nxt
		h.nxt = p.ack
	}
	recovering := h.recovers()
	inFlight := h.nxt > h.una
	var newest *sent
	if p.ack > h.una {
		h.out.acked(p.ack, func(s *sent) { newest = s })
		before := h.una
		h.una, h.tries = p.ack, 0
		if h.first > 0 && before < h.dataTo { // what a FIN waits for is no data
			h.last = max(h.last, p.arrival)
		}
	}
	switch {
	case newest == nil:
	case recovering || newest.resent || newest.again:
		h.leftOut++
	default:
		h.sample(newest, p)
	}
	h.window.update(p, h.una)
	h.flight.Add(h.nxt - h.una)
	if inFlight && h.una >= h.dataTo && h.first > 0 && !h.window.over { // a FIN may be in flight
		h.gapFrom = p.arrival
		h.window.end()
	}
}

// sample takes a round trip: data, and the acknowledgement that it made.
func (h *half) sample(data, ack *sent) {
	rtt := ack.arrival - data.at
	if rtt < 0 || rtt >= longest || data.arrival < 0 || ack.at < data.arrival {
		return
	}
	h.rtt.Add(rtt)
	h.turn.Add(ack.at - data.arrival)
	h.sampled += ack.at - data.arrival
	for _, list := range [][]partTime{data.parts, ack.parts} {
		for _, t := range list {
			t.part.times.Add(t.ns)
			h.sampled += t.ns
		}
	}
}
