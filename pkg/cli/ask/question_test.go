// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// askedRows is what a question prints as JSON.
func askedRows[T any](w *clitest.World, args ...string) []T {
	w.Helper()
	stdout, stderr, code := clitest.Radar(w.T, append(args, "-o", "json")...)
	if code != kit.ExitOK || stderr != "" && !strings.HasPrefix(stderr, "radar: no packet matches; ") {
		w.Fatalf("radar %v: code %d, stderr %q", args, code, stderr)
	}
	var list []T
	dec := json.NewDecoder(strings.NewReader(stdout))
	for dec.More() {
		var row T
		if err := dec.Decode(&row); err != nil {
			w.Fatal(err)
		}
		list = append(list, row)
	}
	return list
}

// Every question answers from the aggregates, or from the ring where a filter, --since
// or --last ask for that.
func TestQuestions(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--slots", "4K"}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	w.Settled(10)
	testSources(w)
	testNames(w)
	testLocalDrops(w)
	testRingNote(w)
	testDomainNotes(w)
}

// What a full table lacks is said with the rows of that table, and once.
func TestNoteRows(t *testing.T) {
	agg := aggregate.New(0)
	p := packet.Packet{State: record.Delivered, Segs: 1, Hops: []packet.Hop{{In: packet.NoPort, Out: packet.NoPort}}}
	for node := range uint16(aggregate.MaxPaths + 3) { // as many paths, and nodes
		p.Hops[0].Node = node + 1
		agg.Add(&p)
	}
	for by, want := range map[aggregate.By]string{
		aggregate.ByPath: "radar: 3 packets are of paths beyond the first 4096, which are not kept apart\n",
		aggregate.ByNode: "radar: 3 packets passed nodes, ports or links for which there was no room: they are not in all rows\n",
	} {
		var out bytes.Buffer
		k, c := kit.New(nil, nil, &out), answer.NewCounts(agg, &packet.Registry{})
		if by == aggregate.ByPath {
			k.Note(c.Paths().Notes)
		} else {
			k.Note(c.Latency(by).Notes)
		}
		if out.String() != want {
			t.Errorf("by %s it said %q, want %q", by, out.String(), want)
		}
	}
}

// Latencies that count with others are said with the flows that are shown.
func TestNoteInexact(t *testing.T) {
	var out bytes.Buffer
	kit.New(nil, nil, &out).Note([]answer.Note{note.Inexact{Flows: 2, Packets: 8}})
	want := "radar: there was no room for all latencies: percentiles of 2 flows count 8 packets with the nearest that there was room for (inexact, with -o json)\n"
	if out.String() != want {
		t.Errorf("it said %q, want %q", out.String(), want)
	}
}

// testSources: ten packets of two flows are where they should be, however asked for.
func testSources(w *clitest.World) {
	t := w.T
	for args, want := range map[string]uint64{
		"flows":                          10,
		"flows --since 1h":               10,
		"flows --src 10.0.1.1":           5, // the aggregates answer
		"flows --node h2":                10,
		"flows --node h2 --src 10.0.1.1": 5,
		"flows --last 3":                 3,
		"flows --state lost":             0,
		"flows --top 1":                  0, // says on stderr that there are more
	} {
		if want == 0 && args == "flows --top 1" {
			if out := w.Radar(kit.ExitOK, strings.Fields(args)...); !strings.Contains(out, "1 more flow (--top 0 shows all)") {
				t.Errorf("radar %s says %q", args, out)
			}
			continue
		}
		sum := uint64(0)
		for _, r := range askedRows[aggregate.FlowRow](w, strings.Fields(args)...) {
			sum += r.Packets
		}
		if sum != want {
			t.Errorf("radar %s: %d packets, want %d", args, sum, want)
		}
	}
	for args, want := range map[string]uint64{
		"paths": 10, "paths --dst 10.0.2.2": 5, "paths --since 1h --proto icmp": 10, "paths --since 2100-01-01T00:00:00Z": 0,
	} {
		sum := uint64(0)
		for _, r := range askedRows[aggregate.PathRow](w, strings.Fields(args)...) {
			sum += r.Packets
		}
		if sum != want {
			t.Errorf("radar %s: %d packets, want %d", args, sum, want)
		}
	}
	if rows := askedRows[aggregate.LatencyRow](w, "latency", "--by", "flow"); len(rows) != 2 || rows[0].Count != 5 || rows[0].JitterNs == nil {
		t.Errorf("latency by flow: %+v", rows)
	}
	if rows := askedRows[aggregate.ThroughputRow](w, "throughput", "--by", "flow"); len(rows) != 2 || rows[0].AverageBps == nil {
		t.Errorf("throughput by flow: %+v", rows)
	}
	rows := askedRows[aggregate.ThroughputRow](w, "throughput", "--last", "4")
	if len(rows) < 2 || rows[0].Name != "all" || rows[0].Packets != 4 {
		t.Errorf("throughput of the last 4: %+v", rows)
	}
	if filter.Available {
		for args, want := range map[string]int{"icmp and src host 10.0.1.1": 1, "udp": 0, "icmp[icmptype] == icmp-echo": 1, "ip[8] == 64": 2} {
			if got := len(askedRows[aggregate.FlowRow](w, append([]string{"flows"}, strings.Fields(args)...)...)); got != want {
				t.Errorf("flows %q: %d rows, want %d", args, got, want)
			}
		}
	}

}

