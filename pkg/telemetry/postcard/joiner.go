// SPDX-License-Identifier: Apache-2.0

package postcard

import "slices"

// The Joiner's memory is bounded: packets that are waited for, and postcards of one packet. Another node's is taken for
// another packet's.
const (
	MaxPackets = 1 << 16
	MaxCards   = 64
)

// maxAlike bounds how many packets of one name a postcard is held against, and of how many nodes it is known how far
// they have told. Beyond these it is another packet's.
const maxAlike = 1 << 8

// maxSpare bounds memory that waits to be used again, spareCards how many postcards there may be room for in it.
const (
	maxSpare   = 1 << 12
	spareCards = 16
)

// Joiner joins postcards, each of type T, of packets that K names, if they come within a window of the first one.
type Joiner[K comparable, T any] struct {
	Window int64 // ns
	// Emit is called for the postcards of each packet, in the order in which they came; they are valid until it returns.
	Emit func([]T)

	waiting map[K]*alike[K, T]
	order   []*packet[K, T] // by the time of the first postcard
	head    int             // those before it have gone

	spare   []*packet[K, T]
	spareOf []*alike[K, T]
}

// Of says what a postcard is of.
type Of[K comparable] struct {
	Name K // of the packet
	// Alone: no other packet has that name, and a node may tell of it more than once.
	Alone bool
	Trace Trace
	Node  uint64 // that tells
	At    int64  // when it came, Unix ns
}

// packet is one that is waited for.
type packet[K comparable, T any] struct {
	name  K
	trace Trace
	nodes []uint64 // that have told
	cards []T
	first int64 // when the first one came, Unix ns
	// Of the same name, behind it and before it.
	next, before *packet[K, T]
}

// alike are packets of one name that are waited for, in the order of their first postcards.
type alike[K comparable, T any] struct {
	first, last *packet[K, T]
	told        []told[K, T]
}

// told is how far a node has told of packets that are alike.
type told[K comparable, T any] struct {
	node uint64
	last *packet[K, T] // the one that its last postcard was of; nil: it is gone, or there was none
	hole *packet[K, T] // the first that it has passed over; nil: none
	lost bool          // its last postcard is of none of the packets that were looked at, and there were more
}

// find is the packet that a postcard is of; nil: one that nobody has told of yet. Nodes tell of packets that differ in
// nothing in the order in which they saw them. So it is the one behind that of which the node has told last.
func (a *alike[K, T]) find(of *Of[K]) *packet[K, T] {
	if of.Alone {
		if len(a.last.cards) < MaxCards {
			return a.last
		}
		return nil
	}
	at := a.toldBy(of.Node)
	if at < 0 {
		at = len(a.told)
		if a.told = append(a.told, told[K, T]{node: of.Node}); at >= maxAlike {
			a.told, at = slices.Delete(a.told, 0, 1), at-1
		}
	}
	node := &a.told[at]
	from := a.first
	if node.last != nil {
		from = node.last.next
	}
	late := node.hole
	p, passed, all := from.find(of)
	if p == nil && late != nil {
		if p, _, _ = late.find(of); p != nil {
			return p
		}
	}
	if p == nil && !all { // it has lost many: the packet is among the newest ones
		p = a.last.findBack(of)
	}
	if node.hole == nil {
		node.hole = passed
	}
	node.lost = p == nil && !all
	if p != nil {
		node.last = p
	}
	return p
}

// findBack is the oldest of the packets up to p that the postcard can be of.
func (p *packet[K, T]) findBack(of *Of[K]) (found *packet[K, T]) {
	for range maxAlike {
		if p == nil {
			break
		}
		if len(p.cards) < MaxCards && p.trace.fits(&of.Trace) && !slices.Contains(p.nodes, of.Node) {
			found = p
		}
		p = p.before
	}
	return found
}

func (a *alike[K, T]) toldBy(node uint64) int {
	return slices.IndexFunc(a.told, func(n told[K, T]) bool { return n.node == node })
}

