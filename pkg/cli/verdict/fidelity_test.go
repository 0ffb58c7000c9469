// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/dropwatch"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/answer/fidelity"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// flood sends 2,000 datagrams of 1,200 bytes, about 30 Mbit/s, from one port.
const flood = `
import os, socket, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}) # packets of one processor keep their order
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 20001))
at = time.monotonic()
for i in range(200):
    for j in range(10): s.sendto(b"x" * 1200, ("10.0.2.2", 9000))
    at += 0.0032
    time.sleep(max(0, at - time.monotonic()))`

// fidelityOf are the rows of "radar fidelity", by property.
func fidelityOf(w *clitest.World, flags ...string) map[fidelity.Property]fidelity.Row {
	w.Helper()
	rows := make(map[fidelity.Property]fidelity.Row)
	for _, r := range clitest.RowsOf[fidelity.Row](w, append([]string{"fidelity", "--part", "0.1"}, flags...)...) {
		if _, twice := rows[r.Property]; twice || r.Port != "r1/eth1" {
			w.Errorf("row %+v", r)
		}
		rows[r.Property] = r
	}
	return rows
}

// statistics is what tc counts at r1/eth1.
func statistics(w *clitest.World) (sent, dropped uint64) {
	w.Helper()
	var list []struct {
		Packets uint64 `json:"packets"`
		Drops   uint64 `json:"drops"`
		Root    bool   `json:"root"`
	}
	if err := json.Unmarshal([]byte(w.In("r1", "tc", "-s", "-j", "qdisc", "show", "dev", "eth1")), &list); err != nil {
		w.Fatal(err)
	}
	for _, q := range list {
		if q.Root {
			return q.Packets, q.Drops
		}
	}
	w.Fatalf("no root discipline: %+v", list)
	return 0, 0
}

// TestRates: tbf and htb let packets through at the rate that they declare. A rate that is declared anew is not
// what packets met before.
func TestRates(t *testing.T) {
	for name, c := range map[string]struct {
		add, change []string // commands of tc
	}{
		"tbf": {
			[]string{"qdisc add dev eth1 root tbf rate 20mbit burst 16kb limit 64kb"},
			[]string{"qdisc change dev eth1 root tbf rate 40mbit burst 16kb limit 64kb"},
		},
		"htb": {
			[]string{"qdisc add dev eth1 root handle 1: htb default 1", "class add dev eth1 parent 1: classid 1:1 htb rate 20mbit burst 4kb cburst 4kb", "qdisc add dev eth1 parent 1:1 pfifo limit 40"},
			[]string{"class change dev eth1 parent 1: classid 1:1 htb rate 40mbit burst 4kb cburst 4kb"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.KeepOrder()
			for _, command := range c.add {
				w.In("r1", append([]string{"tc"}, strings.Fields(command)...)...)
			}
			w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "5s"}, w.Lab.AttachArgs()...)...)
			w.Listen("h2", 9000)
			if r := fidelityOf(w)[fidelity.Rate]; r.Verdict != fidelity.TooFew || r.Measured != nil {
				t.Errorf("without packets: %+v", r)
			}
			drops := dropwatch.Start(t)
			w.In("h1", "python3", "-c", flood)
			w.Ended(2000, "--proto", "udp", "--dport", "9000")
			r := fidelityOf(w)[fidelity.Rate]
			if r.Verdict != fidelity.True || r.Declared != 20e6 || *r.Measured < 19e6 || *r.Measured > 21e6 || !r.Bounds.Has(*r.Measured) {
				t.Errorf("20 Mbit/s were declared: %+v", r)
			}
			testQueue(w, drops)
			for _, command := range c.change {
				w.In("r1", append([]string{"tc"}, strings.Fields(command)...)...)
			}
			r = fidelityOf(w)[fidelity.Rate]
			if r.Verdict != fidelity.Untrue || r.Declared != 40e6 || len(r.Causes) == 0 {
				t.Errorf("40 Mbit/s are declared, packets met 20: %+v", r)
			}
			for as, want := range map[string]string{
				"text": "untrue   r1/eth1  rate  40.0Mbit/s", "markdown": "| r1/eth1 | rate | 40.0Mbit/s |", "latex": `r1/eth1 & rate & 40.0Mbit/s &`,
			} {
				out := w.Radar(kit.ExitOK, "fidelity", "--as", as)
				if !strings.Contains(out, want) || !strings.Contains(out, "The rate of r1/eth1 was ") {
					t.Errorf("--as %s: no %q in\n%s", as, want, out)
				}
			}
		})
	}
}

