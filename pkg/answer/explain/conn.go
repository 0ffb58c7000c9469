// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"container/heap"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// conn is one connection, or all UDP packets, between two ends.
type conn struct {
	halves [2]half
	queues queues
	parts  parts
	routes routes
	icmp   icmp

	first, last     int64
	records, noTCP  uint64
	incomplete      uint64 // records whose hops are not all known
	syns, synAcks   uint64 // sent
	opener          direction
	syn             int64 // the first one's sequence number; -1: none was seen
	synAt           int64
	established     bool
	lostSyn         *record.Loss
	lostSynAck      *record.Loss
	asked           *placenow.Request // the last SYN that came to a node
	synFate         fate
	reset           *sent    // the first RST
	resetEarly      bool     // before data was acknowledged
	resetOpen       [2]int64 // bytes that were not acknowledged then, or came later, by direction
	resetFull       [2]bool  // the window was used up, so that there was more to send
	resetSoon       [2]bool  // data had been under way until then
	resetAfterFin   bool
	resetOnPurpose  bool // the ends had just spoken on another connection
	resetStray      bool // it answers a packet that was not translated
	fins            [2]bool
	begun           int64     // when both ends could send: the handshake was over, or the first record
	sends, receives [2]tally  // nodes at both ends, by direction
	leavesBy        [2]string // NODE/PORT by which packets leave the attached nodes for good, by direction
	outside         [2]bool   // packets come from nodes that are not attached
	pending         uint64    // packets that have not ended and are taken for lost
	translators     [2]string // nodes that change addresses, by direction
	untranslated    *Untranslated
}

// icmp is what routers told the ends.
type icmp struct {
	tooBig  uint64 // of IPv4 every kind of unreachable
	arrived uint64
	node    string
}

func newConn() *conn {
	c := &conn{queues: make(queues), syn: -1}
	c.halves[back].dir = back
	return c
}

// Analyzer follows a flow. It is for one goroutine.
type Analyzer struct {
	flow    Flow
	members *members
	conn    *conn
	best    *conn // of those that have ended
	conns   int
	events  events
	order   uint64
	cut     bool // more was under way than there is room for

	// Configured says what is configured now at the queue of NODE/PORT. Its Kind is "" if that is not known.
	Configured func(port string) Configured
	// Place says what is known now of a place of losses, and of why packets of that flow, of so many IP bytes (0: not
	// known), were lost there. nil: nothing.
	Place func(l *LossRow, of aggregate.Flow, bytes uint64) placenow.Place
	// NoAnswer says why a node did not answer; nil: nobody knows.
	NoAnswer func(*placenow.Request) *placenow.Cause

	// Now is up to when the records tell, Unix ns. A packet that has not ended by then though others take much less is
	// taken for lost. 0: not known.
	Now int64
	// LeftOver tells records of a time of which others are missing: they would count among packets of another time.
	// nil: there are none.
	LeftOver func(*record.Record) bool

	slowest [2]int64
	spoken  int64 // when data came on another connection between the ends
	abroad  abroad
	traced  bool
}

// New makes an Analyzer for a flow.
func New(f Flow) *Analyzer {
	return &Analyzer{flow: f, members: newMembers(f), conn: newConn(), conns: 1}
}

// Trace makes it keep what happened at the sender, for Answer.Sequence. It is called before Add.
func (a *Analyzer) Trace() {
	a.traced = true
	a.conn = a.newConn()
}

// newConn begins a connection.
func (a *Analyzer) newConn() *conn {
	c := newConn()
	for i := range c.halves {
		if a.traced {
			c.halves[i].trace = new(trace)
		}
	}
	return c
}

// Add takes a record; those of other flows it leaves out. They come oldest first, or nearly so.
func (a *Analyzer) Add(r *record.Record) {
	if a.LeftOver != nil && a.LeftOver(r) {
		return
	}
	if a.members.icmp(r) {
		a.conn.addICMP(r)
		return
	}
	if r.Proto != a.flow.Proto {
		return
	}
	dir, ok := a.members.of(r)
	if !ok {
		a.piece(r)
		a.beside(r)
		return
	}
	p := newSent(r, dir)
	if p.tcp && p.flags&packet.TCPRst != 0 && a.conn.reset == nil && p.at-a.spoken < atOnce {
		a.conn.resetOnPurpose = true
	}
	if p.arrival >= 0 {
		a.slowest[dir] = max(a.slowest[dir], p.arrival-p.at)
	}
	if a.isMissing(r, dir) {
		p.fate, p.loss, p.pending = lost, missing(r), true
	}
	p.route = a.conn.routes.of(r)
	key := keyOf(p)
	if whole := a.abroad.find(p); whole != nil {
		a.rejoin(whole, p, r)
		if p.leftBy != "" && !whole.noted {
			a.abroad.add(whole, key)
		}
		a.run(p.at - a.slack())
		return
	}
	if p.leftBy != "" {
		a.abroad.add(p, key)
	}
	if p.tcp && p.flags&(packet.TCPSyn|packet.TCPAck) == packet.TCPSyn {
		a.opened(p)
	}
	c := a.conn
	c.note(r, p)
	c.translates(r, dir)
	a.push(event{at: p.at, of: p, conn: c})
	if p.arrival >= 0 {
		a.push(event{at: p.arrival, arrives: true, of: p, conn: c})
	}
	a.run(p.at - a.slack())
}

