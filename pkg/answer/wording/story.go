// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/story"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// Told is a packet's record as people tell it.
type Told struct {
	title string // what became of it
	bad   bool   // it was lost
	head  []string
	steps []step
	end   []string
}

// step is one thing that happened.
type step struct {
	at, node, what string
	slowest        bool // most of the time went by until then
	bad            bool // the packet ended here
}

// Paint makes a text stand out: a title, what is bad, what took longest.
type Paint func(text string) string

// Lines are the title, the head, the steps and the end; the title's is the first. Each Paint may be nil. Head is how
// many lines there are before the steps.
func (s *Told) Lines(title, bad, slowest Paint) (lines []string, head int) {
	paint := func(p Paint, text string) string {
		if p == nil {
			return text
		}
		return p(text)
	}
	if s.bad {
		title = bad
	}
	lines = append([]string{paint(title, s.title)}, s.head...)
	atWidth, nodeWidth := 0, 0
	for _, st := range s.steps {
		atWidth, nodeWidth = max(atWidth, len([]rune(st.at))), max(nodeWidth, len([]rune(st.node)))
	}
	for _, st := range s.steps {
		what := st.what
		switch {
		case st.bad:
			what = paint(bad, what)
		case st.slowest:
			what = paint(slowest, what)
		}
		lines = append(lines, fmt.Sprintf("  %*s  %-*s  %s", atWidth, st.at, nodeWidth, st.node, what))
	}
	return append(lines, s.end...), 1 + len(s.head)
}

// Teller makes sentences of stories.
type Teller struct {
	Sentences
	Shown *Names
}

// Tell tells a story.
func (t *Teller) Tell(told *story.Story) *Told {
	r := t.Shown.Record(told.Record)
	s := &Told{bad: told.Failed()}
	s.title = r.ID + ": " + titleText(r)
	if told.Segment > 0 {
		s.title = fmt.Sprintf("segment %d of %s", told.Segment, s.title)
	}
	s.head = append(s.head, t.headText(r))
	if changes := changesText(r); changes != "" {
		s.head = append(s.head, changes)
	}
	if r.Inner != "" {
		s.head = append(s.head, "a tunnel's, with packet "+r.Inner+" inside")
	}
	for i := range told.Steps {
		s.steps = append(s.steps, t.step(&told.Steps[i], told.Record))
	}
	if told.Longest != nil {
		s.end = append(s.end, longestText(r, told.Longest))
	}
	for _, text := range t.endTexts(r, told) {
		s.end = append(s.end, t.Face.Render(text))
	}
	return s
}

// step is a step of the story of a packet in words.
func (t *Teller) step(of *story.Step, packet *record.Record) step {
	r := t.Shown.Record(of.Packet)
	var s step
	if of.Loss != nil {
		loss := of.Loss
		if r != of.Packet {
			loss = t.Shown.Loss(loss)
		}
		s = dropStep(loss, of.AfterDelivery, portInside(of.Packet, of.Loss, &of.Now, loss.Port), t.whyText(of.Loss, &of.Now))
	} else {
		s = step{node: r.Hops[of.Hop].Node, slowest: of.Slowest, what: hopText(r, of)}
	}
	s.at = atText(of.AtNs)
	if of.Packet == packet {
		if of.AtNs != nil && *of.AtNs == 0 && of.Loss == nil {
			s.at = "0"
		}
		return s
	}
	s.node = "| " + s.node
	if of.Hop == 0 {
		s.what = fmt.Sprintf("inside %s %s, %s: %s", r.Proto, words.Packet(r), r.ID, s.what)
	}
	return s
}

// atText is a time since the packet was sent, "?" if it is not known.
func atText(ns *int64) string {
	if ns == nil {
		return "?"
	}
	return "+" + words.Duration(float64(*ns))
}

func titleText(r *record.Record) string {
	after := ""
	if r.LatencyNs != nil {
		after = " after " + words.Duration(float64(*r.LatencyNs))
	}
	switch r.State {
	case record.Delivered:
		return "delivered" + after
	case record.Left:
		return "left the domain" + after
	case record.Lost:
		return "lost"
	case record.Expired:
		return "expired: it was not seen again"
	case record.Ignored:
		return "ignored: it came only to nodes that did not want it"
	}
	return "still under way"
}

// headText is when, who, what.
func (t *Teller) headText(r *record.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", time.Unix(0, r.TNs).In(t.Location).Format("2006-01-02 15:04:05.000000000"), r.Proto)
	if r.Src == "" {
		fmt.Fprintf(&b, ", %d bytes", r.Len)
		return b.String()
	}
	fmt.Fprintf(&b, " %s, %d bytes, %s %d", words.Packet(r), r.Len, words.TTLName(r), r.TTL)
	if r.FlowLabel != nil {
		fmt.Fprintf(&b, ", flow label 0x%05x", *r.FlowLabel)
	}
	if id := words.ID(r); id != "" {
		fmt.Fprintf(&b, ", id %s", id)
	}
	if tcp := words.TCP(r); tcp != "" {
		b.WriteString(", " + tcp)
	}
	if r.DSCP != 0 {
		fmt.Fprintf(&b, ", DSCP %d", r.DSCP)
	}
	if r.ECN != 0 {
		fmt.Fprintf(&b, ", ECN %d", r.ECN)
	}
	if r.Segs > 1 {
		fmt.Fprintf(&b, ", a train of %d segments in one buffer", r.Segs)
	}
	return b.String()
}

