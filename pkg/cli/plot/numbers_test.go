// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// twoPaths are packets over two routers, one of which has a queue that drops.
func twoPaths(n int) *made {
	m, rng := new(made), rand.New(rand.NewPCG(3, 4))
	for i := range n {
		w := walk{nodes: []string{"h1", "r1", "h2"}, at: int64(i) * 200_000, link: 1000 + rng.Int64N(3000), node: 500 + rng.Int64N(1000), queue: -1, flow: uint16(rng.IntN(3)), segs: 1 + rng.IntN(3)}
		if rng.IntN(3) == 0 {
			w.nodes[1], w.waits, w.queue = "r2", 1, rng.Int64N(5_000_000)
			w.link += 2_000_000 // most are lost in another bin than they were sent in
			w.lost = rng.IntN(10) == 0
		}
		if w.lost {
			w.nodes = w.nodes[:2]
		}
		m.send(w)
	}
	return m
}

// quantile is the smallest value that at least that share of packets does not exceed.
func quantile(values []int64, share float64) int64 {
	slices.Sort(values)
	return values[int(math.Ceil(share*float64(len(values))))-1]
}

// near reports whether a number is within what distributions promise, 1 %.
func near(got, want float64) bool { return math.Abs(got-want) <= 0.01*want+1 }

// TestLatencyNumbers: curves and boxes have the percentiles of the records, and those of radar latency.
func TestLatencyNumbers(t *testing.T) {
	dir := twoPaths(3000).recorded(t)
	took := make(map[string][]int64)
	for _, r := range records(t, "-r", dir) {
		for range r.Segs {
			if r.LatencyNs != nil && r.State == record.Delivered {
				took[pathOf(&r)] = append(took[pathOf(&r)], *r.LatencyNs)
			}
		}
	}
	_, rows, said := drawn(t, "svg", "latency", "-r", dir)
	if !strings.Contains(said, "did not arrive (radar loss) and have no latency") {
		t.Errorf("lost packets are not told of: %q", said)
	}
	at := make(map[string]int)
	for _, row := range rows {
		name := row["name"]
		share := number(t, row, "at_most")
		want := float64(quantile(took[name], min(1, share)))
		if got := number(t, row, "latency_ns"); !near(got, want) {
			t.Fatalf("%s: %v of packets take at most %v ns, want %v", name, share, got, want)
		}
		if share+number(t, row, "more") < 1-1e-9 {
			t.Errorf("%v", row)
		}
		at[name] += int(number(t, row, "packets"))
	}
	if len(at) != 2 {
		t.Errorf("paths %v", at)
	}
	for name, values := range took {
		if at[name] != len(values) {
			t.Errorf("%s: %d packets, want %d", name, at[name], len(values))
		}
	}
	for _, by := range []string{"path", "flow", "node", "link", "queue", "end-to-end"} {
		sameAsTable(t, dir, by)
	}
}

// sameAsTable holds boxes against radar latency.
func sameAsTable(t *testing.T, dir, by string) {
	t.Helper()
	var table []aggregate.LatencyRow
	out := clitest.Must(t, "latency", "-r", dir, "--by", by, "-o", "json")
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var r aggregate.LatencyRow
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		table = append(table, r)
	}
	_, rows, _ := drawn(t, "svg", "latency", "-r", dir, "--by", by, "--kind", "box")
	if len(rows) != len(table) || len(rows) == 0 {
		t.Fatalf("--by %s: %d boxes, %d rows", by, len(rows), len(table))
	}
	for i, r := range table {
		row := rows[i]
		for name, want := range map[string]int64{"p50_ns": r.P50Ns, "p99_ns": r.P99Ns, "min_ns": r.MinNs, "max_ns": r.MaxNs, "count": int64(r.Count)} {
			if row["name"] != r.Name || number(t, row, name) != float64(want) {
				t.Errorf("--by %s: %v, radar latency has %+v", by, row, r)
			}
		}
		if !slices.IsSorted([]float64{number(t, row, "min_ns"), number(t, row, "p1_ns"), number(t, row, "p25_ns"), number(t, row, "p50_ns"), number(t, row, "p75_ns"), number(t, row, "p99_ns"), number(t, row, "max_ns")}) {
			t.Errorf("--by %s: %v", by, row)
		}
	}
}