func testNames(w *clitest.World) {
	t := w.T
	for _, command := range []string{"packets", "paths", "latency", "loss", "flows", "throughput", "trace --last"} {
		if out := w.Radar(kit.ExitUsage, append(strings.Fields(command), "--node", "nope")...); !strings.Contains(out, `--node "nope"`) || !strings.Contains(out, "h1, r1, h2") {
			t.Errorf("radar %s with a node that is not there says %q", command, out)
		}
	}
	if rows := askedRows[aggregate.PathRow](w, "paths", "--node", "h1, r1"); len(rows) != 2 {
		t.Errorf("a list of nodes with a space behind the comma finds %+v", rows)
	}
	lines, err := csv.NewReader(strings.NewReader(w.Radar(kit.ExitOK, "flows", "-o", "csv"))).ReadAll()
	if err != nil || len(lines) != 3 || lines[0][0] != "proto" || lines[1][0] != "icmp" {
		t.Errorf("flows as CSV: %q, %v", lines, err)
	}
}

// testLocalDrops: where nothing was lost on the way, what was dropped after delivery is
// pointed to.
func testLocalDrops(w *clitest.World) {
	t := w.T
	w.UDP()
	w.Settled(12) // and the ICMP error
	if out := w.Radar(kit.ExitOK, "loss"); !strings.Contains(out, "after delivery 1 packet was dropped (rules, full buffers, no socket): radar loss --after-delivery") {
		t.Errorf("radar loss says %q", out)
	}
	rows := askedRows[aggregate.LossFlowRow](w, "loss", "--after-delivery", "--by", "flow")
	if len(rows) != 1 || rows[0].Node != "h2" || *rows[0].Dport != 9 || rows[0].LossFlow.Packets != 1 {
		t.Errorf("radar loss --after-delivery --by flow: %+v", rows)
	}
}

// testRingNote: a filter that the aggregates cannot answer asks the ring, which may
// have forgotten.
func testRingNote(w *clitest.World) {
	t := w.T
	// In parts that the ring holds: the agent need not be quick.
	for part := range uint64(3) {
		w.In("h1", "ping", "-q", "-f", "-c", "1000", "10.0.2.2")
		w.Settled(12 + 2000*(part+1))
	}
	if out := w.Radar(kit.ExitOK, "paths", "--node", "r1"); !strings.Contains(out, "the ring remembers packets from ") {
		t.Errorf("radar paths --node says %q", out)
	}
	for _, args := range []string{"paths", "paths --last 10"} {
		if _, stderr, _ := clitest.Radar(t, strings.Fields(args)...); stderr != "" {
			t.Errorf("radar %s says %q", args, stderr)
		}
	}
	sum := uint64(0)
	for _, r := range askedRows[aggregate.FlowRow](w, "flows", "--proto", "icmp") {
		sum += r.Packets
	}
	if sum != 6011 {
		t.Errorf("%d packets in flows, want all 6011", sum)
	}
}

