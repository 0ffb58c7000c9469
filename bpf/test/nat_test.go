// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// rewritten is a packet with another source address.
func rewritten(f frame, last byte) frame {
	f.data = bytes.Clone(f.data)
	f.data[etherHeader+15] = last
	fixSum(f.data, etherHeader)
	return f
}

// TestNATTree: the log of a tree has the new addresses of a branch once, and packets with them
// are found by key.
func TestNATTree(t *testing.T) {
	for _, name := range []string{"group-multicast", "group-keyed"} {
		t.Run(name, func(t *testing.T) {
			d, keyed := newDomain(t, config{}), k(name == "group-keyed")
			d.join(h3In, groups[name])
			orig := packet(t, name)
			index := uint32(d.nextPos()) & (d.layout.Slots - 1)
			w := d.send(frame{data: orig})
			in := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
			out := d.egress(r1Out, rewritten(in, 77))
			next := d.route(d.ingress(h2In, d.link(out, 0)), h2In)
			d.ingress(h3In, d.link(d.egress(h2Out, next), 0))
			d.wantStory(index, "out@0/FS"+keyed+" in@1/F"+keyed+" addr@2/F out@2/F"+keyed+
				" in@3/F"+keyed+" out@7/F"+keyed+" deliver@10/F"+keyed)
			d.counted(tally{cSeen: 1, cMarked: 1})
		})
	}
}

// TestNATFragments: two nodes, one behind the other, join fragments, change their addresses
// and cut them again: each keeps its story.
func TestNATFragments(t *testing.T) {
	d := newDomain(t, config{})
	p := portTable[closed]
	p.Node, p.Flags, p.Ifindex, p.NetnsInum = nodeH3, internal, ifindex(closed), netns(nodeH3)
	d.put(bpfobj.TcMapPorts, uint32(closed), p)
	names := []string{"fragment-first", "fragment-middle", "fragment-last"}
	index := uint32(d.nextPos()) & (d.layout.Slots - 1)
	var w []frame
	for _, name := range names {
		w = append(w, d.send(frame{data: packet(t, name)}))
	}
	for _, node := range []struct {
		in, out uint32
		addr    byte
	}{{r1In, r1Out, 71}, {h3In, closed, 72}} {
		var mark uint32
		for k := range w {
			f := d.ingress(node.in, d.link(w[k], 0))
			if k == 0 {
				mark = f.mark
			}
			f.mark = mark
			w[k] = rewritten(d.route(f, int(node.in)), node.addr)
		}
		for k := range w {
			w[k] = d.egress(node.out, w[k])
		}
	}
	for k := range names {
		d.wantStory(index+uint32(k), "out@0/FSK in@1/FK addr@2/F out@2/FK in@10/FK addr@5/F out@5/FK")
	}
	d.counted(tally{cSeen: 3, cMarked: 3})
}
