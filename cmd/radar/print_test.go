// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/topo"
)

func sampleDomain() *domain.Domain {
	return &domain.Domain{
		Version: 1, Name: "default", Epoch: 1, LossHook: "tp_btf/kfree_skb",
		Created: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC),
		Options: domain.Options{
			Slots: 1 << 20, SlotBytes: 256, GUIDBits: "auto", Carry: "mark", MarkMask: 0xfffff800,
			Timeout: 10 * time.Second, Lease: 30 * time.Second, Keys: 65536, Hook: "tcx", IPv6: "key", LabelUsers: []string{"fq_codel at r1/eth0"},
		},
		Nodes: []domain.Node{
			{ID: 1, Name: "h1", Spec: "netns:h1"},
			{ID: 2, Name: "r1", Spec: "pid:4711"},
			{ID: 3, Name: "gone", Spec: "netns:gone", Removed: true},
			{ID: 4, Name: "bare", Spec: "netns:bare", Header: "nft: inet t c: meta mark set 5"},
			{ID: 5, Name: "vpn", Spec: "netns:vpn", Header: "ip rule: 7: fwmark 0x1/0x1 lookup 100", Apart: "an IPsec policy (10.1.0.0/16 > 10.2.0.0/16)", Late: true},
		},
		Ports: []domain.Port{
			{ID: 0, Node: 1, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 1},
			{ID: 1, Node: 2, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 0},
			{ID: 2, Node: 2, Name: "eth1", Ifindex: 3, Kind: "veth", Role: domain.Edge, Forced: true, Peer: 3},
			{ID: 3, Node: 3, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 2, Removed: true},
		},
	}
}

func sampleCounters() []datapath.Counter {
	return []datapath.Counter{
		{Name: "seen", Group: datapath.GroupTotal, Value: 1000, Help: "IP packets that met a source"},
		{Name: "marked", Group: datapath.GroupMeasured, Value: 990, Help: "packets that got a backpack"},
		{Name: "not_measured_ipv6", Group: datapath.GroupNotMeasured, Value: 10, Help: "IPv6 packets"},
		{Name: "stale", Group: datapath.GroupNotice, Help: "headers that point at a slot which is too old"},
	}
}

func sampleLosses() []aggregate.LossRow {
	return []aggregate.LossRow{
		{
			LossPlace: aggregate.LossPlace{Node: "r1", NodeID: 2, Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: "__dev_queue_xmit"},
			Packets:   40, Skbs: 4, Bytes: 60000, Flows: 2, FlowsMore: true,
			TopFlows: []aggregate.LossFlow{{Flow: sampleFlow(), Packets: 30, Bytes: 45000}, {Flow: aggregate.Flow{Proto: "icmp", Src: "10.0.1.1", Dst: "10.0.2.2", ICMPType: ptr(8), ICMPID: ptr(7)}, Packets: 9, Bytes: 13500}},
		},
		{LossPlace: aggregate.LossPlace{Node: "r1", NodeID: 2, At: record.AtNode, Reason: "NETFILTER_DROP"}, Packets: 2, Skbs: 2, Bytes: 200, Flows: 1},
	}
}

func sampleFlow() aggregate.Flow {
	return aggregate.Flow{Proto: "udp", Src: "10.0.1.1", Dst: "10.0.2.2", Sport: ptr(40001), Dport: ptr(9000)}
}

