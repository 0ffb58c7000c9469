// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// What attach makes of --ipv6, in a network without and with two transmit queues at a
// port inside.
func TestChooseIPv6(t *testing.T) {
	plain := nstest.New(t, "a", "b")
	plain.Veth("a", "e0", "b", "e0")
	queues := nstest.New(t, "a", "b")
	queues.Run("a", "ip", "link", "add", "e0", "numtxqueues", "2", "type", "veth", "peer", "name", "e0", "netns", queues.Name("b"))
	queues.Up("a", "e0")
	queues.Up("b", "e0")
	hashes := []string{"choice of 2 transmit queues at a/e0", "choice of 2 transmit queues at b/e0"}
	for _, c := range []struct {
		net       *nstest.Net
		asked     string
		want      string
		users     []string
		warns     string
		constants uint8
	}{
		{plain, program.IPv6Auto, program.IPv6Label, nil, "", 1},
		{plain, program.IPv6Key, program.IPv6Key, nil, "", 2},
		{plain, program.IPv6Off, program.IPv6Off, nil, "", 0},
		{queues, program.IPv6Auto, program.IPv6Key, hashes, "found by key, its header bits stay as they are: the flow label is used by " + hashes[0], 2},
		{queues, program.IPv6Label, program.IPv6Label, nil, "attach with ‹ipv6› key", 1},
		{queues, program.IPv6Key, program.IPv6Key, nil, "", 2},
	} {
		var specs []topo.NodeSpec
		for _, name := range []string{"a", "b"} {
			spec, err := topo.ParseSpec(c.net.Spec(name))
			if err != nil {
				t.Fatal(err)
			}
			specs = append(specs, spec)
		}
		o := program.DefaultOptions()
		o.IPv6 = c.asked
		p, err := prepare(t.Context(), AttachRequest{Domain: nstest.Unique(), Nodes: specs, Options: &o})
		if err != nil {
			t.Fatal(err)
		}
		got := p.result.Domain.Options
		if got.IPv6 != c.want || !slices.Equal(got.LabelUsers, c.users) {
			t.Errorf("--ipv6 %s: %s because of %q, want %s because of %q", c.asked, got.IPv6, got.LabelUsers, c.want, c.users)
		}
		var constant uint8
		if err := p.blueprint.Specs[0].Variables["cfg_ip6"].Get(&constant); err != nil || constant != c.constants {
			t.Errorf("--ipv6 %s: the programs get %d (%v), want %d", c.asked, constant, err, c.constants)
		}
		warnings := strings.Join(p.result.Warnings, "\n")
		if !strings.Contains(warnings, c.warns) || c.warns == "" && strings.Contains(warnings, "IPv6") {
			t.Errorf("--ipv6 %s: warnings %q, want %q", c.asked, warnings, c.warns)
		}
	}
}
