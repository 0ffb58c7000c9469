// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/inspect"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// bridged is a domain whose hosts, h1 and so on, hang on ports p1 and so on of a bridge of s. Their nodes say what the
// test has them say.
type bridged struct {
	*Links
	bridges  inspect.Bridges
	found    []rules.Dropper
	cut      bool
	legacy   []string
	settings map[string]string
	kinds    map[string]string // of a node's port
	route    inspect.Route
	ruled    bool
	sockets  []inspect.Listener
	zoned    []rules.ZonedAnswer
	dumps    int // of zoned
}

// newBridged: host i has 10.0.0.i and fd00::i, s has 10.0.0.100.
func newBridged(t *testing.T, hosts int) *bridged {
	d := &domain.Domain{Name: t.Name()}
	b := &bridged{settings: make(map[string]string), kinds: make(map[string]string), route: inspect.Route{Kind: inspect.Unicast, Port: "e0"}}
	for i := 1; i <= hosts; i++ {
		host, port := "h"+string(rune('0'+i)), "p"+string(rune('0'+i))
		d.Nodes = append(d.Nodes, domain.Node{ID: uint16(i), Name: host, Path: "/nowhere"})
		d.Ports = append(d.Ports, domain.Port{ID: uint16(i), Node: uint16(i), Name: "e0", Ifindex: 2, Peer: -1})
		d.Members = append(d.Members, domain.Member{Node: 100, Name: port, Ifindex: i, To: host + "/e0"})
		b.bridges.Ports = append(b.bridges.Ports, inspect.BridgePort{Name: port, Ifindex: i, Master: 9, Bridge: "br0", MTU: 1500, State: inspect.STPForwarding})
	}
	d.Nodes = append(d.Nodes, domain.Node{ID: 100, Name: "s", Path: "/nowhere"})
	b.Links = NewLinks(t.Context(), d)
	b.nodes.before = &domain.Counted{}
	b.nodes.kernel.interfaces = func(n topo.NodeSpec) (map[int]topo.Interface, error) {
		is := topo.Interface{State: topo.Up, Kind: b.kinds[n.Name]}
		i := n.Name[1:]
		if n.Name == "s" {
			is.Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.0.100/32")}
		} else {
			is.Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.0." + i + "/24"), netip.MustParsePrefix("fd00::" + i + "/64")}
		}
		return map[int]topo.Interface{2: is}, nil
	}
	b.nodes.inspect = inspector{
		route:     func(topo.NodeSpec, netip.Addr, netip.Addr) (inspect.Route, error) { return b.route, nil },
		routeFrom: func(topo.NodeSpec, netip.Addr, netip.Addr, int) (inspect.Route, error) { return b.route, nil },
		settings:  func(topo.NodeSpec, ...string) (map[string]string, error) { return b.settings, nil },
		bridges:   func(topo.NodeSpec) (inspect.Bridges, error) { return b.bridges, nil },
		listeners: func(topo.NodeSpec, uint8, uint16) ([]inspect.Listener, error) { return b.sockets, nil },
		macvlans:  func(topo.NodeSpec) ([]inspect.Macvlan, error) { return nil, nil },
		zoned:     func(topo.NodeSpec) ([]rules.ZonedAnswer, error) { b.dumps++; return b.zoned, nil },
		unusable:  func(topo.NodeSpec) ([]inspect.Address, error) { return nil, nil },
		ruled:     func(topo.NodeSpec, netip.Addr) (bool, error) { return b.ruled, nil },
		droppers: func(_ topo.NodeSpec, keep func(rules.Dropper) bool) (rules.DropperList, error) {
			list := rules.DropperList{Cut: b.cut, Legacy: b.legacy}
			for _, d := range b.found {
				if keep(d) {
					list.List = append(list.List, d)
				}
			}
			return list, nil
		},
	}
	b.nodes.inspect.hookDroppers = b.nodes.inspect.droppers
	return b
}

// want has what was found: a cause of that kind, and at that port; "": none.
func want(t *testing.T, what string, got []Cause, kind CauseKind, port string) {
	t.Helper()
	if kind == "" && len(got) == 0 || len(got) == 1 && got[0].Kind == kind && got[0].Port == port {
		return
	}
	t.Errorf("%s: %+v, want %q at %q", what, got, kind, port)
}

