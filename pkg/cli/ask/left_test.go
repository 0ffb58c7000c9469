// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// Packets that left say how to follow them there; the command does what it says.
func TestLeft(t *testing.T) {
	w := clitest.NewWorld(t)
	names := w.Lab.AttachArgs()
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, names[:2]...)...) // without h2
	w.PingMeasured(3)
	nstest.WaitFor(t, "packets that left", func() bool { return len(w.Packets("--state", "left")) >= 3 })
	_, spec, _ := strings.Cut(names[2], "=")
	want := "packets left at r1/eth1: to follow them there: radar attach --domain " + w.Domain + " -d " + spec
	for _, args := range []string{"packets", "paths", "loss", "packets --state left", "paths h1"} {
		if out := w.Radar(kit.ExitOK, strings.Fields(args)...); strings.Count(out, want) != 1 {
			t.Errorf("radar %s says\n%s\nwant %q", args, out, want)
		}
	}
	for _, args := range []string{"packets -o json", "paths -o csv", "paths 10.0.9.9"} {
		if out := w.Radar(kit.ExitOK, strings.Fields(args)...); strings.Contains(out, "to follow") {
			t.Errorf("radar %s says\n%s", args, out)
		}
	}
	_, command, _ := strings.Cut(want, ": radar ")
	w.Radar(kit.ExitOK, strings.Fields(command)...)
	w.PingMeasured(3)
	nstest.WaitFor(t, "packets that arrive", func() bool { return len(w.Packets("--state", "delivered")) >= 6 })

	// Behind a bridge: the node that it is in, and those behind its other members. r1 becomes a switch.
	w.Radar(kit.ExitOK, "detach")
	_, switched, _ := strings.Cut(names[1], "=netns:")
	w.In("r1", "sh", "-ec", "ip link add br0 type bridge && ip link set eth0 master br0 && ip link set eth1 master br0 && ip link set br0 up")
	w.In("h2", "ip", "addr", "add", "10.0.1.3/24", "dev", "eth0")
	w.Radar(kit.ExitOK, "attach", "-d", names[0])
	for to, want := range map[string]string{"10.0.1.3": "/eth1: to follow them there: radar attach --domain " + w.Domain + " -d " + spec + "\n",
		"10.0.2.2": switched + "/br0: to follow them there: radar attach --domain " + w.Domain + " -d netns:" + switched + "\n"} {
		nstest.WaitFor(t, "packets into the bridge", func() bool {
			_, _ = w.Lab.Command(t.Context(), "h1", "ping", "-c", "1", "-W", "0.1", to).CombinedOutput()
			return len(w.Packets("--state", "left", "--dst", to)) > 0
		})
		for _, args := range []string{"paths", "packets"} {
			if out := w.Radar(kit.ExitOK, args, "--dst", to); !strings.Contains(out, want) {
				t.Errorf("radar %s --dst %s says\n%s\nwant %q", args, to, out, want)
			}
		}
	}
}
