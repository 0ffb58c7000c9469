// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/inspect"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Cause is why packets were lost at a place, or why a node sent no answer, as the kernels of nodes say now. Fields that a
// kind does not have are zero.
type Cause struct {
	Kind    CauseKind `json:"kind"`
	Node    string    `json:"node,omitempty"`    // which node is why
	Port    string    `json:"port,omitempty"`    // NODE/PORT
	Other   string    `json:"other,omitempty"`   // NODE/PORT of another port, or a node
	Address string    `json:"address,omitempty"` // of the packets, or of a node
	Setting string    `json:"setting,omitempty"` // "net.ipv4.ip_forward=0"
	State   string    `json:"state,omitempty"`   // of a port, an address or a route
	MTU     int       `json:"mtu,omitempty"`     // bytes
	Rules   []string  `json:"rules,omitempty"`   // each of which can have dropped them: table, chain, hook, handle or number; or that legacy tables have some
	More    int       `json:"more,omitempty"`    // rules beside these, at least
}

// CauseKind is what kind of cause it is.
type CauseKind string

// The kinds, with what they have beside Node.
const (
	NotForwarding   CauseKind = "not_forwarding"    // Address is not the node's; Setting; Other: the node that has it
	NotItsAddress   CauseKind = "not_its_address"   // Address; Other: the node that has it
	NoRouteBack     CauseKind = "no_route_back"     // Address
	NoDefaultRoute  CauseKind = "no_default_route"  // Address, to which there is no other route
	RouteForbids    CauseKind = "route_forbids"     // Address, State: prohibit, blackhole, unreachable
	WayBack         CauseKind = "way_back"          // Address, Port: by which the node would send to it
	EgressMTU       CauseKind = "egress_mtu"        // Port, MTU
	HairpinOff      CauseKind = "hairpin_off"       // Port
	PortIsolated    CauseKind = "port_isolated"     // Port
	PortBlocked     CauseKind = "port_blocked"      // Port, State: of spanning tree
	WrongFarEnd     CauseKind = "wrong_far_end"     // Port: the tunnel that sends to this node; Setting; Address: of the packets; Other: the node that has it
	NoMember        CauseKind = "no_member"         // Port: the bridge; Address: the group
	BridgedRules    CauseKind = "bridged_rules"     // Port: the bridge; Setting
	NoNeighbour     CauseKind = "no_neighbour"      // Address: no node of the domain has it
	ARPRefused      CauseKind = "arp_refused"       // Port: where the request comes in; Address: of who asks; Other: where the way back is
	MacvlanParent   CauseKind = "macvlan_parent"    // Port: the macvlan; Other: its parent
	AddressUnusable CauseKind = "address_unusable"  // Port, Address, State
	EchoIgnored     CauseKind = "echo_ignored"      // Setting
	ListensOn       CauseKind = "listens_on"        // Address: the only one
	QueueFull       CauseKind = "listen_queue_full" // no values
	NotAttached     CauseKind = "answers_by_port_not_attached"
	NoTranslation   CauseKind = "no_translation" // Address: of the connection's other end
	OtherZone       CauseKind = "other_zone"     // Setting: in which conntrack has the connections that the packets answer
	ByRule          CauseKind = "by_rule"        // Rules, More
)

// maxCauses bounds how many places of one question have causes looked for: each asks nodes.
const maxCauses = 32

// inspector is how a node is asked for causes.
type inspector struct {
	route     func(topo.NodeSpec, netip.Addr, netip.Addr) (inspect.Route, error)
	routeFrom func(topo.NodeSpec, netip.Addr, netip.Addr, int) (inspect.Route, error)
	def       func(topo.NodeSpec, netip.Addr) (bool, error)
	settings  func(topo.NodeSpec, ...string) (map[string]string, error)
	bridges   func(topo.NodeSpec) (inspect.Bridges, error)
	listeners func(topo.NodeSpec, uint8, uint16) ([]inspect.Listener, error)
	macvlans  func(topo.NodeSpec) ([]inspect.Macvlan, error)
	numberOf  func(node, other topo.NodeSpec) (int, error)
	unusable  func(topo.NodeSpec) ([]inspect.Address, error)
	tunnels   func(topo.NodeSpec) (inspect.Tunnels, error)
	zoned     func(topo.NodeSpec) ([]rules.ZonedAnswer, error)
	droppers  droppersOf
	// hookDroppers are of what netfilter's hooks free themselves.
	hookDroppers droppersOf
	ruled        func(topo.NodeSpec, netip.Addr) (bool, error)
	// connection is the socket with one of these pairs of ends.
	connection func(topo.NodeSpec, [][2]netip.AddrPort) (*inspect.Connection, error)
}

