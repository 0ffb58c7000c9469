// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"math"

	"github.com/vnetradar/radar/pkg/record"
)

// decision finds the cause. Its rules are in docs/design/0039-explain.md.
type decision struct {
	*Answer
	c        *conn
	h, other *half
	spent    Times // Answer.Time; zero for a flow that has none, as UDP
	ended    bool  // hasEnded
}

// What counts as much.
const (
	fewLost     = 0.001 // of the packets
	muchLost    = 0.005
	fewMarked   = 0.001
	fewLate     = 0.01
	isBusy      = 0.5 // of the time
	isFull      = 0.8
	mostOfRTT   = 0.5
	shortRTT    = 1e6 // ns: nobody calls that long
	fewRecovery = 0.3
	fewPartly   = 3   // packets that a rule dropped, where it let others pass
	fastBps     = 1e9 // nobody calls that slow
	shortFlow   = 2e6 // ns: nor a flow that is over in that time
)

// decide sets the cause.
func (d *decision) decide() {
	d.ended = d.hasEnded()
	d.Unassembled = d.refused(byPieces)
	for _, rule := range []func() bool{d.notSeen, d.notBegun, d.refusedLater, d.slowSetup, d.byMTU, d.bySaturatedQueue, d.byAckLosses, d.byEnds, d.byLosses, d.byQueue, d.bySpikes, d.byOrder, d.byMarks, d.byLateAcks, d.byDelay, d.byReset} {
		if rule() {
			return
		}
	}
	d.Cause = Nothing
}

// notSeen: the packets that could tell are not there.
func (d *decision) notSeen() bool {
	if d.h.packets > 0 || d.Proto != "tcp" || d.c.noTCP == 0 || d.c.syns > 0 {
		return false
	}
	d.Cause = NotEnough
	return true
}

// notBegun: no data was sent.
func (d *decision) notBegun() bool {
	if d.h.packets > 0 || d.Proto != "tcp" {
		return false
	}
	d.NotBegun = true
	switch {
	case d.Reset != nil && d.resetFrom():
		d.Cause, d.Place = Refused, d.Reset.Node
	case d.c.lostSyn != nil || d.c.lostSynAck != nil:
		return d.lostAtBeginning()
	case d.c.syns > 0 && !d.c.established:
		d.Cause, d.Place = Unanswered, d.receiver()
	case d.c.established:
		d.Cause, d.Wait = BySender, Gaps
	default:
		d.Cause = NotEnough
	}
	return true
}

// resetFrom reports whether the reset came from the end that was to answer, or from a node before it.
func (d *decision) resetFrom() bool { return d.c.reset.dir != d.c.opener || !d.c.established }

// lostAtBeginning: SYNs, or their answers, were lost.
func (d *decision) lostAtBeginning() bool {
	for i := range d.Losses {
		l := &d.Losses[i]
		if l.of.syns > 0 {
			d.blame(l)
			return true
		}
	}
	return false
}

// refusedLater: the other end, or a node, has reset the connection before any data was acknowledged.
func (d *decision) refusedLater() bool {
	if d.Reset == nil || !d.Reset.Early || d.c.reset.dir == d.h.dir {
		return false
	}
	d.Cause, d.Place = Refused, d.Reset.Node
	return true
}

// slowSetup: most of the time went by until the connection was there.
func (d *decision) slowSetup() bool {
	if d.c.syns < 2 || d.SetupNs < d.h.last-d.h.begun || d.SetupNs < 5e8 {
		return false
	}
	if d.c.lostSyn != nil || d.c.lostSynAck != nil {
		return d.lostAtBeginning()
	}
	d.Cause, d.Place = Unanswered, d.receiver()
	return true
}

// receiver names the end that data goes to: its node, or, if that is not attached, its address.
func (d *decision) receiver() string { return cmp.Or(d.Receiver, d.Dst) }

// sender names the end that data comes from.
func (d *decision) sender() string { return cmp.Or(d.Sender, d.Src) }

