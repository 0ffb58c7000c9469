// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// TestEndure is a piece of an endurance run: packets at 90 % of the rate that the chain
// carries without loss, each checked byte by byte, all nodes attached, and somebody who asks
// for latencies. Meanwhile what radar holds may not grow.
//
// RADAR_ENDURE says how long a piece takes (else some seconds, for the test's own sake),
// RADAR_ENDURE_RECORD names a file that gets a line about it, also if it fails.
func TestEndure(t *testing.T) {
	need.Nightly(t) // rates, and what has grown after a while, are matters of time
	piece := 8 * time.Second
	if text := os.Getenv("RADAR_ENDURE"); text != "" {
		var err error
		if piece, err = time.ParseDuration(text); err != nil || piece < 8*time.Second {
			t.Fatalf("RADAR_ENDURE=%q: say 8s or more, as 30m", text)
		}
	}
	line, failed := endureLine(""), "it broke off" // of a piece that does not come to its end
	defer func() {
		if t.Failed() {
			line += "  FAILED: " + cmp.Or(failed, "an error beside the checks")
		}
		t.Log(line)
		if path := os.Getenv("RADAR_ENDURE_RECORD"); path != "" {
			appendLine(t, path, line)
		}
	}()
	// Nearly as many flows as radar keeps, and no others: where each of those that it keeps is
	// met rarely, its latencies fill buckets for an hour, which looks like a leak.
	const sports = aggregate.MaxFlowRows/selfPorts - 1
	n := startNetwork(lifetime(t), t, "chain")
	for port := range selfPorts {
		n.sink(t, "h2", selfPortBase+port)
	}
	rad := n.attach(t, n.nodes())
	lossless := n.noLossRate(t, sports)
	rate := lossless * 9 / 10
	before := rad.settle(t)
	f := n.startSelfFlows(t, "h1", "h2", 3, time.Second/time.Duration(rate), sports)
	warmUp := 10 * time.Minute // tables fill, the garbage collector settles
	var settling sample
	if piece < time.Minute { // the agent's heap is on the way to where it stays, and the runtime's threads
		warmUp, settling = piece/4, sample{memory: 32 << 20, threads: 4}
	}
	time.Sleep(warmUp)
	var samples []sample
	start, sent := time.Now(), f.sent.Load()
	for time.Since(start) < piece {
		for range 5 {
			time.Sleep(piece / 200)
			samples = append(samples, rad.sample(t))
		}
		rad.run(t, "latency", "--by", "node")
		rad.run(t, "latency", "--by", "flow", "--last", "10000")
		now := samples[len(samples)-1]
		t.Logf("%s: %d packets sent, %d wrong, agent %.1f MiB, maps %.1f MiB, %d descriptors, %d threads", time.Since(start).Round(time.Second),
			f.sent.Load()-sent, f.wrong.Load(), mib(now.memory), mib(now.locked), now.files, now.threads)
	}
	took := time.Since(start)
	sent = f.sent.Load() - sent
	f.finish(t)
	s := rad.settle(t)

	report := &oracle.Report{Title: fmt.Sprintf("%s at %d packets/s, 90 %% of the rate without loss", took.Round(time.Second), rate)}
	report.Add(f.rowsByKind()...)
	report.Add(s.Totals.row(true), seenRow(f, &before, &s), flowsRow(t, rad, &s))
	report.Add(flatRows(samples, settling)...)
	keepReport(t, report)
	first, last := quarters(samples)
	perSecond := float64(sent) / took.Seconds()
	line = endureLine(fmt.Sprintf("%6.0f s  %11d packets  %3d wrong  %6.0f /s, %.0f %% of what gets through  agent %.1f then %.1f MiB  maps %.1f MiB  %d descriptors  %d threads",
		took.Seconds(), sent, f.wrong.Load(), perSecond, 100*perSecond/float64(lossless),
		mib(first.memory), mib(last.memory), mib(last.locked), last.files, last.threads))
	if failed = strings.Join(notOK(report), ", "); !report.OK() {
		t.Error("packets differ or are not accounted for, or something grows: see the table")
	}
}