// sampleFlows: one with everything, and later fragments that were all lost.
func sampleFlows() []aggregate.FlowRow {
	first := time.Date(2026, 3, 2, 10, 15, 4, 123456789, time.UTC).UnixNano()
	return []aggregate.FlowRow{
		{
			Flow: sampleFlow(), NATSrc: "192.0.2.1", NATSport: ptr(1024), Packets: 900, Bytes: 1_234_567,
			Delivered: 800, Left: 60, Lost: 30, Expired: 10, LocalDrops: 5, Dropped: 3,
			FirstNs: first, LastNs: first + 1_500_000_000, DurationNs: 1_500_000_000, RateBps: ptr(uint64(6_584_357)),
			Latency:  &aggregate.Quantiles{Count: 860, MinNs: 900, P50Ns: 12300, P90Ns: 20000, P99Ns: 45600, P999Ns: 50000, MaxNs: 60000},
			JitterNs: ptr(int64(1234)), Reordered: 43, ReorderedRatio: ptr(0.05), Paths: 2,
			PathList: []aggregate.FlowPath{{Path: "h1 > r1 > h2", Packets: 890}, {Path: "h1", Packets: 10}},
		},
		{
			Flow:    aggregate.Flow{Proto: "89", Src: "10.0.1.1", Dst: "10.0.2.2", Fragments: true},
			Packets: 2, Bytes: 200, Expired: 2, FirstNs: first, LastNs: first, Paths: 1, PathsMore: true,
			PathList: []aggregate.FlowPath{{Path: "h1", Packets: 2}},
		},
	}
}

func sampleTotals() agent.Totals {
	return agent.NewTotals(sampleCounters(), aggregate.Totals{Delivered: 900, Left: 40, Lost: 42, InFlight: 5, Bytes: 123456})
}

// printed is what f prints in a format.
func printed(t *testing.T, format outputFormat, f func(*app) error) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{out: bufio.NewWriter(&out), stdout: &out, stderr: &errs, output: format, location: time.UTC}
	if err := f(a); err != nil {
		t.Fatal(err)
	}
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		fmt.Fprintf(&out, "--- standard error\n%s", errs.String())
	}
	return out.Bytes()
}

// reports are what commands print about a domain.
var reports = map[string]func(*app) error{
	"status": func(a *app) error {
		d := sampleDomain()
		left := int64(21_300_000_000)
		v := &statusView{
			Domain: d.Name, Attached: d.Created, LossHook: d.LossHook, Options: newOptionsView(d.Options),
			Agent: agentView{Log: "/run/radar/default/agent.log"}, Lease: leaseView{Ends: true, Valid: true, LeftNs: &left},
			Memory: newMemoryView(datapath.Memory{Ring: 256 << 20, Keys: 6 << 20, Other: 6 << 20}),
			Nodes:  nodeViews(d), Totals: sampleTotals(), Counters: counterViews(sampleCounters()),
			Notes: []string{"no agent runs"},
		}
		if a.output == formatJSON {
			return printJSON(a.out, v)
		}
		return a.printStatus(v)
	},
	"attach": func(a *app) error {
		v := newAttachView(&datapath.AttachResult{
			Domain: sampleDomain(), New: true, Memory: datapath.Memory{Ring: 256 << 20},
			Warnings:  []string{"port r1/eth1 has an XDP program."},
			Conflicts: []topo.Conflict{{Node: "r1", What: "nftables rule", Text: "meta mark set 0xff000000", Mask: 0xff000000}},
		}, false)
		v.Agent = &startedAgent{PID: 4712, Log: "/run/radar/default/agent.log"}
		return a.printAttached(v)
	},
	"plan": func(a *app) error {
		return a.printAttached(newAttachView(&datapath.AttachResult{Domain: sampleDomain(), New: true, Memory: datapath.Memory{Ring: 256 << 20}}, true))
	},
	"adopt": func(a *app) error {
		return a.printAttached(&attachView{Domain: "default", Agent: &startedAgent{PID: 4712, Log: "/run/radar/default/agent.log"}})
	},
	"summary": func(a *app) error {
		return a.printSummary(&agent.Summary{
			Domain: "default", Attached: sampleDomain().Created, Duration: 123456 * time.Millisecond,
			Totals: sampleTotals(), Counters: sampleCounters(), Losses: sampleLosses(), Nodes: 3, Ports: 1,
			Warnings: []string{"a pin could not be removed"},
		}, agent.Interrupted)
	},
	"check": func(a *app) error {
		return a.check([]datapath.Check{{Name: "kernel", Level: datapath.OK, Detail: "6.18"},
			{Name: "rights", Level: datapath.Warn, Detail: "no CAP_SYSLOG", Fix: "run as root"}})
	},
	"detach": func(a *app) error {
		return a.printDetached(&detachView{Domain: "default", Detached: true, Nodes: 1, Ports: 2, Warnings: []string{"two packets were under way"}})
	},
}

