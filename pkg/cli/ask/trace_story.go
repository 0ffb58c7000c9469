// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/cli/words"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/record"
)

// story is a packet's record as people tell it.
type story struct {
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

// teller turns records into stories.
type teller struct {
	domain   *domain.Domain
	location *time.Location
	now      time.Time
	shown    *words.Names
}

// tell tells the story of a packet; segment is its place in the train whose story it
// is, 0 if that is its own.
func (t *teller) tell(r *record.Record, segment int) *story {
	r = t.shown.Record(r)
	s := &story{bad: r.State == record.Lost || r.State == record.Expired}
	s.title = r.ID + ": " + titleText(r)
	if segment > 0 {
		s.title = fmt.Sprintf("segment %d of %s", segment, s.title)
	}
	s.head = append(s.head, t.headText(r))
	if changes := changesText(r); changes != "" {
		s.head = append(s.head, changes)
	}
	if r.Inner != "" {
		s.head = append(s.head, "a tunnel's, with packet "+r.Inner+" inside")
	}
	slowest := part{hop: -1}
	if !s.bad { // what did not arrive took no time that could be shared out
		slowest = slowestPart(r)
	}
	for i := range r.Hops {
		s.steps = append(s.steps, hopStep(r, i, slowest.hop == i))
	}
	for i := range r.Losses {
		s.steps = append(s.steps, dropStep(&r.Losses[i].Loss, r.Losses[i].AfterDelivery))
	}
	for _, l := range []*record.Loss{r.Loss, r.LocalDrop} {
		// What is known of inferred ones the end says.
		if l != nil && len(r.Losses) == 0 && !l.Inferred() {
			s.steps = append(s.steps, dropStep(l, l == r.LocalDrop))
		}
	}
	if slowest.text != "" {
		s.end = append(s.end, slowest.text)
	}
	s.end = append(s.end, t.endTexts(r)...)
	return s
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
func (t *teller) headText(r *record.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", time.Unix(0, r.TNs).In(t.location).Format("2006-01-02 15:04:05.000000000"), r.Proto)
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

// hopStep tells of one visit of a node.
func hopStep(r *record.Record, i int, slowest bool) step {
	h := &r.Hops[i]
	s := step{node: h.Node, slowest: slowest, at: hopTime(r, i)}
	var parts []string
	if h.Gap {
		parts = append(parts, "steps before this one are missing")
	}
	switch prev := r.PrevOf(i); {
	case h.Copy:
		parts = append(parts, "another copy")
	case h.Prev != nil && prev >= 0:
		parts = append(parts, "a copy from "+r.Hops[prev].Node)
	}
	outcome := h.Outcome
	if i == len(r.Hops)-1 && outcome == "" && (!r.Truncated || h.Role == record.Sink || !arrived(r.State)) {
		outcome = r.State // of one whose last steps are missing it happened elsewhere
	}
	switch {
	case h.Copy:
	case h.InPort != "" && h.LinkNs != nil:
		parts = append(parts, "in by "+h.InPort+after(h.LinkNs)+" on the link")
	case h.InPort != "" && h.Role == record.Source:
		parts = append(parts, "enters the domain by "+h.InPort)
	case h.InPort != "":
		parts = append(parts, "in by "+h.InPort)
	}
	switch {
	case h.Port != "" && outcome == record.Left:
		parts = append(parts, "leaves the domain by "+h.Port+inside(h.NodeNs))
	case h.Port != "" && h.InPort == "" && h.Role == record.Source:
		parts = append(parts, "sent by "+h.Port+inQueue(h.QueueNs))
	case h.Port != "":
		parts = append(parts, "out by "+h.Port+inside(h.NodeNs)+inQueue(h.QueueNs))
	case outcome == record.Left: // up a bridge device
		parts = append(parts, "leaves the domain there")
	case outcome == record.Delivered:
		parts = append(parts, "delivered")
	case outcome == record.Ignored:
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
	s.what = cmp.Or(strings.Join(parts, ", "), "seen")
	return s
}

// arrived says whether a packet in that state has come to an end of its way.
func arrived(s record.State) bool { return s == record.Delivered || s == record.Left }

// hopTime is when the packet came to hop i, or left it if it was not seen to come.
func hopTime(r *record.Record, i int) string {
	h := &r.Hops[i]
	if h.AtNs == nil {
		return "?"
	}
	at := *h.AtNs
	if h.NodeNs != nil {
		at -= *h.NodeNs
	}
	if at == 0 {
		return "0"
	}
	return "+" + words.Duration(float64(at))
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
func inQueue(ns *int64) string {
	if ns == nil {
		return ""
	}
	return "," + after(ns) + " in its queue"
}

// joinEndpoint is endpoint, of which the address or the port may be missing.
func joinEndpoint(addr string, port *int) string {
	if addr == "" {
		return "port " + strconv.Itoa(*port)
	}
	return words.Endpoint(addr, port)
}

// dropStep tells of a loss, or of a drop after delivery.
func dropStep(l *record.Loss, local bool) step {
	s := step{node: l.Node, at: "?", bad: true}
	if l.AtNs != nil {
		s.at = "+" + words.Duration(float64(*l.AtNs))
	}
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
	}
	s.what = verb + where + ": " + whyText(l)
	return s
}

// whyText is the reason in words, with the kernel's own name of it and the function
// that freed the packet.
func whyText(l *record.Loss) string {
	if l.Reason == record.NotForwarded {
		return "not forwarded by " + l.Function
	}
	why := words.Reasons[l.Reason]
	var names []string
	switch {
	case l.Reason == "":
		why = "this kernel gives no reason"
	case why == "":
		why = l.Reason
	default:
		names = append(names, l.Reason)
	}
	if l.Function != "" {
		names = append(names, l.Function+"()")
	}
	if len(names) > 0 {
		why += " [" + strings.Join(names, ", ") + "]"
	}
	return why
}
