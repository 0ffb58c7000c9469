// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// What people type first: nodes and addresses as arguments, in every command that asks. A router is what passes it.
func TestEnds(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.PingMeasured(5)
	w.UDP()
	nstest.WaitFor(t, "the datagram", func() bool { return len(w.Packets("udp")) >= 1 })
	w.Settled(w.Status().Totals.Measured)
	all := len(w.Packets("--last", "0"))
	udp := len(w.Packets("--last", "0", "udp"))
	toH2 := len(w.Packets("--last", "0", "--dst", "h2"))
	for text, want := range map[string]int{
		"h1": all, "r1": all, "10.0.2.2": all, "h1 h2": all, "h2 h1": all, "h1-h2": all, "10.0.1.1 10.0.2.2": all, "10.0.1.0/24-h2": all,
		"h1>h2": toH2, "h1 > h2": toH2, "h1 udp": udp, "h1 h2 udp": udp, "h2 and udp and not port 1": udp, "h2:9": udp, "h1-h2:9": udp,
		"host h2": all, "dst h2": toH2, "src h1 and dst host h2": toH2, "h1 h2 icmp": all - udp, "10.0.1.1 > 10.0.2.2 udp": udp,
		"h1 --dst h2": toH2, "10.0.9.9": 0, "h1:4": 0,
	} {
		if got := len(w.Packets(append(strings.Fields(text), "--last", "0")...)); got != want {
			t.Errorf("radar packets %s: %d packets, want %d", text, got, want)
		}
	}
	for _, cmd := range []string{"loss", "flows", "paths", "latency", "throughput", "packets", "loss --after-delivery", "flows --since 10m"} {
		for _, ends := range []string{"h1", "h1 h2", "10.0.1.1 10.0.2.2", "h1-h2", "h1 udp"} {
			out := w.Radar(kit.ExitOK, strings.Fields(cmd+" "+ends)...)
			if strings.Contains(out, "no packet matches") != strings.HasPrefix(cmd, "loss") && !strings.HasPrefix(cmd, "loss") {
				t.Errorf("radar %s %s says\n%s", cmd, ends, out)
			}
		}
	}
	w.Radar(kit.ExitOK, "explain", "h1", "h2")
	for text, want := range map[string]string{
		"h3":                `END "h3": domain ` + w.Domain + ` has no such node (did you mean "h1"?), its nodes are h1, r1, h2`,
		"h1 h3":             `END "h3": domain `,
		"udpp":              `END "udpp": domain `,
		"host h3.invalid":   `no node of domain ` + w.Domain + ` is called "h3.invalid", its nodes are h1, r1, h2`,
		"h1 or h2":          "syntax error",
		"h1 tcp prot 80":    "syntax error",
		"h1:99999 10.0.2.2": "",
	} {
		if out := w.Radar(kit.ExitUsage, append([]string{"loss"}, strings.Fields(text)...)...); !strings.Contains(out, want) {
			t.Errorf("radar loss %s says\n%s\nwant %q", text, out, want)
		}
	}
	complete := func(args ...string) string {
		out, _, _ := clitest.Radar(t, append([]string{"__completeNoDesc"}, args...)...)
		return strings.Join(strings.Fields(out), " ")
	}
	for args, want := range map[string]string{
		"loss ": "h1 r1 h2 :4", "explain h1 ": "r1 h2 :4", "paths h1-": "h1-h1 h1-r1 h1-h2 :4", "packets 10.0.2": "10.0.2.2 :4", "flows h1 h2 ": ":4",
	} {
		if got := complete(strings.Split(args, " ")...); !strings.HasSuffix(got, want) || !strings.Contains(got, want) {
			t.Errorf("completing radar %s: %q, want %q", args, got, want)
		}
	}
}
