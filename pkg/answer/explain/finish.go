// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"math"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/record"
)

// Finish returns the answer. Nothing may be added any more. False: no record was of the flow.
func (a *Analyzer) Finish() (*Answer, bool) {
	a.run(math.MaxInt64)
	c := a.conn
	if a.best != nil && a.best.weight() > c.weight() {
		c = a.best
	}
	if c.records == 0 {
		return nil, false
	}
	dir := forth
	if c.halves[back].payload > c.halves[forth].payload {
		dir = back
	}
	if a.Configured != nil {
		c.configured(dir, a.Configured)
	}
	for i := range c.halves {
		c.halves[i].endClosing()
	}
	ans := c.answer(dir, a.flow)
	ans.Sequence = c.halves[dir].sequence()
	ans.Connections, ans.Names = a.conns, a.names(dir)
	ans.askPlaces(a.Place)
	if a.cut || a.abroad.forgot && c.halves[forth].joins+c.halves[back].joins > 0 {
		ans.Lacks = append(ans.Lacks, TooMany)
	}
	d := &decision{Answer: ans, c: c, h: &c.halves[dir], other: &c.halves[1-dir]}
	if ans.Time != nil {
		d.spent = *ans.Time
	}
	d.decide()
	d.notSlow()
	d.dependsOn()
	if ans.Cause == Unanswered && c.asked != nil && c.asked.Node == ans.Place && a.NoAnswer != nil {
		ans.NoAnswer = a.NoAnswer(c.asked)
	}
	return ans, true
}

// request is what came to the node where a packet ended, as the node saw it; nil: that is not known.
func request(r *record.Record) *placenow.Request {
	if len(r.Hops) == 0 || r.Src == "" || r.Dport == nil {
		return nil
	}
	node := r.Hops[len(r.Hops)-1].Node
	f := flowAt(r, node)
	from, err := netip.ParseAddr(f.Src.Addr)
	to, failed := netip.ParseAddr(f.Dst.Addr)
	if err != nil || failed != nil {
		return nil
	}
	return &placenow.Request{Node: node, From: from, To: to, Proto: r.Proto, Port: f.Dst.Port}
}

// configured asks what queues declare. A port that declares a rate is one of the flow's queues though nothing has waited.
func (c *conn) configured(dir direction, ask func(string) Configured) {
	for key, p := range c.parts.all {
		if p.dir != dir || p.kind != Link || c.queues[queueKey{dir, key.a}] != nil {
			continue
		}
		if now := ask(key.a); now.RateBps > 0 {
			c.queues.get(dir, key.a)
		}
	}
	for _, q := range c.queues {
		if now := ask(q.name); now.Kind != "" {
			q.kind, q.now = now.Kind, now
		}
	}
}

// answer is all but the verdict.
func (c *conn) answer(dir direction, f Flow) *Answer {
	if dir == back {
		f = f.reverse()
	}
	h, other := &c.halves[dir], &c.halves[1-dir]
	ans := &Answer{
		Proto: f.Proto, Src: f.Src.Addr, Sport: f.Src.Port, Dst: f.Dst.Addr, Dport: f.Dst.Port,
		Sender: c.sends[dir].most(), Receiver: c.receiver(dir), Pending: c.pending,
		TNs: c.first, DurationNs: c.last - c.first,
		Packets: h.packets, Bytes: h.wire, PayloadBytes: h.payload,
		Lost: h.lost, Dropped: h.dropped, Resent: h.again, Reordered: h.late, Marked: h.marked,
		LostRatio: ratio(h.lost, h.packets), ResentRatio: ratio(h.again, h.packets),
		Syns: c.syns, SynAcks: c.synAcks, Unreachable: c.icmp.tooBig,
		ResentWhy: h.resends.counts, MoreResent: h.resends.more, PeerNs: h.waitsForPeer,
	}
	ans.Largest = h.largest
	ans.Fragments, ans.LostFragments = h.pieces, h.lostPieces
	if u := c.untranslated; u != nil {
		ans.Untranslated = u
	}
	ans.AckPackets = other.plain + other.packets
	if ans.Receiver == "" {
		ans.Beyond = c.leavesBy[dir]
	}
	if c.reset != nil {
		ans.Reset = &Reset{Node: c.reset.from, Early: c.resetEarly, Unacked: c.resetOpen[dir], AfterFin: c.resetAfterFin}
		ans.Reset.Full, ans.Reset.Stray = c.resetFull[dir], c.resetStray
		ans.Reset.Broke = !c.resetEarly && !c.resetAfterFin && !c.resetOnPurpose &&
			(c.resetOpen[dir] > 0 || c.resetStray || c.reset.dir != dir && (c.resetFull[dir] || c.resetSoon[dir]))
	}
	if c.syn >= 0 && c.synAt > 0 && h.begun > c.synAt {
		ans.SetupNs = h.begun - c.synAt
	}
	if active := h.last - h.begun; active > 0 {
		ans.ThroughputBps = uint64(float64(h.payload-min(h.payload, h.againBytes+h.goneBytes)) * 8e9 / float64(active))
	}
	ans.addTimes(c, h)
	ans.addQueues(c, dir, h)
	ans.addLosses(c, dir)
	ans.addResends(h)
	ans.addLacks(c, h, other)
	return ans
}