// TestPathNumbers: parts are the means of the records' hops, and make up the mean latency.
func TestPathNumbers(t *testing.T) {
	dir := twoPaths(3000).recorded(t)
	sums, packets, latency, arrived, all := make(map[string]float64), make(map[string]float64), make(map[string]float64), make(map[string]float64), 0.0
	for _, r := range records(t, "-r", dir) {
		path, n := pathOf(&r), float64(r.Segs)
		packets[path] += n
		all += n
		if r.State != record.Delivered {
			continue
		}
		arrived[path] += n
		latency[path] += n * float64(*r.LatencyNs)
		for i, h := range r.Hops {
			if h.LinkNs != nil {
				sums[path+"|link|"+r.Hops[i-1].Node+"/2 > "+h.Node+"/1"] += n * float64(*h.LinkNs)
			}
			if h.NodeNs != nil {
				sums[path+"|node|"+h.Node] += n * float64(*h.NodeNs)
			}
			if h.QueueNs != nil {
				sums[path+"|queue|"+h.Node+"/2"] += n * float64(*h.QueueNs)
			}
		}
	}
	_, rows, _ := drawn(t, "svg", "paths", "-r", dir)
	parts := make(map[string]float64)
	for _, row := range rows {
		path := row["path"]
		if math.Abs(number(t, row, "share")-packets[path]/all) > 1e-9 || number(t, row, "packets") != packets[path] {
			t.Errorf("share of %v, want %v of %v", row, packets[path], all)
		}
		if row["part"] == "" {
			continue
		}
		key := path + "|" + row["part"] + "|" + row["name"]
		if got, want := number(t, row, "mean_ns"), sums[key]/arrived[path]; math.Abs(got-want) > 1 {
			t.Errorf("%s: %v ns, want %v", key, got, want)
		}
		delete(sums, key)
		parts[path] += number(t, row, "mean_ns")
		if got := number(t, row, "latency_mean_ns"); math.Abs(got-latency[path]/arrived[path]) > 1 {
			t.Errorf("mean of %s: %v", path, got)
		}
	}
	if len(sums) > 0 || len(parts) != 2 {
		t.Errorf("not drawn: %v; parts of %v", sums, parts)
	}
	for path, sum := range parts {
		if want := latency[path] / arrived[path]; math.Abs(sum-want) > 10 {
			t.Errorf("parts of %s are %v ns, the latency is %v", path, sum, want)
		}
	}
}

// TestLossNumbers: shares and bins have the losses of the records.
func TestLossNumbers(t *testing.T) {
	dir := twoPaths(3000).recorded(t)
	all, lost, at := 0.0, 0.0, make(map[int64]float64)
	for _, r := range records(t, "-r", dir) {
		all += float64(r.Segs)
		if r.Loss != nil {
			lost += float64(r.Segs)
			at[r.TNs+*r.Loss.AtNs] += float64(r.Segs)
		}
	}
	_, rows, _ := drawn(t, "svg", "loss", "-r", dir)
	if len(rows) != 1 || number(t, rows[0], "packets") != lost || number(t, rows[0], "of") != all || math.Abs(number(t, rows[0], "share")-lost/all) > 1e-9 ||
		!(number(t, rows[0], "low") < lost/all && lost/all < number(t, rows[0], "high")) || rows[0]["reason"] != "QDISC_DROP" || rows[0]["node"] != "r2" {
		t.Errorf("%v, want %v of %v", rows, lost, all)
	}
	_, rows, _ = drawn(t, "svg", "loss", "-r", dir, "--kind", "time")
	inBins(t, rows, at, "packets")
}

// inBins holds bins against when things happened.
func inBins(t *testing.T, rows []map[string]string, at map[int64]float64, name string) {
	t.Helper()
	for _, row := range rows {
		start, width := int64(number(t, row, "start_ns")), int64(number(t, row, "width_ns"))
		want := 0.0
		for when, n := range at {
			if when >= start && when < start+width {
				want += n
				delete(at, when)
			}
		}
		if got := number(t, row, name); got != want {
			t.Errorf("%v: want %v", row, want)
		}
	}
	if len(at) > 0 || len(rows) < 10 {
		t.Errorf("%d are in no bin, of %d bins", len(at), len(rows))
	}
}

