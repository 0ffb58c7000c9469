// SPDX-License-Identifier: Apache-2.0

package test

import "testing"

// TestHanded: an interface of another node that stands on a node's port (macvlan) takes the skb as it is, with true bits
// and our mark. It goes on there with its story. The same packet at another port of the node itself is another one: it
// has gone round outside.
func TestHanded(t *testing.T) {
	for _, name := range []string{"tcp-data", "train-tcp", "six-tcp-data", "udp-1472"} {
		for _, c := range []struct {
			port  uint32
			story string
			more  bool // another packet
		}{
			{h2In, "out@0/FS in@1/F deliver@3/F", false},
			{r1Out, "out@0/FS in@1/F", true},
		} {
			t.Run(name, func(t *testing.T) {
				orig := frame{data: packet(t, name)}
				if isTrain(name) {
					orig = loadTrain(t, name).whole
				}
				d := newDomain(t, config{})
				w := d.send(orig)
				index := d.guid(w.data)
				handed := d.ingress(r1In, d.link(w, 0))
				same(t, "in the node", handed.data, orig.data)
				end := d.ingress(c.port, handed)
				same(t, "handed on", end.data, orig.data)
				d.wantStory(index, c.story)
				if end.mark != handed.mark && !c.more {
					t.Errorf("mark %#x became %#x", handed.mark, end.mark)
				}
			})
		}
	}
	// Another packet with that mark is none of it.
	d := newDomain(t, config{})
	w := d.send(frame{data: packet(t, "tcp-data")})
	index := d.guid(w.data)
	handed := d.ingress(r1In, d.link(w, 0))
	d.ingress(h2In, frame{data: packet(t, "udp-1472"), mark: handed.mark})
	d.wantStory(index, "out@0/FS in@1/F")
}
