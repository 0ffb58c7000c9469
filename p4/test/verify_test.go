// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"bytes"
	"fmt"
	"slices"
)

// verdict is what a case has shown.
type verdict struct {
	packets, stacks, reports int            // that were compared
	next                     map[int]uint32 // numbers of the reports that come next
	places                   [][5]int       // where each frame was seen, for the manifest
	faults                   []string
}

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

func (v *verdict) equal(got, want any, format string, args ...any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		v.fault("%s: %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

// seen is a frame of the case on one link.
type seen struct {
	frame []byte
	int   *inband // nil: it bears none
	place int     // among the frames of the link
}

// story is what became of a frame that was sent: what was seen of it on each link of its way.
type story struct {
	way   int // of ways
	links [4]*seen
}

// check is one case being compared with its evidence.
type check struct {
	*testcase
	*verdict
	ev      *evidence
	stories []*story
	reps    []*repInfo
	counted map[int]*counters // by what was captured
}

// verify compares everything that is known of a case.
func verify(c *testcase, ev *evidence) *verdict {
	k := newCheck(c, ev)
	k.run()
	return k.verdict
}

func newCheck(c *testcase, ev *evidence) *check {
	k := &check{testcase: c, verdict: new(verdict), ev: ev, counted: make(map[int]*counters)}
	for s := 1; s <= 4; s++ {
		k.counted[s] = &counters{Skipped: make(map[int]int), Done: make(map[int]int), Drops: make(map[int]int)}
	}
	for range ev.Sent {
		k.stories = append(k.stories, &story{way: -1})
	}
	return k
}

func (k *check) run() {
	k.equal(len(k.ev.Sent), len(k.frames), "frames sent")
	for i, f := range k.ev.Sent {
		if i >= len(k.frames) || !bytes.Equal(f, k.frames[i].bytes()) {
			k.fault("the evidence is of other frames than the case's: record it anew")
			return
		}
	}
	k.assign()
	for i := range k.stories {
		k.fate(i)
	}
	k.sampled()
	k.checkReports()
	k.compareCounters()
	for _, s := range k.stories {
		p := [5]int{s.way + 2, -1, -1, -1, -1}
		if s.way < 0 {
			p[0] = 0
		}
		for hop, l := range s.links {
			if l != nil {
				p[hop+1] = l.place
			}
		}
		k.places = append(k.places, p)
	}
}

// assign finds the sent frame of each frame that was captured.
func (k *check) assign() {
	k.packets = len(k.ev.Sent)
	k.equal(len(k.ev.Captured["A"]), len(k.ev.Sent), "frames on link A")
	for i, f := range k.ev.Captured["A"] {
		if i < len(k.ev.Sent) && !bytes.Equal(f, k.ev.Sent[i]) {
			k.fault("link A: frame %d is not what was sent: %x", i, f)
		} else if i < len(k.ev.Sent) {
			k.stories[i].links[0] = &seen{frame: f, int: k.frames[i].born, place: i}
		}
	}
	for hop := 1; hop <= 3; hop++ {
		for w, way := range ways {
			if hop == 3 && w == 1 {
				continue // B is the end of both
			}
			link := way[hop].link
			for n, f := range k.ev.Captured[link] {
				if !k.assignOne(f, w, hop, n) {
					k.fault("link %s: frame %d is of no frame that was sent, or is not as it should be (%v): %x", link, n, parse(f).faults, f)
				}
			}
		}
	}
}

// assignOne finds the first frame that was sent, has not been seen on this link yet, and is this one.
func (k *check) assignOne(f []byte, w, hop, place int) bool {
	t, sport := k.findINT(f)
	for i, s := range k.stories {
		if s.links[hop] != nil || hop == 1 && s.way >= 0 || hop == 2 && s.way != w || hop == 3 && s.way < 0 {
			continue
		}
		original := k.original(i)
		st := ways[w][hop]
		if hop == 3 {
			st = ways[s.way][hop]
		}
		if want := plain(original, hop, st); bytes.Equal(f, want) {
			s.links[hop] = &seen{frame: f}
		} else if same := plain(k.ev.Sent[i], hop, st); bytes.Equal(f, same) {
			s.links[hop] = &seen{frame: f, int: t} // INT that it came with, as it was
		} else if t != nil && parse(want).l4 != 0 && bytes.Equal(f, insert(want, t, k.mark, sport)) {
			s.links[hop] = &seen{frame: f, int: t}
		} else {
			continue
		}
		s.links[hop].place = place
		if hop == 1 {
			s.way = w
		}
		return true
	}
	return false
}

// original is the frame without the INT that it was sent with.
func (k *check) original(i int) []byte {
	if s := &k.frames[i]; s.born != nil {
		return s.frame.bytes()
	}
	return k.ev.Sent[i]
}

// findINT reads INT that bears the case's mark.
func (k *check) findINT(f []byte) (t *inband, sport uint16) {
	p := parse(f)
	if p.l4 == 0 {
		return nil, 0
	}
	marked := k.mark.mask != 0 && p.dscp&k.mark.mask == k.mark.dscp&k.mark.mask
	if k.mark.mask == 0 {
		marked = p.proto == 17 && p.dport() == int(k.mark.port)
	}
	if !marked {
		return nil, 0
	}
	t, ok := readINT(p.load(), k.mode == md10)
	if !ok {
		return nil, 0
	}
	return t, be.Uint16(f[p.l4:])
}

// fate says whether a frame went as far as it should, and whether its INT is right on each link.
func (k *check) fate(i int) {
	s, story := &k.frames[i], k.stories[i]
	reach := s.reach()
	for hop := 1; hop <= 3; hop++ {
		if there, want := story.links[hop] != nil, (hop < reach || s.lost == 0) && !(s.gone && hop == 3); there != want {
			k.fault("frame %d, %s: seen on link %d of its way: %v, want %v", i, s.name(), hop, there, want)
			return
		}
	}
	if s.lost != 0 {
		k.counted[k.node(i, reach-1)].Drops[s.why]++
	}
	if k.sample > 1 && s.skip == 0 && k.mode != xd && story.links[1].int == nil {
		s = &sent{frame: s.frame, skip: skipNotSampled} // whether that is right, sampled says
	}
	k.countSkips(i, s)
	if s.born != nil && s.skip == 0 {
		k.stack(i, s)
		return
	}
	for hop := 1; hop <= 3; hop++ {
		l := story.links[hop]
		if l == nil {
			continue
		}
		marked := k.mode != xd && s.skip == 0 && hop < 3
		if k.mode == xd || s.skip != 0 && s.born != nil {
			marked = l.int != nil // is as it was sent: assignOne compares every byte
		}
		if (l.int != nil) != marked {
			k.fault("frame %d, %s: INT on link %d of its way: %v, want %v", i, s.name(), hop, l.int != nil, marked)
			return
		}
	}
	if k.mode != xd && s.skip == 0 {
		k.stack(i, s)
	}
}

func (s *sent) name() string {
	return fmt.Sprintf("%s/IPv%d to port %d with %d bytes", s.proto, s.version(), s.dport, len(s.payload))
}

// node is the switch at the end of link hop of the frame's way.
func (k *check) node(i, hop int) int {
	if hop == 1 {
		return k.stories[i].way + 2
	}
	return map[int]int{0: 1, 2: 4}[hop]
}

// stack compares INT on the links between switches with what these know.
func (k *check) stack(i int, s *sent) {
	story := k.stories[i]
	hops := 0
	var before [][]byte
	remaining := k.hops()
	if s.born != nil {
		before, remaining = s.born.stack, int(s.born.remaining)
	}
	for hop := 1; hop <= 2; hop++ {
		l := story.links[hop]
		if l == nil || l.int == nil {
			continue
		}
		t, at := l.int, fmt.Sprintf("frame %d, link %s", i, ways[story.way][hop].link)
		k.stacks++
		for _, f := range append(t.faults, parse(l.frame).faults...) {
			if s.damage == 0 || f != "L4 checksum" {
				k.fault("%s: %s", at, f)
			}
		}
		k.equal(t.mode, k.mode, "%s: mode", at)
		k.header(at, s, t)
		if k.mode == mx {
			continue
		}
		adds := hop == 1 && (s.born == nil || s.next == 0) || hop == 2 && s.next == 0
		if adds {
			remaining--
			hops++
			before = append([][]byte{nil}, before...)
		}
		k.equal(t.remaining, remaining, "%s: remaining hop count", at)
		k.equal(len(t.stack), len(before), "%s: hops", at)
		k.equal(t.e, s.next == skipHops && (hop == 2 || s.born != nil), "%s: E", at)
		k.equal(t.m, s.next == skipMTU && hop == 2, "%s: M", at)
		for n := range min(len(t.stack), len(before)) {
			if before[n] != nil && !bytes.Equal(before[n], t.stack[n]) {
				k.fault("%s: hop %d is %x, and was %x", at, n, t.stack[n], before[n])
			}
		}
		if adds && len(t.stack) > 0 {
			switchOfHop := k.node(i, hop-1)
			v, _, unknown := readValues(k.bitmap, b2i(k.mode == md10), t.stack[0])
			if !unknown {
				k.fault("%s: values that a switch cannot know are not all ones", at)
			}
			k.values(at, v, switchOfHop, i, hop-1, k.mode == md10)
		}
		before = slices.Clone(t.stack)
	}
}

// header compares what the source has written.
func (k *check) header(at string, s *sent, t *inband) {
	want, npt, original := k.bitmap, byte(0), uint16(s.dscp)
	if k.mode == mx {
		want &^= 1
	}
	switch {
	case k.mark.mask == 0 && protoNumber(s.proto) == 17:
		npt, original = 1, s.dport
	case k.mark.mask == 0:
		npt, original = 2, 6
	}
	domain := k.domain
	if k.mode == md10 {
		domain = 0
	}
	k.equal([]any{t.bitmap, t.domain, t.npt, t.original, t.d}, []any{want, domain, npt, original, s.gone}, "%s: header", at)
}

// values compares what a switch says of itself with what is known of it. hop is the link by which
// the packet came. short: times have 32 bits.
func (k *check) values(at string, v values, s, i, hop int, short bool) {
	st := ways[max(k.stories[i].way, 0)][hop]
	for name, n := range v {
		want := n
		switch name {
		case "node":
			want = uint64(nodeID(s))
		case "ports":
			want = uint64(st.in)<<16 | uint64(st.out)
		case "l2":
			want = uint64(l2Port(s, st.in))<<32 | uint64(l2Port(s, st.out))
		case "queue":
			want = n & 0xffffff // of queue 0
		case "latency":
			want = max(n-n%1000, 1000)
			in, has := v["in"]
			if out, both := v["out"]; has && both {
				want = min(out-in, 0xfffffffe)
				if short && n != 0xfffffffe {
					want = uint64(uint32(out) - uint32(in))
				}
			}
		}
		if n != want {
			k.fault("%s: %s of s%d is %#x, want %#x", at, name, s, n, want)
		}
	}
}

// sampled says whether about one packet in so many was taken. Which ones, a hash decides.
func (k *check) sampled() {
	if k.sample <= 1 || k.mode == xd {
		return
	}
	n := 0
	for _, s := range k.stories {
		if s.links[1] != nil && s.links[1].int != nil {
			n++
		}
	}
	if all := len(k.stories); n < all/k.sample/3 || n > min(3*all/k.sample, all-1) {
		k.fault("%d of %d packets bear INT, want about one in %d", n, all, k.sample)
	}
}
