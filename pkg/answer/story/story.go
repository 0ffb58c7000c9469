// SPDX-License-Identifier: Apache-2.0

// Package story tells what happened to one packet, step by step, as typed values. pkg/answer/wording makes lines of them.
package story

import (
	"time"

	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Story is what happened to one packet, step by step. What the record says itself is not said again.
type Story struct {
	Record  *record.Record
	Segment int // its place in the train whose record this is; 0: it is no segment of one

	Steps   []Step
	Longest *Part          // where most of its time went; nil: not known, or there is nothing to compare
	Unended *Unended       // nil: it was seen to end
	Now     placenow.Place // of the place behind which it was not seen again
	Circle  *Circle        // nil: it did not go round in one
}

// Step is one visit of a node, or one loss.
type Step struct {
	Packet *record.Record // whose step it is: the story's, or a tunnel's with the story's inside
	Hop    int            // index in Packet.Hops; -1: it is Loss
	Loss   *record.Loss   // nil: it is Hop
	// AfterDelivery: the receiving node dropped the packet.
	AfterDelivery bool
	// AtNs is when it came to the node, or left it if it was not seen to come, or was lost: ns since the story's
	// packet was sent. nil: not known.
	AtNs *int64
	// From is the hop that this copy of the packet came from; -1: it is no copy, or that is not known.
	From      int
	Arrival   Arrival
	Departure Departure
	Slowest   bool // it is the end of the Longest part
	// Now is what is known now of the link at Loss.
	Now placenow.Place
}

// Arrival is how a packet came to a node.
type Arrival string

// The ways to come: over a link that took LinkNs, from outside the domain, by a port of which no more is known.
// "": it was not seen to come, or is another copy of one that was.
const (
	OverLink    Arrival = "link"
	FromOutside Arrival = "outside"
	ByPort      Arrival = "port"
)

// Departure is what became of a packet at a node.
type Departure string

// Out: it went on by a port. Sent: the node itself sent it. LeftBy: it left the domain by a port. LeftThere: it
// left the domain without one, up a bridge device. Arrived: it was delivered. Unwanted: the node ignored it. "":
// it was not seen again, or nothing is known.
const (
	Out       Departure = "out"
	Sent      Departure = "sent"
	LeftBy    Departure = "left"
	LeftThere Departure = "left_there"
	Arrived   Departure = "delivered"
	Unwanted  Departure = "ignored"
)

// Place is what a packet spends its time in.
type Place string

// The places.
const (
	InLink  Place = "link"
	InNode  Place = "node"
	InQueue Place = "queue"
)

// Part is a part of a packet's time.
type Part struct {
	Place Place
	Hop   int // the node, the port's node, or the end of the link
	From  int // where the link begins
	// WithQueue: the link's time has the wait in the queue before it, of which nobody saw the end.
	WithQueue bool
	Ns        int64
	Percent   *int64 // of all parts; nil: branches of the packet went on at the same time
}

// Unended is what is known of a packet that was not seen to end: it is in flight, or has expired.
type Unended struct {
	Hop     int           // where it was seen last; -1: nowhere
	Ago     time.Duration // how long that is past; negative: it is not
	Timeout time.Duration // after which a packet expires
	Peer    *Peer         // behind the port of Hop; nil: not known, or it had left by none
}

// Peer is what a port is connected to.
type Peer struct {
	Bridge bool
	Name   string // NODE/PORT, or NODE/BRIDGE
}

// Circle is the way round that a packet took at least once: from hop First to hop Again, which is the same.
type Circle struct {
	First, Again int
	TTLUsedUp    bool // that is how it ended
}

// All tell of packets of a domain. outers are tunnels' packets by the ID of the one inside; links may be nil.
func All(found []*backpack.Found, d *domain.Domain, outers map[string][]record.Record, links *placenow.Links, now time.Time) (list []*Story) {
	for _, f := range found {
		s := New(&f.Record, f.Segment, d, now)
		s.goInto(outers[f.Record.ID])
		s.addLinks(links)
		list = append(list, s)
	}
	return list
}

// New tells of a packet of a domain, without tunnels' packets that had it inside. segment is its place in the
// train whose record r is, 0 if it is no segment. It keeps r.
func New(r *record.Record, segment int, d *domain.Domain, now time.Time) *Story {
	s := &Story{Record: r, Segment: segment}
	if !s.Failed() { // what did not arrive took no time that could be shared out
		s.Longest = longestPart(r)
	}
	for i := range r.Hops {
		s.Steps = append(s.Steps, hopStep(r, i))
		s.Steps[i].Slowest = s.Longest != nil && s.Longest.Hop == i
	}
	for i := range r.Losses {
		s.Steps = append(s.Steps, lossStep(r, &r.Losses[i].Loss, r.Losses[i].AfterDelivery))
	}
	for _, l := range []*record.Loss{r.Loss, r.LocalDrop} {
		// What is known of inferred ones the end says.
		if l != nil && len(r.Losses) == 0 && !l.Inferred() {
			s.Steps = append(s.Steps, lossStep(r, l, l == r.LocalDrop))
		}
	}
	if r.State == record.InFlight || r.State == record.Expired {
		s.Unended = unended(r, d, now)
	}
	if first, again, ok := r.Loop(); ok {
		s.Circle = &Circle{first, again, r.TTLUsedUp()}
	}
	return s
}

// addLinks adds what the kernel says now of the links where the packet was lost.
func (s *Story) addLinks(l *placenow.Links) {
	for i := range s.Steps {
		if step := &s.Steps[i]; step.Loss != nil && !step.AfterDelivery {
			step.Now = l.OfLoss(step.Packet, step.Loss)
		}
	}
	if r := s.Record; r.Loss != nil && r.Loss.Inferred() {
		s.Now = l.OfLoss(r, r.Loss)
	}
}

// Failed reports whether the packet was lost or expired.
func (s *Story) Failed() bool {
	return s.Record.State == record.Lost || s.Record.State == record.Expired
}

func lossStep(r *record.Record, l *record.Loss, afterDelivery bool) Step {
	return Step{Packet: r, Hop: -1, From: -1, Loss: l, AfterDelivery: afterDelivery, AtNs: l.AtNs}
}

// hopStep tells of one visit of a node.
func hopStep(r *record.Record, i int) Step {
	h := &r.Hops[i]
	s := Step{Packet: r, Hop: i, From: -1, AtNs: arrivalNs(h)}
	if h.Prev != nil && !h.Copy {
		s.From = r.PrevOf(i)
	}
	switch {
	case h.Copy || h.InPort == "":
	case h.LinkNs != nil:
		s.Arrival = OverLink
	case h.Role == record.Source:
		s.Arrival = FromOutside
	default:
		s.Arrival = ByPort
	}
	outcome := outcomeAt(r, i)
	switch {
	case h.Port != "" && outcome == record.Left:
		s.Departure = LeftBy
	case h.Port != "" && h.InPort == "" && h.Role == record.Source:
		s.Departure = Sent
	case h.Port != "":
		s.Departure = Out
	case outcome == record.Left:
		s.Departure = LeftThere
	case outcome == record.Delivered:
		s.Departure = Arrived
	case outcome == record.Ignored:
		s.Departure = Unwanted
	}
	return s
}

// outcomeAt is how the packet, or a branch of it, ended at hop i; "" if it went on.
func outcomeAt(r *record.Record, i int) record.State {
	h := &r.Hops[i]
	arrived := r.State == record.Delivered || r.State == record.Left
	if i == len(r.Hops)-1 && h.Outcome == "" && (!r.Truncated || h.Role == record.Sink || !arrived) {
		return r.State // of one whose last steps are missing it happened elsewhere
	}
	return h.Outcome
}

// arrivalNs is when the packet came to a hop, or left it if it was not seen to come.
func arrivalNs(h *record.Hop) *int64 {
	if h.AtNs == nil {
		return nil
	}
	at := *h.AtNs
	if h.NodeNs != nil {
		at -= *h.NodeNs
	}
	return &at
}

// longestPart finds the longest of all links, queues and nodes. With fewer than two there is nothing to compare.
func longestPart(r *record.Record) *Part {
	total, count, tree := int64(0), 0, false
	var best Part
	consider := func(ns *int64, part Part) {
		if ns == nil {
			return
		}
		count, total = count+1, total+*ns
		if *ns > best.Ns {
			best = part
			best.Ns = *ns
		}
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		tree = tree || h.Prev != nil
		if prev := r.PrevOf(i); prev >= 0 {
			consider(h.LinkNs, Part{Place: InLink, Hop: i, From: prev, WithQueue: r.Hops[prev].QueueNs == nil})
		}
		consider(h.NodeNs, Part{Place: InNode, Hop: i})
		consider(h.QueueNs, Part{Place: InQueue, Hop: i})
	}
	if count < 2 || total == 0 {
		return nil
	}
	if !tree {
		percent := best.Ns * 100 / total
		best.Percent = &percent
	}
	return &best
}

func unended(r *record.Record, d *domain.Domain, now time.Time) *Unended {
	u := &Unended{Hop: len(r.Hops) - 1, Timeout: d.Options.Timeout}
	at := r.TNs
	if u.Hop >= 0 {
		h := &r.Hops[u.Hop]
		if h.AtNs != nil {
			at += *h.AtNs
		}
		if h.Port != "" {
			u.Peer = peerOf(h, d)
		}
	}
	u.Ago = now.Sub(time.Unix(0, at))
	return u
}

// peerOf is at the other end of the port that a hop left by; nil: nothing that is known.
func peerOf(h *record.Hop, d *domain.Domain) *Peer {
	for i := range d.Ports {
		p := &d.Ports[i]
		if int(p.Node) != h.NodeID || p.Removed || p.Name != h.Port || d.NodeByID(p.Node) == nil {
			continue
		}
		if p.Link != "" {
			return &Peer{true, p.Link}
		}
		if name := placenow.PeerName(d, p.Peer); name != "" {
			return &Peer{false, name}
		}
		return nil
	}
	return nil
}
