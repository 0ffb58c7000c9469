// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"bytes"
	"fmt"
	"maps"
)

// repInfo is a report that was captured, and the frame that it is about.
type repInfo struct {
	*report
	s, i, hop int // the switch, the frame, the link by which that came
}

// checkReports compares every report with the packet that it is about, and looks for those that
// are missing.
func (k *check) checkReports() {
	next := maps.Clone(k.ev.Next)
	for n, f := range k.ev.Captured["T"] {
		load, ok := isReport(f)
		r, read := (*report)(nil), false
		if ok {
			r, read = readReport(load)
		}
		if !read {
			k.fault("link T: frame %d is no report: %x", n, f)
			continue
		}
		at := fmt.Sprintf("report %d", n)
		info := k.about(at, r)
		if info == nil {
			k.fault("%s of node %#x is about no packet: %x", at, r.node, f)
			continue
		}
		k.reports++
		k.reps = append(k.reps, info)
		k.envelope(at, f, info)
		k.equal(r.sequence, next[info.s], "%s of s%d: sequence number", at, info.s)
		next[info.s] = r.sequence + 1
		k.content(at, info)
		done := k.counted[info.s].Done
		done[doneSent]++
		done[doneFlow] += b2i(r.flow && !r.dropped && !r.between)
		done[doneQueue] += b2i(r.congested)
	}
	k.next = next
	k.complete()
}

// about finds the frame that a report quotes: it begins as that came to the switch.
func (k *check) about(at string, r *report) *repInfo {
	for i, s := range k.stories {
		for hop := range 3 {
			l := s.links[hop]
			if l == nil || k.node(i, hop) != switchOf(r.node) || hop >= k.frames[i].reach() {
				continue
			}
			p := parse(l.frame)
			if !bytes.HasPrefix(p.ip(), r.quote) || k.had(r, i) {
				continue
			}
			if want := quoteLength(p, k.anyINT(p, l)); len(r.quote) != want {
				k.fault("%s of frame %d: it quotes %d bytes, want %d", at, i, len(r.quote), want)
			}
			return &repInfo{report: r, s: k.node(i, hop), i: i, hop: hop}
		}
	}
	return nil
}

// anyINT is the INT of a packet, also where it is not the domain's: the program takes what has its
// form for a header.
func (k *check) anyINT(p *packet, l *seen) *inband {
	t := l.int
	if t == nil && p.l4 != 0 {
		t, _ = readINT(p.load(), false)
	}
	return t
}

// had says whether the same switch has reported the frame before.
func (k *check) had(r *report, i int) bool {
	for _, o := range k.reps {
		if o.node == r.node && o.i == i {
			return true
		}
	}
	return false
}

// quoteLength is how much of a packet is quoted: all headers, and some payload, in whole words.
func quoteLength(p *packet, t *inband) int {
	n := 20
	if p.v == 6 {
		n = 40
	} else {
		n = int(p.frame[p.l3]&15) * 4
	}
	if p.l4 != 0 {
		n += p.data - p.l4
	}
	if t != nil {
		n += t.size
		if t.npt == 2 {
			n += 20
		}
	}
	return min(n+quoted, p.end-p.l3) &^ 3
}

// envelope compares what is around a report.
func (k *check) envelope(at string, f []byte, r *repInfo) {
	p := parse(f)
	for _, fault := range p.faults {
		k.fault("%s: %s", at, fault)
	}
	head := []any{mac(f[6:12]), p.src(), p.dst(), int(be.Uint16(f[p.l4:])), p.dport(), p.ttl, be.Uint16(f[p.l3+6:]), be.Uint16(f[p.sum:])}
	k.equal(head, []any{routerMAC(r.s, reportPort(r.s)), []byte{10, 0, 9, byte(r.s)}, []byte{10, 0, 9, 9}, 4000 + r.s, port, 64, 0x4000, 0}, "%s: its headers", at)
	k.equal(len(f), p.end, "%s: length of the frame", at)
	for _, fault := range r.faults {
		k.fault("%s: %s", at, fault)
	}
}