// TestBridgedNeighbour: rules for IPv6 are named for a neighbour that does not answer only if a bridged frame passes one
// that can drop.
func TestBridgedNeighbour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		family string
		hook   string
		dst    string
		kind   CauseKind
		port   string
	}{
		{"no rule", "", "", "fd00::2", "", ""},
		{"a policy of IPv6", "ip6", "forward", "fd00::2", BridgedRules, "s/br0"},
		{"a rule of both", "inet", "prerouting", "fd00::2", BridgedRules, "s/br0"},
		{"of IPv4", "ip", "forward", "fd00::2", "", ""},
		{"of what comes for the node", "ip6", "input", "fd00::2", "", ""},
		{"of a chain that is called", "ip6", "", "fd00::2", "", ""},
		{"nobody has it", "ip6", "forward", "fd00::77", NoNeighbour, ""},
		{"ARP", "inet", "forward", "10.0.0.2", "", ""},
	} {
		b := newBridged(t, 2)
		b.settings["bridge/bridge-nf-call-ip6tables"] = "1"
		if c.family != "" {
			b.found = []rules.Dropper{{Family: c.family, Table: "f", Chain: "c", Hook: c.hook}}
		}
		want(t, c.what, b.Neighbour("h1", netip.MustParseAddr("fd00::1"), netip.MustParseAddr(c.dst)), c.kind, c.port)
	}
}

// TestUnknownNeighbour: ports of others are not to blame for an address that nobody has.
func TestUnknownNeighbour(t *testing.T) {
	t.Parallel()
	src := netip.MustParseAddr("10.0.0.1")
	for _, c := range []struct {
		what    string
		blocked int
		dst     string
		kind    CauseKind
		port    string
	}{
		{"the port of another", 2, "10.0.0.77", NoNeighbour, ""},
		{"the own port", 0, "10.0.0.77", PortBlocked, "s/p1"},
		{"the owner's port", 1, "10.0.0.2", PortBlocked, "s/p2"},
		{"a third one's", 2, "10.0.0.2", "", ""},
	} {
		b := newBridged(t, 3)
		b.bridges.Ports[c.blocked].State = inspect.STPBlocking
		want(t, c.what, b.Neighbour("h1", src, netip.MustParseAddr(c.dst)), c.kind, c.port)
	}
	b := newBridged(t, 3)
	b.bridges.Ports[0].Isolated, b.bridges.Ports[2].Isolated = true, true
	want(t, "isolated", b.Neighbour("h1", src, netip.MustParseAddr("10.0.0.77")), NoNeighbour, "")
}

// TestBridgeRefusal: a port is named only if the frame was for it.
func TestBridgeRefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		hosts   int
		blocked int // -1: none
		dst     string
		kind    CauseKind
		port    string
	}{
		{"not known whom, of two", 3, 2, "10.0.0.77", "", ""},
		{"not known whom, of two, the first", 3, 1, "10.0.0.77", "", ""},
		{"not known whom, of one", 2, 1, "10.0.0.77", PortBlocked, "s/p2"},
		{"known", 3, 2, "10.0.0.3", PortBlocked, "s/p3"},
		{"known, another is blocked", 3, 2, "10.0.0.2", "", ""},
		{"back by its own port", 3, 2, "10.0.0.1", HairpinOff, "s/p1"},
		{"not known whom", 3, -1, "10.0.0.77", "", ""},
		{"not known whom, nor another port", 1, -1, "10.0.0.77", "", ""},
		{"the node's own address, translated, and no other port", 1, -1, "10.0.0.100", HairpinOff, "s/p1"},
		{"the node's own address, translated", 3, -1, "10.0.0.100", "", ""},
	} {
		b := newBridged(t, c.hosts)
		if c.blocked >= 0 {
			b.bridges.Ports[c.blocked].State = inspect.STPBlocking
		}
		want(t, c.what, b.at("s", "p1", "NO_TX_TARGET", "", "10.0.0.1", c.dst), c.kind, c.port)
	}
}

// at are the causes of a place for a flow.
func (b *bridged) at(node, port, reason, function, src, dst string) []Cause {
	dport := 80
	flow := aggregate.Flow{Src: src, Dst: dst, Proto: "tcp", Dport: &dport}
	return b.Causes(&aggregate.LossPlace{Node: node, Port: port, Reason: reason, Function: function}, []aggregate.Flow{flow}, 1000)
}

