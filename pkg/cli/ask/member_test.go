// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// A packet that is lost in the queue of a bridge's member is lost at that member, whether the
// bridge's namespace is attached or not.
func TestLossAtMember(t *testing.T) {
	w := clitest.NewWorldOf(t, "switches", nil)
	const size, sent = "1200", 20
	for _, c := range []struct {
		name  string
		nodes []string
	}{
		{"the bridge is not attached", []string{"h1", "h2", "h3"}},
		{"the bridge lies in a node", []string{"h1", "h2", "h3", "sw1", "sw2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &clitest.World{T: t, Lab: w.Lab, Domain: w.Domain}
			args := []string{"attach", "-d", "--timeout", "2s"}
			for _, m := range w.Lab.Machines {
				if slices.Contains(c.nodes, m.Name) {
					args = append(args, m.Name+"=netns:"+m.NetNS)
				}
			}
			w.Radar(kit.ExitOK, args...)
			w.In("h1", "ping", "-q", "-c", "1", "10.0.0.2")
			w.In("h2", "ping", "-q", "-c", "1", "10.0.0.1")
			// A queue that lets nothing of that size pass.
			w.In("sw1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "1mbit", "burst", "1000", "limit", "500")
			w.Fails("h1", "ping", "-q", "-c", "20", "-i", "0.005", "-W", "1", "-s", size, "10.0.0.2")
			dropped := dropsOfQueue(w, "sw1", "eth1")
			if dropped != sent {
				t.Fatalf("tc says that %d packets were dropped, want %d", dropped, sent)
			}
			nstest.WaitFor(t, "losses", func() bool { return len(askedLosses(w)) > 0 && askedLosses(w)[0].Packets == sent })
			if rows := askedLosses(w); len(rows) != 1 || rows[0].Port != "eth1" || rows[0].At != record.AtQueue || rows[0].Qdisc != "tbf" || rows[0].Skbs != dropped {
				t.Errorf("losses %+v, want one row of sw1/eth1 with the %d packets of its queue", rows, dropped)
			}
			for _, r := range w.Packets("--state", "lost") {
				if r.Loss == nil || r.Loss.Port != "eth1" {
					t.Errorf("a packet was lost at %+v", r.Loss)
				}
			}
			w.In("sw1", "tc", "qdisc", "del", "dev", "eth1", "root")
			w.Radar(kit.ExitOK, "detach", "--no-drain")
		})
	}
}

// dropsOfQueue is what tc says that the root queue of an interface has dropped.
func dropsOfQueue(w *clitest.World, machine, dev string) uint64 {
	w.Helper()
	out, err := w.Lab.Command(w.Context(), machine, "tc", "-s", "-j", "qdisc", "show", "dev", dev, "root").Output()
	var list []struct{ Drops uint64 }
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil || len(list) != 1 {
		w.Fatalf("tc says %q of the queue of %s/%s: %v", out, machine, dev, err)
	}
	return list[0].Drops
}
