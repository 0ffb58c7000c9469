// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
)

// matcher is a slice in numbers. Lists that are empty match everything.
type matcher struct {
	src, dst     []netip.Prefix
	sport, dport []portRange
	proto, expr  string
	dscp         *uint8
}

// matcher reads a slice that Check has passed.
func (s *Slice) matcher() matcher {
	src, _ := prefixes("", s.Src)
	dst, _ := prefixes("", s.Dst)
	return matcher{src, dst, ranges(s.Sport), ranges(s.Dport), s.Proto, s.Expr, s.DSCP}
}

// ranges are those of a list, merged where they touch, in order.
func ranges(list []string) (merged []portRange) {
	var all []portRange
	for _, text := range list {
		if r, err := parsePorts(text); err == nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b portRange) int { return cmp.Compare(a.first, b.first) })
	for _, r := range all {
		if n := len(merged); n > 0 && int(r.first) <= int(merged[n-1].last)+1 {
			merged[n-1].last = max(merged[n-1].last, r.last)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// all reports whether the slice is all TCP and UDP.
func (m *matcher) all() bool {
	return len(m.src)+len(m.dst)+len(m.sport)+len(m.dport) == 0 && m.proto == "" && m.expr == "" && m.dscp == nil
}

// covers reports whether every packet of b matches a, as far as that is known: an expression is known to
// cover the same expression only.
func (m *matcher) covers(b *matcher) bool {
	if m.all() || m.expr != "" && m.expr == b.expr {
		return true
	}
	if m.expr != "" || b.expr != "" {
		return false
	}
	within := func(list, of []netip.Prefix) bool {
		return len(list) == 0 || len(of) > 0 && !slices.ContainsFunc(of, func(p netip.Prefix) bool {
			return !slices.ContainsFunc(list, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) })
		})
	}
	inRanges := func(list, of []portRange) bool {
		return len(list) == 0 || len(of) > 0 && !slices.ContainsFunc(of, func(p portRange) bool {
			return !slices.ContainsFunc(list, func(q portRange) bool { return q.first <= p.first && p.last <= q.last })
		})
	}
	return within(m.src, b.src) && within(m.dst, b.dst) && inRanges(m.sport, b.sport) && inRanges(m.dport, b.dport) &&
		(m.proto == "" || m.proto == b.proto) && (m.dscp == nil || b.dscp != nil && *m.dscp == *b.dscp)
}

// overlaps reports whether a packet can match both. For expressions that is not known, and the answer is no.
func (m *matcher) overlaps(b *matcher) bool {
	if m.covers(b) || b.covers(m) {
		return true
	}
	if m.expr != "" || b.expr != "" {
		return false
	}
	meet := func(list, of []netip.Prefix) bool {
		return len(list) == 0 || len(of) == 0 || slices.ContainsFunc(list, func(p netip.Prefix) bool {
			return slices.ContainsFunc(of, p.Overlaps)
		})
	}
	meetRanges := func(list, of []portRange) bool {
		return len(list) == 0 || len(of) == 0 || slices.ContainsFunc(list, func(p portRange) bool {
			return slices.ContainsFunc(of, func(q portRange) bool { return p.first <= q.last && q.first <= p.last })
		})
	}
	return meet(m.src, b.src) && meet(m.dst, b.dst) && meetRanges(m.sport, b.sport) && meetRanges(m.dport, b.dport) &&
		(m.proto == "" || b.proto == "" || m.proto == b.proto) && (m.dscp == nil || b.dscp == nil || *m.dscp == *b.dscp)
}

// conflicts are the pairs of intents, in their order, that match the same packets. There may be too many
// to be of use: some are left out then.
func conflicts(list []Intent) (found []Conflict) {
	const most = 256
	matchers := make([]matcher, len(list))
	for i := range list {
		matchers[i] = list[i].Slice.matcher()
	}
	for i := range list {
		for k := range i {
			a, b := &list[k], &list[i]
			if (a.mode() == Backpack) != (b.mode() == Backpack) || !shareDevice(a, b) || !matchers[k].overlaps(&matchers[i]) {
				continue
			}
			c := Conflict{First: a.Name, Second: b.Name, Whole: matchers[k].covers(&matchers[i]) && isWithin(b.Devices, a.Devices)}
			switch {
			case c.Whole && matchers[i].covers(&matchers[k]):
				c.Text = fmt.Sprintf("%s and %s are of the same packets: %s gets all of them", a.Name, b.Name, a.Name)
			case c.Whole:
				c.Text = fmt.Sprintf("all packets of %s are of %s, too, which comes first: it gets all of them", b.Name, a.Name)
			default:
				c.Text = fmt.Sprintf("some packets are of %s and of %s: %s gets them", a.Name, b.Name, a.Name)
			}
			if found = append(found, c); len(found) == most {
				return found
			}
		}
	}
	return found
}

