// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/record"
)

// labTest is what a lab must do: a command in a machine, and the path of its packets
// by radar.
type labTest struct {
	machine string
	command string
	want    string // in what it prints
	path    string
}

// labTests are the labs besides ecmp, which has a test of its own.
var labTests = map[string][]labTest{
	"chain": {{"h1", "ping -c 2 -i 0.1 10.0.4.2", "ttl=61", "h1 > r1 > r2 > r3 > h2"}},
	"bottleneck": {
		{"h1", "ping -c 2 -i 0.1 10.0.4.2", "ttl=61", "h1 > r1 > r2 > r3 > h2"},
		{"r2", "tc qdisc show dev eth1", "rate 20Mbit", ""},
	},
	"switches": {{"h1", "ping -c 2 -i 0.1 10.0.0.5", "ttl=64", "h1 > sw1 > sw2 > h5"}},
	"nat": {
		{"in1", "iperf3 -n 1M -c 192.0.2.2", "receiver", "in1 > gw > srv"},
		{"srv", "iperf3 -n 1M -c 192.0.2.1 -p 8080", "receiver", "srv > gw > in2"},
		{"in1", "iperf3 -n 1M -c 192.0.2.1 -p 8080", "receiver", "in1 > gw > in2"},
	},
	"firewall": {
		{"h1", "ping -c 2 -i 0.1 10.0.2.2", "ttl=63", "h1 > fw > h2"},
		{"h1", "iperf3 -c 10.0.2.2 -p 23 --connect-timeout 3000", "refused", "fw > h1"},
	},
	"servicechain": {{"client", "iperf3 -n 1M -c 10.0.3.2 -p 80 -B 10.0.1.3", "receiver", "client > fw > nat > lb > srv"}},
	"forwarder":    {{"h1", "ping -c 3 -i 0.1 10.0.0.2", "ttl=64", "h1 > f > h2"}},
}

// Every lab starts under Kathará, does what it says, and is measured by its
// machines' names. It takes minutes: make kathara ALL=1.
func TestLabs(t *testing.T) {
	if os.Getenv("RADAR_KATHARA_ALL") == "" {
		t.Skip("only the ECMP lab; all labs: make kathara ALL=1")
	}
	e := setUp(t)
	for _, scenario := range scenarios.Names() {
		if scenario == "ecmp" || scenario == "vmrouter" || scenario == "int-p4" { // the image has neither user-mode Linux nor BMv2
			continue
		}
		t.Run(scenario, func(t *testing.T) {
			tests, ok := labTests[scenario]
			if !ok {
				t.Fatal("nobody has said what this lab does: add it to labTests")
			}
			dir, name := exportLab(t, scenario)
			n := upKathara(t, e, dir, name)
			r := attach(t, append(n.attach, "--timeout", packetTimeout)...)
			for _, test := range tests {
				n.check(t, test)
			}
			carried(t)
			r.settle(t)
			all := r.records(t)
			for _, test := range tests {
				if test.path != "" && !slices.ContainsFunc(all, test.went) {
					t.Errorf("no packet went by %s; radar paths:\n%s", test.path, r.run(t, "paths"))
				}
			}
			r.run(t, "detach")
		})
	}
}

// went says whether a packet was delivered by the path; the last machine may have a
// number behind its name.
func (l labTest) went(r record.Record) bool {
	return r.State == record.Delivered && strings.HasPrefix(strings.Join(nodesOf(r), " > "), l.path)
}

// check runs the command in the machine's network. Servers may still be starting.
func (n *network) check(t *testing.T, l labTest) {
	t.Helper()
	var out string
	for end := time.Now().Add(nstest.Patience); time.Now().Before(end); {
		b, _ := n.machines[l.machine].command(strings.Fields(l.command)...).CombinedOutput()
		if out = string(b); strings.Contains(out, l.want) {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("%s: %s does not say %q:\n%s", l.machine, l.command, l.want, out)
}