// find is the first packet from p on that the postcard can be of, and the first that was passed over and of which the
// node might still tell. all: there are no packets behind those that were looked at.
func (p *packet[K, T]) find(of *Of[K]) (found, passed *packet[K, T], all bool) {
	for range maxAlike {
		if p == nil {
			return nil, passed, true
		}
		fits := p.trace.fits(&of.Trace)
		if (fits || passed == nil) && len(p.cards) < MaxCards && !slices.Contains(p.nodes, of.Node) {
			if fits {
				return p, passed, false
			}
			passed = p
		}
		p = p.next
	}
	return nil, passed, p == nil
}

// Add takes a postcard. It calls Emit for packets whose window has ended.
func (j *Joiner[K, T]) Add(of *Of[K], card T) {
	j.Until(of.At)
	a := j.waiting[of.Name]
	if a != nil {
		if p := a.find(of); p != nil {
			p.nodes, p.cards = append(p.nodes, of.Node), append(p.cards, card)
			p.trace.learn(&of.Trace)
			return
		}
	}
	if j.Waiting() >= MaxPackets {
		j.next()
		a = j.waiting[of.Name]
	}
	if j.head > len(j.order)/2 {
		j.order, j.head = slices.Delete(j.order, 0, j.head), 0
	}
	p := j.newPacket()
	p.name, p.trace, p.first = of.Name, of.Trace, of.At
	p.nodes, p.cards = append(p.nodes, of.Node), append(p.cards, card)
	j.order = append(j.order, p)
	if a != nil {
		a.last.next, p.before = p, a.last
		// Where packets were not looked at, its next postcard may be of one of these.
		if at := a.toldBy(of.Node); at >= 0 && !a.told[at].lost {
			a.told[at].last = p
		}
	} else {
		a = j.newAlike()
		a.first = p
		a.told = append(a.told, told[K, T]{node: of.Node, last: p})
		if j.waiting == nil {
			j.waiting = make(map[K]*alike[K, T])
		}
		j.waiting[of.Name] = a
	}
	a.last = p
}

// Waiting is how many packets are waited for.
func (j *Joiner[K, T]) Waiting() int { return len(j.order) - j.head }

// Until emits what has waited for longer than the window at a time, Unix ns.
func (j *Joiner[K, T]) Until(now int64) {
	for j.head < len(j.order) && now-j.order[j.head].first > j.Window {
		j.next()
	}
}

// All emits everything.
func (j *Joiner[K, T]) All() {
	for j.head < len(j.order) {
		j.next()
	}
}

// next emits the packet whose first postcard is the oldest, which is the first of its name, too. Emit may panic: by then
// the packet has gone.
func (j *Joiner[K, T]) next() {
	p := j.order[j.head]
	j.order[j.head] = nil
	if j.head++; j.head == len(j.order) {
		j.order, j.head = j.order[:0], 0
	}
	j.forget(p)
	j.Emit(p.cards)
	if len(j.spare) < maxSpare && cap(p.cards) <= spareCards {
		clear(p.cards)
		*p = packet[K, T]{nodes: p.nodes[:0], cards: p.cards[:0]}
		j.spare = append(j.spare, p)
	}
}

// forget takes a packet, the first of its name, from those that are waited for.
func (j *Joiner[K, T]) forget(p *packet[K, T]) {
	a := j.waiting[p.name]
	if p.next == nil {
		delete(j.waiting, p.name)
		if told := a.told[:0]; len(j.spareOf) < maxSpare && cap(told) <= spareCards {
			*a = alike[K, T]{told: told}
			j.spareOf = append(j.spareOf, a)
		}
		return
	}
	a.first, p.next.before = p.next, nil
	for i := range a.told {
		if a.told[i].last == p {
			a.told[i].last = nil
		}
		if a.told[i].hole == p {
			a.told[i].hole = p.next
		}
	}
}

// newPacket returns one without postcards.
func (j *Joiner[K, T]) newPacket() *packet[K, T] {
	if n := len(j.spare); n > 0 {
		p := j.spare[n-1]
		j.spare = j.spare[:n-1]
		return p
	}
	return new(packet[K, T])
}

// newAlike returns one without packets.
func (j *Joiner[K, T]) newAlike() *alike[K, T] {
	if n := len(j.spareOf); n > 0 {
		a := j.spareOf[n-1]
		j.spareOf = j.spareOf[:n-1]
		return a
	}
	return new(alike[K, T])
}