var theInspector = inspector{inspect.RouteTo, inspect.RouteFrom, inspect.HasDefault, inspect.Settings, inspect.BridgesOf,
	inspect.Listeners, inspect.Macvlans, inspect.NumberOf, inspect.Unusable, inspect.TunnelsOf, rules.UnansweredInZones, rules.Droppers, rules.HookDroppers, ruled, inspect.ConnectionOf}

// AskNode asks one node, for at most OneNode; ok is false if there is none of that name, or it did not answer. What look
// is given is all that it may use: it may still run when the question is over.
func AskNode[T any](l *Links, name string, look func(topo.NodeSpec) (T, error)) (is T, ok bool) {
	if l == nil || l.nodes == nil {
		return is, false
	}
	node := l.nodes.node(name)
	if node == nil {
		return is, false
	}
	s := askAll(l.nodes.asker, []*domain.Node{node}, look)[0]
	return s.is, s.ok
}

// Causes are why packets of these flows, of so many IP bytes on average (0: not known), were lost at a place; nil: nodes
// do not say more than the kernel's reason does. Of many places of a question only the first are looked at.
func (l *Links) Causes(p *aggregate.LossPlace, flows []aggregate.Flow, bytes uint64) []Cause {
	if l == nil || l.nodes == nil || len(flows) == 0 || l.nodes.node(p.Node) == nil || l.causes >= maxCauses {
		return nil
	}
	find := causeFinders[p.Reason]
	switch {
	case p.Reason == "" || p.Reason == "NOT_SPECIFIED":
		find = causeFinders[p.Function]
	case p.Reason == "IP_INNOROUTES" || find == nil && isOne(noRoute, p.Reason, p.Function):
		find = (*Links).routeForbids
	}
	if find == nil {
		return nil
	}
	l.causes++
	return find(l, &lostThere{p, flows, bytes})
}

// lostThere is what was lost at a place.
type lostThere struct {
	*aggregate.LossPlace
	flows []aggregate.Flow
	bytes uint64
}

// ends are the addresses of the flow that lost most there.
func (p *lostThere) ends() (src, dst netip.Addr, ok bool) {
	src, err := netip.ParseAddr(p.flows[0].Src)
	dst, failed := netip.ParseAddr(p.flows[0].Dst)
	return src, dst, err == nil && failed == nil
}

// causeFinders are by the kernel's reason; without one, by its function.
var causeFinders map[string]func(*Links, *lostThere) []Cause

func init() { // the functions read it themselves
	causeFinders = map[string]func(*Links, *lostThere) []Cause{
		"IP_INADDRERRORS":          (*Links).notForwarding,
		"IP_RPFILTER":              (*Links).wayBack,
		"PKT_TOO_BIG":              (*Links).egressMTU,
		"ip_error":                 (*Links).routeForbids,
		"OTHERHOST":                (*Links).otherHost,
		"NO_SOCKET":                (*Links).noSocket,
		"NETFILTER_DROP":           (*Links).byRule,
		rules.Hook:                 (*Links).byRule,
		"NO_TX_TARGET":             (*Links).bridgeRefusal,
		"BRIDGE_INGRESS_STP_STATE": (*Links).bridgeRefusal,
		"br_handle_frame_finish":   (*Links).bridgeRefusal,
		"__br_forward":             (*Links).bridgeRefusal,
		"br_forward":               (*Links).bridgeRefusal,
		"br_flood":                 (*Links).bridgeRefusal,
		"br_dev_queue_push_xmit":   (*Links).bridgeRefusal,
		"br_nf_dev_queue_xmit":     (*Links).bridgeRefusal,
		"NEIGH_FAILED":             (*Links).neighbourOf,
		"NEIGH_QUEUEFULL":          (*Links).neighbourOf,
		"arp_error_report":         (*Links).neighbourOf,
		"ndisc_error_report":       (*Links).neighbourOf,
		"neigh_invalidate":         (*Links).neighbourOf,
	}
}

