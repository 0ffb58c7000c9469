// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
)

// TestAlikeUnderWay: packets come into the domain whose own ID and TTL are those that radar
// has written to others of equal content, thousands of which wait in a queue. None must be
// taken for one of those.
func TestAlikeUnderWay(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		t.Run(carry, func(t *testing.T) {
			if carry != "mark" {
				need.Nightly(t)
			}
			net := startNetwork(lifetime(t), t, "chain")
			for port := range selfPorts {
				net.sink(t, "h2", selfPortBase+port)
			}
			// With 64 Ki slots GUIDs have TTLs that self probes have, too.
			rad := net.attach(t, routers(net.nodes()), "--slots", "64K", "--carry", carry)
			queue := func(change, rate string) {
				net.run(t, "r2", "tc", "qdisc", change, "dev", "eth1", "root", "tbf", "rate", rate, "burst", "10kb", "limit", "350kb")
			}
			// A packet has some 150 bytes. Nearly none goes until the queue is long: a sender that has
			// little of the CPU fills it, too. At 2 Mbit/s more come than go.
			queue("add", "20kbit")
			f := net.startSelfFlow(t, "h1", "h2", 3, 70*time.Microsecond)
			nstest.WaitFor(t, "1000 packets in the queue", func() bool { return rad.status(t).Totals.InFlight >= 1000 })
			queue("change", "2mbit")
			time.Sleep(time.Duration(times(10)) * time.Second)
			f.finish(t)
			s := rad.settle(t)
			report := &oracle.Report{Title: "packets that look like those that wait in a queue, " + carry}
			report.Add(append(f.rowsByKind(), s.Totals.row(true))...)
			keepReport(t, report)
			if !report.OK() {
				t.Error("packets differ, or are not accounted for: see the table")
			}
			if n := s.notMeasured(); n > 0 {
				t.Errorf("%d packets were not measured", n)
			}
		})
	}
}
