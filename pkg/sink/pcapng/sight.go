// SPDX-License-Identifier: Apache-2.0

package pcapng

import (
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// Directions of a frame.
const (
	in   = "in"   // it came in by the port
	out  = "out"  // it went out by it, before the port's queue
	lost = "lost" // it was freed
)

// nowhere is the interface of losses whose place belongs to no node.
const nowhere = "?"

// sight is a packet at one port.
type sight struct {
	hop        int
	node, port string
	direction  string
	at         int64 // Unix time, ns
	header
	link, inside, queue *int64 // ns: what ended with this sight; queue: what began
	loss                *loss
	assumed             []string // what is not known and has a value all the same
}

// What a frame can assume.
const (
	assumedTime = "time"
	assumedTTL  = "ttl"
	assumedDSCP = "dscp"
	assumedECN  = "ecn"
)

// name is the interface of a sight.
func (s *sight) name() string {
	switch {
	case s.port != "":
		return s.node + "/" + s.port
	case s.node != "":
		return s.node
	}
	return nowhere
}

// walker follows a record from port to port.
type walker struct {
	r        *record.Record
	straight bool
	known    bool     // the header is
	sent     header   // by the source
	after    []header // as each hop left it
	left     []int64  // when each hop was left, Unix time; of the queue, where that is known
	sights   []sight

	// How the TTL, the DSCP and the ECN went from what the source sent to what was sent last.
	first, last int // hops that sent the packet on, behind the source; -1: none
	nth         int // how many of them the walk has met
	senders     int
}

// walk returns where a record's packet was seen, hop by hop. They are valid until the next call.
func (w *walker) walk(r *record.Record) []sight {
	w.r, w.straight, w.sights = r, r.Straight(), w.sights[:0]
	w.after, w.left = slices.Grow(w.after[:0], len(r.Hops))[:len(r.Hops)], slices.Grow(w.left[:0], len(r.Hops))[:len(r.Hops)]
	w.sent, w.known = headerAsSent(r)
	w.first, w.last, w.nth, w.senders = -1, -1, 0, 0
	for i := 1; i < len(r.Hops); i++ {
		if r.Hops[i].Port == "" {
			continue
		}
		if w.senders++; w.first < 0 {
			w.first = i
		}
		w.last = i
	}
	for i := range r.Hops {
		w.hop(i)
	}
	w.losses()
	return w.sights
}

// hop adds where hop i was come in by and left.
func (w *walker) hop(i int) {
	h, prev := &w.r.Hops[i], w.r.PrevOf(i)
	before, came := w.sent, w.r.TNs
	if prev >= 0 {
		before, came = w.after[prev], w.left[prev]
	}
	w.left[i] = came
	if h.InPort != "" {
		at, ok := w.cameIn(i, prev)
		if ok {
			came = at
		}
		w.left[i] = came
		if !h.Copy { // else it came in as the other one, which is there
			s := sight{hop: i, node: h.Node, port: h.InPort, direction: in, at: came, header: before, link: h.LinkNs}
			w.add(s, ok, w.changing(i, false))
		}
	}
	w.after[i] = w.changed(i, before)
	if h.Port == "" {
		return
	}
	at, ok := came, h.AtNs != nil
	if ok {
		at = w.r.TNs + *h.AtNs
	}
	s := sight{hop: i, node: h.Node, port: h.Port, direction: out, at: at, header: w.after[i], inside: h.NodeNs, queue: h.QueueNs}
	w.add(s, ok, w.changing(i, true))
	if w.left[i] = at; h.QueueNs != nil {
		w.left[i] += *h.QueueNs
	}
}

// cameIn says when the packet came in at hop i.
func (w *walker) cameIn(i, prev int) (at int64, ok bool) {
	h := &w.r.Hops[i]
	switch {
	case h.AtNs != nil && h.Port == "":
		return w.r.TNs + *h.AtNs, true
	case h.AtNs != nil && h.NodeNs != nil:
		return w.r.TNs + *h.AtNs - *h.NodeNs, true
	case prev >= 0 && h.LinkNs != nil:
		return w.left[prev] + *h.LinkNs, true
	}
	return w.r.TNs, prev < 0
}

// add adds a sight. assumed are fields of its header that are not known.
func (w *walker) add(s sight, timeKnown bool, assumed []string) {
	if !timeKnown {
		s.assumed = append(s.assumed, assumedTime)
	}
	s.assumed = append(s.assumed, assumed...)
	w.sights = append(w.sights, s)
}

// changed is the header with which hop i sends the packet on, which came with another one.
func (w *walker) changed(i int, h header) header {
	hop := &w.r.Hops[i]
	setAddr(&h.src, hop.Src)
	setAddr(&h.dst, hop.Dst)
	h.sport, h.dport = known(hop.Sport, h.sport), known(hop.Dport, h.dport)
	if i == 0 || hop.Port == "" || !w.straight {
		return h
	}
	w.nth++
	ttl := known(w.r.TTLSent, w.r.TTL)
	if i == w.last {
		h.ttl, h.dscp, h.ecn = ttl, known(w.r.DSCPSent, w.r.DSCP), known(w.r.ECNSent, w.r.ECN)
		return h
	}
	if ttl < w.r.TTL { // each router takes one
		h.ttl = max(w.r.TTL-w.nth, ttl)
	}
	return h
}

func setAddr(addr *netip.Addr, text string) {
	if a, err := netip.ParseAddr(text); err == nil {
		*addr = a
	}
}

// changing says what of the header is not known as hop i was come in by, or left: a record has it as
// the source sent it, and as it was sent last.
func (w *walker) changing(i int, left bool) (fields []string) {
	r := w.r
	switch {
	case !w.known || w.first < 0 || i < w.first || i == w.first && !left:
		return nil
	case !w.straight: // each branch has its own
		return []string{assumedTTL, assumedDSCP, assumedECN}
	case i > w.last || i == w.last && left:
		return nil
	}
	if taken := r.TTL - known(r.TTLSent, r.TTL); taken != 0 && taken != w.senders {
		fields = append(fields, assumedTTL)
	}
	if r.DSCPSent != nil {
		fields = append(fields, assumedDSCP)
	}
	if r.ECNSent != nil {
		fields = append(fields, assumedECN)
	}
	return fields
}

// losses adds a sight for each place where the packet, or a copy of it, was freed.
func (w *walker) losses() {
	r := w.r
	last := len(r.Hops) - 1
	switch {
	case len(r.Losses) > 0:
		for i := range r.Losses {
			l := &r.Losses[i]
			w.lost(&loss{Loss: &l.Loss, AfterDelivery: l.AfterDelivery}, l.Hop)
		}
	case r.Loss != nil:
		w.lost(&loss{Loss: r.Loss}, last)
	case r.LocalDrop != nil:
		w.lost(&loss{Loss: r.LocalDrop, AfterDelivery: true}, last)
	}
}

func (w *walker) lost(l *loss, hop int) {
	s := sight{hop: hop, node: l.Node, port: l.Port, direction: lost, at: w.r.TNs, header: w.sent, loss: l}
	if hop >= 0 && hop < len(w.left) {
		s.at, s.header = w.left[hop], w.after[hop]
	}
	if l.AtNs != nil {
		s.at = w.r.TNs + *l.AtNs
	}
	w.add(s, l.AtNs != nil, w.changing(hop, true))
}
