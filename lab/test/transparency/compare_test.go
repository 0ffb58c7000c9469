// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"maps"
)

// view is what one observer saw: flows of packets, each in order, and texts.
type view struct {
	flows map[string][][]byte
	lines []string
}

// views are what all observers saw, made comparable by rules.
func (r *Run) views() map[string]view {
	views := make(map[string]view)
	for _, c := range r.captures {
		if !r.world.isOutside(c.node, c.port) {
			continue
		}
		for _, s := range c.seen {
			frame, flow, skip := r.normal(s)
			if skip {
				continue
			}
			v, ok := views[s.where()]
			if !ok {
				v = view{flows: make(map[string][][]byte)}
				views[s.where()] = v
			}
			v.flows[flow] = append(v.flows[flow], frame)
		}
	}
	for _, rule := range r.c.rules() {
		for _, v := range views {
			for flow, frames := range v.flows {
				if rule.Whole != nil {
					v.flows[flow] = rule.Whole(frames)
				}
			}
		}
	}
	for name, lines := range r.observed {
		views[name] = view{lines: lines}
	}
	return views
}

// normal applies the rules to a copy of a frame.
func (r *Run) normal(s *sighting) (frame []byte, flow string, skip bool) {
	if r.skipped(s) && (r.c.Seen == nil || !r.c.Seen(s)) {
		return nil, "", true
	}
	frame = bytes.Clone(s.frame)
	for _, rule := range r.c.rules() {
		if rule.Apply != nil {
			rule.Apply(frame, s.decoded)
		}
	}
	return frame, flowOf(decode(frame, s.l3, s.proto)), false
}

// flowOf names what a packet's place in order is compared within.
func flowOf(d *decoded) string {
	switch {
	case d == nil:
		return "not readable"
	case d.fragment:
		return fmt.Sprintf("fragments of %d %v > %v", d.proto, d.src, d.dst)
	}
	return d.tuple()
}

// compare holds a run with radar against the one without and returns how many packets
// and lines it compared.
func compare(without, with map[string]view) (compared int, list []finding) {
	names := make(map[string]bool)
	for name := range without {
		names[name] = true
	}
	for name := range with {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := without[name], with[name]
		compared += max(len(a.lines), len(b.lines))
		list = append(list, compareLines(name, a.lines, b.lines)...)
		flows := maps.Clone(a.flows)
		if flows == nil {
			flows = make(map[string][][]byte)
		}
		for f := range b.flows {
			flows[f] = a.flows[f]
		}
		for _, f := range slices.Sorted(maps.Keys(flows)) {
			compared += max(len(a.flows[f]), len(b.flows[f]))
			list = append(list, compareFlow(name+": "+f, a.flows[f], b.flows[f])...)
		}
	}
	return compared, list
}

func compareLines(name string, a, b []string) (list []finding) {
	for i := range max(len(a), len(b)) {
		x, y := "(nothing)", "(nothing)"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			list = append(list, finding{difference, fmt.Sprintf("%s, line %d:\n  without %s\n  with    %s", name, i+1, x, y)})
		}
	}
	return list
}

// compareFlow compares two sequences of frames.
func compareFlow(name string, a, b [][]byte) []finding {
	if slices.EqualFunc(a, b, bytes.Equal) {
		return nil
	}
	missing, added := subtract(a, b), subtract(b, a)
	if len(missing)+len(added) == 0 {
		i := 0
		for bytes.Equal(a[i], b[i]) {
			i++
		}
		return []finding{{difference, fmt.Sprintf("%s: another order from packet %d of %d on", name, i+1, len(a))}}
	}
	var list []finding
	for i := range max(len(missing), len(added)) {
		var text strings.Builder
		text.WriteString(name + ":")
		switch {
		case i >= len(added):
			fmt.Fprintf(&text, " missing with radar\n  without %s", dump(missing[i], nil))
		case i >= len(missing):
			fmt.Fprintf(&text, " only with radar\n  with    %s", dump(added[i], nil))
		default:
			fmt.Fprintf(&text, "%s\n  without %s\n  with    %s", fields(missing[i], added[i]),
				dump(missing[i], added[i]), dump(added[i], missing[i]))
		}
		list = append(list, finding{difference, text.String()})
	}
	return list
}

// subtract returns what a has and b has not, in order.
func subtract(a, b [][]byte) [][]byte {
	have := make(map[string]int)
	for _, x := range b {
		have[string(x)]++
	}
	var left [][]byte
	for _, x := range a {
		if have[string(x)]--; have[string(x)] < 0 {
			left = append(left, x)
		}
	}
	return left
}

// fields names the header fields in which two packets differ.
func fields(a, b []byte) string {
	x, y := decode(a, false, 0), decode(b, false, 0)
	if x == nil || y == nil || x.version != 4 || y.version != 4 {
		return ""
	}
	var list []string
	p, q := a[x.l3:], b[y.l3:]
	for _, f := range []struct {
		name     string
		from, to int
	}{{"tos", 1, 2}, {"length", 2, 4}, {"id", 4, 6}, {"flags", 6, 8}, {"ttl", 8, 9}, {"sum", 10, 12}, {"src", 12, 16}, {"dst", 16, 20}} {
		if !bytes.Equal(p[f.from:f.to], q[f.from:f.to]) {
			list = append(list, fmt.Sprintf("%s %x/%x", f.name, p[f.from:f.to], q[f.from:f.to]))
		}
	}
	if !bytes.Equal(p[20:], q[20:]) {
		list = append(list, "behind the header")
	}
	return " differs in " + strings.Join(list, ", ")
}

// dump shows a frame in hex; bytes that other has differently are in brackets.
func dump(b, other []byte) string {
	var text strings.Builder
	const most = 160
	for i := range b {
		if i == most {
			fmt.Fprintf(&text, " ... %d bytes", len(b))
			break
		}
		if other != nil && (i >= len(other) || other[i] != b[i]) {
			fmt.Fprintf(&text, "[%02x]", b[i])
		} else {
			fmt.Fprintf(&text, "%02x", b[i])
		}
	}
	return text.String()
}
