// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/fault"
)

// veths are interfaces lo, e0, e1, ... of which all but the last are up.
func veths(n int) []Interface {
	list := []Interface{{Name: "lo", Ifindex: 1, Up: true, Loopback: true}}
	for i := range n {
		list = append(list, Interface{Name: fmt.Sprintf("e%d", i), Ifindex: 2 + i, Kind: "veth", Up: i < n-1, MTU: 1500})
	}
	return list
}

// here is the namespace of the test, which is there: nothing is attached to it.
func mergerOf(list []Interface) (*merger, Place) {
	p := Here()
	p.Name = "n"
	d := &Domain{Name: "t", Options: DefaultOptions()}
	return &merger{next: d, links: map[uint32][]Interface{p.Inum: list}, reload: make(map[uint32]bool)}, p
}

func roles(n *Node) string {
	var list []string
	for _, p := range n.Ports {
		text := p.Name + ":" + p.Flags.Words()
		if p.Implied {
			text += "?"
		}
		if p.Flags&Host != 0 {
			text += "!"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// TestRoles: calls add up.
func TestRoles(t *testing.T) {
	type step struct {
		roles Flags
		ports string // "-": the node as a whole
		want  string // roles of all ports behind it; a beginning of an error if it has no ':'
	}
	for name, steps := range map[string][]step{
		"a router":         {{Source | Sink, "e0", "e0:source and sink"}, {Inside, "-", "e0:source and sink e1:transit? e2:transit?"}},
		"one by one":       {{Sink, "e0", "e0:sink"}, {Source, "e0", "e0:source and sink"}, {Inside, "e3", "e0:source and sink e3:transit"}},
		"edge after whole": {{Inside, "-", "e0:transit? e1:transit? e2:transit?"}, {Sink, "e1", "e0:transit? e1:sink e2:transit?"}},
		"a host":           {{Sink, "-", "e0:transit?! e1:transit?! e2:transit?!"}, {Source, "-", "e0:transit?! e1:transit?! e2:transit?!"}},
		"a source":         {{Source, "-", "e0:transit?! e1:transit?! e2:transit?!"}},
		"host, then port":  {{Inside, "e0", "e0:transit"}, {Sink, "-", "e0:transit! e1:transit?! e2:transit?!"}},
		"both":             {{Source, "e0", "e0:source"}, {Inside, "e0", "is source already"}},
		"both, reverse":    {{Inside, "e0", "e0:transit"}, {Sink, "e0", "is transit already"}},
		"unknown":          {{Sink, "e9", "has no port e9: it has e0, e1, e2, e3"}},
		"loopback":         {{Sink, "lo", "is the loopback interface"}},
	} {
		m, p := mergerOf(veths(4))
		for i, s := range steps {
			m.roles = s.roles
			target := Target{Place: p, Port: s.ports}
			if s.ports == "-" {
				target.Port = ""
			}
			err := m.add([]Target{target})
			if !strings.Contains(s.want, ":") || strings.Contains(s.want, "it has") {
				if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), s.want) {
					t.Errorf("%s, step %d: %v, want %q", name, i, err, s.want)
				}
				continue
			}
			if got := roles(&m.next.Nodes[0]); err != nil || got != s.want {
				t.Errorf("%s, step %d: %q, %v, want %q", name, i, got, err, s.want)
			}
		}
	}
}

// TestNothingUp: a node as a whole needs a port.
func TestNothingUp(t *testing.T) {
	m, p := mergerOf(veths(1))
	m.roles = Inside
	if err := m.add([]Target{{Place: p}}); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "no port that is up") {
		t.Error(err)
	}
}

// stackOf is e0 and e1 in a bridge br0, with VLAN 7 on e2 and VLAN 8 on br0.
func stackOf() []Interface {
	return []Interface{
		{Name: "e0", Ifindex: 2, Up: true, Master: 5}, {Name: "e1", Ifindex: 3, Up: true, Master: 5}, {Name: "e2", Ifindex: 4, Up: true},
		{Name: "br0", Ifindex: 5, Kind: "bridge", Up: true}, {Name: "e2.7", Ifindex: 6, Kind: "vlan", Up: true, Parent: 4},
		{Name: "br0.8", Ifindex: 7, Kind: "vlan", Up: true, Parent: 5},
	}
}

