// SPDX-License-Identifier: Apache-2.0

package record

// Loop returns the nodes that the packet went round by in a circle, "r1 > r2 > r1", as the
// indices of the first hop of the circle and of the first one of the next round; ok is false
// if it went round in none. A node that has sent a packet by the same two ports twice will do
// so again and again. A packet that only comes back to a node, as one that was sent to the
// wrong router and redirected, leaves it by another port.
func (r *Record) Loop() (first, again int, ok bool) {
	return FindLoop(len(r.Hops), func(i int) (LoopHop, bool) {
		h := &r.Hops[i]
		return LoopHop{h.Node, h.InPort, h.Port}, h.InPort != "" && h.Port != "" && !h.Copy && r.PrevOf(i) == i-1
	})
}

// LoopHop is what FindLoop compares of a hop.
type LoopHop struct{ Node, In, Out string }

// FindLoop is Loop for any n hops; of those that cannot be part of a circle at is not ok.
func FindLoop(n int, at func(int) (LoopHop, bool)) (first, again int, ok bool) {
	const few = 16 // hops that are compared with one another sooner than put into a map
	var list [few]LoopHop
	var seen map[LoopHop]int
	if n > few {
		seen = make(map[LoopHop]int)
	}
	for i := range n {
		h, passed := at(i)
		switch {
		case !passed:
		case seen != nil:
			if j, twice := seen[h]; twice {
				return j, i, true
			}
			seen[h] = i
		default:
			for j := range i {
				if list[j] == h { // of a hop that cannot be part of one nothing is there
					return j, i, true
				}
			}
			list[i] = h
		}
	}
	return 0, 0, false
}

// TTLUsedUp reports whether the packet was lost because its TTL was: a router got it with a TTL of 1, and did not
// send it on.
func (r *Record) TTLUsedUp() bool {
	ttl := r.TTL
	if r.TTLSent != nil {
		ttl = *r.TTLSent
	}
	return r.State == Lost && r.Src != "" && ttl <= 1 && r.Loss != nil && r.Loss.At != AtQueue
}
