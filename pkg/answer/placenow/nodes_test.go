// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/inspect"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestConntrackBefore: what conntrack has dropped is told as a cause only if it is known to have come after radar was
// attached. If that is not known, that is told, unless it never dropped anything.
func TestConntrackBefore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counters    map[string]uint64
		sinceAttach bool
		want        Netfilter
	}{
		{map[string]uint64{topo.ConntrackDrop: 5, topo.ConntrackInsertFailed: 3}, true, Netfilter{Rules: true, ConntrackDrops: 5, ConntrackNotInserted: 3}},
		{map[string]uint64{topo.ConntrackDrop: 5, topo.ConntrackInsertFailed: 3}, false, Netfilter{Rules: true, ConntrackUnknown: true}},
		{map[string]uint64{}, false, Netfilter{Rules: true}},
	} {
		n := newNodes(t.Context(), &domain.Domain{Nodes: []domain.Node{{Name: "h1"}}})
		n.kernel.dropping = func(topo.NodeSpec) (bool, error) { return true, nil }
		n.counts["h1"] = &kernelCounts{c.counters, c.sinceAttach}
		if f := n.netfilter("h1", "NETFILTER_DROP", rules.Hook); f == nil || !reflect.DeepEqual(*f, c.want) {
			t.Errorf("%v, since attach: %v: %+v, want %+v", c.counters, c.sinceAttach, f, c.want)
		}
	}
}

// TestNATPorts: NAT is asked for its ports only where conntrack could not note connections, and its rules are told only where
// none is known to have no port.
func TestNATPorts(t *testing.T) {
	t.Parallel()
	rule := rules.NATRule{Rule: "r", Low: 5000, High: 5003}
	full := []rules.NoFreePort{{NATRule: rule, Proto: "tcp", Used: 4}}
	for _, c := range []struct {
		failed uint64
		nat    rules.NATPorts
		want   Netfilter
	}{
		{0, rules.NATPorts{NoFree: full, Ranges: []rules.NATRule{rule}}, Netfilter{ConntrackDrops: 5}},
		{3, rules.NATPorts{NoFree: full, Ranges: []rules.NATRule{rule}}, Netfilter{ConntrackDrops: 5, ConntrackNotInserted: 3, NoFreePort: full}},
		{3, rules.NATPorts{Ranges: []rules.NATRule{rule}}, Netfilter{ConntrackDrops: 5, ConntrackNotInserted: 3, NATRules: []rules.NATRule{rule}}},
		{3, rules.NATPorts{}, Netfilter{ConntrackDrops: 5, ConntrackNotInserted: 3}},
	} {
		n := newNodes(t.Context(), &domain.Domain{Nodes: []domain.Node{{Name: "h1"}}})
		n.kernel.dropping = func(topo.NodeSpec) (bool, error) { return false, nil }
		n.kernel.natPorts = func(topo.NodeSpec) (rules.NATPorts, error) { return c.nat, nil }
		n.counts["h1"] = &kernelCounts{map[string]uint64{topo.ConntrackDrop: 5, topo.ConntrackInsertFailed: c.failed}, true}
		if f := n.netfilter("h1", "NETFILTER_DROP", rules.Hook); f == nil || fmt.Sprintf("%+v", *f) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%d not inserted, %+v: %+v, want %+v", c.failed, c.nat, f, c.want)
		}
	}
}