// receiver is the node where data of a direction arrives, or from where it is acknowledged; "": it is not attached.
func (c *conn) receiver(dir direction) string {
	if node := c.receives[dir].most(); node != "" || c.leavesBy[dir] != "" {
		return node
	}
	return c.sends[1-dir].most()
}

func ratio(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// quantilesOf are those of a distribution; nil: it is empty.
func quantilesOf(d *aggregate.Distribution) *aggregate.Quantiles {
	q, ok := d.Quantiles()
	if !ok {
		return nil
	}
	return &q
}

func (ans *Answer) addTimes(c *conn, h *half) {
	ans.Gaps, ans.Closings = quantilesOf(&h.gaps), quantilesOf(&h.closings)
	ans.GapsNs = h.gaps.Sum()
	if t := h.window.spent(); h.nxt > 0 {
		ans.Time = &Times{Network: t[sending], Recovery: t[recovery], Window: t[full], Closed: t[closed], Sender: t[idle] + t[short]}
	}
	ans.RTT, ans.LeftOut = quantilesOf(&h.rtt), h.leftOut
	if n := int64(h.rtt.Count()); n > 0 {
		ans.Mean, ans.Summed = h.rtt.Sum()/n, h.sampled/n
		ans.addParts(c, h, n)
	}
	ans.addWindow(h)
}

func (ans *Answer) addWindow(h *half) {
	w, f := &h.window, quantilesOf(&h.flight)
	if f == nil || h.packets == 0 {
		return
	}
	row := WindowRow{Flight: f.P50Ns, FlightTo: f.MaxNs, MSS: h.mss}
	if q := quantilesOf(&w.sizes); q != nil {
		row.Scale, row.Known = w.shift(), w.handshake()
		row.Min, row.P50, row.Max = q.MinNs<<row.Scale, q.P50Ns<<row.Scale, q.MaxNs<<row.Scale
	} else if w.known { // a SYN's alone, which is not scaled
		row.Known, row.Min, row.P50, row.Max = true, w.raw, w.raw, w.raw
	} else {
		return
	}
	ans.Window = &row
}

func (ans *Answer) addParts(c *conn, h *half, samples int64) {
	var list []*part
	for _, p := range c.parts.all {
		if p.times.Count() > 0 && (p.dir == h.dir || h.turn.Count() > 0) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(x, y *part) int {
		return cmp.Or(-cmp.Compare(b2i(x.dir == h.dir), b2i(y.dir == h.dir)), cmp.Compare(x.order, y.order))
	})
	row := func(way string, kind Kind, name string, times *aggregate.Distribution) PartRow {
		q, _ := times.Quantiles()
		return PartRow{way, kind, name, q, times.Sum() / samples, float64(times.Sum()) / float64(max(1, h.rtt.Sum()))}
	}
	end := func() {
		if h.turn.Count() > 0 {
			ans.Parts = append(ans.Parts, row("end", End, cmp.Or(ans.Receiver, beyond(ans.Beyond)), &h.turn))
		}
	}
	ended := false
	for _, p := range list {
		if p.dir != h.dir && !ended {
			ended = true
			end()
		}
		ans.Parts = append(ans.Parts, row(way(p.dir, h.dir), p.kind, p.name, &p.times))
	}
	if !ended {
		end()
	}
}

// beyond names what lies behind a port by which packets leave the attached nodes.
func beyond(port string) string {
	if port == "" {
		return ""
	}
	return "beyond " + port
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// way is what a direction is for data that goes in another.
func way(dir, data direction) string {
	if dir == data {
		return "data"
	}
	return "ack"
}

func (ans *Answer) addQueues(c *conn, dir direction, h *half) {
	active := float64(max(1, h.last-h.begun))
	for _, q := range c.queues {
		times, _ := q.waits.Quantiles()
		row := QueueRow{Way: way(q.dir, dir), Name: q.name, Qdisc: q.kind, ConfiguredBps: q.now.RateBps, Times: times, Waited: q.waited,
			Busy: min(1, float64(q.busy)/active), RateBps: q.rate(), Lost: q.lost, BurstBytes: q.now.BurstBytes, Holds: q.now.Holds,
			LimitPackets: q.now.LimitPackets, LimitBytes: q.now.LimitBytes, MostPackets: q.most, limits: q.limits()}
		row.Exceeded = q.dir == dir && float64(ans.ThroughputBps) > 1.25*float64(q.now.RateBps) && q.now.RateBps > 0
		ans.Queues = append(ans.Queues, row)
	}
	slices.SortFunc(ans.Queues, func(x, y QueueRow) int {
		return cmp.Or(cmp.Compare(y.Way, x.Way), cmp.Compare(y.Busy, x.Busy), cmp.Compare(y.Lost, x.Lost), cmp.Compare(x.Name, y.Name))
	})
}

func (ans *Answer) addLosses(c *conn, dir direction) {
	for _, d := range []direction{dir, 1 - dir} {
		h := &c.halves[d]
		for _, p := range append(h.losses.list(), h.pieceLosses.list()...) {
			pieces := h.pieceLosses.all[p.lossKey] == p
			ans.Losses = append(ans.Losses, LossRow{Fragments: pieces, Way: way(d, dir), Node: p.node, Port: p.port, At: p.at, Reason: p.reason, Qdisc: p.qdisc,
				Function: p.dropper(), AfterDelivery: p.afterDelivery, Packets: p.packets, Ratio: ratio(p.packets, max(h.packets+h.plain+h.pieces, 1)),
				SmallestBytes: p.smallest, Syns: p.syns, Pending: p.pending, of: p})
		}
	}
}

// askPlaces asks about the places of losses.
func (ans *Answer) askPlaces(ask func(*LossRow, aggregate.Flow, uint64) placenow.Place) {
	for i := range ans.Losses {
		l := &ans.Losses[i]
		f := &l.of.flow
		if ask == nil || f.Src.Addr == "" {
			continue
		}
		of := aggregate.Flow{Proto: f.Proto, Src: f.Src.Addr, Dst: f.Dst.Addr, Fragments: l.Fragments}
		if !l.Fragments {
			of.Sport, of.Dport = &f.Src.Port, &f.Dst.Port
		}
		l.Place = ask(l, of, placenow.Mean(l.of.bytes, l.of.packets))
	}
}

func (ans *Answer) addResends(h *half) {
	for i := range h.resends.list {
		r := &h.resends.list[i]
		row := ResendRow{TNs: r.at, ID: r.id, Seq: r.seq, Bytes: r.bytes, Segs: r.segs, Why: r.why, Originals: r.originals,
			Lost: r.lost, Loss: r.loss, AfterNs: r.after, Ack: r.ack}
		if r.took >= 0 {
			row.TookNs = &r.took
		}
		if p := r.part.part; p != nil {
			row.Where, row.WhereNs = p.name, r.part.ns
			if p.kind == Queue {
				row.QueueNs = r.part.ns
			}
		}
		ans.Resends = append(ans.Resends, row)
	}
}

// addLacks says what evidence is not there.
func (ans *Answer) addLacks(c *conn, h, other *half) {
	add := func(l Lack, lacks bool) {
		if lacks {
			ans.Lacks = append(ans.Lacks, l)
		}
	}
	tcp := ans.Proto == "tcp"
	add(NoTCPFields, tcp && c.noTCP > 0)
	add(OneDirection, tcp && other.plain+other.packets == 0 && c.receives[h.dir].most() != "" && h.packets > 0)
	add(Overwritten, h.unseenAcks > int64(h.mss) || h.resends.counts[NotThere] > 0)
	add(NoBeginning, tcp && c.noTCP == 0 && c.syns == 0)
	add(Outside, ans.Receiver == "" && ans.Beyond != "" || c.outside[h.dir] && ans.Sender == "")
	add(Between, h.joins > 0 || other.joins > 0)
	add(Pending, c.pending > 0)
	add(Incomplete, c.incomplete > 0)
	add(ScaleUnknown, tcp && c.noTCP == 0 && ans.Window != nil && !ans.Window.Known)
	add(TooMany, h.out.forgot || c.parts.more > 0 || h.losses.more > 0)
	add(Strange, h.strange+other.strange > 0)
}
