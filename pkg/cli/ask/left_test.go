// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/domain"
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
	for _, args := range []string{"packets -o json", "paths -o csv", "paths 10.0.9.9", "loss --by flow 10.0.9.8 10.0.9.9"} {
		if out := w.Radar(kit.ExitOK, strings.Fields(args)...); strings.Contains(out, "to follow") { // rows of flows: paths do not tell them apart
			t.Errorf("radar %s says\n%s", args, out)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var again clitest.Growing
	done := make(chan int)
	go func() {
		done <- clitest.Run(ctx, []string{"loss", "-f", "--interval", "50ms"}, strings.NewReader(""), &again, &again)
	}()
	nstest.WaitFor(t, "answers", func() bool {
		return strings.Count(again.String(), "PACKETS") >= 2 || strings.Count(again.String(), "in the last") >= 2
	})
	stop()
	if code := <-done; code != kit.ExitOK || strings.Contains(again.String(), "to follow") { // namespaces are not opened for each of them
		t.Errorf("radar loss -f: exit code %d\n%s", code, &again)
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

// Ports of switches, which reports name and nobody can attach to, take no place of a domain's own.
func TestLeftOfSwitches(t *testing.T) {
	d := &domain.Domain{Name: "d", Nodes: []domain.Node{{ID: 1, Name: "sw", Spec: "netns:sw"}}, Ports: []domain.Port{{Node: 1, Name: "br0", Place: domain.Bridge}}}
	l := left{{"sw", "br0"}: 1}
	for i := range mostLeft {
		l[[2]string{fmt.Sprintf("int-%d", i), "7"}] = 9
	}
	var said bytes.Buffer
	l.note(kit.New(nil, &bytes.Buffer{}, &said), t.Context(), d)
	if want := "1 packet left at sw/br0: to follow them there: radar attach --domain d -d netns:sw\n"; !strings.HasSuffix(said.String(), want) {
		t.Errorf("%q, want %q", said.String(), want)
	}
}
