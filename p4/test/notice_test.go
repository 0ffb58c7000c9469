// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"maps"
	"slices"
	"testing"
)

// onlySwitch are the bytes of a report that nothing but the switch knows: how many packets were in
// a queue, the utilisation, and the time of a drop, which nothing stands beside.
func onlySwitch(frame []byte) map[int]bool {
	load, _ := isReport(frame)
	r, ok := readReport(load)
	all := make(map[int]bool)
	if !ok {
		return all
	}
	at := len(frame) - len(load) + 20
	if r.version == 10 {
		at -= 4
		if r.dropped {
			at -= 4
			for i := range 4 {
				all[at+i] = true // the fixed part has the time
			}
			at += 4
		}
	}
	for _, f := range fields {
		if r.bitmap&f.bit == 0 || r.version == 10 && f.name == "in" {
			continue
		}
		size := 4 * f.words[b2i(r.version == 10)]
		if f.name == "queue" || f.name == "util" || f.name == "in" && r.dropped {
			for i := range size {
				all[at+i] = f.name != "queue" || i > 0
			}
		}
		at += size
	}
	return all
}

// TestVerifyNotices: verify finds a bit that is wrong in any byte of any packet on any link, and a
// packet that is missing or there twice.
func TestVerifyNotices(t *testing.T) {
	m := recordings(t)
	for _, c := range cases() {
		switch c.name {
		case "md, all instructions", "md10, marked by a bit", "md10, report 1.0", "mx, all instructions", "xd, report 1.0", "md, drops":
		default:
			continue
		}
		r := m.Case(c.name)
		if r == nil {
			continue // TestReplay says so
		}
		t.Run(c.name, func(t *testing.T) {
			ev := evidenceOf(c, r)
			for link, frames := range ev.Captured {
				for n, f := range frames {
					known := map[int]bool{}
					if link == "T" {
						known = onlySwitch(f)
					}
					changed := func(with ...[]byte) *verdict {
						other := &evidence{Sent: ev.Sent, Captured: maps.Clone(ev.Captured), Counters: ev.Counters, Next: ev.Next}
						other.Captured[link] = slices.Replace(slices.Clone(frames), n, n+1, with...)
						return verify(c, other)
					}
					for at := range f {
						g := slices.Clone(f)
						g[at] ^= 1
						if len(changed(g).faults) == 0 && !known[at] {
							t.Errorf("link %s, packet %d: nobody notices that byte %d is %#x, not %#x", link, n, at, g[at], f[at])
						}
					}
					if len(changed().faults) == 0 || len(changed(f, f).faults) == 0 {
						t.Errorf("link %s, packet %d: nobody notices that it is missing, or there twice", link, n)
					}
				}
			}
			for s, was := range r.Counters {
				other := &evidence{Sent: ev.Sent, Captured: ev.Captured, Counters: maps.Clone(r.Counters), Next: ev.Next}
				was.Done = maps.Clone(was.Done)
				if was.Done == nil {
					was.Done = make(map[int]int)
				}
				was.Done[doneSink]++
				other.Counters[s] = was
				if len(verify(c, other).faults) == 0 {
					t.Errorf("s%d: nobody notices a counter that is wrong", s)
				}
			}
		})
	}
}