// testQueue holds promises about the queue against what tc counted.
func testQueue(w *clitest.World, drops *dropwatch.Watch) {
	w.Helper()
	sent, dropped := statistics(w)
	lost := uint64(0)
	for _, r := range clitest.RowsOf[answer.LossRow](w, "loss", "--proto", "udp", "--dport", "9000") {
		if r.Port == "eth1" && r.Reason == "QDISC_DROP" {
			lost += r.Packets
		}
	}
	got := asserted(w, kit.ExitFailure, fmt.Sprintf(`
assertions:
  - name: drops that tc counted
    select: {proto: udp, dport: 9000}
    loss: {at_most: %d, at: r1/eth1, reason: QDISC_DROP}
  - name: fewer drops
    select: {proto: udp, dport: 9000}
    loss: {at_most: %d, at: r1/eth1}
  - name: no other loss
    select: {src: h1}
    loss: {at_most: 0, at: r1/eth0}
  - name: not faster than the link
    select: {proto: udp, dport: 9000}
    rate: {at_most: 22Mbit}
  - name: faster than the link
    select: {proto: udp, dport: 9000}
    rate: {at_least: 30Mbit}
  - name: the queue is not longer
    select: {proto: udp, dport: 9000}
    latency: {max: 60ms, queue: r1/eth1}
  - name: the queue is short
    select: {proto: udp, dport: 9000}
    latency: {p99: 1ms, queue: r1/eth1}
  - name: in order
    select: {proto: udp, dport: 9000}
    no_reordering: true
`, lost, lost-1))
	const holds, fails = assertion.Holds, assertion.Fails
	want(w, got, map[string]assertion.Verdict{
		"drops that tc counted": holds, "fewer drops": fails, "no other loss": holds, "not faster than the link": holds,
		"faster than the link": fails, "the queue is not longer": holds, "the queue is short": fails, "in order": holds,
	})
	untold := w.Untold(drops, "QDISC_DROP")
	if dropped < 100 || sent < 50 || lost > dropped || lost+untold < dropped || got["drops that tc counted"].Values["lost"] != float64(lost) {
		w.Errorf("tc sent %d and dropped %d, radar says %d, and was not told of at most %d: %+v", sent, dropped, lost, untold, got["drops that tc counted"])
	}
}

// TestNAT: packets are seen changed, as nft counts them.
func TestNAT(t *testing.T) {
	w := clitest.NewWorldOf(t, "nat", nil)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Listen("srv", 9000)
	w.In("in1", "python3", "-c", fmt.Sprintf(sendFlows, 10, 3, "192.0.2.2"))
	w.Ended(30, "--proto", "udp", "--dport", "9000")
	got := asserted(w, kit.ExitFailure, `
assertions:
  - name: masqueraded
    select: {src: in1, proto: udp, dport: 9000}
    nat: {src: 192.0.2.1}
  - name: another address
    select: {src: in1, proto: udp, dport: 9000}
    nat: {src: 192.0.2.2}
  - name: another destination
    select: {src: in1, proto: udp, dport: 9000}
    nat: {dst: 10.0.1.12, dport: 80}
  - name: by the gateway
    select: {src: in1, proto: udp, dport: 9000}
    path: [in1, gw, srv]
`)
	want(w, got, map[string]assertion.Verdict{
		"masqueraded": assertion.Holds, "another address": assertion.Fails, "another destination": assertion.Fails, "by the gateway": assertion.Holds,
	})
	rules := w.In("gw", "nft", "list", "chain", "ip", "lab", "postrouting")
	if !strings.Contains(rules, `oifname "eth1" counter packets 10 `) || got["masqueraded"].Values["changed"] != 30 {
		t.Errorf("nft masquerades each of 10 flows once, radar says %+v\n%s", got["masqueraded"], rules)
	}
}

// TestWrongNames: a node or port that is not there is refused, with its place: it would never be crossed.
func TestWrongNames(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	for text, says := range map[string]string{
		"never_crosses: r9":                          `assertions.yaml:3:3: a: there is no node "r9" (did you mean "r1"?): there are h1, h2, r1`,
		"loss: {at_most: 0, at: r1/eth9}":            `node r1 has no port "eth9": it has eth0, eth1`,
		"no_loss: true\n    select: {node: r9}":      `there is no node "r9"`,
		"no_loss: true\n    select: {src: r9}":       `a: select.src "r9": domain `,
		"no_loss: true\n    select: {filter: \"(\"}": "assertions.yaml:3:3: a: select.filter: ",
	} {
		path := w.TempDir() + "/assertions.yaml"
		if err := os.WriteFile(path, []byte("\nassertions:\n- name: a\n  "+strings.ReplaceAll(text, "\n  ", "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out := w.Radar(kit.ExitUsage, "assert", path)
		if !strings.Contains(out, says) {
			t.Errorf("%s: no %q in %s", text, says, out)
		}
	}
	if out := w.Radar(kit.ExitUsage, "assert", "/nothing"); !strings.Contains(out, "no such file") {
		t.Errorf("without a file: %s", out)
	}
	if out := w.Radar(kit.ExitOK, "fidelity"); !strings.Contains(out, "no attached port declares anything") {
		t.Errorf("nothing declared: %s", out)
	}
}