// content compares what a report says.
func (k *check) content(at string, r *repInfo) {
	s := &k.frames[r.i]
	version, inner := 20, byte(3+s.version()/2-1)
	if k.tr10 {
		version, inner = 10, byte(s.version()/2-1)
	}
	bears := k.stories[r.i].links[r.hop].int != nil && s.skip == 0
	domain := k.domain
	if k.mode == md10 || k.tr10 || r.dropped || !r.flow {
		domain = 0
	}
	k.equal([]any{r.version, r.hw, r.inner, r.domain}, []any{version, hwID, inner, domain}, "%s: head", at)
	if r.dropped {
		k.drop(at, r, bears)
		return
	}
	k.equal(r.reason, -1, "%s: reason", at)
	k.values(at, r.values, r.s, r.i, r.hop, k.tr10)
	if r.congested {
		k.equal(k.congested > 0 && int(r.values["queue"]&0xffffff) >= k.congested, true, "%s: a queue with %d packets is congested", at, r.values["queue"])
	}
	k.equal(r.flow || r.congested, true, "%s: what it is about", at)
	k.equal(r.between, r.congested && r.hop != 2 && bears && (k.mode == md || k.mode == md10), "%s: I", at)
	known := uint16(0x7f00)
	if k.tr10 {
		known = 0x7500
	}
	want := k.bitmap & known
	if _, has := r.values["util"]; !has {
		want &^= 0x0100 // nothing is known before a whole window has passed
	}
	if !r.flow {
		want = 0x7c00 | r.bitmap&0x0100
	}
	k.equal(fmt.Sprintf("%#x", r.bitmap), fmt.Sprintf("%#x", want), "%s: bits", at)
}

func (k *check) drop(at string, r *repInfo, bears bool) {
	s := &k.frames[r.i]
	k.equal(s.lost != 0 && r.hop == s.reach()-1, true, "%s: frame %d is dropped there", at, r.i)
	in := ways[max(k.stories[r.i].way, 0)][r.hop].in
	bits := "0x4801"
	if k.tr10 {
		bits = "0x4001"
	}
	k.equal([]any{r.reason, r.flow, r.congested, r.between, fmt.Sprintf("%#x", r.bitmap), r.values["ports"]},
		[]any{s.why, bears, false, false, bits, in<<16 | 511}, "%s of a drop", at)
	if r.values["in"] == 0 {
		k.fault("%s of a drop: no time", at)
	}
}

// complete says whether each packet was reported as often as it should, by whom it should.
func (k *check) complete() {
	chosen := make(map[int]int) // of a sample: how often a frame was reported
	flows := make(map[string]bool)
	for i := range k.frames {
		s := &k.frames[i]
		for hop := range s.reach() {
			var drop, flow int
			for _, r := range k.reps {
				if r.i == i && r.hop == hop {
					drop += b2i(r.dropped)
					flow += b2i(r.flow && !r.dropped && !r.between)
				}
			}
			if s.lost != 0 && hop == s.reach()-1 {
				k.equal(drop, b2i(!k.noDrops && !s.quiet && s.why != 0), "frame %d: drop reports by s%d", i, k.node(i, hop))
			}
			want := b2i(k.reported(i, hop))
			if k.mode == xd && k.sample > 1 {
				chosen[i] += flow
				continue
			}
			if key := fmt.Sprint(s.version(), s.proto, s.sport, s.dport, hop); k.suppress && want == 1 {
				want = b2i(!flows[key])
				flows[key] = true
			}
			k.equal(flow, want, "frame %d: reports by s%d", i, k.node(i, hop))
		}
	}
	k.sampledReports(chosen)
	congested := 0
	for _, r := range k.reps {
		congested += b2i(r.congested)
	}
	k.equal(congested > 0, k.congested > 0, "reports of congestion")
}

// sampledReports: nodes choose the same packets.
func (k *check) sampledReports(chosen map[int]int) {
	if k.mode != xd || k.sample <= 1 {
		return
	}
	n := 0
	for i, count := range chosen {
		if count != 0 && count != 3 {
			k.fault("frame %d: %d of 3 switches have chosen it", i, count)
		}
		if count != 0 {
			n++
			continue
		}
		for hop := range 3 {
			k.counted[k.node(i, hop)].Skipped[skipNotSampled]++
		}
	}
	if all := len(k.frames); n < all/k.sample/3 || n > min(3*all/k.sample, all-1) {
		k.fault("%d of %d packets were reported, want about one in %d", n, all, k.sample)
	}
}