// TestQueueNumbers: bins have the waits and drops of the records.
func TestQueueNumbers(t *testing.T) {
	dir := twoPaths(3000).recorded(t)
	waits, drops := make(map[int64]int64), make(map[int64]float64)
	segs := make(map[int64]float64)
	for _, r := range records(t, "-r", dir) {
		for _, h := range r.Hops {
			if h.QueueNs != nil {
				waits[r.TNs+*h.AtNs] = *h.QueueNs
				segs[r.TNs+*h.AtNs] = float64(r.Segs)
			}
		}
		if r.Loss != nil {
			drops[r.TNs+*r.Loss.AtNs] += float64(r.Segs)
		}
	}
	_, rows, said := drawn(t, "svg", "queue", "-r", dir)
	if !strings.Contains(said, "waits are in bins of ") {
		t.Errorf("bins are not told of: %q", said)
	}
	for _, row := range rows {
		start, width := int64(number(t, row, "start_ns")), int64(number(t, row, "width_ns"))
		var in []int64
		for when, wait := range waits {
			for range int(segs[when]) {
				if when >= start && when < start+width {
					in = append(in, wait)
				}
			}
		}
		if row["port"] != "r2/2" || number(t, row, "waited") != float64(len(in)) {
			t.Errorf("%v: %d waited", row, len(in))
		}
		if len(in) == 0 {
			continue
		}
		if number(t, row, "min_ns") != float64(slices.Min(in)) || !near(number(t, row, "p50_ns"), float64(quantile(in, 0.5))) || !near(number(t, row, "p99_ns"), float64(quantile(in, 0.99))) {
			t.Errorf("%v: want %v", row, in)
		}
	}
	inBins(t, rows, drops, "dropped")
	inBins(t, rows, segs, "waited")
}

// TestHopNumbers: times of visits are those of the records.
func TestHopNumbers(t *testing.T) {
	dir := twoPaths(40).recorded(t)
	all := records(t, "-r", dir)
	_, rows, _ := drawn(t, "svg", "timeline", "-r", dir)
	i := 0
	for _, r := range all {
		sum := r.TNs
		for j, h := range r.Hops {
			row := rows[i]
			i++
			if row["id"] != r.ID || row["node"] != h.Node || row["lost"] != map[bool]string{true: "true"}[r.Loss != nil && j == len(r.Hops)-1] {
				t.Fatalf("%v of %+v", row, h)
			}
			if h.LinkNs != nil {
				sum += *h.LinkNs
				if number(t, row, "in_ns") != float64(sum) {
					t.Errorf("%v came at %d", row, sum)
				}
			}
			if h.NodeNs != nil {
				sum += *h.NodeNs
				if number(t, row, "out_ns") != float64(sum) {
					t.Errorf("%v left at %d", row, sum)
				}
			}
			if h.QueueNs != nil {
				sum += *h.QueueNs
				if number(t, row, "dequeue_ns") != float64(sum) {
					t.Errorf("%v left the queue at %d", row, sum)
				}
			}
		}
	}
	if i != len(rows) {
		t.Errorf("%d visits, want %d", len(rows), i)
	}
}