// endureLine is a line of the record, which lab/reliability.sh sums.
func endureLine(text string) string {
	return fmt.Sprintf("%s  Linux %s  %s", time.Now().UTC().Format("2006-01-02"), kernelNumber(), text)
}

// notOK are the names of the checks that failed.
func notOK(report *oracle.Report) (names []string) {
	for _, row := range report.Rows {
		if !row.OK() {
			names = append(names, row.Check)
		}
	}
	return names
}

func kernelNumber() string {
	number, _, _ := strings.Cut(kernel(), "-")
	return number
}

func appendLine(t *testing.T, path, line string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Errorf("keep a record: %v", err)
	}
}

// noLossRate is the highest rate, in packets a second, at which nothing gets lost from h1 to
// h2 for some seconds. sports is as for startSelfFlows.
func (n *network) noLossRate(t *testing.T, sports int) int {
	t.Helper()
	const try = 2 * time.Second
	run := func(gap time.Duration) (rate int, lossless bool) {
		f := n.startSelfFlows(t, "h1", "h2", 3, gap, sports)
		start := time.Now()
		time.Sleep(try)
		rate = int(float64(f.sent.Load()) / time.Since(start).Seconds())
		f.finish(t)
		return rate, f.sent.Load() == f.right.Load()+f.wrong.Load()
	}
	high, lossless := run(fullRateGap(t))
	if lossless {
		return high
	}
	low := 0
	for high-low > high/20 {
		rate := (low + high) / 2
		if _, lossless = run(time.Second / time.Duration(rate)); lossless {
			low = rate
		} else {
			high = rate
		}
		if high < 1000 {
			t.Fatal("packets get lost even at 1000 a second")
		}
	}
	return low
}

// seenRow holds radar's count to the sender's. What nodes tell their neighbours is in none
// of the sender's.
func seenRow(f *selfFlow, before, after *status) *oracle.Row {
	sent, seen := int(f.sent.Load()), after.seenOfFlows()-before.seenOfFlows()
	return &oracle.Row{Check: "sent = seen", Compared: sent, Wrong: max(sent-seen, seen-sent)}
}

// flowsRow holds the flows' packets to all that radar has measured: none is of a flow for which
// there was no room.
func flowsRow(t *testing.T, rad *radar, s *status) *oracle.Row {
	t.Helper()
	sum := 0
	for _, f := range rows[oracle.FlowAnswer](t, rad, nil, "flows", "--top", "0") {
		sum += int(f.Packets)
	}
	measured := s.Totals.Seen - s.Totals.NotMeasured
	return &oracle.Row{Check: "measured = in flows", Compared: measured, Wrong: max(measured-sum, sum-measured)}
}

func (s *status) seenOfFlows() int {
	n := s.Totals.Seen
	for _, c := range s.Counters {
		if c.Name == "not_measured_neighbour" || c.Name == "not_measured_multicast" {
			n -= c.Value
		}
	}
	return n
}

