// SPDX-License-Identifier: Apache-2.0

package p4test

import "maps"

// countSkips counts what each switch of the way must have counted of a frame that it left as it was.
func (k *check) countSkips(i int, s *sent) {
	for hop := range s.reach() {
		n := k.node(i, hop)
		c := k.counted[n]
		if !s.all && (s.born == nil || s.skip != 0) && (hop == 0 || k.mode == xd) && s.dport != unwatched {
			c.Watched++
		}
		if s.lost != 0 && hop == s.reach()-1 {
			continue // it ends in ingress, and skips are counted in egress
		}
		switch {
		case s.all:
			c.Skipped[s.skip]++
		case s.skip != 0 && (hop == 0 || k.mode == xd):
			c.Skipped[s.skip]++
		case s.skip != 0:
			c.Skipped[skipNotWatched]++
		case s.next != 0 && hop < 2 && (hop == 1 || s.born != nil):
			c.Skipped[s.next]++
		}
	}
}

// compareCounters compares the counters of the switches with what the captures show.
func (k *check) compareCounters() {
	for i := range k.stories {
		k.countDone(i)
	}
	for s, c := range k.counted {
		got := k.ev.Counters[s]
		suppressed := got.Done[doneSuppressed]
		if suppressed != 0 {
			c.Done[doneSuppressed] = suppressed
			k.equal(c.Done[doneFlow]+suppressed, k.tracked(s), "s%d: reports sent and suppressed", s)
			k.equal(k.suppress, true, "s%d: reports are suppressed", s)
		}
		for _, m := range []struct {
			name      string
			got, want map[int]int
		}{{"skipped", got.Skipped, c.Skipped}, {"done", got.Done, c.Done}, {"drops", got.Drops, c.Drops}} {
			maps.DeleteFunc(m.want, func(_, n int) bool { return n == 0 })
			if !maps.Equal(m.got, m.want) {
				k.fault("s%d: counter int.%s is %v, captures say %v", s, m.name, m.got, m.want)
			}
		}
		k.equal(got.Watched, c.Watched, "s%d: int.watched", s)
	}
}

// countDone counts what was done to a frame, by its INT on the links.
func (k *check) countDone(i int) {
	if k.mode == xd {
		return
	}
	l := k.stories[i].links
	if k.frames[i].gone {
		c := k.counted[k.node(i, 2)].Done
		c[doneSink]++
		c[doneDiscarded]++
	}
	for hop := 1; hop < len(l); hop++ {
		if l[hop] == nil || l[hop-1] == nil {
			continue
		}
		c := k.counted[k.node(i, hop-1)].Done
		was, is := l[hop-1].int, l[hop].int
		switch {
		case k.frames[i].skip != 0: // is not the domain's
		case was == nil && is != nil:
			c[doneSource]++
		case was != nil && is == nil:
			c[doneSink]++
		case was != nil && len(is.stack) > len(was.stack):
			c[doneTransit]++
		}
	}
}

// tracked is how many packets a switch has to report if it reports all.
func (k *check) tracked(s int) (n int) {
	for i := range k.stories {
		for hop := range 3 {
			if k.node(i, hop) == s && k.reported(i, hop) {
				n++
			}
		}
	}
	return n
}

// reported says whether the switch at the end of link hop reports the frame's flow.
func (k *check) reported(i, hop int) bool {
	s, l := &k.frames[i], k.stories[i].links
	if s.skip != 0 || hop >= s.reach() || s.lost != 0 && hop == s.reach()-1 {
		return false
	}
	switch k.mode {
	case md, md10:
		return hop == 2 && l[2] != nil && l[2].int != nil
	case mx:
		return l[1] != nil && l[1].int != nil
	}
	return true // whether it is of the sample, the reports must agree on
}