// rows are what commands print about packets.
var rows = map[string]func(*app) error{
	"paths": func(a *app) error {
		return a.printPaths([]aggregate.PathRow{
			{Path: "h1 > r1 > h2", Packets: 900, Bytes: 90000, Flows: 3, FlowsMore: true, Delivered: 890, Lost: 10,
				Latency: &aggregate.Quantiles{Count: 890, MinNs: 900, P50Ns: 12300, P90Ns: 20000, P99Ns: 45600, P999Ns: 50000, MaxNs: 60000},
				Hops:    []aggregate.PathHop{{Node: "h1", NodeID: 1, Port: "e0"}, {Node: "r1", NodeID: 2, InPort: "e0", Port: "e1"}, {Node: "h2", NodeID: 3, InPort: "e0"}}},
			{Path: "h1", Packets: 2, Bytes: 200, Flows: 1, Expired: 2, Truncated: true, Hops: []aggregate.PathHop{{Node: "h1", NodeID: 1, Port: "e0"}}},
		})
	},
	"paths-alike": func(a *app) error {
		way := func(packets uint64, out, in string) aggregate.PathRow {
			return aggregate.PathRow{Path: "h1 > h2", Packets: packets, Bytes: 100 * packets, Flows: 1, Delivered: packets,
				Hops: []aggregate.PathHop{{Node: "h1", NodeID: 1, Port: out}, {Node: "h2", NodeID: 2, InPort: in}}}
		}
		back := aggregate.PathRow{Path: "h2 > h1", Packets: 1, Bytes: 100, Flows: 1, Delivered: 1,
			Hops: []aggregate.PathHop{{Node: "h2", NodeID: 2, Port: "e0"}, {Node: "h1", NodeID: 1, InPort: "e0"}}}
		return a.printPaths([]aggregate.PathRow{way(3, "e0", "e0"), way(2, "e1", "e1"), back})
	},
	"latency": func(a *app) error {
		return a.printLatency([]aggregate.LatencyRow{{By: aggregate.ByLink, Name: "h1/e0 > r1/e0",
			Quantiles: aggregate.Quantiles{Count: 900, MinNs: 812, P50Ns: 12345, P90Ns: 100_000, P99Ns: 1_230_000, P999Ns: 45_600_000, MaxNs: 1_200_000_000}}}, false)
	},
	"latency-path": func(a *app) error {
		q := aggregate.Quantiles{Count: 2, MinNs: 812, P50Ns: 812, P90Ns: 900, P99Ns: 900, P999Ns: 900, MaxNs: 900}
		way := func(port string) []aggregate.PathHop {
			return []aggregate.PathHop{{Node: "h1", NodeID: 1, Port: port}, {Node: "h2", NodeID: 2, InPort: port}}
		}
		return a.printLatency([]aggregate.LatencyRow{
			{By: aggregate.ByPath, Name: "h1 > h2", Quantiles: q, Hops: way("e0")},
			{By: aggregate.ByPath, Name: "h1 > h2", Quantiles: q, Hops: way("e1"), Truncated: true},
		}, false)
	},
	"latency-flow": func(a *app) error { return a.printLatency(aggregate.LatencyOfFlows(sampleFlows()), true) },
	"flows":        func(a *app) error { return a.printFlows(sampleFlows()) },
	"throughput": func(a *app) error {
		return a.printThroughput([]aggregate.ThroughputRow{
			{By: aggregate.ByLink, Name: "all", Packets: 1000, Bytes: 1_500_000, ActiveS: 4, AverageBps: ptr(uint64(3_000_000)),
				LastBps: ptr(uint64(0)), PeakBps: ptr(uint64(12_345_678_901)), PeakS: 1772446504},
			{By: aggregate.ByFlow, Name: "a > b", Packets: 1, Bytes: 100},
		}, 10)
	},
	"series": func(a *app) error {
		return a.printSeries([]aggregate.ThroughputRow{
			{By: aggregate.ByLink, Name: "all", Seconds: []aggregate.Second{{At: 1772446504, Packets: 10, Bytes: 1500}, {At: 1772446505, Packets: 1, Bytes: 100}}},
			{By: aggregate.ByLink, Name: "h1/e0 > r1/e0", Seconds: []aggregate.Second{{At: 1772446504, Packets: 10, Bytes: 1500}}},
		})
	},
	"loss-flow": func(a *app) error {
		return a.printFlowLosses([]aggregate.LossFlowRow{{LossFlow: sampleLosses()[0].TopFlows[0], LossPlace: sampleLosses()[0].LossPlace}}, false)
	},
	"loss": func(a *app) error { return a.printLosses(sampleLosses(), false, nil) },
	"loss-local": func(a *app) error {
		rows := sampleLosses()[1:]
		rows = append(rows, aggregate.LossRow{Packets: 3, Skbs: 3, Bytes: 156, Flows: 1, LossPlace: aggregate.LossPlace{
			Node: "h2", NodeID: 3, At: record.AtNode, Reason: "QUEUE_PURGE", Function: "sk_stream_kill_queues"}})
		return a.printLosses(rows, true, nil)
	},
}