// byMTU: packets above some size are lost, and the sender goes on to send them.
func (d *decision) byMTU() bool {
	stuck := d.h.stuck()
	if !stuck && float64(d.spent.Recovery) < fewRecovery*float64(d.h.last-d.h.first) {
		return false
	}
	for i := range d.Losses {
		l := &d.Losses[i]
		if l.Way != "data" || l.of.data < 2 {
			continue
		}
		large := l.of.smallest > d.h.largest
		if l.of.kind() == bySize || large && l.of.refusedBySize() && d.h.largest > 0 {
			d.blame(l)
			d.Cause = ByMTU
			return true
		}
	}
	return false
}

// blame names a place of losses. What it is follows from the reason.
func (d *decision) blame(l *LossRow) {
	d.Loss, d.Place, d.AckWay = l, l.Name(), l.Way == "ack"
	if l.At == record.AtNode {
		d.Place = l.Node // the port is the one that it came in by
	}
	switch l.of.kind() {
	case byRule, byHook:
		if d.Cause = ByNetfilter; l.isRule() {
			d.Cause = ByFirewall
		}
		passed := d.h.reached
		if d.AckWay {
			passed = d.h.acked
		}
		d.Partly = passed > l.of.first && l.of.packets-l.of.syns >= fewPartly
	case byQueue:
		d.Cause = ByQueue
		d.Queue = d.queue(l.Way, l.Name())
	case bySize:
		d.Cause = ByMTU
	case bySocket:
		d.Cause, d.Wait = ByReceiver, NoRoom
	default:
		d.Cause = ByLoss
	}
}

func (d *decision) queue(way, name string) *QueueRow {
	for i := range d.Queues {
		if d.Queues[i].Way == way && d.Queues[i].Name == name {
			return &d.Queues[i]
		}
	}
	return nil
}

// busiest is the queue in which the flow's packets were for the longest time, of those that let out so many bits a
// second; nil: there is none.
func (d *decision) busiest(way string) (best *QueueRow) {
	for i := range d.Queues {
		if q := &d.Queues[i]; q.Way == way && q.limits && (best == nil || q.Busy > best.Busy) {
			best = q
		}
	}
	return best
}

// bySaturatedQueue: a queue has always something of the flow to send, so that no window could make it faster.
func (d *decision) bySaturatedQueue() bool {
	q := d.busiest("data")
	if q == nil || q.Busy < isFull || 2*(d.spent.Closed+d.spent.Sender) > d.spent.all() {
		return false
	}
	if l := d.mostLost(); l != nil && l.of.kind() != byQueue && l.Ratio > muchLost && 2*d.spent.Recovery >= d.spent.all() {
		return false // byLosses: of a flow without these times, UDP, most packets are lost elsewhere
	}
	d.blameQueue(q)
	return true
}

func (d *decision) blameQueue(q *QueueRow) {
	d.Cause, d.Queue, d.Place, d.AckWay = ByQueue, q, q.Name, q.Way == "ack"
}

// byEnds: the receiver's window, or the sender's application, takes most of the time.
func (d *decision) byEnds() bool {
	t := &d.spent
	if t.all() == 0 || d.Proto != "tcp" {
		return false
	}
	network, receiver := t.Network+t.Recovery, t.Window+t.Closed
	switch {
	case receiver >= network && receiver >= t.Sender:
		d.byReceiver()
	case t.Sender > network && t.Sender > receiver:
		if d.byReset() {
			return true
		}
		d.Cause, d.Place, d.Wait = BySender, d.sender(), Gaps
		if d.h.window.spent()[short] > d.h.window.spent()[idle] {
			d.Wait = ShortData
		}
		if d.PeerNs*2 > t.Sender {
			d.Wait, d.Place = ForPeer, d.receiver()
		}
	default:
		return false
	}
	return true
}

// byReceiver tells a slow receiver from a small window. A slow one closes a window that was open; a small one is never
// large, or stays open.
func (d *decision) byReceiver() {
	t := &d.spent
	d.Cause, d.Place = ByWindow, d.receiver()
	if d.h.shut*2 > t.Closed+t.Window { // else it opens at once: the buffer holds no more
		d.Cause, d.Wait = ByReceiver, WindowClosed
	}
}

