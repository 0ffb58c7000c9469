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
	has   string  // somewhere behind
	times []times // of the durations
}

// times is a duration, ns, as captures have it and as the record does; -1: it does not.
type times struct{ seen, told int64 }

// digits is the relative error of a duration that is told with three digits.
const digits = 0.0051

// tells says whether a printed duration is the record's.
func (d times) tells(printed int64) bool {
	diff := printed - d.told
	return float64(max(diff, -diff)) <= 1+digits*float64(max(d.told, -d.told))
}

var duration = regexp.MustCompile(`\+?\b\d+(\.\d+)?(ns|us|ms|s)\b`)

// storyProblem compares a story line by line. Its times are the record's; how far they are
// from the captures' goes to row.
func (c *Comparison) storyProblem(p pair, story []string, row *timeRow) string {
	want, parts := c.story(p)
	var lines []string
	longest := ""
	for _, line := range story {
		line = strings.Join(strings.Fields(line), " ")
		local := strings.Contains(line, " DROPPED after delivery: ") || strings.HasPrefix(line, "It counts as delivered: ")
		switch {
		case local && p.fate.state == record.Delivered: // by the node itself: captures do not tell
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
			case !ns.tells(int64(d)):
				return fmt.Sprintf("line %d: %s, the record has %.3f us", i+1, found[k], us(ns.told))
			}
			row.compare(fmt.Sprintf("%s, line %d", p.r.ID, i+1), int64(d), ns.seen)
		}
	}
	return ""
}

// longestProblem compares what is said to have taken longest ("": nothing is said) with
// the parts of the way.
func longestProblem(line string, parts []storyLine) string {
	if len(parts) < 2 {
		if line != "" {
			return "nothing to be said in: " + line
		}
		return ""
	}
	slices.SortStableFunc(parts, func(a, b storyLine) int { return cmp.Compare(b.times[0].told, a.times[0].told) })
	want := parts[0].text
	if !strings.HasPrefix(duration.ReplaceAllString(line, "~"), want) {
		return fmt.Sprintf("it says %q, should be %q", line, want)
	}
	if d, err := time.ParseDuration(duration.FindString(line)); err != nil || !parts[0].times[0].tells(int64(d)) {
		return fmt.Sprintf("it says %q, the record has %.3f us", line, us(parts[0].times[0].told))
	}
	return ""
}

// story is what radar must tell of a packet, without what the node that got it did with
// it, and the parts of the way that may have taken longest.
func (c *Comparison) story(p pair) (lines, parts []storyLine) {
	hops := p.fate.hops
	way := passage{fate: p.fate}
	way.sight()
	head := storyLine{text: p.r.ID + ": lost"}
	switch p.fate.state {
	case record.Delivered:
		head.text = p.r.ID + ": delivered"
	case record.Left:
		head.text = p.r.ID + ": left the domain"
	}
	if p.fate.state != record.Lost && way.from != way.to {
		head.text, head.times = head.text+" after ~", []times{{way.ns(), told(p.r.LatencyNs)}}
	}
	lines = append(lines, head, c.headLine(p))
	queued := p.fate.drop != nil && p.fate.drop.At == record.AtQueue
	forwards := 0
	for i, v := range hops {
		if v.in != nil && (v.out != nil || queued && i == len(hops)-1) {
			forwards++
		}
	}
	if forwards > 0 {
		lines = append(lines, storyLine{text: fmt.Sprintf("changed on the way: %s %d > %d", ttlName(p.origin.Packet), p.ttl, p.ttl-forwards)})
	}
	for i := range hops {
		step, longest := c.step(p, i, way.from.at)
		lines = append(lines, step)
		parts = append(parts, longest...)
	}
	if d := p.fate.drop; d != nil {
		lines = append(lines, c.lossLine(p, way.from.at))
	}
	if p.fate.state == record.Lost {
		parts = nil // what did not arrive took no time that could be shared out
	}
	return lines, parts
}

