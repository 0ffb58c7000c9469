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
	if b, ok := askNode(l, node, l.nodes.inspect.bridges); ok {
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
	behind := l.behind(p.Node, bridges, own, dst)
	for i := range bridges.Ports {
		to := &bridges.Ports[i]
		if to.Master != own.Master || behind != nil && to.Ifindex != behind.Ifindex || to.Ifindex == own.Ifindex {
			continue
		}
		switch {
		case to.State.Blocks():
			return []Cause{l.blocked(p.Node, to)}
		case own.Isolated && to.Isolated:
			return []Cause{{Kind: PortIsolated, Node: p.Node, Port: p.Node + "/" + own.Name, Other: p.Node + "/" + to.Name}}
		case p.bytes > uint64(to.MTU):
			return []Cause{{Kind: EgressMTU, Node: p.Node, Port: p.Node + "/" + to.Name, MTU: to.MTU}}
		}
	}
	// All other ports would have sent it: it was to go back by its own.
	if !own.Hairpin && (behind == nil || behind.Ifindex == own.Ifindex) {
		return []Cause{{Kind: HairpinOff, Node: p.Node, Port: p.Node + "/" + own.Name}}
	}
	return nil
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
	values, _ := askNode(l, node, func(n topo.NodeSpec) (map[string]string, error) { return l.nodes.inspect.settings(n, name) })
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
	if !ok || p.Function == rules.Hook { // rules of nf_tables are none of these, or the kernel does not tell them apart
		return list
	}
	all, _ := askNode(l, p.Node, l.nodes.inspect.droppers)
	families := []string{"ip", "inet", "bridge", "netdev"}
	if !src.Is4() {
		families[0] = "ip6"
	}
	c := Cause{Kind: ByRule, Node: p.Node}
	for _, d := range all {
		sent := d.Hook == "output" || d.Hook == "postrouting" || d.Hook == "egress"
		switch {
		case !slices.Contains(families, d.Family):
		case p.Port == "" && !sent && d.Hook != "", p.Port != "" && d.Hook == "output": // not on the way of these
		case len(c.Rules) == maxRules:
			c.More++
		default:
			c.Rules = append(c.Rules, d.String())
		}
	}
	if len(c.Rules) > 0 {
		list = append(list, c)
	}
	return list
}
