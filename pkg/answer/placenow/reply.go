// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/vnet/inspect"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Request is what came to a node, and was not answered.
type Request struct {
	Node     string
	From, To netip.Addr // as the node saw them
	Proto    string     // "icmp", "icmpv6", "tcp", "udp"
	Port     int        // -1: the protocol has none
}

// NoAnswer is why a node sent no answer; nil: it does not say. known is false if the node could not be asked.
func (l *Links) NoAnswer(r *Request) (c *Cause, known bool) {
	if l == nil || l.nodes == nil || l.nodes.node(r.Node) == nil {
		return nil, false
	}
	for _, look := range []func(*Request) (*Cause, bool){l.echoIgnored, l.routeBack, l.ownUnusable, l.listenQueue} {
		c, ok := look(r)
		if c != nil {
			return c, true
		}
		known = known || ok
	}
	return nil, known
}

// echoIgnored: the node is set not to answer.
func (l *Links) echoIgnored(r *Request) (*Cause, bool) {
	name := "ipv4/icmp_echo_ignore_all"
	switch r.Proto {
	case "icmp":
	case "icmpv6":
		name = "ipv6/icmp/echo_ignore_all"
	default:
		return nil, true
	}
	values, ok := AskNode(l, r.Node, func(n topo.NodeSpec) (map[string]string, error) { return l.nodes.inspect.settings(n, name) })
	if values[name] != "1" {
		return nil, ok
	}
	return &Cause{Kind: EchoIgnored, Node: r.Node, Setting: inspect.Sysctl(name, "1")}, true
}

// routeBack: there is none, or it leads where nobody measures.
func (l *Links) routeBack(r *Request) (*Cause, bool) {
	src := r.To
	if !l.owns(r.Node, r.To) { // it would not send from there
		src = netip.Addr{}
	}
	route, ok := AskNode(l, r.Node, func(n topo.NodeSpec) (inspect.Route, error) { return l.nodes.inspect.route(n, r.From, src) })
	if !ok {
		return nil, false
	}
	c := &Cause{Node: r.Node, Address: r.From.String()}
	switch {
	case route.Kind == inspect.None:
		c.Kind = NoRouteBack
		has, ok := AskNode(l, r.Node, func(n topo.NodeSpec) (bool, error) { return l.nodes.inspect.def(n, r.From) })
		if ok && !has {
			c.Kind = NoDefaultRoute
		}
	case route.Kind.Forbids():
		c.Kind, c.State = RouteForbids, string(route.Kind)
	case route.Kind == inspect.Unicast && route.Port != "" && l.byName[r.Node+"/"+route.Port] == nil:
		c.Kind, c.Port = NotAttached, r.Node+"/"+route.Port
	default:
		return nil, true
	}
	return c, true
}

// owns reports whether a node has an address.
func (l *Links) owns(node string, address netip.Addr) bool {
	for _, owner := range l.ownersOf(address.String()) {
		if owner == node {
			return true
		}
	}
	return false
}

// ownUnusable: the node does not use the address that was asked.
func (l *Links) ownUnusable(r *Request) (*Cause, bool) {
	if !r.To.Is6() {
		return nil, true
	}
	list, ok := AskNode(l, r.Node, l.nodes.inspect.unusable)
	for _, a := range list {
		if a.Address == r.To {
			return &Cause{Kind: AddressUnusable, Node: r.Node, Port: r.Node + "/" + a.Port, Address: r.To.String(), State: string(a.State)}, true
		}
	}
	return nil, ok
}

// listenQueue: nobody accepts the connections that wait.
func (l *Links) listenQueue(r *Request) (*Cause, bool) {
	if r.Proto != "tcp" || r.Port < 0 {
		return nil, true
	}
	list, ok := AskNode(l, r.Node, func(n topo.NodeSpec) ([]inspect.Listener, error) {
		return l.nodes.inspect.listeners(n, protos["tcp"], uint16(r.Port))
	})
	for i := range list {
		if list[i].Takes(r.To) && list[i].Full() {
			return &Cause{Kind: QueueFull, Node: r.Node, Address: list[i].Address.String()}, true
		}
	}
	return nil, ok
}

// Answered is how many echo requests of a version of IP a node has answered, by its own counters, since attach. known is
// false if it could not be asked, or counts since it began.
func (l *Links) Answered(node, proto string) (n uint64, known bool) {
	name := "IcmpOutEchoReps"
	if proto == "icmpv6" {
		name = "Icmp6OutEchoReplies"
	}
	return l.counter(node, name)
}

// counter is one of a node's own since attach.
func (l *Links) counter(node, name string) (n uint64, known bool) {
	if l == nil || l.nodes == nil {
		return 0, false
	}
	l.nodes.count(node)
	counts := l.nodes.counts[node]
	return counts.counters[name], counts.counters != nil && counts.sinceAttach
}

// Limited is how many ICMP errors a node has sent since attach, and how many of them it held back (icmp_ratelimit).
type Limited struct {
	Node       string
	Sent, Held uint64
}

// ErrorsLimited asks a node. ok is false if it does not count that, as before Linux 6.0, or held back none.
func (l *Links) ErrorsLimited(node string, v6 bool) (e Limited, ok bool) {
	e.Node = node
	sum := func(names ...string) (n uint64) {
		for _, name := range names {
			more, known := l.counter(node, name)
			if known {
				n += more
			}
		}
		return n
	}
	if v6 {
		e.Sent, e.Held = sum("Icmp6OutTimeExcds", "Icmp6OutDestUnreachs"), sum("Icmp6OutRateLimitHost")
	} else {
		e.Sent, e.Held = sum("IcmpOutTimeExcds", "IcmpOutDestUnreachs"), sum("IcmpOutRateLimitHost", "IcmpOutRateLimitGlobal")
	}
	return e, e.Held > 0
}

// NoRouteOut is a node whose programs have sent packets to where it has no route.
type NoRouteOut struct {
	Node      string
	Version   int // of IP
	Packets   uint64
	NoDefault bool // it has no default route now
}

// NoRoutesOut are those of the domain, by their own counters since attach.
func (l *Links) NoRoutesOut() (list []NoRouteOut) {
	if l == nil || l.nodes == nil {
		return nil
	}
	var names []string
	for _, n := range l.of.Chosen() {
		names = append(names, n.Name)
	}
	l.nodes.count(names...)
	for _, name := range names {
		for _, of := range []struct {
			counter string
			version int
			any     netip.Addr
		}{{"IpOutNoRoutes", 4, netip.IPv4Unspecified()}, {"Ip6OutNoRoutes", 6, netip.IPv6Unspecified()}} {
			n, known := l.counter(name, of.counter)
			if !known || n == 0 {
				continue
			}
			has, ok := AskNode(l, name, func(node topo.NodeSpec) (bool, error) { return l.nodes.inspect.def(node, of.any) })
			list = append(list, NoRouteOut{name, of.version, n, ok && !has})
		}
	}
	return list
}

// Setting is the value of one of a node's sysctls below net ("ipv4/ip_forward"); "" if it cannot be asked.
func (l *Links) Setting(node, name string) string {
	values, _ := AskNode(l, node, func(n topo.NodeSpec) (map[string]string, error) { return l.nodes.inspect.settings(n, name) })
	return values[name]
}
