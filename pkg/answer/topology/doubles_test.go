// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Who has one address on a link, and who in the network: each case is that of interface 2 of two nodes, h1 and h2, which
// are on a bridge of the host, unless it says otherwise.
func TestDoubleNotes(t *testing.T) {
	prefixes := func(list ...string) (p []netip.Prefix) {
		for _, s := range list {
			p = append(p, netip.MustParsePrefix(s))
		}
		return p
	}
	eth := func(mac byte, addresses ...string) topo.Interface {
		return topo.Interface{Name: "eth0", Kind: "veth", MAC: topo.MAC{2, 0, 0, 0, 0, mac}, Addresses: prefixes(addresses...)}
	}
	oneLink := func(address string, ports ...string) []note.Double {
		return []note.Double{{Address: address, Ports: ports, OneLink: true}}
	}
	anywhere := func(address string, ports ...string) []note.Double {
		return []note.Double{{Address: address, Ports: ports}}
	}
	apart := func(d *domain.Domain) { d.Ports[0].Link, d.Ports[1].Link = "", "" }
	for _, c := range []struct {
		name   string
		change func(*domain.Domain)
		h1, h2 []topo.Interface // from number 2 on
		want   []note.Double
	}{
		{name: "none", h1: []topo.Interface{eth(1, "10.0.0.1/24", "fe80::1/64")}, h2: []topo.Interface{eth(2, "10.0.0.2/24", "fe80::2/64")}},
		{name: "a MAC", h1: []topo.Interface{eth(1)}, h2: []topo.Interface{eth(1)}, want: oneLink("02:00:00:00:00:01", "h1/eth0", "h2/eth0")},
		{name: "a MAC on two links", change: apart, h1: []topo.Interface{eth(1)}, h2: []topo.Interface{eth(1)}},
		{name: "an address", h1: []topo.Interface{eth(1, "10.0.0.1/24")}, h2: []topo.Interface{eth(2, "10.0.0.1/32")},
			want: oneLink("10.0.0.1", "h1/eth0", "h2/eth0")},
		{name: "a link-local address", h1: []topo.Interface{eth(1, "fe80::1/64")}, h2: []topo.Interface{eth(2, "fe80::1/64")},
			want: oneLink("fe80::1", "h1/eth0", "h2/eth0")},
		{name: "link-local addresses on two links", change: apart, h1: []topo.Interface{eth(1, "fe80::1/64")}, h2: []topo.Interface{eth(2, "fe80::1/64")}},
		{name: "an address on two links", change: apart, h1: []topo.Interface{eth(1, "10.0.0.1/24")}, h2: []topo.Interface{eth(2, "10.0.0.1/24")},
			want: anywhere("10.0.0.1", "h1/eth0", "h2/eth0")},
		{name: "an address of one host on two links", change: apart, h1: []topo.Interface{eth(1, "10.0.0.1/32")}, h2: []topo.Interface{eth(2, "10.0.0.1/32")}},
		{name: "no MAC", h1: []topo.Interface{{Name: "tun0", Kind: "tun"}}, h2: []topo.Interface{{Name: "tun0", Kind: "tun"}}},
		{name: "anycast", h1: []topo.Interface{eth(1), {Name: "lo", Loopback: true, Addresses: prefixes("192.0.2.1/32", "127.0.0.1/8", "::1/128")}},
			h2: []topo.Interface{eth(2), {Name: "lo", Loopback: true, Addresses: prefixes("192.0.2.1/32", "127.0.0.1/8", "::1/128")}}},
		{name: "bridges within", h1: []topo.Interface{eth(1), {Name: "docker0", Kind: "bridge", Addresses: prefixes("172.17.0.1/16")}},
			h2: []topo.Interface{eth(2), {Name: "docker0", Kind: "bridge", Addresses: prefixes("172.17.0.1/16")}}},
		{name: "a bridge on the link", h1: []topo.Interface{{Name: "eth0", Kind: "veth", Bridge: 3}, {Name: "br0", Kind: "bridge", Addresses: prefixes("10.0.0.1/24")}},
			h2: []topo.Interface{eth(2, "10.0.0.1/24")}, want: oneLink("10.0.0.1", "h1/br0", "h2/eth0")},
		{name: "the host's address", h1: []topo.Interface{eth(1, "10.0.0.254/24")}, h2: []topo.Interface{eth(2)},
			want: oneLink("10.0.0.254", "h1/eth0", "host/br0")},
		{name: "a tunnel", change: func(d *domain.Domain) { d.Ports[0].Tunnel, d.Ports[1].Tunnel = true, true },
			h1: []topo.Interface{eth(1)}, h2: []topo.Interface{eth(1)}},
		{name: "a pair", change: func(d *domain.Domain) { apart(d); d.Ports[0].Peer = 2 }, h1: []topo.Interface{eth(1)}, h2: []topo.Interface{eth(1)},
			want: oneLink("02:00:00:00:00:01", "h1/eth0", "h2/eth0")},
		{name: "a macvlan that has taken the address below", change: func(d *domain.Domain) { apart(d); d.Ports[1].Lower = "h1/eth0" },
			h1: []topo.Interface{eth(1)}, h2: []topo.Interface{{Name: "eth0", Kind: "macvlan", MAC: topo.MAC{2, 0, 0, 0, 0, 1}}}},
		{name: "an address at a macvlan and below", change: func(d *domain.Domain) { apart(d); d.Ports[1].Lower = "h1/eth0" },
			h1: []topo.Interface{eth(1, "10.0.0.1/24")}, h2: []topo.Interface{{Name: "eth0", Kind: "macvlan", MAC: topo.MAC{2, 0, 0, 0, 0, 2}, Addresses: prefixes("10.0.0.1/24")}},
			want: oneLink("10.0.0.1", "h1/eth0", "h2/eth0")},
		{name: "an ipvlan", change: func(d *domain.Domain) { apart(d); d.Ports[1].Lower = "h1/eth0" },
			h1: []topo.Interface{eth(1)}, h2: []topo.Interface{{Name: "eth0", Kind: "ipvlan", MAC: topo.MAC{2, 0, 0, 0, 0, 1}}}},
		{name: "a node that cannot be entered", h1: []topo.Interface{eth(1)}},
	} {
		d := &domain.Domain{
			Nodes: []domain.Node{{ID: 1, Name: "h1"}, {ID: 2, Name: "h2"}, {ID: 3, Name: "host", Auto: true}, {ID: 4, Name: "gone", Removed: true}},
			Ports: []domain.Port{
				{ID: 1, Node: 1, Name: "eth0", Ifindex: 2, Peer: -1, Link: "host/br0"}, {ID: 2, Node: 2, Name: "eth0", Ifindex: 2, Peer: -1, Link: "host/br0"},
				{ID: 3, Node: 3, Name: "br0", Ifindex: 2, Peer: -1, Link: "host/br0", Place: domain.Bridge},
			},
		}
		if c.change != nil {
			c.change(d)
		}
		lists := map[uint16][]topo.Interface{1: c.h1, 2: c.h2, 4: {eth(1, "10.0.0.1/24")},
			3: {{Name: "br0", Kind: "bridge", MAC: topo.MAC{2, 0, 0, 0, 0, 99}, Addresses: prefixes("10.0.0.254/24")}, eth(1, "172.16.0.1/12")}}
		var got []note.Double
		for _, n := range DoubleNotes(d, func(node uint16) map[int]topo.Interface {
			interfaces := make(map[int]topo.Interface)
			for i, itf := range lists[node] {
				interfaces[i+2] = itf
			}
			return interfaces
		}) {
			got = append(got, n.(note.Doubled).Doubles...)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