// testDomainNotes: every answer says what the domain cannot see, and an empty one what
// it has seen; standard output stays what programs read.
func testDomainNotes(w *clitest.World) {
	t := w.T
	says := func(args string, wants ...string) {
		t.Helper()
		stdout, stderr, code := clitest.Radar(t, strings.Fields(args)...)
		if code != kit.ExitOK || strings.Contains(stdout, "radar: ") {
			t.Errorf("radar %s: code %d, stdout %q", args, code, stdout)
		}
		for _, want := range wants {
			if !strings.Contains(stderr, want) {
				t.Errorf("radar %s says %q, not %q", args, stderr, want)
			}
		}
	}
	since := " packets measured since " + w.Status().Attached.Local().Format(time.TimeOnly)
	for _, args := range []string{"packets --dst 192.0.2.1", "flows --dst 192.0.2.1 -o json", "paths --dst 192.0.2.1 -o csv", "loss --by flow --dst 192.0.2.1"} {
		says(args, "radar: no packet matches; 6012"+since)
	}
	// What routers tell their neighbours is left as it is.
	w.In("h1", "ip", "route", "add", "224.0.0.0/4", "dev", "eth0")
	w.In("h1", "bash", "-c", "echo > /dev/udp/224.0.0.9/520")
	nstest.WaitFor(t, "a packet that is not measured", func() bool { return w.Status().Totals.NotMeasured > 0 })
	w.Kill()
	for _, args := range []string{"paths", "flows -o json", "packets --last 1 -o csv", "topo --load"} {
		says(args, " not measured (multicast ", "radar: no agent runs: packets are recorded until the lease ends; go on with: radar attach -d --domain ")
	}
}

// -f answers again and again, with what has come meanwhile, until the domain ends.
func TestFollowQuestion(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	var table clitest.Growing
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int)
	go func() {
		done <- clitest.Run(ctx, []string{"paths", "-f", "--interval", "200ms"}, strings.NewReader(""), &table, &table)
	}()
	nstest.WaitFor(t, "three answers", func() bool { return strings.Count(table.String(), "\n\n") >= 2 })
	cancel()
	if code := <-done; code != kit.ExitOK {
		t.Errorf("code %d: %s", code, table.String())
	}
	blocks := strings.Split(table.String(), "\n\n")
	if len(blocks) < 3 || !strings.Contains(blocks[2], "PACKETS") || strings.Contains(table.String(), "\x1b") {
		t.Errorf("not a terminal, and printed %q", table.String())
	}

	var out, errs clitest.Growing
	go func() {
		done <- clitest.Run(context.Background(), []string{"flows", "-f", "--interval", "100ms", "-o", "json"}, strings.NewReader(""), &out, &errs)
	}()
	w.Ping(5)
	w.Settled(10)
	told := len(out.String())
	nstest.WaitFor(t, "more answers", func() bool { return strings.Count(out.String()[told:], "\n") >= 5 }) // of two rows each
	w.Radar(kit.ExitOK, "detach")
	select {
	case code := <-done:
		if code != kit.ExitOK || !strings.Contains(errs.String(), "was detached") {
			t.Errorf("code %d, stderr %q", code, errs.String())
		}
	case <-time.After(clitest.Patience):
		t.Fatal("radar flows -f goes on after detach")
	}
	times := map[string]bool{}
	last := aggregate.FlowRow{}
	dec := json.NewDecoder(strings.NewReader(out.String()))
	for dec.More() {
		var row struct {
			Time string `json:"time"`
			aggregate.FlowRow
		}
		if err := dec.Decode(&row); err != nil {
			t.Fatal(err)
		}
		times[row.Time], last = true, row.FlowRow
	}
	if len(times) < 2 || last.Packets != 5 || times[""] {
		t.Errorf("%d answers, the last row %+v", len(times), last)
	}
}

// A variable that is there for another command is no mistake of this one.
func TestTopFromEnvironment(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	t.Setenv("RADAR_TOP", "5")
	for _, command := range []string{"latency", "throughput"} {
		if _, stderr, code := clitest.Radar(t, command); code == kit.ExitUsage {
			t.Errorf("%s: %s", command, stderr)
		}
	}
}