// atOnce is how soon a program resets a connection when it was told to on another one, ns.
const atOnce = int64(100e6)

// beside notes data on another connection between the same ends, to the same port: programs that end a transfer by what they
// say on another connection (iperf3, FTP) close the first as they like.
func (a *Analyzer) beside(r *record.Record) {
	f, ok := flowOf(r)
	if !ok || r.TCPPayload == nil || *r.TCPPayload == 0 {
		return
	}
	for _, of := range []Flow{a.flow, a.flow.reverse()} {
		if f.Src.Addr == of.Src.Addr && f.Dst.Addr == of.Dst.Addr && (f.Src.Port == of.Src.Port || f.Dst.Port == of.Dst.Port) {
			a.spoken = r.TNs
			if r.LatencyNs != nil && *r.LatencyNs > 0 && *r.LatencyNs < longest {
				a.spoken += *r.LatencyNs
			}
		}
	}
}

// slack is how much later than another a packet may come that was sent before it, ns: CPUs take slots in blocks, and what
// has left the attached nodes may come back.
func (a *Analyzer) slack() int64 {
	if a.abroad.used {
		return patience + leastSlack
	}
	return leastSlack
}

const leastSlack = int64(20e6)

// opened begins another connection between the same ends, if p does.
func (a *Analyzer) opened(p *sent) {
	c := a.conn
	if c.syn == p.seq || c.syn < 0 && !c.established && c.records == 0 {
		c.syn, c.opener = p.seq, p.dir
		return
	}
	a.run(p.at)
	if a.conns++; a.best == nil || c.weight() >= a.best.weight() {
		a.best = c
	}
	a.conn = a.newConn()
	a.conn.syn, a.conn.opener = p.seq, p.dir
}

// weight is by how much a connection is the one that is asked for.
func (c *conn) weight() uint64 { return c.halves[forth].payload + c.halves[back].payload }

func (a *Analyzer) push(e event) {
	e.order = a.order
	a.order++
	heap.Push(&a.events, e)
	if len(a.events) > maxEvents {
		a.cut = a.cut || e.at-a.events[0].at < leastSlack
		a.step()
	}
}

// run does what has happened until then.
func (a *Analyzer) run(until int64) {
	for len(a.events) > 0 && a.events[0].at <= until {
		a.step()
	}
}

func (a *Analyzer) step() {
	e := heap.Pop(&a.events).(event)
	switch {
	case !e.arrives:
		e.conn.halves[e.of.dir].stayedAbroad(e.of, max(a.Now, e.conn.last))
		e.conn.send(e.of)
		e.of.noted = true
	case e.at == e.of.arrival: // else it has arrived later, or not at all
		e.conn.arrives(e.of)
	}
}

// note notes what a record says whenever it comes.
func (c *conn) note(r *record.Record, p *sent) {
	c.records++
	if c.first == 0 || r.TNs < c.first {
		c.first = r.TNs
	}
	c.last = max(c.last, r.TNs, p.arrival)
	if !p.tcp {
		c.noTCP++
	}
	if r.Truncated {
		c.incomplete++
	}
	if p.fate == arrived && p.leftBy == "" && p.flags&(packet.TCPSyn|packet.TCPAck) == packet.TCPSyn {
		c.asked = request(r)
	}
	p.parts = c.parts.of(r, p.dir)
	c.queues.add(r, p.dir)
	if p.pending {
		c.pending += uint64(p.segs)
	}
	if len(r.Hops) == 0 {
		return
	}
	switch {
	case p.outside:
		c.outside[p.dir] = true
	default:
		c.sends[p.dir].add(r.Hops[0].Node)
	}
	c.receive(r, p)
}

// receive notes where a packet has come to.
func (c *conn) receive(r *record.Record, p *sent) {
	switch {
	case p.leftBy != "":
		c.leavesBy[p.dir] = p.leftBy
	case p.fate == arrived || p.fate == dropped:
		c.receives[p.dir].add(r.Hops[len(r.Hops)-1].Node)
	}
}

// tally counts packets by node: of a few the way was cut, so that they seem to begin or end elsewhere.
type tally map[string]uint64

// maxTally is how many nodes are told apart.
const maxTally = 64

