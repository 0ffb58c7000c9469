// SPDX-License-Identifier: Apache-2.0

package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// Packet says who sends what to whom: "10.0.1.1:4711 > 10.0.4.2:53".
func Packet(r *record.Record) string { return string(AppendPacket(nil, r)) }

// AppendPacket appends what Packet says.
func AppendPacket(b []byte, r *record.Record) []byte {
	b = append(appendEndpoint(b, r.Src, r.Sport), " > "...)
	b = appendEndpoint(b, r.Dst, r.Dport)
	if r.ICMPType != nil {
		b = append(append(b, ' '), icmpText(r)...)
	}
	b = appendField(b, " id ", r.ICMPID)
	b = appendField(b, " seq ", r.ICMPSeq)
	return appendField(b, " frag ", r.FragOff)
}

// appendField appends a number that is there.
func appendField(b []byte, name string, n *int) []byte {
	if n == nil {
		return b
	}
	return strconv.AppendInt(append(b, name...), int64(*n), 10)
}

// Endpoint joins an address and a port, if there is one.
func Endpoint(addr string, port *int) string { return string(appendEndpoint(nil, addr, port)) }

func appendEndpoint(b []byte, addr string, port *int) []byte {
	if port == nil {
		return append(b, addr...)
	}
	if strings.IndexByte(addr, ':') >= 0 { // IPv6
		b = append(append(append(b, '['), addr...), ']')
	} else {
		b = append(b, addr...)
	}
	return strconv.AppendInt(append(b, ':'), int64(*port), 10)
}

// The ICMP types that people meet, by IP version; others are numbers.
var icmpNames = map[int]map[int]string{
	4: {0: "reply", 3: "unreachable", 5: "redirect", 8: "echo", 11: "time-exceeded"},
	6: {1: "unreachable", 2: "too-big", 3: "time-exceeded", 128: "echo", 129: "reply"},
}

func icmpText(r *record.Record) string {
	if name, ok := icmpNames[r.IPVersion][*r.ICMPType]; ok {
		return name
	}
	return "type " + strconv.Itoa(*r.ICMPType)
}

// ID is the IP ID, or what IPv6 has in its place: the Identification of a fragment.
func ID(r *record.Record) string {
	switch {
	case r.IPVersion != 6:
		return strconv.Itoa(r.IPID)
	case r.FragID != nil:
		return strconv.Itoa(*r.FragID)
	}
	return ""
}

// tcpLetters are the flags of a TCP header from FIN on, as tcpdump writes them: "." is ACK.
const tcpLetters = "FSRP.UEWe"

// TCP is what a TCP header says, as tcpdump writes it: "[P.] seq 1001:2449 ack 77 win 501"; "" if it is not known.
func TCP(r *record.Record) string {
	if r.TCPFlags == nil || r.TCPSeq == nil {
		return ""
	}
	b := []byte{'['}
	for bit, letter := range tcpLetters {
		if *r.TCPFlags&(1<<bit) != 0 {
			b = append(b, byte(letter))
		}
	}
	if len(b) == 1 {
		b = append(b, "none"...)
	}
	b = strconv.AppendInt(append(b, "] seq "...), int64(*r.TCPSeq), 10)
	if n := r.TCPPayload; n != nil && *n > 0 {
		b = strconv.AppendUint(append(b, ':'), uint64(uint32(*r.TCPSeq+*n)), 10)
	}
	b = appendField(b, " ack ", r.TCPAck)
	return string(appendField(b, " win ", r.TCPWindow))
}

// Path is the nodes in order: "h1 > r1 > h2". Where copies parted, each branch
// that did not arrive says so: "h1 > s1 > {h2, h3 ignored}".
func Path(r *record.Record) string { return string(AppendPath(nil, r)) }

// AppendPath appends what Path says.
func AppendPath(b []byte, r *record.Record) []byte {
	_, again, loop := r.Loop()
	hops := len(r.Hops)
	if loop {
		hops = again
	}
	if r.Straight() {
		for i := range hops {
			b = appendStep(b, &r.Hops[i], i)
		}
	} else {
		steps := make([]record.Step, hops)
		for i := range steps {
			hop := &r.Hops[i]
			steps[i] = record.Step{Text: hop.Node + outcomeText(hop.Outcome), Arrow: gapArrow(hop), Prev: r.PrevOf(i), Same: r.SameAs(i)}
		}
		b = append(b, record.PathText(steps)...)
	}
	if loop {
		return append(append(b, LoopMark...), TTLEnd(r)...)
	}
	return append(b, truncatedMark(r)...)
}

// appendStep appends a hop of a path without branches.
func appendStep(b []byte, h *record.Hop, i int) []byte {
	switch {
	case i == 0:
	case h.Gap:
		b = append(b, record.GapArrow...)
	default:
		b = append(b, record.Arrow...)
	}
	return append(append(b, h.Node...), outcomeText(h.Outcome)...)
}

// outcomeText is how a branch ended, where it did not arrive.
func outcomeText(s record.State) string {
	switch s {
	case "", record.Delivered, record.Left:
		return ""
	case record.InFlight:
		return " in flight"
	}
	return " " + string(s)
}