// TestThrough: packets that come up through others have the role of the port by which they came.
func TestThrough(t *testing.T) {
	n := &Node{Ports: []Port{{Name: "e0", Ifindex: 2, Flags: Inside}, {Name: "e1", Ifindex: 3, Flags: Inside}, {Name: "e2", Ifindex: 4, Flags: Sink}}}
	got, mixed := through(n, stackOf())
	if fmt.Sprint(got) != fmt.Sprint(map[int]Flags{2: Inside, 3: Inside, 4: Sink, 5: Inside, 6: Sink, 7: Inside}) || len(mixed) > 0 {
		t.Errorf("%v, %v", got, mixed)
	}
	n.Ports[1].Flags = Source
	got, mixed = through(n, stackOf())
	if _, has := got[5]; has || fmt.Sprint(mixed) != "[br0]" {
		t.Errorf("members of two roles: %v, %v", got, mixed)
	}
	n.Ports = n.Ports[:1]
	if got, mixed = through(n, stackOf()); len(got) != 1 || fmt.Sprint(mixed) != "[br0]" {
		t.Errorf("a member without a role: %v, %v", got, mixed)
	}
}

// TestStacked: no packet passes two ports of a node on its way out.
func TestStacked(t *testing.T) {
	m, p := mergerOf(stackOf())
	m.roles = Inside
	if err := m.add([]Target{{Place: p}}); err != nil || roles(&m.next.Nodes[0]) != "e0:transit? e1:transit? e2:transit?" {
		t.Errorf("%s, %v", roles(&m.next.Nodes[0]), err)
	}
	for _, port := range []string{"e2.7", "br0", "br0.8"} {
		if err := m.add([]Target{{Place: p, Port: port}}); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "one on the other") {
			t.Errorf("%s: %v", port, err)
		}
	}
}

// TestMask: no two interfaces have one element of the map.
func TestMask(t *testing.T) {
	n := &Node{}
	for _, c := range []struct {
		numbers []int
		want    uint32
	}{{[]int{1, 2, 255}, 255}, {[]int{1, 257}, 511}, {[]int{1, 257, 513}, 1023}, {[]int{5, 65541}, 1<<17 - 1}} {
		var list []Interface
		for _, i := range c.numbers {
			list = append(list, Interface{Ifindex: i})
		}
		if mask, err := maskFor(n, list); err != nil || mask != c.want {
			t.Errorf("%v: %#x, %v", c.numbers, mask, err)
		}
	}
	if _, err := maskFor(n, []Interface{{Ifindex: 1}, {Ifindex: 1 + 1<<20}}); err == nil {
		t.Error("numbers that are too far apart")
	}
}

// TestSinks: INT leaves no domain whose nodes do not take it off, unless others do.
func TestSinks(t *testing.T) {
	edge := []Port{{Name: "e0", Flags: Source | Sink}, {Name: "e1", Flags: Inside}}
	d := &Domain{Options: DefaultOptions(), Nodes: []Node{{Place: Place{Name: "a"}, Index: 1, Ports: edge}}}
	if err := d.checkSinks(); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "no other node takes it off") {
		t.Error(err)
	}
	d.Options.Entries[0].Mode = XD
	if err := d.checkSinks(); err != nil {
		t.Errorf("postcards: %v", err)
	}
	d.Options.Entries[0].Mode, d.Options.SinkElsewhere = MD, true
	if err := d.checkSinks(); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
	d.Options.SinkElsewhere = false
	d.Nodes = append(d.Nodes, Node{Place: Place{Name: "b"}, Index: 2, Ports: edge})
	if err := d.checkSinks(); err != nil {
		t.Error(err)
	}
	d.Nodes[1] = Node{Place: Place{Name: "b"}, Index: 2, Sink: true, Ports: []Port{{Name: "e0", Flags: Inside | Host}}}
	if err := d.checkSinks(); err != nil {
		t.Errorf("a host: %v", err)
	}
}
