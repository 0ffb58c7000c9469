// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"fmt"
	"testing"
)

type domainNames struct{}

func (domainNames) NodeName(node uint16) string { return fmt.Sprint("node ", node) }
func (domainNames) PortName(port uint16) string { return fmt.Sprint("port ", port) }
func (domainNames) PortNode(port uint16) uint16 { return port + 1 }
func (domainNames) WallOffset() int64           { return 1 }
func (domainNames) Host() string                { return "host" }

// TestRegistry: names that a registry is given come back, beside those of a domain.
func TestRegistry(t *testing.T) {
	g := &Registry{Domain: domainNames{}}
	s1, s2 := g.Node("s1"), g.Node("s2")
	p1, p2 := g.Port(s1, 1), g.Port(s2, 1)
	if s1 == s2 || p1 == p2 || g.Node("s1") != s1 || g.Port(s2, 1) != p2 {
		t.Errorf("nodes %d, %d; ports %d, %d", s1, s2, p1, p2)
	}
	if g.NodeName(s2) != "s2" || g.PortName(p2) != "1" || g.PortNode(p2) != s2 {
		t.Errorf("node %s, port %s of %d", g.NodeName(s2), g.PortName(p2), g.PortNode(p2))
	}
	for _, called := range []uint64{0, lowPorts - 1, lowPorts, 1<<64 - 1} {
		number := g.Port(s1, called)
		if number == NoPort || number == g.Port(s2, called) || g.Port(s1, called) != number || g.PortName(number) != fmt.Sprint(called) || g.PortNode(number) != s1 {
			t.Errorf("port %d has number %d, which is %s of %d", called, number, g.PortName(number), g.PortNode(number))
		}
	}
	if g.WallOffset() != 1 || (&Registry{}).WallOffset() != 0 {
		t.Error("the clock is not the domain's")
	}
	if n := g.NodeName(s2 + 1); n != "?" {
		t.Errorf("a number that was not given is called %s", n)
	}
	for _, number := range []uint16{0, 1, firstNumber - 1, VMSide, VMSide | 1} {
		if g.NodeName(number) != fmt.Sprint("node ", number) || g.PortName(number) != fmt.Sprint("port ", number) || g.PortNode(number) != number+1 {
			t.Errorf("number %d of the domain is not its own", number)
		}
	}
	if g.Node("?") != NoNode || g.Port(NoNode, 1) != NoPort || g.Port(1, 1) != NoPort || g.Over != 0 {
		t.Error("what has no name has a number")
	}
}

// TestRegistryFull: names beyond those for which there is a number are counted.
func TestRegistryFull(t *testing.T) {
	g := &Registry{}
	for i := range maxNumbers {
		node := g.Node(fmt.Sprint(i))
		if node == NoNode || g.Port(node, 1) == NoPort {
			t.Fatalf("%d of %d nodes fit", i, maxNumbers)
		}
	}
	if g.Node("more") != NoNode || g.Port(firstNumber, 2) != NoPort || g.Over != 2 {
		t.Errorf("over: %d, want 2", g.Over)
	}
	if last := g.NodeName(firstNumber + maxNumbers - 1); last != fmt.Sprint(maxNumbers-1) {
		t.Errorf("the last one is called %s", last)
	}
}