func shareDevice(a, b *Intent) bool {
	return len(a.Devices) == 0 || len(b.Devices) == 0 || slices.ContainsFunc(a.Devices, func(d string) bool { return slices.Contains(b.Devices, d) })
}

// isWithin reports whether one list of devices is part of another one. None stands for all.
func isWithin(list, of []string) bool {
	return len(of) == 0 || len(list) > 0 && !slices.ContainsFunc(list, func(d string) bool { return !slices.Contains(of, d) })
}

// maxExpanded bounds the entries that one intent becomes at one device.
const maxExpanded = 65536

// expand makes slices with one value a field, and without ranges that are no prefix if the device does
// none. ok is false if there are too many.
func (s *Slice) expand(ranged bool) (all []Slice, ok bool) {
	sport, dport := portValues(s.Sport, ranged), portValues(s.Dport, ranged)
	src, dst := values(s.Src), values(s.Dst)
	if len(src)*len(dst)*len(sport)*len(dport) > maxExpanded {
		return nil, false
	}
	for _, a := range src {
		for _, b := range dst {
			if a != nil && b != nil && strings.Contains(a[0], ":") != strings.Contains(b[0], ":") {
				continue // no packet has both
			}
			for _, p := range sport {
				for _, q := range dport {
					all = append(all, Slice{Src: a, Dst: b, Proto: s.Proto, Sport: p, Dport: q, DSCP: s.DSCP})
				}
			}
		}
	}
	return all, true
}

// values are lists of one each; nil, which matches everything, if there is none.
func values(list []string) (all [][]string) {
	for _, v := range list {
		all = append(all, []string{v})
	}
	if len(all) == 0 {
		return [][]string{nil}
	}
	return all
}

func portValues(list []string, ranged bool) [][]string {
	var texts []string
	for _, r := range ranges(list) {
		if ranged {
			texts = append(texts, r.String())
			continue
		}
		for _, p := range r.prefixes() {
			texts = append(texts, p.String())
		}
	}
	return values(texts)
}

func (r portRange) String() string {
	if r.first == r.last {
		return fmt.Sprint(r.first)
	}
	return fmt.Sprintf("%d-%d", r.first, r.last)
}

// prefixes are the fewest ranges of a power of two, at a multiple of it, that make up the range.
func (r portRange) prefixes() (all []portRange) {
	for first, end := uint32(r.first), uint32(r.last)+1; first < end; {
		size := uint32(1) << min(bits.TrailingZeros32(first|1<<16), bits.Len32(end-first)-1)
		all = append(all, portRange{uint16(first), uint16(first + size - 1)})
		first += size
	}
	return all
}

// wider is a slice of more packets that needs one entry: prefixes and ranges around all values.
func (s *Slice) wider() Slice {
	w := Slice{Proto: s.Proto, DSCP: s.DSCP, Src: around(s.Src), Dst: around(s.Dst)}
	for _, f := range []struct {
		from []string
		to   *[]string
	}{{s.Sport, &w.Sport}, {s.Dport, &w.Dport}} {
		list := ranges(f.from)
		if len(list) == 0 {
			continue
		}
		first, last := list[0].first, list[len(list)-1].last
		size := bits.Len16(first ^ last)
		r := portRange{uint16(uint32(first) >> size << size), uint16(uint32(last) | (1<<size - 1))}
		if size < 16 {
			*f.to = []string{r.String()}
		}
	}
	return w
}

// around is the one prefix that all are part of; none if they are of both versions.
func around(list []string) []string {
	all, _ := prefixes("", list)
	if len(all) == 0 {
		return nil
	}
	p := all[0]
	for _, q := range all[1:] {
		if p.Addr().Is4() != q.Addr().Is4() {
			return nil
		}
		for p.Bits() > q.Bits() || !p.Contains(q.Addr()) {
			if p.Bits() == 0 {
				return nil
			}
			p = netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked()
		}
	}
	return []string{p.String()}
}

// String is the slice in one line.
func (s *Slice) String() string {
	if s.Expr != "" {
		return "expr " + fmt.Sprintf("%q", s.Expr)
	}
	var words []string
	if s.Proto != "" {
		words = append(words, s.Proto)
	}
	for _, f := range []struct {
		name string
		list []string
	}{{"src", s.Src}, {"sport", s.Sport}, {"dst", s.Dst}, {"dport", s.Dport}} {
		if len(f.list) > 0 {
			words = append(words, f.name+" "+strings.Join(f.list, ","))
		}
	}
	if s.DSCP != nil {
		words = append(words, fmt.Sprintf("dscp %d", *s.DSCP))
	}
	if len(words) == 0 {
		return "all TCP and UDP"
	}
	return strings.Join(words, " ")
}
