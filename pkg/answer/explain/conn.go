// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"container/heap"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// conn is one connection, or all UDP packets, between two ends.
type conn struct {
	halves [2]half
	queues queues
	parts  parts
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
	synFate         fate
	reset           *sent // the first RST
	resetEarly      bool  // before data was acknowledged
	fins            [2]bool
	sends, receives [2]string // nodes at both ends, by direction
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

	// Configured says what is configured now at the queue of NODE/PORT: the kind of its queueing discipline, and how many
	// bits a second that lets out. "" and 0: not known.
	Configured func(port string) (kind string, bps uint64)

	traced bool
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
	if a.members.icmp(r) {
		a.conn.addICMP(r)
		return
	}
	if r.Proto != a.flow.Proto {
		return
	}
	dir, ok := a.members.of(r)
	if !ok {
		return
	}
	p := newSent(r, dir)
	if p.tcp && p.flags&(packet.TCPSyn|packet.TCPAck) == packet.TCPSyn {
		a.opened(p)
	}
	c := a.conn
	c.note(r, p)
	a.push(event{at: p.at, of: p, conn: c})
	if p.arrival >= 0 {
		a.push(event{at: p.arrival, arrives: true, of: p, conn: c})
	}
	a.run(p.at - slack)
}

// slack is how much later than another a packet may come that was sent before it, ns: CPUs take slots in blocks.
const slack = 20e6

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
		a.cut = true
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
	if e.arrives {
		e.conn.arrives(e.of)
	} else {
		e.conn.leaves(e.of)
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
	p.parts = c.parts.of(r, p.dir)
	c.queues.add(r, p.dir)
	if len(r.Hops) == 0 {
		return
	}
	if c.sends[p.dir] == "" {
		c.sends[p.dir] = r.Hops[0].Node
	}
	if p.fate == arrived || p.fate == dropped {
		c.receives[p.dir] = r.Hops[len(r.Hops)-1].Node
	}
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

// leaves is that a source sends a packet.
func (c *conn) leaves(p *sent) {
	h, other := &c.halves[p.dir], &c.halves[1-p.dir]
	if !p.tcp {
		h.sendPlain(p)
		return
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
	h.send(p)
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
		return
	}
	if p.end == 0 && p.seq < 1<<32 { // its sequence number fits nothing
		return
	}
	h.arrive(p)
	if p.ack >= 0 && p.fate == arrived {
		other.acknowledge(p)
	}
}

// control follows how the connection begins and ends.
func (c *conn) control(p *sent) {
	switch {
	case p.flags&packet.TCPRst != 0:
		if c.reset == nil {
			c.reset = p
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
		c.established = true
	}
	if p.flags&packet.TCPFin != 0 {
		c.fins[p.dir] = true
	}
}

// sendPlain is send without TCP: nothing is acknowledged or sent again.
func (h *half) sendPlain(p *sent) {
	p.payload = p.size
	h.count(p)
	if h.first == 0 {
		h.first = p.at
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
