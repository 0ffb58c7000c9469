// SPDX-License-Identifier: Apache-2.0

package transparency

import "github.com/vnetradar/radar/pkg/record"

// goneOn are the records that say delivered of packets that captures saw leave the node
// again. (What a record's own end says is no measure of that.)
func (r *Run) goneOn() (list []string) {
	for i := range r.Records {
		rec := &r.Records[i]
		places := claims(rec)
		last := places[len(places)-1]
		if rec.State != record.Delivered || last.dir != in {
			continue
		}
		came := make(map[unit]bool)
		for _, c := range r.captures {
			for _, s := range c.seen {
				if s.decoded != nil && s.token != 0 && c.node == last.node && c.port == last.port && s.dir == in && s.tuple() == last.tuple {
					came[unitOf(s)] = true
				}
			}
		}
		left := false
		for _, c := range r.captures {
			for _, s := range c.seen {
				left = left || s.decoded != nil && c.node == last.node && s.dir == out && came[unitOf(s)]
			}
		}
		if left {
			list = append(list, show(rec))
		}
	}
	return list
}

// falseDeliveries wants none of a run with marks, and so many under --carry header.
func falseDeliveries(header int) func(r *Run) {
	return func(r *Run) {
		want := map[Mode]int{Mark: 0, Header: header}[r.Mode]
		if gone := r.goneOn(); len(gone) != want {
			r.T.Errorf("%d packets that went on are called delivered, want %d: %q", len(gone), want, gone)
		}
	}
}