// Everything that is printed for a person, and its JSON, is as committed.
func TestPrint(t *testing.T) {
	for i, samples := range []map[string]func(*app) error{reports, rows} {
		formats := []outputFormat{formatTable, formatWide, formatJSON}
		if i == 1 {
			formats = append(formats, formatCSV)
		}
		for name, f := range samples {
			for _, format := range formats {
				t.Run(name+"/"+string(format), func(t *testing.T) {
					golden(t, name+"."+string(format), printed(t, format, f))
				})
			}
		}
	}
}

func TestCheckFails(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: bufio.NewWriter(&out), output: formatTable}
	err := a.check([]datapath.Check{{Name: "kernel", Level: datapath.Fail, Detail: "4.19", Fix: "use Linux 5.10 or newer"}})
	if exitCode(err) != exitKernel {
		t.Errorf("exit code %d of %v, want %d", exitCode(err), err, exitKernel)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("x"), exitFailure},
		{usagef("x"), exitUsage},
		{fmt.Errorf("wrapped: %w", withCode(7, nil)), 7},
		{fmt.Errorf("wrapped: %w", fault.Usage), exitUsage},
		{fmt.Errorf("wrapped: %w", fault.Unsupported), exitKernel},
		{fmt.Errorf("wrapped: %w", fault.NotLoaded), exitLoad},
		{domain.ErrNotAttached, exitFailure},
		{&os.PathError{Op: "open", Err: fs.ErrPermission}, map[bool]int{true: exitFailure, false: exitKernel}[os.Geteuid() == 0]},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exit code of %v: %d, want %d", c.err, got, c.want)
		}
	}
}

// The verifier's log is long: it is shown when asked for.
func TestExplainVerifier(t *testing.T) {
	err := fmt.Errorf("load: %w", &ebpf.VerifierError{Cause: errors.New("permission denied"), Log: []string{"0: r0 = 1", "1: exit", "bad things"}})
	if short := explain(err, false); bytes.Contains([]byte(short), []byte("0: r0 = 1")) || !bytes.Contains([]byte(short), []byte("--verbose")) {
		t.Errorf("short text: %s", short)
	}
	if long := explain(err, true); !bytes.Contains([]byte(long), []byte("0: r0 = 1")) {
		t.Errorf("long text: %s", long)
	}
}

func TestLineHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newLineHandler(&out)).With("domain", "d")
	log.Debug("unseen")
	log.Info("topology changed", "added", []string{"r1/e0"}, "removed", []string{})
	log.Warn("renew the lease", "error", errors.New("gone"))
	const want = "radar: topology changed domain d added [r1/e0]\nradar: warning: renew the lease domain d: gone\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
