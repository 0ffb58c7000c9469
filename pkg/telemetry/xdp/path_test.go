// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// hearing is a collector and the events that it has raised.
type hearing struct {
	*collect.Collector
	engine *metrics.Engine
	events []string
	fails  func(e *metrics.Event) bool // nil: never; whether the hook of events panics
}

// join is for how long postcards are waited for.
func newHearing(t testing.TB, c metrics.Config, join time.Duration) *hearing {
	t.Helper()
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	kept, err := store.Create("fast", 1<<24, collect.Info{Ports: []uint16{32766}})
	if err != nil {
		t.Fatal(err)
	}
	tr := &collect.Translator{Ports: []uint16{32766}, Join: join}
	h := &hearing{engine: metrics.New(c)}
	h.Collector = collect.New(tr, h.engine, kept, nil)
	h.Changed = func(e *metrics.Event) {
		if h.fails != nil && h.fails(e) {
			panic("the hook of events fails")
		}
		j := metrics.Namer(func(id uint32) string { return fmt.Sprint(id) }).Event(e)
		j.Time, j.TNs = "", 0
		b, err := json.Marshal(&j)
		if err != nil {
			t.Error(err)
		}
		h.events = append(h.events, string(b))
	}
	t.Cleanup(func() {
		if _, err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// shares is the ordinary configuration, but for the least value of changes of latencies: those of these
// tests are below it.
func shares() metrics.Config {
	c := metrics.DefaultConfig()
	for m := range c.Thresholds {
		c.Thresholds[m].Absolute = 0
	}
	return c
}

// values are the metrics as they are, but for times.
func (h *hearing) values() []metrics.Row {
	rows := h.Rows(time.Unix(0, 0))
	for i := range rows {
		rows[i].At, rows[i].ReportedAt = 0, 0
	}
	return rows
}

// oneCPU keeps the test on one CPU: each has templates of its own. It needs root, as what
// comes then does.
func oneCPU(t testing.TB) {
	t.Helper()
	need.AsRoot(t)
	runtime.LockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; ; cpu++ {
		if was.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.SchedSetaffinity(0, &was); runtime.UnlockOSThread() })
}

var from, to = netip.MustParseAddrPort("10.0.0.1:4000"), netip.MustParseAddrPort("10.0.0.2:32766")

// testOptions are for packets to to.
func testOptions(c metrics.Config, flows int) *Options {
	return &Options{Ports: []uint16{32766}, Addresses: []netip.Addr{to.Addr()}, mtu: 1500, Shared: c.MaxShared(), Flows: flows}
}

// run lets the program see a packet, and the collector what goes up. It returns what the program
// said.
func (p *Path) run(t testing.TB, h *hearing, ip []byte) uint32 {
	t.Helper()
	frame := make([]byte, 14, 14+len(ip))
	if frame[12], frame[13] = 8, 0; ip[0]>>4 == 6 {
		frame[12], frame[13] = 0x86, 0xdd
	}
	verdict, err := p.objs.RadarCollect.Run(&ebpf.RunOptions{Data: append(frame, ip...)})
	if err != nil {
		t.Fatal(err)
	}
	p.drain(t, h)
	return verdict
}

func (p *Path) drain(t testing.TB, h *hearing) {
	t.Helper()
	if err := p.reader.Flush(); err != nil {
		t.Fatal(err)
	}
	var rec perf.Record
	for {
		err := p.reader.ReadInto(&rec)
		if errors.Is(err, perf.ErrFlushed) || errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := p.take(h.Collector, rec.RawSample); err != nil {
			t.Fatal(err)
		}
	}
}

// packets makes packets with reports of what d says; what it leaves out is usual.
func packets(t testing.TB, d generate.Description) (next func() []byte) {
	t.Helper()
	if d.Instructions == 0 {
		d.Instructions = d.Version.Instructions()
	}
	d.Flows, d.Group = max(d.Flows, 1), max(d.Group, 1)
	d.DSCP, d.FirstNode, d.Payload, d.Interval, d.Start, d.Seed = 0x17, 1, 64, time.Millisecond, time.Unix(1e9, 0), 1
	maker, err := generate.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return func() []byte {
		dg, err := maker.Next()
		if err != nil {
			t.Fatal(err)
		}
		ip, err := collect.AppendUDP(nil, from, to, dg.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return ip
	}
}

const xdpDrop = 1

// small makes a fast path and a collector for a few flows.
func small(t *testing.T, c metrics.Config) (*Path, *hearing) {
	t.Helper()
	oneCPU(t)
	path, err := open(testOptions(c, 16))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { path.Close() })
	h := newHearing(t, c, 0)
	h.Use(path)
	return path, h
}

// TestOtherFlowMoves: a flow whose own reports are all alike raises an event when another one has
// moved the queue that they share.
func TestOtherFlowMoves(t *testing.T) {
	path, h := small(t, shares())
	steady := generate.Description{Hops: 2, Latency: generate.Range{Min: 1000, Max: 1000}, Queue: generate.Range{Min: 10, Max: 10}}
	other := steady
	other.Transport, other.Queue = generate.TCP, generate.Range{Min: 100, Max: 100}
	a, b := packets(t, steady), packets(t, other)
	for i, c := range []struct {
		next   func() []byte
		events int
	}{
		{a, 2 + 3*2}, {a, 0}, {a, 0}, {b, 2 + 3*2}, {a, 4}, {b, 4}, {a, 4}, {a, 0}, {a, 0}, {a, 0}, {b, 4},
	} {
		was := len(h.events)
		path.run(t, h, c.next())
		if n := len(h.events) - was; n != c.events {
			t.Errorf("report %d: %d events, want %d: %q", i, n, c.events, h.events[was:])
		}
	}
	var i collect.FastInfo
	if path.About(&i); i.SlowPath != 8 { // of what is the same again the second, and those with events
		t.Errorf("%+v", i)
	}
}

// TestUnderWay: while a report that moves a flow's values has not been read, no other is taken by
// what the flow said before.
func TestUnderWay(t *testing.T) {
	path, h := small(t, shares())
	steady := generate.Description{Hops: 1, Latency: generate.Range{Min: 1000, Max: 1000}}
	slow := steady
	slow.Latency = generate.Range{Min: 5000, Max: 5000}
	a, b := packets(t, steady), packets(t, slow)
	for range 3 {
		path.run(t, h, a())
	}
	was := len(h.events)
	frame := func(ip []byte) []byte { return append([]byte{12: 8, 13: 0}, ip...) }
	for _, ip := range [][]byte{b(), a(), b(), a()} {
		if verdict, err := path.objs.RadarCollect.Run(&ebpf.RunOptions{Data: frame(ip)}); err != nil || verdict != xdpDrop {
			t.Fatal(verdict, err)
		}
	}
	path.drain(t, h)
	if n := len(h.events) - was; n != 4*2 {
		t.Errorf("%d events, want two of each report: %q", n, h.events[was:])
	}
}

// TestOtherSource: an event of a flow that came by another source, or on another CPU, is one for
// what is known of the flow by its first.
func TestOtherSource(t *testing.T) {
	path, h := small(t, shares())
	steady := generate.Description{Hops: 1, Latency: generate.Range{Min: 1000, Max: 1000}}
	slow := steady
	slow.Latency = generate.Range{Min: 5000, Max: 5000}
	a, b := packets(t, steady), packets(t, slow)
	for i, c := range []struct {
		ip     []byte
		source byte
		events int
	}{{a(), 1, 2 + 3}, {a(), 1, 0}, {a(), 1, 0}, {b(), 9, 2}, {a(), 1, 2}, {a(), 1, 0}, {a(), 1, 0}, {b(), 9, 2}, {a(), 1, 2}} {
		was := len(h.events)
		c.ip[15] = c.source
		path.run(t, h, c.ip)
		if n := len(h.events) - was; n != c.events {
			t.Errorf("report %d: %d events, want %d: %q", i, n, c.events, h.events[was:])
		}
	}
}

// TestForgotten: what the collector has forgotten is new when it is reported again, also if a
// template was left.
func TestForgotten(t *testing.T) {
	path, h := small(t, shares())
	next := packets(t, generate.Description{Hops: 2, Latency: generate.Range{Min: 1000, Max: 1000}})
	for range 3 {
		path.run(t, h, next())
	}
	was := len(h.events)
	if rows := h.Rows(time.Now().Add(time.Hour)); len(rows) != 0 {
		t.Fatalf("%d values an hour later", len(rows))
	}
	path.run(t, h, next())
	if err := path.Sweep(h.Collector); err != nil {
		t.Fatal(err)
	}
	path.run(t, h, next())
	if n := len(h.events) - was; n != 2+3*2 {
		t.Errorf("%d events of what had been forgotten: %q", n, h.events[was:])
	}
}

// TestPasses: what is no report's goes on to the stack, also fragments, and headers with options.
func TestPasses(t *testing.T) {
	path, _ := small(t, shares())
	report := packets(t, generate.Description{Hops: 1, Latency: generate.Range{Min: 1, Max: 1}})()
	changed := func(at int, value byte) []byte {
		b := append([]byte{12: 8, 13: 0}, report...)
		b[14+at] = value
		return b
	}
	vlan := append([]byte{12: 0x81, 13: 0, 14: 0, 15: 7, 16: 8, 17: 0}, report...)
	const pass = 2
	for name, c := range map[string]struct {
		frame []byte
		want  uint32
	}{
		"a report":       {changed(0, 0x45), xdpDrop},
		"behind a VLAN":  {vlan, xdpDrop},
		"another port":   {changed(23, 1), pass},
		"another host":   {changed(19, 9), pass},
		"UDP too short":  {changed(25, 3), pass},
		"UDP too long":   {changed(24, 9), pass},
		"a train":        {append(changed(0, 0x45), make([]byte, 1500)...), pass},
		"a fragment":     {changed(6, 0x20), pass},
		"the last one":   {changed(7, 1), pass},
		"with options":   {changed(0, 0x46), pass},
		"TCP":            {changed(9, 6), pass},
		"cut":            {changed(0, 0x45)[:14+28+15], pass},
		"no UDP header":  {changed(0, 0x45)[:14+27], pass},
		"no IP header":   {changed(0, 0x45)[:14+19], pass},
		"ARP":            {append(make([]byte, 12), 8, 6, 0, 1), pass},
		"another family": {changed(0, 0x65), pass},
	} {
		if verdict, err := path.objs.RadarCollect.Run(&ebpf.RunOptions{Data: c.frame}); err != nil || verdict != c.want {
			t.Errorf("%s: verdict %d, %v", name, verdict, err)
		}
	}
}

// TestSame: a collector behind the fast path raises the events and has the values of one that hears
// every report, whatever the reports are.
func TestSame(t *testing.T) {
	moving := generate.Range{Min: 1000, Max: 1080}
	jumping := generate.Range{Min: 100, Max: 100000}
	for name, d := range map[string]generate.Description{
		"2.0":               {Flows: 3, Hops: 5, Latency: moving},
		"1.0":               {Version: generate.V10, Flows: 3, Hops: 5, Latency: moving},
		"constant":          {Flows: 3, Hops: 6, Latency: moving, Constant: true},
		"jumping":           {Flows: 2, Hops: 3, Latency: jumping},
		"queues move":       {Flows: 3, Hops: 3, Latency: moving, Queue: generate.Range{Min: 50, Max: 150}, QueueStep: 3},
		"IPv6, VLAN":        {Flows: 3, Hops: 4, Latency: moving, IPv6: true, VLAN: 7, Transport: generate.TCP},
		"quotes IP, TCP":    {Version: generate.V10, Flows: 3, Hops: 4, Latency: moving, QuoteIP: true, Transport: generate.Mixed},
		"postcards":         {Mode: generate.XD, Flows: 2, Hops: 3, Latency: moving},
		"postcards, joined": {Mode: generate.XD, Flows: 2, Hops: 3, Latency: moving},
		"postcards 1.0":     {Version: generate.V10, Mode: generate.XD, Flows: 2, Hops: 3, Latency: moving},
		"drops, gaps":       {Flows: 2, Hops: 3, Latency: moving, Drops: 0.05, GapEvery: 10},
		"19 hops":           {Flows: 2, Hops: 19, Latency: moving},
		"groups":            {Flows: 2, Hops: 2, Latency: moving, Group: 2},
	} {
		t.Run(name, func(t *testing.T) {
			oneCPU(t)
			next := packets(t, d)
			c := shares()
			if name == "queues move" {
				c.Congested = 120
			}
			path, err := open(testOptions(c, 1000))
			if err != nil {
				t.Fatal(err)
			}
			defer path.Close()
			var join time.Duration
			if name == "postcards, joined" {
				join = time.Hour
			}
			all, some := newHearing(t, c, join), newHearing(t, c, join)
			some.Use(path)
			const reports = 1500
			for range reports {
				ip := next()
				if err := all.Add(collect.Packet{At: time.Now(), IP: ip}); err != nil {
					t.Fatal(err)
				}
				if verdict := path.run(t, some, ip); verdict != xdpDrop {
					t.Fatalf("verdict %d", verdict)
				}
				if len(all.events) != len(some.events) {
					t.Fatal(cmp.Diff(all.events, some.events))
				}
			}
			later := time.Now().Add(2 * join)
			all.Until(later)
			some.Until(later)
			if diff := cmp.Diff(all.events, some.events); diff != "" {
				t.Fatal(diff)
			}
			if paths := slices.ContainsFunc(some.events, func(e string) bool { return strings.Contains(e, "flow_path") }); paths != (d.Mode != generate.XD || join > 0) {
				t.Errorf("paths %v", paths)
			}
			if err := path.Sweep(some.Collector); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(all.values(), some.values(), cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); diff != "" {
				t.Error(diff)
			}
			want, err := all.Save()
			if err != nil {
				t.Fatal(err)
			}
			got, err := some.Save()
			if err != nil {
				t.Fatal(err)
			}
			if want.Counts != got.Counts || want.Metrics != got.Metrics || want.Gaps != got.Gaps {
				t.Errorf("counts %+v %+v %d, want %+v %+v %d", got.Counts, got.Metrics, got.Gaps, want.Counts, want.Metrics, want.Gaps)
			}
			if got.XDP.SlowPath+got.XDP.FastPath != reports {
				t.Errorf("%+v of %d", *got.XDP, reports)
			}
			t.Logf("%d of %d went up, %d events", got.XDP.SlowPath, want.Counts.Packets, want.Metrics.Events.Sum())
		})
	}
}
