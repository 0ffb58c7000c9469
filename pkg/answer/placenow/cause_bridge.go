// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/vnet/inspect"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// bridgesOf are a node's bridges, asked once a question.
func (l *Links) bridgesOf(node string) *inspect.Bridges {
	if known, is := l.bridges[node]; is {
		return known
	}
	if l.bridges == nil {
		l.bridges = make(map[string]*inspect.Bridges)
	}
	l.bridges[node] = nil
	if l.nodes == nil {
		return nil
	}
	if b, ok := AskNode(l, node, l.nodes.inspect.bridges); ok {
		l.bridges[node] = &b
	}
	return l.bridges[node]
}

// bridgeRefusal: a bridge did not send packets on. Its ports say why; the kernel has one reason, or none, for all of that.
func (l *Links) bridgeRefusal(p *lostThere) []Cause {
	_, dst, ok := p.ends()
	bridges := l.bridgesOf(p.Node)
	if !ok || bridges == nil {
		return nil
	}
	own := bridges.Port(p.Port)
	if own == nil {
		return l.groupWithoutMember(p, bridges, dst)
	}
	sending := p.Function == "br_dev_queue_push_xmit" || p.Function == "br_nf_dev_queue_xmit"
	if own.State.Blocks() {
		return []Cause{l.blocked(p.Node, own)}
	}
	if sending {
		if p.bytes > uint64(own.MTU) {
			return []Cause{{Kind: EgressMTU, Node: p.Node, Port: p.Node + "/" + own.Name, MTU: own.MTU}}
		}
		return nil
	}
	if dst.IsMulticast() {
		return l.groupWithoutMember(p, bridges, dst)
	}
	to, others := l.behind(p.Node, bridges, own, dst), othersOf(bridges, own)
	known := to != nil
	if !known {
		switch {
		case len(others) == 1:
			to = others[0]
		case len(others) == 0 && l.owns(p.Node, dst): // the node's rules gave it another address, behind the only port
			to = own
		}
	}
	if c := l.refusedFor(p, own, to); c != nil {
		return c
	}
	if known || slices.ContainsFunc(others, func(other *inspect.BridgePort) bool { return l.leadsOn(p.Node, other) }) {
		return nil
	}
	return l.wrongFarEnd(p, dst)
}

// refusedFor is why a bridge does not send what came by one port on by another; nil: any port can have been meant.
func (l *Links) refusedFor(p *lostThere, own, to *inspect.BridgePort) []Cause {
	switch {
	case to == nil:
	case to.Ifindex == own.Ifindex:
		if !own.Hairpin {
			return []Cause{{Kind: HairpinOff, Node: p.Node, Port: p.Node + "/" + own.Name}}
		}
	case to.State.Blocks():
		return []Cause{l.blocked(p.Node, to)}
	case own.Isolated && to.Isolated:
		return []Cause{{Kind: PortIsolated, Node: p.Node, Port: p.Node + "/" + own.Name, Other: p.Node + "/" + to.Name}}
	case p.bytes > uint64(to.MTU):
		return []Cause{{Kind: EgressMTU, Node: p.Node, Port: p.Node + "/" + to.Name, MTU: to.MTU}}
	}
	return nil
}

// othersOf are the members that a port's bridge has beside it.
func othersOf(bridges *inspect.Bridges, own *inspect.BridgePort) (list []*inspect.BridgePort) {
	for i := range bridges.Ports {
		if p := &bridges.Ports[i]; p.Master == own.Master && p.Ifindex != own.Ifindex {
			list = append(list, p)
		}
	}
	return list
}

func (l *Links) blocked(node string, port *inspect.BridgePort) Cause {
	return Cause{Kind: PortBlocked, Node: node, Port: node + "/" + port.Name, State: port.State.String()}
}

// behind is the bridge's port behind which the node of the domain is that has an address; nil: not known.
func (l *Links) behind(node string, bridges *inspect.Bridges, own *inspect.BridgePort, dst netip.Addr) *inspect.BridgePort {
	l.read()
	for _, owner := range l.byAddress[dst.String()] {
		for i := range bridges.Ports {
			p := &bridges.Ports[i]
			if p.Master != own.Master {
				continue
			}
			if e := l.byName[node+"/"+p.Name]; e != nil && e.peer == owner.name {
				return p
			}
		}
	}
	return nil
}

