// SPDX-License-Identifier: Apache-2.0

package collect

import "iter"

// Newest keeps the last so many of the packets that are added, all if Last is 0.
type Newest struct {
	Last int
	list []*Reported
	next int // the oldest, once there are so many
}

// Add takes a packet, of which it makes a copy.
func (n *Newest) Add(p *Reported) {
	if n.Last == 0 || len(n.list) < n.Last {
		n.list = append(n.list, new(Reported))
		p.Copy(n.list[len(n.list)-1])
		return
	}
	p.Copy(n.list[n.next])
	n.next = (n.next + 1) % n.Last
}

// All are those packets, the oldest first.
func (n *Newest) All() iter.Seq[*Reported] {
	return func(yield func(*Reported) bool) {
		for i := range n.list {
			if !yield(n.list[(n.next+i)%len(n.list)]) {
				return
			}
		}
	}
}