func (t *tally) add(node string) {
	if *t == nil {
		*t = make(tally)
	}
	if _, known := (*t)[node]; known || len(*t) < maxTally {
		(*t)[node]++
	}
}

// most is the node of most packets; "": of none.
func (t tally) most() (node string) {
	for name, n := range t {
		if node == "" || n > t[node] || n == t[node] && name < node {
			node = name
		}
	}
	return node
}

// addICMP notes an error.
func (c *conn) addICMP(r *record.Record) {
	c.icmp.tooBig++
	if len(r.Hops) > 0 {
		c.icmp.node = r.Hops[0].Node
	}
	if r.State == record.Delivered || r.State == record.Left {
		c.icmp.arrived++
	}
}

// send is that a source sends a packet.
func (c *conn) send(p *sent) {
	h, other := &c.halves[p.dir], &c.halves[1-p.dir]
	if !p.tcp {
		h.sendPlain(p)
		return
	}
	if c.begun == 0 && c.syns == 0 && p.flags&packet.TCPSyn == 0 {
		c.begun = p.at
	}
	seq, ok := h.fits(p.seq)
	if !ok {
		h.strange++
		return
	}
	p.seq, p.end = seq, seq+p.bytes()
	if p.ack >= 0 {
		if p.ack, ok = other.fits(p.ack); !ok {
			other.strange++
			p.ack = -1
		}
	}
	c.control(p)
	other.window.note(p)
	if p.payload > 0 && c.reset != nil && c.reset.dir != p.dir && p.seq >= h.nxt {
		c.resetOpen[p.dir] += int64(p.payload)
	}
	h.send(p, c.begun)
	h.traceSent(p)
	if p.ack >= 0 {
		other.acks.add(p)
	}
}

// arrives is that a packet comes to the other end.
func (c *conn) arrives(p *sent) {
	h, other := &c.halves[p.dir], &c.halves[1-p.dir]
	if !p.tcp {
		h.latency.Add(p.arrival - p.at)
		h.arrivePlain(p)
		return
	}
	if p.end == 0 && p.seq < 1<<32 { // its sequence number fits nothing
		return
	}
	h.arrive(p)
	if p.fate != arrived {
		return
	}
	if p.ack >= 0 {
		other.acknowledge(p)
	}
}

// control follows how the connection begins and ends.
func (c *conn) control(p *sent) {
	switch {
	case p.flags&packet.TCPRst != 0:
		if c.reset == nil {
			c.reset, c.resetAfterFin = p, c.fins[forth] || c.fins[back]
			c.resetStray = c.untranslated != nil && p.dir != c.untranslated.dir
			for i := range c.halves {
				h := &c.halves[i]
				c.resetOpen[i], c.resetFull[i] = h.nxt-h.una, h.first > 0 && h.window.isFull(h)
				c.resetSoon[i] = h.first > 0 && p.at-h.last < atOnce
			}
			data := c.halves[forth].una-c.halves[forth].base > 1 || c.halves[back].una-c.halves[back].base > 1
			c.resetEarly = !data
		}
	case p.flags&packet.TCPSyn != 0 && p.flags&packet.TCPAck == 0:
		if c.syns++; c.syns == 1 {
			c.synAt = p.at
		}
		c.synFate = p.fate
		if p.fate == lost || p.fate == dropped {
			c.lostSyn = p.loss
		}
	case p.flags&packet.TCPSyn != 0:
		c.synAcks++
		if p.fate == lost || p.fate == dropped {
			c.lostSynAck = p.loss
		}
	case p.payload > 0 || p.dir == c.opener && p.ack >= 0:
		if !c.established && c.syns > 0 {
			c.begun = p.at
		}
		c.established = true
	}
	if p.flags&packet.TCPFin != 0 {
		c.fins[p.dir] = true
	}
}

// arrivePlain notes which packets were overtaken: came is when the newest one of those was sent that have arrived.
func (h *half) arrivePlain(p *sent) {
	if p.at >= h.came {
		h.came, h.cameBy = p.at, p.route
		return
	}
	h.overtaken(p)
}

// sendPlain is send without TCP: nothing is acknowledged or sent again.
func (h *half) sendPlain(p *sent) {
	p.payload = p.size
	h.count(p)
	if p.fate == lost || p.fate == dropped {
		h.goneBytes += uint64(p.payload)
	}
	if h.first == 0 {
		h.first, h.begun = p.at, p.at
	} else {
		h.sendGaps.Add(p.at - h.ownData)
	}
	h.ownData, h.last = p.at, max(h.last, p.at)
	if p.arrival >= 0 {
		h.last = max(h.last, p.arrival)
		h.rtt.Add(p.arrival - p.at)
		for _, t := range p.parts {
			t.part.times.Add(t.ns)
			h.sampled += t.ns
		}
	}
}