// family is the name of a version of IP in settings.
func family(of netip.Addr) string {
	if of.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// notForwarding: a node does not forward, and got packets for another address. The kernel's reason says "address errors".
func (l *Links) notForwarding(p *lostThere) []Cause {
	_, dst, ok := p.ends()
	if !ok {
		return nil
	}
	all := family(dst) + "/conf/all/forwarding"
	decides := all
	if dst.Is4() { // IPv4 asks the port by which packets come in, IPv6 the node
		decides = "ipv4/conf/" + p.Port + "/forwarding"
	}
	values, ok := AskNode(l, p.Node, func(n topo.NodeSpec) (map[string]string, error) {
		return l.nodes.inspect.settings(n, decides, all)
	})
	if !ok {
		return nil
	}
	owners := l.ownersOf(dst.String())
	if slices.Contains(owners, p.Node) { // it has the address now
		return nil
	}
	c := Cause{Kind: NotItsAddress, Node: p.Node, Address: dst.String()}
	for _, owner := range owners {
		c.Other = owner
	}
	if values[decides] == "0" {
		c.Kind, c.Setting = NotForwarding, inspect.Sysctl(decides, "0")
		if values[all] == "0" {
			c.Setting = inspect.Sysctl(all, "0")
		}
	}
	if c.Setting == "net.ipv4.conf.all.forwarding=0" {
		c.Setting = "net.ipv4.ip_forward=0" // the same, by the name that people know
	}
	return []Cause{c}
}

// wayBack: the reverse path filter refused packets. Where would the node send to their source?
func (l *Links) wayBack(p *lostThere) []Cause {
	src, _, ok := p.ends()
	if !ok {
		return nil
	}
	return l.routeCause(p.Node, src, func(r *inspect.Route) *Cause {
		switch {
		case r.Kind == inspect.None:
			return &Cause{Kind: NoRouteBack, Node: p.Node, Address: src.String()}
		case r.Kind.Forbids():
			return &Cause{Kind: RouteForbids, Node: p.Node, Address: src.String(), State: string(r.Kind)}
		case r.Kind == inspect.Unicast && r.Port != "" && r.Port != p.Port:
			return &Cause{Kind: WayBack, Node: p.Node, Address: src.String(), Port: p.Node + "/" + r.Port}
		}
		return nil
	})
}

// egressMTU: packets were too large for the port by which the node sends them on, which is not the one of the row.
func (l *Links) egressMTU(p *lostThere) []Cause {
	_, dst, ok := p.ends()
	if !ok {
		return nil
	}
	return l.routeCause(p.Node, dst, func(r *inspect.Route) *Cause {
		if r.Kind == inspect.Unicast && r.Port != "" && r.MTU > 0 && (p.bytes == 0 || p.bytes > uint64(r.MTU)) {
			return &Cause{Kind: EgressMTU, Node: p.Node, Port: p.Node + "/" + r.Port, MTU: r.MTU}
		}
		return nil
	})
}

// routeForbids: a route is there that says not to send.
func (l *Links) routeForbids(p *lostThere) []Cause {
	_, dst, ok := p.ends()
	if !ok {
		return nil
	}
	return l.routeCause(p.Node, dst, func(r *inspect.Route) *Cause {
		if r.Kind.Forbids() {
			return &Cause{Kind: RouteForbids, Node: p.Node, Address: dst.String(), State: string(r.Kind)}
		}
		return nil
	})
}

// routeCause asks a node for its route to an address.
func (l *Links) routeCause(node string, dst netip.Addr, of func(*inspect.Route) *Cause) []Cause {
	route, ok := AskNode(l, node, func(n topo.NodeSpec) (inspect.Route, error) {
		return l.nodes.inspect.route(n, dst, netip.Addr{})
	})
	if !ok {
		return nil
	}
	if c := of(&route); c != nil && l.plainRoutes(node, dst) {
		return []Cause{*c}
	}
	return nil
}

// noSocket: nobody listens on that address. Does somebody listen on another one?
func (l *Links) noSocket(p *lostThere) []Cause {
	_, dst, ok := p.ends()
	f := &p.flows[0]
	proto, known := protos[f.Proto]
	if !ok || !known || f.Dport == nil {
		return nil
	}
	list, _ := AskNode(l, p.Node, func(n topo.NodeSpec) ([]inspect.Listener, error) {
		return l.nodes.inspect.listeners(n, proto, uint16(*f.Dport))
	})
	for i := range list {
		if list[i].Takes(dst) || list[i].Address != list[0].Address {
			return nil
		}
	}
	if len(list) == 0 {
		return nil
	}
	return []Cause{{Kind: ListensOn, Node: p.Node, Address: list[0].Address.String()}}
}

// protos are the protocols whose sockets can be asked for.
var protos = map[string]uint8{"tcp": 6, "udp": 17}

// ownersOf are the names of the nodes of the domain that have an address.
func (l *Links) ownersOf(address string) []string {
	l.read()
	if l.ownerNodes == nil {
		l.ownerNodes = make(map[string][]string)
		for id, interfaces := range l.interfaces {
			node := l.of.NodeByID(id)
			if node == nil {
				continue
			}
			for _, i := range interfaces {
				for _, a := range i.Addresses {
					key := a.Addr().String()
					if !slices.Contains(l.ownerNodes[key], node.Name) {
						l.ownerNodes[key] = append(l.ownerNodes[key], node.Name)
					}
				}
			}
		}
		for _, names := range l.ownerNodes {
			slices.Sort(names)
		}
	}
	return l.ownerNodes[address]
}