// byReset: an end, or a node, has ended the transfer before it was over.
func (d *decision) byReset() bool {
	r := d.Reset
	if r == nil || !r.Broke {
		return false
	}
	d.Cause, d.Place = ByReset, cmp.Or(r.Node, d.receiver())
	return true
}

// bySpikes: data, or its acknowledgements, was under way for so long that it was sent again, for much of the time.
func (d *decision) bySpikes() bool {
	in := d.h.slowIn.part
	if in == nil || float64(d.h.slow) < fewRecovery*float64(d.spent.all()) {
		return false
	}
	q, _ := in.times.Quantiles()
	q.MaxNs = max(q.MaxNs, d.h.slowIn.ns) // times of data that was sent twice are in no distribution
	d.Part = &PartRow{Way: way(in.dir, d.h.dir), Kind: in.kind, Name: in.name, Times: q}
	d.Cause, d.Place, d.AckWay = ByDelay, in.name, in.dir != d.h.dir
	return true
}

// refused is how many packets with data the receiver has refused for what is no loss on their way.
func (d *decision) refused(kind lossKind) (packets uint64) {
	for i := range d.Losses {
		if l := &d.Losses[i]; l.Way == "data" && d.kind(l) == kind {
			packets += l.of.data
		}
	}
	return packets
}

// kind is what losses mean for this flow. Datagrams have no connection that could be over: where nobody took them, nobody
// listened, unless the program had ended.
func (d *decision) kind(l *LossRow) lossKind {
	kind := l.of.kind()
	if kind == byEnd && d.Proto != "tcp" && !d.ended {
		return onWay
	}
	return kind
}

// hasEnded reports whether datagrams that nobody took came after the program had ended: it has taken most, and none after
// the first of them.
func (d *decision) hasEnded() bool {
	var n uint64
	first := int64(math.MaxInt64)
	for i := range d.Losses {
		if l := &d.Losses[i]; l.Way == "data" && l.of.kind() == byEnd {
			n, first = n+l.of.data, min(first, l.of.first)
		}
	}
	return d.h.reached > 0 && d.h.reached < first && 2*n < d.Packets
}

// mostLost is the place where most data was lost; nil: none was.
func (d *decision) mostLost() (most *LossRow) {
	for i := range d.Losses {
		l := &d.Losses[i]
		switch d.kind(l) {
		case byAge, byEnd:
			continue
		case byPieces:
			if d.LostFragments > 0 || d.Lost > 0 { // a consequence of these
				continue
			}
		}
		if l.Way == "data" && l.of.data > 0 && (most == nil || l.of.data > most.of.data) {
			most = l
		}
	}
	return most
}

// byLosses: the network takes the time, and packets are lost in it.
func (d *decision) byLosses() bool {
	l := d.mostLost()
	if l == nil {
		return false
	}
	n := d.Lost + d.LostFragments + d.Dropped - d.refused(byAge) - d.refused(byEnd)
	all := ratio(n, d.Packets)
	stuck := d.h.stuck() || float64(d.spent.Recovery) > fewRecovery*float64(d.spent.all())
	if all < fewLost && !stuck || n < 2 && !stuck {
		return false
	}
	if !stuck && d.ResentWhy[Overtaken]+d.refused(byAge) > n && d.byOrder() {
		return true
	}
	if q := d.busiest("data"); q != nil && q.Busy >= isBusy && l.of.kind() == onWay && l.Ratio < muchLost {
		return false
	}
	d.blame(l)
	return true
}

// byAckLosses: data arrives, and is sent again since its acknowledgements are lost.
func (d *decision) byAckLosses() bool {
	var most *LossRow
	for i := range d.Losses {
		if l := &d.Losses[i]; l.Way == "ack" && l.of.packets > l.of.syns && l.of.kind() != byAge && (most == nil || l.Packets > most.Packets) {
			most = l
		}
	}
	if most == nil || d.Time == nil || d.Proto != "tcp" {
		return false
	}
	if data := d.mostLost(); data != nil && data.of.data > most.Packets {
		return false
	}
	none := d.h.una-d.h.base <= 1 // but for the SYN's
	waited := float64(d.h.ackWait + d.spent.Recovery)
	if !none && (2*d.ResentWhy[AckLost] <= d.Resent || waited <= fewRecovery*float64(d.spent.all())) {
		return false
	}
	d.blame(most)
	return true
}

