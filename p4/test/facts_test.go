// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"maps"
	"slices"
	"strconv"

	"github.com/vnetradar/radar/p4/recorded"
)

// facts are what is known of a recorded packet: INT that it bears, or the report that it is, and INT
// in what that quotes.
type facts struct {
	report *report
	quoted *packet // what the report quotes, behind an Ethernet header
	int    *inband
}

// factsOf reads a packet of a link.
func (c *testcase) factsOf(link string, frame []byte) facts {
	k := &check{testcase: c}
	if link != "T" {
		t, _ := k.findINT(frame)
		return facts{int: t}
	}
	load, _ := isReport(frame)
	r, ok := readReport(load)
	if !ok {
		return facts{}
	}
	kind := []byte{0x08, 0x00}
	if len(r.quote) > 0 && r.quote[0]>>4 == 6 {
		kind = []byte{0x86, 0xdd}
	}
	p := parse(slices.Concat(make([]byte, 12), kind, r.quote))
	t, _ := k.findINT(p.frame)
	return facts{report: r, quoted: p, int: t}
}

// nodes are the values of all hops, the newest first, and before them those of the report itself.
func (f facts) nodes(c *testcase) (all []values) {
	if f.report != nil {
		v := maps.Clone(f.report.values)
		v["node"] = uint64(f.report.node)
		if f.report.version == 10 {
			delete(v, "in") // is in the report's fixed part, and no metadata
		}
		all = append(all, v)
	}
	if f.int != nil {
		for _, hop := range f.int.stack {
			v, _, _ := readValues(f.int.bitmap, b2i(f.int.mode == md10), hop)
			all = append(all, v)
		}
	}
	return all
}

// number is a value as others print it: nothing where it is all ones, which means not known.
func number(v values, name string) (string, bool) {
	n, ok := v[name]
	unknown := n == 0xffffffff || n == 1<<64-1
	return strconv.FormatUint(n, 10), ok && !unknown
}

// inOrder calls f for each recorded packet of a case, in the order of the file.
func inOrder(r *recorded.Case, f func(number int, link string, p recorded.Packet)) {
	type on struct {
		link string
		recorded.Packet
	}
	var all []on
	for _, link := range recorded.Links {
		for _, p := range r.Packets[link] {
			all = append(all, on{link, p})
		}
	}
	slices.SortStableFunc(all, func(a, b on) int { return a.Time.Compare(b.Time) })
	for i, p := range all {
		f(i+1, p.link, p.Packet)
	}
}