// hanging is a domain of nodes with a port each that is down. Those that hang say nothing before end.
func hanging(ctx context.Context, nodes int, hang ...string) (l *Links, asked func(string) int, end func()) {
	d := &domain.Domain{Name: "hanging"}
	for i := range nodes {
		d.Nodes = append(d.Nodes, domain.Node{ID: uint16(i + 1), Name: fmt.Sprint("h", i+1), Path: "/nowhere"})
		d.Ports = append(d.Ports, domain.Port{ID: uint16(i + 1), Node: uint16(i + 1), Name: "e0", Ifindex: 2, Peer: -1})
	}
	l = NewLinks(ctx, d)
	l.nodes.before = &domain.Counted{}
	ended, looks := make(chan struct{}), make(chan string, 1000)
	look := func(n topo.NodeSpec) {
		looks <- n.Name
		if slices.Contains(hang, n.Name) {
			<-ended
		}
	}
	l.nodes.kernel = kernel{
		interfaces: func(n topo.NodeSpec) (map[int]topo.Interface, error) {
			look(n)
			return map[int]topo.Interface{2: {State: topo.Down}}, nil
		},
		counters: func(n topo.NodeSpec) (map[string]uint64, error) {
			look(n)
			return map[string]uint64{"UdpNoPorts": 1}, nil
		},
	}
	asked = func(name string) (n int) {
		for range len(looks) {
			of := <-looks
			if looks <- of; of == name {
				n++
			}
		}
		return n
	}
	return l, asked, func() { close(ended) }
}

// TestHangingNode: nodes that hang keep neither the question waiting nor others from answering, are named, and are
// asked once.
func TestHangingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := []string{"h1", "h2", "h3"}
		l, asked, end := hanging(t.Context(), 5, hang...)
		silent := func(l *Links) bool {
			s := l.Silent()
			return slices.Equal(s.NoAnswer, hang) && len(s.NoTime) == 0
		}
		began := time.Now()
		if list := l.AllNotUp(); len(list) != 2 || list[0].Port != "h4/e0" || list[1].Port != "h5/e0" {
			t.Errorf("not up: %v", list)
		}
		if list, agree := l.Drops(nil, nil); len(list) != 2 || agree {
			t.Errorf("%v, nodes agree: %v", list, agree)
		}
		if took := time.Since(began); took != OneNode {
			t.Errorf("the question took %v", took)
		}
		if !silent(l) || asked("h1") != 1 {
			t.Errorf("silent: %+v; the first was asked %d times", l.Silent(), asked("h1"))
		}

		// Another question does not wait for them again, nor leave one more look there.
		other := func() *Links {
			other := NewLinks(t.Context(), l.of)
			other.nodes.kernel = l.nodes.kernel
			return other
		}
		began = time.Now()
		again := other()
		if list := again.AllNotUp(); len(list) != 2 || time.Since(began) != 0 || asked("h1") != 1 || !silent(again) {
			t.Errorf("another question: %v after %v; silent: %+v; the first was asked %d times", list, time.Since(began), again.Silent(), asked("h1"))
		}
		end()
		synctest.Wait()
		back := other()
		if list, s := back.AllNotUp(), back.Silent(); len(list) != 5 || s.Any() {
			t.Errorf("they are back: %v; silent: %+v", list, s)
		}
	})
}

// TestHangingSocket: a node that hangs keeps nobody waiting who asks for a socket, and is named.
func TestHangingSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l, _, end := hanging(ctx, 3)
		ended, asked := make(chan struct{}), 0
		l.nodes.inspect.connection = func(n topo.NodeSpec, _ [][2]netip.AddrPort) (*inspect.Connection, error) {
			switch n.Name {
			case "h1":
				asked++
				<-ended
			case "h2":
				return nil, nil // it has none
			}
			return &inspect.Connection{TCPInfo: netlink.TCPInfo{Snd_cwnd: 7}}, nil
		}
		ends := make([][2]netip.AddrPort, 1)
		for _, c := range []struct {
			node string
			took time.Duration
			is   bool
		}{{"h1", OneNode, false}, {"h1", 0, false}, {"h2", 0, false}, {"h3", 0, true}, {"h4", 0, false}} {
			began := time.Now()
			if s := l.TCPSocketOf(c.node, ends); (s != nil) != c.is || s != nil && s.Snd_cwnd != 7 || time.Since(began) != c.took {
				t.Errorf("%s: %+v after %v", c.node, s, time.Since(began))
			}
		}
		if s := l.Silent(); asked != 1 || !slices.Equal(s.NoAnswer, []string{"h1"}) || len(s.NoTime) > 0 {
			t.Errorf("asked %d times; silent: %+v", asked, s)
		}
		cancel()
		if s := l.TCPSocketOf("h3", ends); s != nil {
			t.Errorf("asked when nobody waits any more: %+v", s)
		}
		close(ended)
		end()
		synctest.Wait()
	})
}