// groupWithoutMember: a bridge that snoops sends to a group only where somebody has joined it.
func (l *Links) groupWithoutMember(p *lostThere, bridges *inspect.Bridges, dst netip.Addr) []Cause {
	if !dst.IsMulticast() {
		return nil
	}
	name := p.Port
	if own := bridges.Port(p.Port); own != nil {
		name = own.Bridge
	}
	if !bridges.Snooping[name] {
		return nil
	}
	return []Cause{{Kind: NoMember, Node: p.Node, Port: p.Node + "/" + name, Address: dst.String()}}
}

// bridgedRules: a rule for IP dropped frames that a bridge passes on. Few know that these pass such rules at all.
func (l *Links) bridgedRules(p *lostThere) []Cause {
	src, _, ok := p.ends()
	bridges := l.bridgesOf(p.Node)
	if !ok || bridges == nil {
		return nil
	}
	own := bridges.Port(p.Port)
	if own == nil {
		return nil
	}
	return l.callsRules(p.Node, own.Bridge, src)
}

// callsRules: a bridge hands what it passes on of that family to the rules of its node, if that is set.
func (l *Links) callsRules(node, bridge string, of netip.Addr) []Cause {
	tool := "iptables"
	if !of.Is4() {
		tool = "ip6tables"
	}
	name := "bridge/bridge-nf-call-" + tool
	values, _ := AskNode(l, node, func(n topo.NodeSpec) (map[string]string, error) { return l.nodes.inspect.settings(n, name) })
	if values[name] != "1" {
		return nil
	}
	return []Cause{{Kind: BridgedRules, Node: node, Port: node + "/" + bridge, Setting: inspect.Sysctl(name, "1")}}
}

// maxRules is how many rules a cause names.
const maxRules = 3

// byRule: a rule dropped packets. Which ones of the node can have done that, and why did bridged frames come there?
func (l *Links) byRule(p *lostThere) (list []Cause) {
	if p.Port != "" {
		list = l.bridgedRules(p)
	}
	src, _, ok := p.ends()
	if !ok {
		return list
	}
	look, legacy := l.nodes.inspect.droppers, []string{"iptables"}
	if p.Function == rules.Hook {
		look = l.nodes.inspect.hookDroppers
	}
	families := []string{"ip", "inet", "bridge", "netdev"}
	if !src.Is4() {
		families[0], legacy[0] = "ip6", "ip6tables"
	}
	if bridges := l.bridgesOf(p.Node); bridges != nil && bridges.Port(p.Port) != nil {
		legacy = append(legacy, "ebtables")
	}
	all, _ := l.droppers(p.Node, look, func(d rules.Dropper) bool {
		sent := d.Hook == "output" || d.Hook == "postrouting" || d.Hook == "egress"
		notOnTheWay := p.Port == "" && !sent && d.Hook != "" || p.Port != "" && d.Hook == "output"
		return slices.Contains(families, d.Family) && !notOnTheWay
	})
	if len(all.List) == 0 {
		return list
	}
	c := Cause{Kind: ByRule, Node: p.Node}
	for i, d := range all.List {
		if i == maxRules {
			c.More = len(all.List) - maxRules
			break
		}
		c.Rules = append(c.Rules, d.String())
	}
	if all.Cut {
		c.More++
	}
	for _, tool := range all.Legacy {
		if text := "a rule of legacy " + tool; slices.Contains(legacy, tool) && !slices.Contains(c.Rules, text) {
			c.Rules = append(c.Rules, text)
		}
	}
	return append(append(list, c), l.otherZone(p, all.List)...)
}

// droppersOf finds what can drop packets in a node, of what keep keeps.
type droppersOf func(node topo.NodeSpec, keep func(rules.Dropper) bool) (rules.DropperList, error)

// droppers asks a node so.
func (l *Links) droppers(node string, look droppersOf, keep func(rules.Dropper) bool) (rules.DropperList, bool) {
	return AskNode(l, node, func(n topo.NodeSpec) (rules.DropperList, error) { return look(n, keep) })
}

// bridgedHooks are those of IP that frames pass which a bridge passes on.
var bridgedHooks = []string{"prerouting", "forward", "postrouting"}

// bridgedDrops reports whether a node's rules for IPv6 can drop frames that its bridges pass on. Of chains that others
// call nobody knows from which hook.
func (l *Links) bridgedDrops(node string) bool {
	found, ok := l.droppers(node, l.nodes.inspect.droppers, func(d rules.Dropper) bool {
		return (d.Family == "ip6" || d.Family == "inet") && slices.Contains(bridgedHooks, d.Hook)
	})
	return ok && len(found.List) > 0
}
