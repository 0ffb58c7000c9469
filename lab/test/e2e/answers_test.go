// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/record"
)

// maxAnswerError of times in answers: of single numbers, not of 99 % of many.
const maxAnswerError = 100 * time.Microsecond

// answers asks all question commands. Their sums must be of everything since attach.
func (r *radar) answers(t *testing.T) *oracle.Answers {
	t.Helper()
	a := r.ask(t, []string{"node", "queue", "link", "path", "end-to-end"}, []string{"node", "link", "port", "path"})
	for by := range a.Throughput {
		a.Seconds[by] = rows[oracle.SecondAnswer](t, r, nil, "throughput", "--series", "--by", by)
	}
	return a
}

// ask puts the questions with these groups of latencies and of throughput, and args.
func (r *radar) ask(t *testing.T, latency, throughput []string, args ...string) *oracle.Answers {
	t.Helper()
	a := &oracle.Answers{
		Paths: rows[oracle.PathAnswer](t, r, args, "paths"), Flows: rows[oracle.FlowAnswer](t, r, args, "flows", "--top", "0"),
		Losses: rows[oracle.LossAnswer](t, r, args, "loss"), FlowLosses: rows[oracle.FlowLossAnswer](t, r, args, "loss", "--by", "flow"),
		Latency: map[string][]oracle.LatencyAnswer{}, Throughput: map[string][]oracle.MeterAnswer{},
		Seconds: map[string][]oracle.SecondAnswer{},
	}
	for _, by := range latency {
		a.Latency[by] = rows[oracle.LatencyAnswer](t, r, args, "latency", "--by", by)
	}
	for _, by := range throughput {
		a.Throughput[by] = rows[oracle.MeterAnswer](t, r, args, "throughput", "--by", by)
	}
	return a
}

// selected are answers about some of the packets.
type selected struct {
	oracle.Selection
	answers *oracle.Answers
}

// askAboutSome puts questions that only the ring can answer. Borders in time lie where no
// packet is near.
func (r *radar) askAboutSome(t *testing.T, records []record.Record) []selected {
	t.Helper()
	n := len(records)
	first := longestGap(records, n/5, n*2/7)
	since := (records[first-1].TNs + records[first].TNs) / 2
	last := n - longestGap(records, n/2, n*2/3)
	var list []selected
	ask := func(s oracle.Selection, latency, throughput string, args ...string) {
		s.Question = strings.Join(args, " ")
		list = append(list, selected{s, r.ask(t, []string{latency}, []string{throughput}, args...)})
	}
	// Only a time after attach takes --since to the ring.
	ask(oracle.Selection{Since: since}, "path", "link", "--since", record.TimeString(since))
	ask(oracle.Selection{Last: last}, "link", "path", "--last", fmt.Sprint(last))
	ask(oracle.Selection{TTLBelow: 70}, "end-to-end", "node", "ip[8] < 70")
	ask(oracle.Selection{Node: "r3", State: record.Delivered}, "node", "port", "--node", "r3", "--since", "1h", "--state", "delivered")
	return list
}

// longestGap returns the number of the record between from and to that came longest
// after the one before it. Records are in order of time.
func longestGap(records []record.Record, from, to int) int {
	best := from
	for i := from; i < to; i++ {
		if records[i].TNs-records[i-1].TNs > records[best].TNs-records[best-1].TNs {
			best = i
		}
	}
	return best
}

// traces are the stories of some packets of every path and end.
func (r *radar) traces(t *testing.T, records []record.Record) []oracle.TraceAnswer {
	t.Helper()
	const each = 8
	groups := map[string][]string{}
	for _, rec := range records {
		group := string(rec.State)
		for _, h := range rec.Hops {
			group += " " + h.Node + "/" + h.Port
		}
		groups[group] = append(groups[group], rec.ID)
	}
	args := []string{"trace"}
	for _, ids := range groups {
		n := min(each, len(ids))
		for i := range n {
			args = append(args, ids[i*len(ids)/n])
		}
	}
	return rows[oracle.TraceAnswer](t, r, nil, args...)
}

// rows is what a command prints with -o json and more arguments.
func rows[T any](t *testing.T, r *radar, more []string, args ...string) []T {
	t.Helper()
	args = append(append(args, "-o", "json"), more...)
	var list []T
	dec := json.NewDecoder(bytes.NewReader(r.run(t, args...)))
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

// twoWaysTraffic: every other packet to portProbe takes the slow path and is overtaken
// by the next ones; one flow is more than that path can take.
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