// changesText is what the way did to the header; addresses are in the steps.
func changesText(r *record.Record) string {
	var parts []string
	if r.TTLSent != nil {
		parts = append(parts, fmt.Sprintf("%s %d > %d", words.TTLName(r), r.TTL, *r.TTLSent))
	}
	if r.DSCPSent != nil {
		parts = append(parts, fmt.Sprintf("DSCP %d > %d", r.DSCP, *r.DSCPSent))
	}
	if r.ECNSent != nil {
		text := fmt.Sprintf("ECN %d > %d", r.ECN, *r.ECNSent)
		if *r.ECNSent == 3 {
			text += " (congestion)"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return "changed on the way: " + strings.Join(parts, ", ")
}

// hopText tells of one visit of a node.
func hopText(r *record.Record, of *story.Step) string {
	h := &r.Hops[of.Hop]
	var parts []string
	if h.Gap {
		parts = append(parts, "steps before this one are missing")
	}
	switch {
	case h.Copy:
		parts = append(parts, "another copy")
	case of.From >= 0:
		parts = append(parts, "a copy from "+r.Hops[of.From].Node)
	}
	switch of.Arrival {
	case story.OverLink:
		parts = append(parts, "in by "+h.InPort+after(h.LinkNs)+" on the link")
	case story.FromOutside:
		parts = append(parts, "enters the domain by "+h.InPort)
	case story.ByPort:
		parts = append(parts, "in by "+h.InPort)
	}
	switch of.Departure {
	case story.LeftBy:
		parts = append(parts, "leaves the domain by "+h.Port+inside(h.NodeNs))
	case story.Sent:
		parts = append(parts, "sent by "+h.Port+inQueue(h))
	case story.Out:
		parts = append(parts, "out by "+h.Port+inside(h.NodeNs)+inQueue(h))
	case story.LeftThere:
		parts = append(parts, "leaves the domain there")
	case story.Arrived:
		parts = append(parts, "delivered")
	case story.Unwanted:
		parts = append(parts, "not wanted there")
	}
	switch h.Outcome {
	case record.InFlight:
		parts = append(parts, "under way")
	case record.Expired:
		parts = append(parts, "not seen again")
	}
	if h.Src != "" || h.Sport != nil {
		parts = append(parts, "source now "+joinEndpoint(h.Src, h.Sport))
	}
	if h.Dst != "" || h.Dport != nil {
		parts = append(parts, "destination now "+joinEndpoint(h.Dst, h.Dport))
	}
	if text := words.Said(h); text != "" {
		parts = append(parts, "the switch says"+text)
	}
	return cmp.Or(strings.Join(parts, ", "), "seen")
}

func after(ns *int64) string { return " after " + words.Duration(float64(*ns)) }

// inside is the time in the node, where it is known.
func inside(ns *int64) string {
	if ns == nil {
		return ""
	}
	return after(ns) + " inside"
}

// inQueue is the wait in the port's queue, where there was one.
func inQueue(h *record.Hop) string {
	switch {
	case h.QueueUnseen:
		return ", after a wait in its queue of which nothing saw the end"
	case h.QueueNs == nil:
		return ""
	}
	return "," + after(h.QueueNs) + " in its queue"
}

// joinEndpoint is Endpoint, of which the address or the port may be missing.
func joinEndpoint(addr string, port *int) string {
	if addr == "" {
		return "port " + strconv.Itoa(*port)
	}
	return words.Endpoint(addr, port)
}

// dropStep tells of a loss, or of a drop after delivery. inside says at which port of the
// node it was, if it was inside.
func dropStep(l *record.Loss, local bool, inside, why string) step {
	s := step{node: l.Node, bad: true}
	verb := "LOST"
	if local {
		verb = "DROPPED after delivery"
	}
	where := " inside the node"
	switch {
	case l.At == record.AtQueue:
		where = " in the queue of " + l.Port
		if l.Qdisc != "" {
			where += " (" + l.Qdisc + ")"
		}
	case l.At == record.AtEgress:
		where = " leaving by " + l.Port
	case l.At == record.AtIngress:
		where = " coming in by " + l.Port + ", before the node had it"
	case local:
		where = ""
	default:
		where += inside
	}
	s.what = verb + where + ": " + why
	return s
}

// portInside is ", on the way out by eth1" of a packet that was lost inside a node at another port than the one
// that it came in by, or ", in by veth3c1f" of one that a bridge got there.
func portInside(r *record.Record, l *record.Loss, now *placenow.Place, shown string) string {
	switch {
	case l.Port == "" || slices.ContainsFunc(r.Hops, func(h record.Hop) bool { return h.Node == l.Node && h.InPort == l.Port }):
		return ""
	case now.Peer != "" && slices.ContainsFunc(r.Hops, func(h record.Hop) bool { return h.Node+"/"+h.Port == now.Peer }):
		return ", in by " + shown
	}
	return ", on the way out by " + shown
}

// placeOf is where a packet was lost, and why, as rows of losses have it.
func placeOf(l *record.Loss) *aggregate.LossPlace {
	return &aggregate.LossPlace{Node: l.Node, Port: l.Port, At: l.At, Reason: l.Reason, Qdisc: l.Qdisc, Function: l.Function}
}

// whyText is the reason in words, with the kernel's own name of it, the function that freed the packet, and what
// is not up now.
func (t *Teller) whyText(l *record.Loss, now *placenow.Place) string {
	if l.Reason == record.NotForwarded {
		return "not forwarded by " + l.Function
	}
	why := t.Shown.Reason(placeOf(l), now)
	var names []string
	switch {
	case why == "" && l.Reason == "":
		why = "this kernel gives no reason"
	case why == "":
		why = l.Reason
	case l.Reason != "":
		names = append(names, l.Reason)
	}
	if l.Function != "" {
		names = append(names, l.Function+"()")
	}
	if len(names) > 0 {
		why += " [" + strings.Join(names, ", ") + "]"
	}
	if text := t.Shown.NotUp(l.Node+"/"+l.Port, now); text != "" {
		why += "; " + text
	}
	return why
}