// TestManyHang: a question waits for all nodes together as long as it says.
func TestManyHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		for i := range 3 * sideBySide {
			all = append(all, fmt.Sprint("h", i+1))
		}
		l, _, end := hanging(t.Context(), len(all), all...)
		began := time.Now()
		if list := l.AllNotUp(); len(list) > 0 {
			t.Errorf("not up: %v", list)
		}
		l.Drops(nil, nil)
		if took := time.Since(began); took != AllNodes {
			t.Errorf("the question took %v", took)
		}
		s := l.Silent()
		if len(s.NoAnswer)+len(s.NoTime) != len(all) || len(s.NoTime) < sideBySide {
			t.Errorf("silent: %+v", s)
		}
		end()
		synctest.Wait()
	})
}

// TestAskerGone: who asked and is gone waits for no node.
func TestAskerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		l, _, end := hanging(ctx, 2, "h1")
		time.AfterFunc(OneNode/2, func() { cancel(errors.New("gone")) })
		began := time.Now()
		l.AllNotUp()
		if took := time.Since(began); took != OneNode/2 || l.Silent().Any() {
			t.Errorf("the question took %v; silent: %+v", took, l.Silent())
		}
		end()
		synctest.Wait()
	})
}

// TestLookPanics: what panics in a look does so where the question can guard itself.
func TestLookPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p != "look" {
			t.Errorf("panicked: %v", p)
		}
	}()
	askAll(newAsker(t.Context()), []*domain.Node{{Name: "panics"}}, func(topo.NodeSpec) (int, error) { panic("look") })
}

// TestOthersDrops: drops that were seen of one protocol hide no counter of another one.
func TestOthersDrops(t *testing.T) {
	t.Parallel()
	row := func(reason string, packets uint64) aggregate.LossRow {
		return aggregate.LossRow{LossPlace: aggregate.LossPlace{Node: "h1", Reason: reason}, Packets: packets}
	}
	flow := func(reason, proto string, version int, packets uint64) aggregate.LossFlowRow {
		return aggregate.LossFlowRow{LossFlow: aggregate.LossFlow{Flow: aggregate.Flow{Proto: proto, IPVersion: version}, Packets: packets}, LossPlace: aggregate.LossPlace{Node: "h1", Reason: reason}}
	}
	for _, c := range []struct {
		what  string
		count string
		rows  []aggregate.LossRow
		flows []aggregate.LossFlowRow
		more  bool
	}{
		{"the same", "UdpNoPorts", []aggregate.LossRow{row("NO_SOCKET", 3)}, []aggregate.LossFlowRow{flow("NO_SOCKET", "udp", 4, 3)}, false},
		{"TCP's", "UdpNoPorts", []aggregate.LossRow{row("NO_SOCKET", 3)}, []aggregate.LossFlowRow{flow("NO_SOCKET", "tcp", 4, 3)}, true},
		{"IPv6's", "UdpNoPorts", []aggregate.LossRow{row("NO_SOCKET", 3)}, []aggregate.LossFlowRow{flow("NO_SOCKET", "udp", 6, 3)}, true},
		{"IPv4's", "Udp6NoPorts", []aggregate.LossRow{row("NO_SOCKET", 3)}, []aggregate.LossFlowRow{flow("NO_SOCKET", "udp", 4, 3)}, true},
		{"some TCP's", "UdpNoPorts", []aggregate.LossRow{row("NO_SOCKET", 4)}, []aggregate.LossFlowRow{flow("NO_SOCKET", "tcp", 4, 2), flow("NO_SOCKET", "udp", 4, 2)}, true},
		{"of no flow", "UdpNoPorts", []aggregate.LossRow{row("NO_SOCKET", 3)}, nil, false},
		{"some of no flow", "UdpNoPorts", []aggregate.LossRow{row("NO_SOCKET", 5)}, []aggregate.LossFlowRow{flow("NO_SOCKET", "tcp", 4, 2)}, false},
		{"UDP's full socket", "TcpExtTCPRcvQDrop", []aggregate.LossRow{row("SOCKET_RCVBUFF", 3)}, []aggregate.LossFlowRow{flow("SOCKET_RCVBUFF", "udp", 4, 3)}, true},
		{"full memory", "UdpRcvbufErrors", []aggregate.LossRow{row("PROTO_MEM", 3)}, []aggregate.LossFlowRow{flow("PROTO_MEM", "udp", 4, 3)}, true},
		{"an old kernel's", "UdpNoPorts", []aggregate.LossRow{row("", 3)}, []aggregate.LossFlowRow{flow("", "udp", 4, 3)}, false},
		{"an old kernel's of TCP", "UdpNoPorts", []aggregate.LossRow{row("", 3)}, []aggregate.LossFlowRow{flow("", "tcp", 4, 3)}, true},
	} {
		more := moreThanSeen(map[string]uint64{c.count: 3}, seenDrops(c.rows, c.flows), "h1")
		if (len(more) == 1) != c.more {
			t.Errorf("%s: %v", c.what, more)
		}
	}
}

