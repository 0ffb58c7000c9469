// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// The agent loads the programs for IPv6 when a node gets an address, before packets have it; and when a packet
// comes of which no address tells. From then on each packet is measured.
func TestIPv6Comes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		start  []string // in node a
		missed uint64   // packets not measured, at least
	}{
		{"an address", []string{"ip", "addr", "add", "fd00::1/64", "dev", "e0"}, 0},
		{"a packet", []string{"ping", "-q", "-c", "1", "-W", "60", "fe80::2%e0"}, 1},
	} {
		n := nstest.New(t, "a", "b")
		n.Veth("a", "e0", "b", "e0")
		n.Address("a", "e0", "10.0.1.1/24")
		n.Run("a", "ip", "addr", "add", "fe80::1/64", "dev", "e0", "nodad")
		n.Run("b", "ip", "addr", "add", "fe80::2/64", "dev", "e0", "nodad")
		specs, err := topo.ParseSpecs([]string{n.Spec("a"), n.Spec("b")})
		if err != nil {
			t.Fatal(err)
		}
		o := program.DefaultOptions()
		o.Slots = 1 << 15
		h, err := datapath.Open(runAgent(t, o, specs))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		if !h.IPv6Held() {
			t.Fatalf("%s: IPv6 is measured before", c.what)
		}
		n.Run("a", c.start...)
		nstest.WaitFor(t, "programs for IPv6", func() bool { return !h.IPv6Held() })
		before := counters(t, h)
		if got := before["not_measured_ipv6"]; c.missed == 0 && got != 0 || got < c.missed {
			t.Errorf("%s: %d packets not measured", c.what, got)
		}
		const echoes = 20
		out := n.Run("a", "ping", "-q", "-c", "20", "-i", "0.01", "-W", "60", "fe80::2%e0")
		if !strings.Contains(out, " 20 received") {
			t.Fatal(out)
		}
		after := counters(t, h)
		if got := after["marked"] - before["marked"]; got != 2*echoes {
			t.Errorf("%s: %d packets measured, ping has sent %d", c.what, got, 2*echoes)
		}
		if after["not_measured_ipv6"] != before["not_measured_ipv6"] {
			t.Errorf("%s: packets are still not measured: %d more", c.what, after["not_measured_ipv6"]-before["not_measured_ipv6"])
		}
	}
}

// counters are a domain's, by name.
func counters(t *testing.T, h *datapath.Handle) map[string]uint64 {
	t.Helper()
	list, err := h.Counters()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]uint64)
	for _, c := range list {
		values[c.Name] = c.Value
	}
	return values
}