// TestRoutesChosenByRules: where rules or VRFs choose the table, the node's own route is no cause.
func TestRoutesChosenByRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		route  inspect.Route
		kind   CauseKind
		port   string
	}{
		{"IP_RPFILTER", inspect.Route{Kind: inspect.Unicast, Port: "e1"}, WayBack, "h1/e1"},
		{"IP_RPFILTER", inspect.Route{Kind: inspect.None}, NoRouteBack, ""},
		{"PKT_TOO_BIG", inspect.Route{Kind: inspect.Unicast, Port: "e1", MTU: 900}, EgressMTU, "h1/e1"},
		{"IP_INNOROUTES", inspect.Route{Kind: inspect.Prohibit}, RouteForbids, ""},
		{"NEIGH_FAILED", inspect.Route{Kind: inspect.Unicast, Port: "e0"}, NoNeighbour, ""},
	} {
		ask := func(b *bridged) []Cause {
			b.route = c.route
			return b.at("h1", "e0", c.reason, "", "10.0.0.1", "10.0.0.77")
		}
		want(t, c.reason, ask(newBridged(t, 2)), c.kind, c.port)
		b := newBridged(t, 2)
		b.ruled = true
		want(t, c.reason+" and rules", ask(b), "", "")
		b = newBridged(t, 2)
		b.kinds["h1"] = "vrf"
		want(t, c.reason+" and a VRF", ask(b), "", "")
	}
}

// TestRuled: the rules of a new node are the kernel's; any other one is seen, whatever it asks.
func TestRuled(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a")
	list, err := topo.ParseSpecs([]string{n.Spec("a")})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]netip.Addr{"-4": netip.MustParseAddr("10.0.0.1"), "-6": netip.MustParseAddr("fd00::1")}
	check := func(family, what string, want bool) {
		t.Helper()
		if got, err := ruled(list[0], of[family]); got != want || err != nil {
			t.Errorf("%s %s: %v, %v; want %v", family, what, got, err, want)
		}
	}
	for family, other := range map[string]string{"-4": "-6", "-6": "-4"} {
		check(family, "none", false)
		for _, rule := range []string{"from all lookup 7", "iif lo lookup main", "fwmark 1 lookup main pref 32766", "from all lookup main suppress_prefixlength 0 pref 32766", "from all prohibit"} {
			n.Run("a", "sh", "-c", "ip "+family+" rule add "+rule)
			check(family, rule, true)
			check(other, "none for "+rule, false)
			n.Run("a", "sh", "-c", "ip "+family+" rule del "+rule)
			check(family, "none after "+rule, false)
		}
	}
	vrf := append([]byte{unix.AF_INET, 7: unix.FR_ACT_TO_TBL, 11: 0}, nl.NewRtAttr(unix.FRA_L3MDEV, []byte{1}).Serialize()...)
	if kernelsRule(vrf) || kernelsRule(nil) {
		t.Error("the rule of VRFs, or none, is taken for one that each node has")
	}
}

// TestNotForwarding: IPv4 asks the port by which packets come in, IPv6 the node.
func TestNotForwarding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, dst string
		settings  map[string]string
		kind      CauseKind
		setting   string
	}{
		{"none", "10.0.0.2", map[string]string{"ipv4/conf/e0/forwarding": "0", "ipv4/conf/all/forwarding": "0"}, NotForwarding, "net.ipv4.ip_forward=0"},
		{"the port does not", "10.0.0.2", map[string]string{"ipv4/conf/e0/forwarding": "0", "ipv4/conf/all/forwarding": "1"}, NotForwarding, "net.ipv4.conf.e0.forwarding=0"},
		{"the port does", "10.0.0.2", map[string]string{"ipv4/conf/e0/forwarding": "1", "ipv4/conf/all/forwarding": "0"}, NotItsAddress, ""},
		{"IPv6, the node does", "fd00::2", map[string]string{"ipv6/conf/e0/forwarding": "0", "ipv6/conf/all/forwarding": "1"}, NotItsAddress, ""},
		{"IPv6, the node does not", "fd00::2", map[string]string{"ipv6/conf/e0/forwarding": "1", "ipv6/conf/all/forwarding": "0"}, NotForwarding, "net.ipv6.conf.all.forwarding=0"},
	} {
		b := newBridged(t, 2)
		b.settings = c.settings
		got := b.at("h1", "e0", "IP_INADDRERRORS", "", "10.0.0.9", c.dst)
		if len(got) != 1 || got[0].Kind != c.kind || got[0].Setting != c.setting {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

// TestListensOn: the address of sockets is named only if none takes the packet, and all have the same.
func TestListensOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sockets []string
		kind    CauseKind
	}{
		{nil, ""},
		{[]string{"127.0.0.1"}, ListensOn},
		{[]string{"127.0.0.1", "127.0.0.1"}, ListensOn},
		{[]string{"127.0.0.1", "10.0.0.5"}, ""},
		{[]string{"127.0.0.1", "10.0.0.1"}, ""},
		{[]string{"127.0.0.1", "0.0.0.0"}, ""},
		{[]string{"10.0.0.1"}, ""},
		{[]string{"0.0.0.0"}, ""},
		{[]string{"::1"}, ListensOn},
	} {
		b := newBridged(t, 2)
		for _, s := range c.sockets {
			b.sockets = append(b.sockets, inspect.Listener{Address: netip.MustParseAddr(s)})
		}
		want(t, "", b.at("h1", "e0", "NO_SOCKET", "", "10.0.0.2", "10.0.0.1"), c.kind, "")
	}
}