// TestCausesBounded: of rows without end only the first ask nodes, and a node that hangs is asked once.
func TestCausesBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, end := hanging(t.Context(), 3)
		defer end()
		asked := 0
		l.nodes.inspect.route = func(topo.NodeSpec, netip.Addr, netip.Addr) (inspect.Route, error) {
			asked++
			return inspect.Route{Kind: inspect.Prohibit}, nil
		}
		flows := []aggregate.Flow{{Src: "10.0.0.1", Dst: "10.0.0.2"}}
		for range 1000 {
			l.Causes(&aggregate.LossPlace{Node: "h1", Port: "e0", Reason: "IP_INNOROUTES"}, flows, 0)
		}
		if asked != maxCauses {
			t.Errorf("h1 was asked %d times, want %d", asked, maxCauses)
		}
		l, _, end = hanging(t.Context(), 3, "h2")
		defer end()
		ended := make(chan struct{})
		defer close(ended)
		l.nodes.inspect.route = func(topo.NodeSpec, netip.Addr, netip.Addr) (inspect.Route, error) {
			<-ended
			return inspect.Route{}, nil
		}
		began := time.Now()
		for range 10 {
			if c := l.Causes(&aggregate.LossPlace{Node: "h2", Port: "e0", Reason: "IP_INNOROUTES"}, flows, 0); c != nil {
				t.Errorf("a node that hangs says %+v", c)
			}
		}
		if took := time.Since(began); took > AllNodes || !slices.Contains(l.Silent().NoAnswer, "h2") {
			t.Errorf("asked for %v; silent: %+v", took, l.Silent())
		}
	})
}

// TestCausesHostile: addresses and places that make no sense have no cause.
func TestCausesHostile(t *testing.T) {
	t.Parallel()
	l, _, end := hanging(t.Context(), 1)
	defer end()
	for reason, find := range causeFinders {
		for _, flow := range []aggregate.Flow{{}, {Src: "x", Dst: "y"}} {
			if c := find(l, &lostThere{&aggregate.LossPlace{Node: "h9", Port: "e9", Reason: reason}, []aggregate.Flow{flow}, 0}); len(c) > 0 {
				t.Errorf("%s: %+v", reason, c)
			}
		}
	}
}