// fork makes the packet one of two copies, which part at hop 1: one arrives at hop 2, the other one is lost behind hop 3.
func fork(m *made, p *segments.Packet) {
	p.Tree = true
	for i := range p.Hops {
		p.Hops[i].From = int16(i - 1)
	}
	p.Hops[2].Outcome = record.Delivered
	node := m.names.Node("r9")
	copied := p.Hops[1]
	copied.Node, copied.In, copied.Out = node, m.names.Port(node, 1), m.names.Port(node, 2)
	copied.InNs, copied.OutNs = p.Hops[2].InNs+100, p.Hops[2].InNs+300
	copied.From, copied.Outcome, copied.DequeueNs = 1, record.Lost, packet.NoTime
	p.Hops, p.LastNs = append(p.Hops, copied), copied.OutNs
	p.Drops = []packet.BranchDrop{{Hop: 3, Drop: packet.Drop{Node: node, Port: copied.Out, At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", AtNs: copied.OutNs, First: true}}}
}

// TestCopyOutcomes: a dot stands where a copy arrived, and none where another one was lost.
func TestCopyOutcomes(t *testing.T) {
	m := new(made)
	fork(m, m.send(walk{nodes: []string{"h1", "r1", "h2"}, link: 1000, node: 500, queue: -1}))
	file, rows, _ := drawn(t, "svg", "timeline", "-r", m.recorded(t))
	if len(rows) != 4 || rows[2]["outcome"] != "delivered" || rows[2]["node"] != "h2" || rows[3]["outcome"] != "lost" || rows[3]["lost"] != "true" || rows[1]["outcome"] != "" {
		t.Fatalf("%v", rows)
	}
	if texts := parse(t, file).texts; !slices.Contains(texts, "arrived") || !slices.Contains(texts, "lost") {
		t.Errorf("%q", texts)
	}
}

// TestUntimed: packets that arrived without a known latency have arrived, are told of, and no number says 0 for them.
func TestUntimed(t *testing.T) {
	m := new(made)
	for i := range 9 {
		p := m.send(walk{nodes: []string{"h1", "r1", "h2"}, at: int64(i) * 1e6, link: 1000, node: 500, queue: -1, segs: 2})
		p.LatencyNs = packet.NoTime
		if i < 3 {
			m.send(walk{nodes: []string{"h1", "r2", "h2"}, at: int64(i)*1e6 + 1, link: 1000, node: 500, queue: -1})
			m.send(walk{nodes: []string{"h1", "r3"}, at: int64(i)*1e6 + 2, link: 1000, node: 500, waits: 1, lost: true})
		}
	}
	dir := m.recorded(t)
	file, rows, said := drawn(t, "svg", "paths", "-r", dir)
	texts := strings.Join(parse(t, file).texts, "\n")
	if !strings.Contains(texts, "75.0 %, latency not known") || strings.Count(texts, "none arrived") != 1 {
		t.Errorf("%q", texts)
	}
	for _, row := range rows {
		if known := row["path"] == "h1 > r2 > h2"; (row["latency_mean_ns"] != "") != known || (row["mean_ns"] != "") != known || (row["part"] != "") != known {
			t.Errorf("%v", row)
		}
	}
	for _, args := range [][]string{{"latency"}, {"latency", "--by", "flow"}, {"latency", "--by", "end-to-end"}} {
		if _, _, more := drawn(t, "svg", append(args, "-r", dir)...); !strings.Contains(more, "3 packets of 24 did not arrive (radar loss) and have no latency") || !strings.Contains(more, "the latency of 18 packets that arrived is not known") {
			t.Errorf("%v: %q", args, more)
		}
	}
	if !strings.Contains(said, "the latency of 18 packets that arrived is not known") {
		t.Errorf("%q", said)
	}
}

// TestConnection: flags that choose the connection do not choose its packets, and a note says so.
func TestConnection(t *testing.T) {
	m := new(made)
	for i := range 5 {
		p := m.send(walk{nodes: []string{"h1", "r1", "h2"}, at: int64(i) * 1e6, link: 1000, node: 500, queue: -1})
		p.Proto, p.HasTCP, p.TCP = 6, true, packet.TCP{Seq: uint32(1000 + 100*i), Flags: packet.TCPAck, Window: 500, Payload: 100}
	}
	dir := m.recorded(t)
	_, rows, said := drawn(t, "svg", "timeline", "--of", "tcp", "-r", dir, "--last", "2", "--node", "r1")
	if len(rows) != 5 || !strings.Contains(said, "--last, --node: this chooses the connection, of which all packets are drawn") {
		t.Errorf("%d moments, %q", len(rows), said)
	}
	if _, _, said = drawn(t, "svg", "timeline", "--of", "tcp", "-r", dir); strings.Contains(said, "this chooses") {
		t.Errorf("%q", said)
	}
}

// TestSeveral: recordings that are named one after the other are in one figure, each with its own numbers; other commands
// take one.
func TestSeveral(t *testing.T) {
	first, second := twoPaths(400).recorded(t), twoPaths(90).recorded(t)
	of := func(dirs ...string) []map[string]string {
		args := []string{"latency", "--by", "end-to-end"}
		for _, dir := range dirs {
			args = append(args, "-r", dir)
		}
		_, rows, _ := drawn(t, "svg", args...)
		return rows
	}
	both := of(first, second)
	alone := append(of(first), of(second)...)
	if len(both) != len(alone) {
		t.Fatalf("%d steps of both, %d of each", len(both), len(alone))
	}
	names := make(map[string]bool)
	for i, row := range both {
		names[row["name"]] = true
		if row["latency_ns"] != alone[i]["latency_ns"] || row["at_most"] != alone[i]["at_most"] {
			t.Fatalf("step %d: %v, alone %v", i, row, alone[i])
		}
	}
	if len(names) != 2 {
		t.Errorf("the lines are called %v", names)
	}
	if file, rows, _ := drawn(t, "svg", "latency", "--kind", "box", "-r", first, "-r", second); len(rows) != 4 || len(file) == 0 {
		t.Errorf("%d boxes of two paths twice", len(rows))
	}
	if _, said, code := clitest.Radar(t, "plot", "paths", "-r", first, "-r", second, "-o", filepath.Join(t.TempDir(), "a.svg")); code != kit.ExitUsage || !strings.Contains(said, "2 recordings: use one") {
		t.Errorf("code %d: %s", code, said)
	}
}