// TimedPath adds to each node its ports and the time inside it, to a port the time in
// its queue, and to each link the time on it: "h1:e0 -3.4us> e0:r1(812ns):e1[2.1ms] -1.2us> e0:h2".
func TimedPath(r *record.Record) string {
	steps := make([]record.Step, len(r.Hops))
	for i := range r.Hops {
		hop := &r.Hops[i]
		var b strings.Builder
		steps[i] = record.Step{Prev: r.PrevOf(i), Same: -1}
		steps[i].Arrow = gapArrow(hop)
		if hop.LinkNs != nil && i > 0 {
			steps[i].Arrow = " -" + Duration(float64(*hop.LinkNs)) + "> "
		}
		if hop.InPort != "" {
			b.WriteString(hop.InPort + ":")
		}
		b.WriteString(hop.Node)
		if hop.NodeNs != nil {
			b.WriteString("(" + Duration(float64(*hop.NodeNs)) + ")")
		}
		if hop.Port != "" {
			b.WriteString(":" + hop.Port)
		}
		if hop.QueueNs != nil {
			b.WriteString("[" + Duration(float64(*hop.QueueNs)) + "]")
		}
		if hop.QueueUnseen {
			b.WriteString("[?]")
		}
		b.WriteString(Said(hop) + rewriteText(hop) + outcomeText(hop.Outcome))
		steps[i].Text = b.String()
	}
	return record.PathText(steps) + truncatedMark(r)
}

// rewriteText shows the addresses that a node changed (NAT).
func rewriteText(hop *record.Hop) string {
	var parts []string
	if hop.Src != "" || hop.Sport != nil {
		parts = append(parts, "src="+Endpoint(hop.Src, hop.Sport))
	}
	if hop.Dst != "" || hop.Dport != nil {
		parts = append(parts, "dst="+Endpoint(hop.Dst, hop.Dport))
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// truncatedMark stands behind a path whose history is not complete, unless the path says where.
func truncatedMark(r *record.Record) string {
	mark := ""
	if r.Unordered {
		mark = " (order not known)"
	}
	if r.Truncated && !slices.ContainsFunc(r.Hops, func(h record.Hop) bool { return h.Gap }) {
		return mark + record.IncompleteMark
	}
	return mark
}

// gapArrow leads to a hop before which others may be missing; "" if none are.
func gapArrow(h *record.Hop) string {
	if h.Gap {
		return record.GapArrow
	}
	return ""
}

// TTLEnd is ", TTL used up" where that is how the packet ended: a router got it with a TTL of 1,
// and did not send it on.
func TTLEnd(r *record.Record) string {
	if !r.TTLUsedUp() {
		return ""
	}
	return ", " + TTLName(r) + " used up"
}

// Loss says where and why a packet was lost, or freed after delivery: that was at
// the end of its path, so that the reason will do unless all is asked for.
func Loss(r *record.Record, wide bool) string {
	drop := r.LocalDrop
	switch {
	case len(r.Losses) > 0:
		return branchLossText(r, wide)
	case r.Loss != nil:
		return lossPlace(r.Loss)
	case drop == nil:
		return ""
	case wide || drop.Reason == "" && drop.Function == "":
		return "after delivery: " + lossPlace(drop)
	case drop.Reason == "" || drop.Reason == record.NotSpecified && drop.Function != "":
		return "after delivery: " + drop.Function
	}
	return "after delivery: " + drop.Reason
}

// branchLossText lists where copies were lost, or freed after delivery; the others of
// those only if all is asked for.
func branchLossText(r *record.Record, wide bool) string {
	var parts []string
	for i := range r.Losses {
		l := &r.Losses[i]
		switch {
		case !l.AfterDelivery:
			parts = append(parts, lossPlace(&l.Loss))
		case wide:
			parts = append(parts, "after delivery: "+lossPlace(&l.Loss))
		}
	}
	return strings.Join(parts, "; ")
}

// lossPlace is "r2/e1 queue QDISC_DROP (tbf, __dev_queue_xmit)".
func lossPlace(l *record.Loss) string {
	text := l.Node
	if l.Port != "" {
		text += "/" + l.Port
	}
	text += " " + string(l.At)
	if l.Reason != "" {
		text += " " + l.Reason
	}
	var more []string
	for _, s := range []string{l.Qdisc, l.Function} {
		if s != "" {
			more = append(more, s)
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text
}

// Said is what a switch has said of its queue and itself: " {queue 0: 12}".
func Said(h *record.Hop) string {
	var parts []string
	if depth, ok := h.INT["queue_occ"]; ok {
		parts = append(parts, fmt.Sprintf("queue %d: %d", h.INT["queue_id"], depth))
	}
	if latency, ok := h.INT["hop_latency"]; ok {
		parts = append(parts, fmt.Sprintf("latency %d", latency))
	}
	if len(parts) == 0 {
		return ""
	}
	return " {" + strings.Join(parts, ", ") + "}"
}

// TTLName is what IPv4 and IPv6 call it.
func TTLName(r *record.Record) string {
	if r.IPVersion == 6 {
		return "hop limit"
	}
	return "TTL"
}

// LoopMark stands behind the first round of a path that goes round in a circle.
const LoopMark = " > ...: loop"
