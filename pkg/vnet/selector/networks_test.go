// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"maps"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
)

// A bridge is known by the id in its name, or by the name that the network's creator gave it. A name
// that reads like something else is not shown.
func TestNetworkOf(t *testing.T) {
	const id = "0123456789abcdef"
	other := docker.Network{ID: "fedcba9876543210", Name: "other"}
	lab := map[string]string{labelApp: katharaApp, labelMachine: "A"}
	for _, c := range []struct {
		network docker.Network
		bridge  string
		want    string
	}{
		{docker.Network{ID: id, Name: "shop_default"}, "br-0123456789ab", "shop_default"},
		{docker.Network{ID: id, Name: "shop"}, "br-0123456789ac", ""},
		{docker.Network{ID: id, Name: "shop"}, "br0", ""},
		{docker.Network{ID: "0123", Name: "shop"}, "br-0123", ""},
		{docker.Network{ID: "", Name: "shop"}, "br-", ""},
		{docker.Network{ID: id, Name: "shop", Bridge: "br0"}, "br0", "shop"},
		{docker.Network{ID: id, Name: "shop", Bridge: "br0"}, "br-0123456789ab", ""},
		{docker.Network{ID: id, Name: "kathara_user-x_A", Labels: lab}, "kt-0123456789ab", "A"},
		{docker.Network{ID: id, Name: "a > b"}, "br-0123456789ab", ""},
		{docker.Network{ID: id, Name: "host/eth0"}, "br-0123456789ab", ""},
		{docker.Network{ID: id, Name: "\x1b[2J"}, "br-0123456789ab", ""},
		{docker.Network{ID: id, Name: strings.Repeat("x", 64)}, "br-0123456789ab", ""},
	} {
		if got := networkOf(c.bridge, []docker.Network{other, c.network}); got != c.want {
			t.Errorf("bridge %s of %+v is called %q, want %q", c.bridge, c.network, got, c.want)
		}
	}
}

// The engine's own names, of bridges that have none yet; and of none that another port would be
// taken for.
func TestNameNetworks(t *testing.T) {
	e := dockertest.New(t)
	id := func(network string) string {
		return e.Docker("network", "inspect", "--format", "{{.Id}}", network)[:12]
	}
	net, taken := e.Network("net"), e.Network("taken")
	d := &domain.Domain{Ports: []domain.Port{
		{ID: 1, Node: 1, Name: "br-" + id(net), Place: domain.Bridge},
		{ID: 2, Node: 1, Name: "br-" + id(taken), Place: domain.Bridge},
		{ID: 3, Node: 1, Name: taken, Place: domain.BridgePort},
		{ID: 4, Node: 1, Name: "docker0", Place: domain.Bridge},
		{ID: 5, Node: 1, Name: "br-ffffffffffff", Place: domain.Bridge},
		{ID: 6, Node: 2, Name: "br-" + id(net)}, // a node's own interface
		{ID: 7, Node: 3, Name: "br-" + id(net), Place: domain.Bridge, Removed: true},
	}}
	if got := NameNetworks(t.Context(), d); !maps.Equal(got, map[uint16]string{1: net}) || d.Ports[0].Network != net {
		t.Errorf("names %v, the description says %+v", got, d.Ports)
	}
	if again := NameNetworks(t.Context(), d); len(again) != 0 {
		t.Errorf("asked again it says %v", again)
	}
}