// sample is what radar holds at one time.
type sample struct {
	memory, locked       int64 // bytes: of the agent's own, of its BPF maps and programs
	files, threads, pins int64
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func (r *radar) sample(t *testing.T) sample {
	t.Helper()
	if r.agent == 0 {
		r.agent = r.status(t).Agent.PID
	}
	proc := fmt.Sprintf("/proc/%d", r.agent)
	status := fields(t, filepath.Join(proc, "status"))
	s := sample{memory: number(t, status["RssAnon"]) << 10, threads: number(t, status["Threads"])}
	files, err := os.ReadDir(filepath.Join(proc, "fdinfo"))
	if err != nil {
		t.Fatal(err)
	}
	s.files = int64(len(files))
	counted := make(map[string]bool) // several descriptors may be of one map
	for _, file := range files {
		info, err := readFields(filepath.Join(proc, "fdinfo", file.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		id := "map " + info["map_id"] + " program " + info["prog_id"]
		if info["memlock"] != "" && !counted[id] {
			counted[id] = true
			s.locked += number(t, info["memlock"])
		}
	}
	err = filepath.WalkDir(domain.PinDir(r.domain), func(_ string, _ os.DirEntry, err error) error {
		s.pins++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fields reads lines "name: value unit" as /proc has them.
func fields(t *testing.T, path string) map[string]string {
	t.Helper()
	m, err := readFields(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readFields(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m := make(map[string]string)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		m[name] = strings.TrimSpace(strings.TrimSuffix(value, " kB"))
	}
	return m, lines.Err()
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// quarters are the medians of the first and of the last quarter of the samples.
func quarters(samples []sample) (first, last sample) {
	median := func(part []sample) (m sample) {
		for _, what := range held {
			*what.of(&m) = middle(part, what.of)
		}
		return m
	}
	n := max(1, len(samples)/4)
	return median(samples[:n]), median(samples[len(samples)-n:])
}

func middle(part []sample, of func(*sample) *int64) int64 {
	var values []int64
	for i := range part {
		values = append(values, *of(&part[i]))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// held is what may not grow, or by no more than a share, and slack.
var held = []struct {
	name  string
	of    func(*sample) *int64
	share float64
	slack int64
}{
	{"memory of the agent", func(s *sample) *int64 { return &s.memory }, 0.03, 1 << 20},
	{"memory of BPF maps and programs", func(s *sample) *int64 { return &s.locked }, 0.01, 64 << 10},
	{"descriptors", func(s *sample) *int64 { return &s.files }, 0, 0},
	{"threads", func(s *sample) *int64 { return &s.threads }, 0, 1}, // the runtime starts one at times
	{"pins", func(s *sample) *int64 { return &s.pins }, 0, 0},
}

// flatRows says of each thing held whether it has grown from the first to the last quarter.
// settling: so much more is no growth.
func flatRows(samples []sample, settling sample) []*oracle.Row {
	first, last := quarters(samples)
	var rows []*oracle.Row
	for _, what := range held {
		before, after := *what.of(&first), *what.of(&last)
		row := &oracle.Row{Check: what.name, Compared: len(samples), Note: fmt.Sprintf("%d, then %d", before, after)}
		most := before + int64(what.share*float64(before)) + what.slack + *what.of(&settling)
		if after > most {
			row.Wrong = 1
		}
		rows = append(rows, row)
	}
	return rows
}

// TestFlatRows: what grows is seen, what goes up and down is not taken for it.
func TestFlatRows(t *testing.T) {
	for name, c := range map[string]struct {
		grow  func(i int) sample
		wrong []string
	}{
		"nothing": {func(int) sample { return sample{memory: 100 << 20, files: 50, pins: 31} }, nil},
		"waves":   {func(i int) sample { return sample{memory: int64(100+10*(i%5)) << 20, files: 50} }, nil},
		"memory":  {func(i int) sample { return sample{memory: 100<<20 + int64(i)<<16} }, []string{"memory of the agent"}},
		"maps":    {func(i int) sample { return sample{locked: 100<<20 + int64(i)<<15} }, []string{"memory of BPF maps and programs"}},
		"files":   {func(i int) sample { return sample{files: 50 + int64(i)/70} }, []string{"descriptors"}},
		"threads": {func(i int) sample { return sample{threads: 9 + int64(i)/30} }, []string{"threads"}},
		"pins":    {func(i int) sample { return sample{pins: 31 + int64(i)/70} }, []string{"pins"}},
	} {
		var samples []sample
		for i := range 100 {
			samples = append(samples, c.grow(i))
		}
		var wrong []string
		for _, row := range flatRows(samples, sample{}) {
			if row.Wrong > 0 {
				wrong = append(wrong, row.Check)
			}
		}
		if !slices.Equal(wrong, c.wrong) {
			t.Errorf("%s: %q have grown, want %q", name, wrong, c.wrong)
		}
	}
}