// told is a time of a record, -1 if it has none.
func told(ns *int64) int64 {
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

// headLine is who and what, behind the time.
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

// waited says whether radar saw the packet of p leave the queue where it went out on visit
// i: what it did not see is on the link.
func (c *Comparison) waited(p pair, i int) bool {
	v := p.fate.hops[i]
	return v.out != nil && c.queued(v.out) && p.r.Hops[i].QueueNs != nil
}

// step is visit i, and its times on the link, in the node and in the queue as a remark on
// what took longest would have them.
func (c *Comparison) step(p pair, i int, begin int64) (step storyLine, parts []storyLine) {
	f := p.fate
	v := f.hops[i]
	first := v.in
	if v.in == nil {
		first = v.out
	}
	h, m := &p.r.Hops[i], momentsOf(p.r, i)
	came := m.in
	if came == nil {
		came = m.out
	}
	step = storyLine{text: "~ " + v.node + " ", times: []times{{first.at - begin, since(p.r.TNs, came)}}}
	if i == 0 {
		step = storyLine{text: "0 " + v.node + " "}
	}
	var says []string
	switch {
	case v.in != nil && i == 0:
		says = append(says, "enters the domain by "+v.inPort())
	case v.in != nil:
		prev := f.hops[i-1]
		from, name := prev.out, linkName(prev.out, v.in)
		if !c.waited(p, i-1) {
			name += ", with the queue of " + prev.out.place.ref().String()
			if c.queued(from) && prev.in != nil {
				from = prev.in
			}
		}
		ns := times{v.in.at - from.at, told(h.LinkNs)}
		says = append(says, "in by "+v.inPort()+" after ~ on the link")
		step.times = append(step.times, ns)
		parts = append(parts, storyLine{"Longest: the link " + name + ": ~, ", "% of the time.", []times{ns}})
	}
	last := i == len(f.hops)-1
	dropped := last && f.drop != nil && f.drop.At == record.AtQueue
	switch {
	case v.out != nil && v.in == nil && last && f.state == record.Left:
		says = append(says, "leaves the domain by "+v.outPort())
	case v.out != nil && v.in == nil:
		says = append(says, "sent by "+v.outPort())
	case v.out != nil || dropped:
		verb, port, ns := "out by ", v.outPort(), times{told: told(h.NodeNs)} // at once, if there is a queue behind
		if last && f.state == record.Left {
			verb = "leaves the domain by "
		}
		if dropped {
			port = f.drop.Port
		} else if !c.queued(v.out) {
			ns.seen = v.out.at - v.in.at
		}
		says = append(says, verb+port+" after ~ inside")
		step.times = append(step.times, ns)
		parts = append(parts, storyLine{"Longest: inside " + v.node + ": ~, ", "% of the time.", []times{ns}})
		if c.waited(p, i) {
			ns = times{v.out.at - v.in.at, told(h.QueueNs)}
			says = append(says, "after ~ in its queue")
			step.times = append(step.times, ns)
			parts = append(parts, storyLine{fmt.Sprintf("Longest: in the queue of %s: ~, ", v.out.place.ref()), "% of the time.", []times{ns}})
		}
	case last && f.state == record.Delivered:
		says = append(says, "delivered")
	}
	step.text += strings.Join(says, ", ")
	return step, parts
}

// lossLine is where and why. Whatever drops does so as soon as the packet is there.
func (c *Comparison) lossLine(p pair, begin int64) storyLine {
	f := p.fate
	v := f.hops[len(f.hops)-1]
	lost := int64(-1)
	if p.r.Loss != nil {
		lost = told(p.r.Loss.AtNs)
	}
	line := storyLine{text: "~ " + v.node + " LOST inside the node: ", times: []times{{v.in.at - begin, lost}}}
	if f.drop.At == record.AtQueue {
		port := c.truth.topo.port(Ref{v.node, f.drop.Port})
		line.text = fmt.Sprintf("~ %s LOST in the queue of %s (%s): ", v.node, f.drop.Port, port.Queue.Kind)
	}
	if len(f.drop.Reasons) == 1 {
		line.has = "[" + f.drop.Reasons[0]
	}
	return line
}