// byQueue: packets wait for most of the round trip in a queue that has a rate.
func (d *decision) byQueue() bool {
	for _, way := range []string{"data", "ack"} {
		q := d.busiest(way)
		if q == nil {
			continue
		}
		if q.Busy >= isBusy && way == "data" || d.share(Queue, way, q.Name) >= mostOfRTT-0.1 {
			d.blameQueue(q)
			return true
		}
	}
	return false
}

// share is which share of the round trips a part has.
func (d *decision) share(kind Kind, way, name string) float64 {
	for i := range d.Parts {
		if p := &d.Parts[i]; p.Kind == kind && p.Way == way && p.Name == name {
			return p.Share
		}
	}
	return 0
}

// byOrder: packets overtake each other, and are sent again for that.
func (d *decision) byOrder() bool {
	late, again := ratio(d.Reordered, d.Packets), d.ResentWhy[Overtaken]+d.refused(byAge)
	if late < fewLate || again == 0 && late < 5*fewLate {
		return false
	}
	d.Cause = ByReordering
	if d.byFork() {
		return true
	}
	d.Part = d.unsteady()
	if d.Part != nil {
		d.Place = d.Part.Name
	}
	return true
}

// byFork: most of the packets that were overtaken went another way than those that overtook them.
func (d *decision) byFork() bool {
	var most, all uint64
	at := ""
	for node, n := range d.h.forks {
		if all += n; n > most || n == most && node < at {
			most, at = n, node
		}
	}
	if 2*all < d.Reordered || at == "" {
		return false
	}
	d.Place, d.Forks = at, true
	return true
}

// unsteady is the part of the way whose time differs most among packets.
func (d *decision) unsteady() (most *PartRow) {
	spread := func(p *PartRow) int64 { return p.Times.P99Ns - p.Times.MinNs }
	for i := range d.Parts {
		if p := &d.Parts[i]; p.Way == "data" && (most == nil || spread(p) > spread(most)) {
			most = p
		}
	}
	return most
}

// byMarks: packets are marked to signal congestion.
func (d *decision) byMarks() bool {
	if d.Marked < 2 || ratio(d.Marked, d.Packets) < fewMarked {
		return false
	}
	d.Cause, d.Queue = ByECN, nil
	for i := range d.Queues {
		if q := &d.Queues[i]; q.Way == "data" && (d.Queue == nil || q.Times.P50Ns > d.Queue.Times.P50Ns) {
			d.Queue, d.Place = q, q.Name
		}
	}
	return true
}

// byLateAcks: the receiver takes most of the round trip to acknowledge.
func (d *decision) byLateAcks() bool {
	if d.Mean < shortRTT {
		return false
	}
	end := d.end()
	if end == nil || end.Share < mostOfRTT {
		return false
	}
	if d.Receiver == "" { // the network beyond the attached nodes, or the receiver: not known
		d.Cause, d.Place, d.Part = ByDelay, end.Name, end
		return true
	}
	d.Cause, d.Place, d.Wait = ByReceiver, d.Receiver, LateAcks
	return true
}

// end is the part of the round trip at its far end; nil: there is none.
func (d *decision) end() *PartRow {
	for i := range d.Parts {
		if d.Parts[i].Kind == End {
			return &d.Parts[i]
		}
	}
	return nil
}

// byDelay: the way itself takes the time.
func (d *decision) byDelay() bool {
	if d.Mean < shortRTT {
		return false
	}
	for i := range d.Parts {
		if p := &d.Parts[i]; p.Kind != End && (d.Part == nil || p.Share > d.Part.Share) {
			d.Part = p
		}
	}
	if d.Part == nil {
		return false
	}
	for i := range d.Parts { // the way of data comes first, where both are as long
		if p := &d.Parts[i]; p.Kind != End && p.Way == "data" && d.Part.Way == "ack" && p.Share > 0.8*d.Part.Share {
			d.Part = p
		}
	}
	d.Cause, d.Place, d.AckWay = ByDelay, d.Part.Name, d.Part.Way == "ack"
	return true
}
