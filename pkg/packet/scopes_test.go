// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"slices"
	"strconv"
	"testing"
)

// lab is a domain: node n is called names[n], port 10*n+k is "eth"k of it.
type lab struct {
	names  []string
	offset int64
}

func (l *lab) NodeName(n uint16) string {
	if int(n) < len(l.names) {
		return l.names[n]
	}
	return unnamed
}

func (l *lab) PortName(p uint16) string {
	if p == NoPort {
		return ""
	}
	return "eth" + strconv.Itoa(int(p&^VMSide)%10)
}

func (l *lab) PortNode(p uint16) uint16 { return p &^ VMSide / 10 }
func (l *lab) WallOffset() int64        { return l.offset }
func (l *lab) Host() string             { return "machine" }

// TestScopes: two domains with the same numbers stand in one list. Names are qualified where both have them, a tap and its
// machine's end stay together, and stamps have one clock.
func TestScopes(t *testing.T) {
	s := NewScopes()
	a := s.Join(&lab{[]string{"h1", "r1", "int-7"}, 1000}, "a", []string{"h1", "r1"})
	b := s.Join(&lab{[]string{"r1", "h9", "int-7"}, 1500}, "b", []string{"r1", "h9"})
	packet := func() *Packet {
		return &Packet{T0: 100, Missing: true, Loss: Drop{Node: 1, Port: 11}, Tree: true, Drops: []BranchDrop{{Drop: Drop{Node: 0, Port: 1}}},
			Hops: []Hop{{Node: 0, In: NoPort, Out: 1}, {Node: 1, In: 10, Out: 10 | VMSide}, {Node: 2, In: 20, Out: NoPort}}}
	}
	for _, test := range []struct {
		of    *Member
		names []string
		unix  int64
	}{
		{a, []string{"h1", "r1@a", "int-7"}, 1100},
		{b, []string{"r1@b", "h9", "int-7"}, 1600},
	} {
		own := packet()
		p := test.of.Packet(own)
		var names, ports []string
		for _, h := range p.Hops {
			names = append(names, s.NodeName(h.Node))
			ports = append(ports, s.PortName(h.In)+":"+s.PortName(h.Out))
			for _, port := range []uint16{h.In, h.Out} {
				if port != NoPort && s.PortNode(port) != h.Node {
					t.Errorf("port %d is of node %d, not of %d", port, s.PortNode(port), h.Node)
				}
			}
		}
		if !slices.Equal(names, test.names) || !slices.Equal(ports, []string{":eth1", "eth0:eth0", "eth0:"}) {
			t.Errorf("nodes %q, ports %q; want nodes %q", names, ports, test.names)
		}
		if tap, is := TapOf(p.Hops[1].Out); !is || tap != p.Hops[1].In {
			t.Errorf("the end %d of a tap %d", p.Hops[1].Out, p.Hops[1].In)
		}
		if p.Loss.Node != p.Hops[1].Node || p.Drops[0].Node != p.Hops[0].Node || p.Drops[0].Port != p.Hops[0].Out {
			t.Errorf("drops %+v, %+v", p.Loss, p.Drops)
		}
		if at := p.UnixNs(s); at != test.unix {
			t.Errorf("sent at %d, want %d", at, test.unix)
		}
		if want := packet(); own.T0 != want.T0 || !slices.Equal(own.Hops, want.Hops) || own.Loss != want.Loss {
			t.Errorf("the packet itself has changed: %+v", own)
		}
	}
	if x, y := a.Packet(packet()).Hops[2].Node, b.Packet(packet()).Hops[2].Node; s.NodeName(x) != s.NodeName(y) {
		t.Errorf("a switch that both name is %q and %q", s.NodeName(x), s.NodeName(y))
	}
	// A scope alone keeps its names.
	if only := NewScopes().Join(&lab{names: []string{"r1"}}, "a", []string{"r1"}); only.NodeName(0) != "r1" {
		t.Errorf("%q", only.NodeName(0))
	}
}