// TestByRule: only what is on the way of packets is named, and as one of several if there can be more.
func TestByRule(t *testing.T) {
	t.Parallel()
	forward := rules.Dropper{Family: "ip", Table: "f", Chain: "c", Hook: "forward"}
	for _, c := range []struct {
		what   string
		found  []rules.Dropper
		cut    bool
		legacy []string
		node   string
		port   string
		rules  []string
		more   int
	}{
		{"one", []rules.Dropper{forward, {Family: "ip6", Hook: "forward"}, {Family: "ip", Hook: "output"}}, false, []string{"ip6tables", "ebtables"}, "h1", "e0", []string{"ip f c (hook forward): policy"}, 0},
		{"several", []rules.Dropper{forward, forward, forward, forward, forward}, false, nil, "h1", "e0", []string{forward.String(), forward.String(), forward.String()}, 2},
		{"cut", []rules.Dropper{forward}, true, nil, "h1", "e0", []string{forward.String()}, 1},
		{"legacy", []rules.Dropper{forward}, false, []string{"iptables"}, "h1", "e0", []string{forward.String(), "a rule of legacy iptables"}, 0},
		{"legacy of a bridge", []rules.Dropper{forward}, false, []string{"ip6tables", "ebtables"}, "s", "p1", []string{forward.String(), "a rule of legacy ebtables"}, 0},
		{"none", nil, false, []string{"iptables"}, "h1", "e0", nil, 0},
		{"of what is sent", []rules.Dropper{forward}, false, nil, "h1", "", nil, 0},
	} {
		b := newBridged(t, 2)
		b.found, b.cut, b.legacy = c.found, c.cut, c.legacy
		got := b.at(c.node, c.port, "NETFILTER_DROP", "nft_do_chain", "10.0.0.1", "10.0.0.2")
		if c.rules == nil && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].Kind != ByRule || !slices.Equal(got[0].Rules, c.rules) || got[0].More != c.more {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

// TestWrongFarEnd: the far end that another tunnel has for a host is named only if no port here can lead to the host, and only
// of the same tunnel.
func TestWrongFarEnd(t *testing.T) {
	t.Parallel()
	mac := topo.MAC{2, 0, 0, 0, 0, 2}
	for _, c := range []struct {
		what    string
		toward  []string // what other ports of n2's bridge lead to
		blocked bool     // the first of these
		vni     int      // of n1's tunnel; n2's has 7
		entry   int      // the number of the tunnel that has the entry; n1's has 3
		kind    CauseKind
		port    string
	}{
		{"no other port", nil, false, 7, 3, WrongFarEnd, "n1/vx"},
		{"another tunnel's entry", nil, false, 7, 4, "", ""},
		{"another VNI", nil, false, 8, 3, "", ""},
		{"only port to a switch is blocked", []string{"s/p2"}, true, 7, 3, PortBlocked, "n2/p0"},
		{"a port to a switch", []string{"s/p2", "c/e0"}, false, 7, 3, "", ""},
		{"a port to nobody knows what", []string{"c/e0", "x/e0"}, false, 7, 3, "", ""},
		{"a port to another host", []string{"c/e0"}, false, 7, 3, WrongFarEnd, "n1/vx"},
	} {
		d := &domain.Domain{Name: t.Name()}
		for i, name := range []string{"n1", "n2", "s", "b", "c"} {
			d.Nodes = append(d.Nodes, domain.Node{ID: uint16(i + 1), Name: name, Path: "/nowhere"})
		}
		d.Ports = []domain.Port{{ID: 1, Node: 1, Name: "vx", Ifindex: 3, Peer: -1, Kind: "vxlan"}, {ID: 2, Node: 2, Name: "vx", Ifindex: 3, Peer: -1, Kind: "vxlan"},
			{ID: 3, Node: 4, Name: "e0", Ifindex: 2, Peer: -1}, {ID: 4, Node: 5, Name: "e0", Ifindex: 2, Peer: -1}}
		d.Members = []domain.Member{{Node: 3, Name: "p1", Ifindex: 1, To: "b/e0"}, {Node: 3, Name: "p2", Ifindex: 2, To: "n2/p0"}}
		here := inspect.Bridges{Ports: []inspect.BridgePort{{Name: "vx", Ifindex: 3, Master: 9, Bridge: "br0", MTU: 1500, State: inspect.STPForwarding}}}
		for i, to := range c.toward {
			p := inspect.BridgePort{Name: "p" + string(rune('0'+i)), Ifindex: 10 + i, Master: 9, Bridge: "br0", MTU: 1500, State: inspect.STPForwarding}
			if c.blocked && i == 0 {
				p.State = inspect.STPBlocking
			}
			here.Ports = append(here.Ports, p)
			d.Members = append(d.Members, domain.Member{Node: 2, Name: p.Name, Ifindex: p.Ifindex, To: to})
		}
		l := NewLinks(t.Context(), d)
		l.nodes.before = &domain.Counted{}
		l.nodes.kernel.interfaces = func(n topo.NodeSpec) (map[int]topo.Interface, error) {
			is := topo.Interface{State: topo.Up}
			switch n.Name {
			case "n2":
				is.Addresses = []netip.Prefix{netip.MustParsePrefix("10.9.0.2/24")}
			case "b":
				is.MAC, is.Addresses = mac, []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}
			}
			return map[int]topo.Interface{2: is}, nil
		}
		asked := 0
		l.nodes.inspect = inspector{
			bridges: func(n topo.NodeSpec) (inspect.Bridges, error) {
				switch n.Name {
				case "n2":
					return here, nil
				case "s":
					return inspect.Bridges{Ports: []inspect.BridgePort{{Name: "p1", Ifindex: 1}, {Name: "p2", Ifindex: 2}}}, nil
				}
				return inspect.Bridges{}, nil
			},
			tunnels: func(n topo.NodeSpec) (inspect.Tunnels, error) {
				if n.Name == "n2" {
					return inspect.Tunnels{VNI: map[int]int{3: 7}}, nil
				}
				asked++
				return inspect.Tunnels{VNI: map[int]int{3: c.vni, 4: 9}, FarEnds: []inspect.FarEnd{{Ifindex: c.entry, MAC: mac, Address: netip.MustParseAddr("10.9.0.2")}}}, nil
			},
		}
		b := &bridged{Links: l}
		for range 2 {
			want(t, c.what, b.at("n2", "vx", "NO_TX_TARGET", "", "10.0.0.1", "10.0.0.2"), c.kind, c.port)
		}
		if asked > 1 {
			t.Errorf("%s: n1 was asked %d times for its tunnels", c.what, asked)
		}
	}
}

// TestOtherZone: a zone is named if a rule behind conntrack can have dropped answers of any of the flows, and conntrack is read
// once.
func TestOtherZone(t *testing.T) {
	t.Parallel()
	end := netip.MustParseAddrPort
	flow := func(sport int) aggregate.Flow {
		return aggregate.Flow{Proto: "tcp", Src: "10.0.0.2", Dst: "10.0.0.1", Sport: &sport, Dport: &[]int{4000}[0]}
	}
	for _, c := range []struct {
		what  string
		early bool
		flows []aggregate.Flow
		zone  string
	}{
		{"the first", false, []aggregate.Flow{flow(80), flow(81)}, "ct zone 7"},
		{"not the first", false, []aggregate.Flow{flow(81), flow(80)}, "ct zone 7"},
		{"none", false, []aggregate.Flow{flow(81)}, ""},
		{"a rule before conntrack", true, []aggregate.Flow{flow(80)}, ""},
	} {
		b := newBridged(t, 2)
		b.found = []rules.Dropper{{Family: "ip", Table: "f", Chain: "c", Hook: "prerouting", BeforeConntrack: c.early}}
		b.Links.nodes.inspect.bridges = func(topo.NodeSpec) (inspect.Bridges, error) { return inspect.Bridges{}, nil }
		b.zoned = []rules.ZonedAnswer{{Proto: 6, Src: end("10.0.0.9:80"), Dst: end("10.0.0.1:4000"), Zone: 9}, {Proto: 6, Src: end("10.0.0.2:80"), Dst: end("10.0.0.1:4000"), Zone: 7}}
		for range 2 {
			got := b.Causes(&aggregate.LossPlace{Node: "h1", Port: "e0", Reason: "NETFILTER_DROP", Function: "nft_do_chain"}, c.flows, 60)
			zone := ""
			for _, cause := range got {
				if cause.Kind == OtherZone {
					zone = cause.Setting
				}
			}
			if zone != c.zone {
				t.Errorf("%s: %+v, want %q", c.what, got, c.zone)
			}
		}
		if b.dumps > 1 {
			t.Errorf("%s: read %d times", c.what, b.dumps)
		}
	}
}
