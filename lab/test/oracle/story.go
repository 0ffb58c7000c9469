// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// storyLine is a line that a story must have.
type storyLine struct {
	text  string  // its beginning, with ~ for durations and without double spaces
	has   string  // anywhere after that
	times []times // of the durations
}

// times is a duration, ns, by the captures and by the record; -1: the record has none.
type times struct{ seen, recorded int64 }

// digits is the relative error of a duration that is printed with three digits.
const digits = 0.0051

// agrees reports whether a printed duration is the record's.
func (d times) agrees(printed int64) bool {
	diff := printed - d.recorded
	return float64(max(diff, -diff)) <= 1+digits*float64(max(d.recorded, -d.recorded))
}

var duration = regexp.MustCompile(`\+?\b\d+(\.\d+)?(ns|us|ms|s)\b`)

// storyProblem compares a story line by line. Its times must be the record's. row gets how
// far they are from the captures'.
func (c *Comparison) storyProblem(p pair, story []string, row *timeRow) string {
	want, parts := c.story(p)
	var lines []string
	longest := ""
	for _, line := range story {
		line = strings.Join(strings.Fields(line), " ")
		local := strings.Contains(line, " DROPPED after delivery: ") || strings.HasPrefix(line, "It counts as delivered: ")
		switch {
		case local && p.outcome.state == record.Delivered: // captures do not show what the node itself drops
		case strings.HasPrefix(line, "Longest: "):
			longest = line
		default:
			lines = append(lines, line)
		}
	}
	if s := longestProblem(longest, parts); s != "" {
		return s
	}
	if len(lines) != len(want) {
		return fmt.Sprintf("%d lines, should be %d", len(lines), len(want))
	}
	for i, line := range lines {
		if i == 1 {
			const layout = "2006-01-02 15:04:05.000000000 "
			at, err := time.ParseInLocation(layout, line[:min(len(layout), len(line))], time.Local)
			if err != nil || at.UnixNano() != p.r.TNs {
				return fmt.Sprintf("line 2 should begin with %v", time.Unix(0, p.r.TNs))
			}
			line = line[len(layout):]
		}
		text, found := duration.ReplaceAllString(line, "~"), duration.FindAllString(line, -1)
		if w := want[i]; !strings.HasPrefix(text, w.text) || !strings.Contains(text, w.has) || len(found) != len(w.times) {
			return fmt.Sprintf("line %d should be %q ... %q", i+1, w.text, w.has)
		}
		for k, ns := range want[i].times {
			d, err := time.ParseDuration(found[k])
			switch {
			case err != nil:
				return err.Error()
			case !ns.agrees(int64(d)):
				return fmt.Sprintf("line %d: %s, the record has %.3f us", i+1, found[k], us(ns.recorded))
			}
			row.compare(fmt.Sprintf("%s, line %d", p.r.ID, i+1), int64(d), ns.seen)
		}
	}
	return ""
}

// longestProblem compares the line about the part that took longest ("": there is none) with
// the parts of the path.
func longestProblem(line string, parts []storyLine) string {
	if len(parts) < 2 {
		if line != "" {
			return "nothing to be said in: " + line
		}
		return ""
	}
	slices.SortStableFunc(parts, func(a, b storyLine) int { return cmp.Compare(b.times[0].recorded, a.times[0].recorded) })
	want := parts[0].text
	if !strings.HasPrefix(duration.ReplaceAllString(line, "~"), want) {
		return fmt.Sprintf("it says %q, should be %q", line, want)
	}
	if d, err := time.ParseDuration(duration.FindString(line)); err != nil || !parts[0].times[0].agrees(int64(d)) {
		return fmt.Sprintf("it says %q, the record has %.3f us", line, us(parts[0].times[0].recorded))
	}
	return ""
}

// story returns the lines that radar must print about a packet, except drops by the node that
// got it, and the parts of the path that may have taken longest.
func (c *Comparison) story(p pair) (lines, parts []storyLine) {
	hops := p.outcome.hops
	seen := transit{outcome: p.outcome}
	seen.sight()
	head := storyLine{text: p.r.ID + ": lost"}
	switch p.outcome.state {
	case record.Delivered:
		head.text = p.r.ID + ": delivered"
	case record.Left:
		head.text = p.r.ID + ": left the domain"
	}
	if p.outcome.state != record.Lost && seen.from != seen.to {
		head.text, head.times = head.text+" after ~", []times{{seen.ns(), recorded(p.r.LatencyNs)}}
	}
	lines = append(lines, head, c.headLine(p))
	queued := p.outcome.drop != nil && p.outcome.drop.At == record.AtQueue
	forwards := 0
	for i, h := range hops {
		if h.in != nil && (h.out != nil || queued && i == len(hops)-1) {
			forwards++
		}
	}
	if forwards > 0 {
		lines = append(lines, storyLine{text: fmt.Sprintf("changed on the way: %s %d > %d", ttlName(p.origin.Packet), p.ttl, p.ttl-forwards)})
	}
	for i := range hops {
		step, longest := c.step(p, i, seen.from.at)
		lines = append(lines, step)
		parts = append(parts, longest...)
	}
	if d := p.outcome.drop; d != nil {
		lines = append(lines, c.lossLine(p, seen.from.at))
	}
	if p.outcome.state == record.Lost {
		parts = nil // radar names no part of a packet that did not arrive
	}
	return lines, parts
}

// recorded is a time of a record, -1 if it has none.
func recorded(ns *int64) int64 {
	if ns == nil {
		return -1
	}
	return *ns
}

// since is how long after begin a moment of a record was.
func since(begin int64, at *int64) int64 {
	if at == nil {
		return -1
	}
	return *at - begin
}

