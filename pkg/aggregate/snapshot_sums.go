// SPDX-License-Identifier: Apache-2.0

package aggregate

func (a *Aggregates) encodeSums(e *encoder) {
	e.uints(uint64(len(a.sums)))
	for key, places := range a.sums {
		e.boundary()
		key.encode(e)
		e.uints(uint64(len(places)))
		for place, s := range places {
			e.boundary()
			out := uint64(0)
			if place.Out {
				out = 1
			}
			e.uints(uint64(place.Node), uint64(place.Port), out, s.packets, s.bytes, s.first, s.last-s.first)
		}
	}
}

func (d *decoder) sums(a *Aggregates) {
	for range d.count(21) {
		key := d.key()
		places := make(map[Place]*sum)
		for range d.count(7) {
			place := Place{Node: uint16(d.uint()), Port: uint16(d.uint()), Out: d.below(2) == 1}
			s := new(sum)
			d.uints(&s.packets, &s.bytes, &s.first, &s.last)
			s.last += s.first
			places[place] = s
		}
		a.sums[key] = places
		a.sumCount += len(places)
	}
}
