// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/oracle"
	"github.com/vnetradar/radar/pkg/record"
)

// maxAnswerError of times in answers: of single numbers, not of 99 % of many.
const maxAnswerError = 100 * time.Microsecond

// answers asks all question commands. Their sums must be of everything since attach.
func (r *radar) answers(t *testing.T) *oracle.Answers {
	t.Helper()
	a := &oracle.Answers{
		Paths: rows[oracle.PathAnswer](t, r, "paths"), Flows: rows[oracle.FlowAnswer](t, r, "flows", "--top", "0"),
		Losses: rows[oracle.LossAnswer](t, r, "loss"), FlowLosses: rows[oracle.FlowLossAnswer](t, r, "loss", "--by", "flow"),
		Latency: map[string][]oracle.LatencyAnswer{}, Throughput: map[string][]oracle.MeterAnswer{},
		Seconds: map[string][]oracle.SecondAnswer{},
	}
	for _, by := range []string{"node", "link", "end-to-end"} {
		a.Latency[by] = rows[oracle.LatencyAnswer](t, r, "latency", "--by", by)
	}
	for _, by := range []string{"node", "link", "port"} {
		a.Throughput[by] = rows[oracle.MeterAnswer](t, r, "throughput", "--by", by)
		a.Seconds[by] = rows[oracle.SecondAnswer](t, r, "throughput", "--series", "--by", by)
	}
	return a
}

// rows is what a command prints with -o json.
func rows[T any](t *testing.T, r *radar, args ...string) []T {
	t.Helper()
	var list []T
	dec := json.NewDecoder(bytes.NewReader(r.run(t, append(args, "-o", "json")...)))
	for dec.More() {
		var row T
		if err := dec.Decode(&row); err != nil {
			t.Fatalf("radar %v: %v", args, err)
		}
		list = append(list, row)
	}
	return list
}

// prepareTwoWays: the scenario has all that is needed.
func prepareTwoWays(t *testing.T, n *network) func(t *testing.T) []oracle.Drop {
	t.Helper()
	n.setQueue("r3", "eth1", &oracle.Queue{Kind: "tbf"})
	n.sink(t, "h2", portProbe, portFilter)
	return func(t *testing.T) []oracle.Drop {
		return []oracle.Drop{{
			Name: "nft in r1", Node: "r1", At: record.AtNode, Reasons: []string{"NETFILTER_DROP"},
			Match:  func(p *oracle.Packet) bool { return p.Dport == portNft && p.Proto == 17 },
			Kernel: n.droppedByNft(t, "r1", "lab"),
		}, {
			Name: "tbf at r3/eth1", Node: "r3", Port: "eth1", At: record.AtQueue, Reasons: []string{"QDISC_DROP"},
			Kernel: n.droppedByQdisc(t, "r3", "eth1"), Skbs: true,
		}}
	}
}

// twoWaysTraffic: every other packet to portProbe takes the slow way and is overtaken
// by the next ones; one flow is more than that way can take.
func twoWaysTraffic(t *testing.T, n *network) []*sentLog {
	var sent []*sentLog
	raw := func(sport, dport, count int, gap time.Duration, sizes ...int) {
		sent = append(sent, n.sendRaw(t, rawFlow{
			from: "h1", to: "h2", sport: sport, dport: dport, count: count, gap: gap, sizes: sizes,
		}))
	}
	n.ping(t, "h1", "h2", 100, 56)
	raw(6000, portProbe, 300, 2*time.Millisecond, 500)
	raw(6001, portFilter, 400, 500*time.Microsecond, 100, 1200)
	raw(6002, portProbe, 300, time.Millisecond, 900)
	raw(6003, portProbe, 40, 5*time.Millisecond, 300, 400)
	raw(6004, portNft, 30, time.Millisecond, 200)
	raw(6005, portNft, 20, time.Millisecond, 300)
	raw(6006, portClosed, 20, 2*time.Millisecond, 200)
	n.iperf(t, "h1", "h2", "-n", "300K")
	return sent
}