func ttlName(p *Packet) string {
	if p.isIPv6() {
		return "hop limit"
	}
	return "TTL"
}

// headLine is the packet's header, behind the time.
func (c *Comparison) headLine(p pair) storyLine {
	o := p.origin
	tail := fmt.Sprintf(", %d bytes, %s %d", o.length(), ttlName(o.Packet), p.ttl)
	switch {
	case o.isIPv6():
		tail += fmt.Sprintf(", flow label 0x%05x", o.Label)
	default:
		tail += fmt.Sprintf(", id %d", o.id())
	}
	ends := func(addr netip.Addr, port int) string { return netip.AddrPortFrom(addr, uint16(port)).String() }
	switch {
	case o.fragment():
		return storyLine{text: protoName(o.Proto) + " " + o.Src.String(), has: tail}
	case o.Sport >= 0:
		return storyLine{text: fmt.Sprintf("%s %s > %s", protoName(o.Proto), ends(o.Src, o.Sport), ends(o.Dst, o.Dport)) + tail}
	}
	return storyLine{text: fmt.Sprintf("%s %s > %s", protoName(o.Proto), o.Src, o.Dst), has: tail}
}

// waited reports whether radar saw the packet leave the queue of hop i. If not, the wait
// counts as time on the link.
func (c *Comparison) waited(p pair, i int) bool {
	h := p.outcome.hops[i]
	return h.out != nil && c.queued(h.out) && p.r.Hops[i].QueueNs != nil
}

// hopLine is a line about a hop as it is made.
type hopLine struct {
	storyLine
	says  []string
	parts []storyLine // its times as a line about the longest part would have them
}

// add says that something took ns; name is what took it.
func (l *hopLine) add(says string, ns times, name string) {
	l.says = append(l.says, says)
	l.times = append(l.times, ns)
	l.parts = append(l.parts, storyLine{"Longest: " + name + ": ~, ", "% of the time.", []times{ns}})
}

// step is the line about hop i, and the parts of the path in it.
func (c *Comparison) step(p pair, i int, begin int64) (step storyLine, parts []storyLine) {
	h := p.outcome.hops[i]
	first := h.in
	if h.in == nil {
		first = h.out
	}
	m := momentsOf(p.r, i)
	came := m.in
	if came == nil {
		came = m.out
	}
	var l hopLine
	l.text, l.times = "~ "+h.node+" ", []times{{first.at - begin, since(p.r.TNs, came)}}
	if i == 0 {
		l.text, l.times = "0 "+h.node+" ", nil
	}
	if h.in != nil {
		c.comesIn(&l, p, i)
	}
	c.goesOut(&l, p, i)
	l.text += strings.Join(l.says, ", ")
	return l.storyLine, l.parts
}

// comesIn adds how the packet came into hop i.
func (c *Comparison) comesIn(l *hopLine, p pair, i int) {
	h := p.outcome.hops[i]
	if i == 0 {
		l.says = append(l.says, "enters the domain by "+h.inPort())
		return
	}
	prev := p.outcome.hops[i-1]
	from, name := prev.out, "the link "+linkName(prev.out, h.in)
	if !c.waited(p, i-1) {
		name += ", with the queue of " + prev.out.place.ref().String()
		if c.queued(from) && prev.in != nil {
			from = prev.in
		}
	}
	l.add("in by "+h.inPort()+" after ~ on the link", times{h.in.at - from.at, recorded(p.r.Hops[i].LinkNs)}, name)
}

// goesOut adds how the packet left hop i, or that it was delivered there.
func (c *Comparison) goesOut(l *hopLine, p pair, i int) {
	o, said := p.outcome, &p.r.Hops[i]
	h, last := o.hops[i], i == len(o.hops)-1
	verb := "out by "
	switch {
	case last && o.state == record.Left:
		verb = "leaves the domain by "
	case h.in == nil:
		verb = "sent by "
	}
	dropped := last && o.drop != nil && o.drop.At == record.AtQueue
	switch {
	case h.out != nil && h.in == nil:
		l.says = append(l.says, verb+h.outPort())
	case h.out != nil || dropped:
		port, ns := h.outPort(), times{recorded: recorded(said.NodeNs)} // 0 by the captures, if a queue is behind
		if dropped {
			port = o.drop.Port
		} else if !c.queued(h.out) {
			ns.seen = h.out.at - h.in.at
		}
		l.add(verb+port+" after ~ inside", ns, "inside "+h.node)
		if c.waited(p, i) {
			l.add("after ~ in its queue", times{h.out.at - h.in.at, recorded(said.QueueNs)}, fmt.Sprintf("in the queue of %s", h.out.place.ref()))
		}
	case last && o.state == record.Delivered:
		l.says = append(l.says, "delivered")
	}
}

// lossLine is where and why. A packet is dropped as soon as it is there.
func (c *Comparison) lossLine(p pair, begin int64) storyLine {
	o := p.outcome
	h := o.hops[len(o.hops)-1]
	lost := int64(-1)
	if p.r.Loss != nil {
		lost = recorded(p.r.Loss.AtNs)
	}
	line := storyLine{text: "~ " + h.node + " LOST inside the node: ", times: []times{{h.in.at - begin, lost}}}
	if o.drop.At == record.AtQueue {
		port := c.truth.topo.port(Ref{h.node, o.drop.Port})
		line.text = fmt.Sprintf("~ %s LOST in the queue of %s (%s): ", h.node, o.drop.Port, port.Queue.Kind)
	}
	if len(o.drop.Reasons) == 1 {
		line.has = "[" + o.drop.Reasons[0]
	}
	return line
}
