// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/export"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// exportWorld is a world whose packets are exported to a namespace of its own.
type exportWorld struct {
	*clitest.World
	net  *nstest.Net
	self string
}

func newExportWorld(t *testing.T, scenario string, params map[string]string) *exportWorld {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "tcpdump")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &exportWorld{World: clitest.NewWorldOf(t, scenario, params), net: nstest.New(t, "c"), self: self}
	w.net.Run("c", "ip", "link", "set", "lo", "up")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--slots", "16K"}, w.Lab.AttachArgs()...)...)
	return w
}

// within is a command in the namespace at path, with the file system as it is.
func (w *exportWorld) within(path, name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + path, name}, args...)...)
}

// run runs radar in the collectors' namespace; it must end well.
func (w *exportWorld) run(args ...string) (stdout, stderr string) {
	w.Helper()
	var out, errs strings.Builder
	cmd := w.within(w.net.Path("c"), w.self, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		w.Fatalf("radar %v: %v\n%s%s", args, err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// captured is tcpdump's file of what comes to a port while do sends so many datagrams.
func (w *exportWorld) captured(port int, do func() (sent uint64)) string {
	w.Helper()
	file := filepath.Join(w.TempDir(), "reports.pcap")
	tcpdump := w.within(w.net.Path("c"), "tcpdump", "-i", "lo", "-p", "-n", "-U", "-Z", "root", "--time-stamp-precision=nano", "-w", file, "udp", "dst", "port", fmt.Sprint(port))
	clitest.Await(w.T, tcpdump, "listening on")
	sent := do()
	nstest.WaitFor(w.T, "tcpdump to write all", func() bool { return clitest.CountPackets(w.T, file) == int(sent) })
	clitest.Interrupt(w, tcpdump)
	return file
}

// recordsOf reads one record a line.
func recordsOf(t *testing.T, text string) (list []record.Record) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	for {
		var r record.Record
		if err := dec.Decode(&r); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
}

// told is what a packet says that a report can say, too.
type told struct {
	Src, Dst, Proto           string
	Sport, Dport, Type, Seq   int
	Len, DSCP, ECN, IPID, TTL int
	State                     record.State
	Way                       string // LINK NODE(IN>OUT LATENCY) ..., whole
	Loss                      string
}

// tell is that of what the collector has.
func tell(r *record.Record) told {
	number := func(p *int) int {
		if p == nil {
			return -1
		}
		return *p
	}
	v := told{
		Src: r.Src, Dst: r.Dst, Proto: r.Proto, Sport: number(r.Sport), Dport: number(r.Dport), Type: number(r.ICMPType), Seq: number(r.ICMPSeq),
		Len: r.Len, DSCP: r.DSCP, ECN: r.ECN, IPID: r.IPID, TTL: r.TTL, State: r.State,
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		latency := "-"
		if h.NodeNs != nil {
			latency = fmt.Sprint(*h.NodeNs)
		}
		if h.LinkNs != nil {
			v.Way += fmt.Sprintf("%d ", *h.LinkNs)
		}
		v.Way += fmt.Sprintf("%s(%s>%s %s) ", h.Node, h.InPort, h.Port, latency)
	}
	if r.State == record.Left && r.LatencyNs != nil {
		v.Way += fmt.Sprint(*r.LatencyNs)
	}
	if r.Loss != nil {
		v.Loss = r.Loss.Node + " " + r.Loss.Port + " " + r.Loss.Reason
	}
	return v
}

// truth is tell of what radar measured, in the collector's terms: a port is its index, delivered
// packets left, the wait in a queue is part of the hop's latency, reasons have names of the table.
func truth(d *domain.Domain, r record.Record) told {
	index := func(node, port string) string {
		for _, p := range d.Ports {
			if d.NodeByID(p.Node).Name == node && p.Name == port {
				return fmt.Sprint(p.Ifindex)
			}
		}
		return "0"
	}
	hops := slices.Clone(r.Hops)
	for i := range hops {
		h := &hops[i]
		h.InPort, h.Port = index(h.Node, h.InPort), index(h.Node, h.Port)
		if h.NodeNs != nil && h.QueueNs != nil {
			h.NodeNs = clitest.Ptr(*h.NodeNs + *h.QueueNs)
		}
	}
	r.Hops = hops
	if first, last := &hops[0], &hops[len(hops)-1]; first.AtNs != nil && last.AtNs != nil {
		r.LatencyNs = clitest.Ptr(*last.AtNs - *first.AtNs)
		if first.QueueNs != nil {
			*r.LatencyNs -= *first.QueueNs
		}
	}
	if r.State == record.Delivered {
		r.State = record.Left
	}
	if r.Loss != nil {
		number, _ := export.DropReason(r.Loss.Reason, r.IPVersion)
		last := hops[len(hops)-1]
		r.Loss = &record.Loss{Node: r.Loss.Node, Port: last.Port, Reason: intwire.ProfileByName("radar").DropReason(number)}
	}
	return tell(&r)
}

func sortTold(list []told) []told {
	slices.SortFunc(list, func(a, b told) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

// ended is the object that an export with -o json prints last.
func ended(t *testing.T, stdout string) (v end) {
	t.Helper()
	all := strings.Split(strings.TrimSpace(stdout), "\n")
	if err := json.Unmarshal([]byte(all[len(all)-1]), &v); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	return v
}

// forms are the ways to report the same packets.
var forms = []struct {
	name, args string
	perHop     bool // the collector has the source's TTL
	dscp       bool // INT's mark stays in the packet, and only TCP and UDP carry INT
}{
	{name: "int-md-2.0"},
	{name: "int-md-2.0-dscp", args: "--int-dscp 0x17", dscp: true},
	{name: "int-md-1.0", args: "--report-version 1.0", dscp: true},
	{name: "int-xd-2.0", args: "--mode int-xd", perHop: true},
	{name: "int-xd-1.0", args: "--mode int-xd --report-version 1.0", perHop: true},
}

// formTruth is truth by one of the forms.
func formTruth(d *domain.Domain, r record.Record, n int) told {
	form := &forms[n]
	stack := !form.perHop && (!form.dscp || r.Proto != "icmp")
	if stack && r.TTLSent != nil {
		r.TTL = *r.TTLSent
		if r.State == record.Lost && r.Hops[len(r.Hops)-1].Port != "" {
			r.TTL++ // the last node had forwarded it: it came in with one more
		}
	}
	if stack && form.dscp {
		r.DSCP = 0x17
	}
	v := truth(d, r)
	if r.Loss != nil && strings.HasSuffix(form.name, "1.0") { // profile radar is of 2.0
		number, _ := export.DropReason(r.Loss.Reason, r.IPVersion)
		v.Loss = strings.Join(append(strings.Fields(v.Loss)[:2], fmt.Sprintf("INT_%d", number)), " ")
	}
	return v
}

// sameAsCollected demands that a capture of reports says what was measured.
func sameAsCollected(t *testing.T, d *domain.Domain, own []record.Record, file string, n int) {
	t.Helper()
	// A busy machine sends some of a packet's reports late.
	args := []string{"collect", "--all", "-r", file, "--show", "packets", "-o", "json", "--domain", "exported", "--join", "1m"}
	for _, node := range d.Nodes {
		args = append(args, "--node", fmt.Sprintf("%d=%s", node.ID, node.Name))
	}
	source := "127.0.0.1=radar"
	if strings.HasSuffix(forms[n].name, "1.0") { // times of 32 bits
		source = "127.0.0.1=spec-1.0,clock=shared"
	}
	args = append(args, "--source", source)
	stdout, stderr, code := clitest.Radar(t, args...)
	if code != kit.ExitOK || strings.Contains(stderr, "odd") || strings.Contains(stderr, "did not come") || !strings.Contains(stderr, " 0 of them no report") {
		t.Fatalf("collect: code %d, %s", code, stderr)
	}
	var want, got []told
	for _, r := range own {
		want = append(want, formTruth(d, r, n))
	}
	for _, r := range recordsOf(t, stdout) {
		got = append(got, tell(&r))
	}
	if diff := cmp.Diff(sortTold(want), sortTold(got)); diff != "" {
		t.Error(diff)
	}
	sameLatencies(t, d, own, n)
}

// sameLatencies demands that the collector's latencies end to end, and of links, are some that were
// measured, and that there is one of each flow and link.
func sameLatencies(t *testing.T, d *domain.Domain, own []record.Record, n int) {
	t.Helper()
	stdout, stderr, _ := clitest.Radar(t, "int", "metrics", "--metric", "flow_latency,link_latency", "-o", "json", "--domain", "exported")
	measured := make(map[string][]uint64)
	add := func(of string, ns *int64) {
		if ns != nil {
			measured[of] = append(measured[of], uint64(*ns))
		}
	}
	for _, r := range own {
		for i := 1; i < len(r.Hops); i++ {
			add(r.Hops[i-1].Node+" > "+r.Hops[i].Node, r.Hops[i].LinkNs)
		}
		if v := formTruth(d, r, n); r.State == record.Delivered {
			ns, err := strconv.ParseInt(v.Way[strings.LastIndex(v.Way, " ")+1:], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			add(fmt.Sprintf("%s > %s %s %d > %d", r.Src, r.Dst, r.Proto, max(v.Sport, 0), max(v.Dport, 0)), &ns)
		}
	}
	has := make(map[string]bool)
	for line := range strings.Lines(stdout) {
		var row metrics.RowJSON
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		of := row.Node + " > " + row.ToNode
		if row.Metric == metrics.FlowLatency.String() {
			sport, dport := uint16(0), uint16(0)
			if row.Sport != nil {
				sport, dport = *row.Sport, *row.Dport
			}
			of = fmt.Sprintf("%s > %s %s %d > %d", row.Src, row.Dst, row.Proto, sport, dport)
		}
		has[of] = true
		if !slices.Contains(measured[of], *row.Value) {
			t.Errorf("%s of %s is %d, measured %d", row.Metric, of, *row.Value, measured[of])
		}
	}
	for of := range measured {
		if !has[of] {
			t.Errorf("no latency of %s: %s%s", of, stdout, stderr)
		}
	}
}

// TestExport: real packets of a real network, delivered, dropped by nftables and by a queue, come
// back through radar's own collector as what they were, by each form of reports.
func TestExport(t *testing.T) {
	w := newExportWorld(t, "bottleneck", nil)
	w.traffic()
	d, err := domain.Load(w.Domain)
	if err != nil {
		t.Fatal(err)
	}
	own := w.Packets("--last", "0")
	states := make(map[string]int)
	for _, r := range own {
		states[string(r.State)]++
		if r.Loss != nil {
			states[r.Loss.Reason]++
		}
		for _, h := range r.Hops {
			if h.QueueNs != nil {
				states["waited"]++
			}
		}
	}
	for _, what := range []string{"delivered", "lost", "NETFILTER_DROP", "QDISC_DROP", "waited"} {
		if states[what] == 0 {
			t.Fatalf("no packet was %s: %v", what, states)
		}
	}
	for n := range forms {
		t.Run(forms[n].name, func(t *testing.T) {
			w := &exportWorld{World: &clitest.World{T: t, Lab: w.Lab, Domain: w.Domain}, net: w.net, self: w.self}
			file, end := w.exported(n)
			if c := end.Collectors[0]; end.Packets != uint64(len(own)) || end.Reported != end.Packets || c.Sent != end.Reports || c.Refused == 0 || c.Failed > 0 {
				t.Errorf("%d packets: %+v", len(own), end)
			}
			sameAsCollected(t, d, own, file, n)
			if dir := os.Getenv("RADAR_KEEP_REPORTS"); dir != "" {
				file, _ := w.exported(n, "less", "200")
				w.keep(dir, file, d, n)
			}
		})
	}
}

// exported captures what the ring has, in one of the forms.
func (w *exportWorld) exported(n int, filter ...string) (file string, end end) {
	w.Helper()
	file = w.captured(clitest.ReportPort, func() uint64 {
		args := append([]string{"export", "int", "-o", "json", "--last", "0", "--collector", fmt.Sprintf("127.0.0.1:%d", clitest.ReportPort)}, strings.Fields(forms[n].args)...)
		stdout, _ := w.run(append(args, filter...)...)
		end = ended(w.T, stdout)
		return end.Reports
	})
	return file, end
}

// traffic is echoes, datagrams that a rule drops, datagrams to a closed port, and a burst that
// overflows a queue.
func (w *exportWorld) traffic() {
	w.Helper()
	// Slow enough that the queue cannot send the last of them while ping takes its time. On a
	// machine that stops ping for longer the burst is sent again.
	w.In("r2", "tc", "qdisc", "change", "dev", "eth1", "root", "tbf", "rate", "1mbit", "burst", "16kb", "limit", "64kb")
	for _, script := range []string{
		"ping -q -c 5 -i 0.01 10.0.4.2",
		"for i in 1 2 3; do echo $i >/dev/udp/10.0.4.2/9999; done",
		"exec 3>/dev/udp/10.0.4.2/40; for i in 1 2 3; do echo $i >&3; sleep 0.01; done; true",
		"(exec 3<>/dev/tcp/10.0.4.2/40) || true",
	} {
		w.In("h1", "bash", "-c", script)
	}
	drops := regexp.MustCompile(`dropped [1-9]`)
	nstest.WaitFor(w.T, "the queue to drop some", func() bool {
		w.In("h1", "bash", "-c", "ping -q -l 80 -c 80 -s 1400 -W 1 10.0.4.2 || true")
		return drops.MatchString(w.In("r2", "tc", "-s", "qdisc", "show", "dev", "eth1"))
	})
	nstest.WaitFor(w.T, "all packets to end", func() bool { return w.Status().Totals.InFlight == 0 })
}

// keptDir has captures of reports, made by tcpdump, of a run of TestExport, and what they are
// about, for this and other decoders. RADAR_KEEP_REPORTS=testdata/reports writes them anew.
const keptDir = "testdata/reports"

// kept is what the captures of keptDir are about.
type kept struct {
	Domain  domain.Domain   `json:"domain"` // nodes and ports alone
	Packets []record.Record `json:"packets"`
}

// keep writes a capture, and what it is about, into a directory.
func (w *exportWorld) keep(dir, file string, d *domain.Domain, n int) {
	w.Helper()
	var k kept
	for _, node := range d.Nodes {
		k.Domain.Nodes = append(k.Domain.Nodes, domain.Node{ID: node.ID, Name: node.Name})
	}
	for _, p := range d.Ports {
		k.Domain.Ports = append(k.Domain.Ports, domain.Port{ID: p.ID, Node: p.Node, Name: p.Name, Ifindex: p.Ifindex})
	}
	k.Packets = w.Packets("--last", "0", "less", "200")
	text, err := json.Marshal(k)
	if err != nil {
		w.Fatal(err)
	}
	reports, err := os.ReadFile(file)
	if err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, forms[n].name+".pcap"), reports, 0o644),
		os.WriteFile(filepath.Join(dir, "packets.json"), append(text, '\n'), 0o644)); err != nil {
		w.Fatal(err)
	}
}

// TestExportKept: what was captured once says the same now.
func TestExportKept(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(keptDir, "packets.json"))
	if err != nil {
		t.Fatal(err)
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil || len(k.Packets) < 15 {
		t.Fatalf("%d packets, %v", len(k.Packets), err)
	}
	for n := range forms {
		t.Run(forms[n].name, func(t *testing.T) {
			sameAsCollected(t, &k.Domain, k.Packets, filepath.Join(keptDir, forms[n].name+".pcap"), n)
		})
	}
}
