// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// TestBeyondBlock: a report whose quoted INT asks for more than its blocks hold, sent twice, has no
// template, and ends nothing.
func TestBeyondBlock(t *testing.T) {
	path, h := small(t, shares())
	payload, err := hex.DecodeString("200000010000000704ff0020455c0048000140003c112a460a0000010a00000203e807d0003400001009000020000600b580000000000000000000010001000200000064030000070000000500000006")
	if err != nil {
		t.Fatal(err)
	}
	ip, err := collect.AppendUDP(nil, from, to, payload)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if verdict := path.run(t, h, ip); verdict != xdpDrop {
			t.Fatalf("verdict %d", verdict)
		}
	}
	info, err := h.Save()
	if err != nil || info.Bugs != 0 || info.Counts.Reports != 3 || info.XDP.SlowPath != 3 || len(path.flows) != 0 {
		t.Errorf("%v, %+v, %d templates", err, info, len(path.flows))
	}
}

// TestBug: a panic while a datagram is handled ends nothing, whether it came by the socket, from XDP,
// or as the last that a template has taken. It is counted, and reported once; and what it was about is
// heard anew: no template takes what no longer is known.
func TestBug(t *testing.T) {
	path, h := small(t, shares())
	var warned []string
	h.Warn = func(s string) { warned = append(warned, s) }
	steady := generate.Description{Hops: 2, Latency: generate.Range{Min: 1000, Max: 1000}}
	slow := steady
	slow.Latency = generate.Range{Min: 5000, Max: 5000}
	a, b := packets(t, steady), packets(t, slow)
	bugs := func(want uint64) {
		t.Helper()
		if info := h.Info(); info.Bugs != want {
			t.Errorf("%d bugs counted, want %d", info.Bugs, want)
		}
	}
	heard := func(how string, events int) {
		t.Helper()
		was := len(h.events)
		path.run(t, h, a())
		if n := len(h.events) - was; n != events {
			t.Errorf("%s: %d events, want %d: %q", how, n, events, h.events[was:])
		}
	}
	const all = 2 + 3*2
	heard("the first", all)
	for range 3 {
		heard("the same", 0)
	}
	if len(path.flows) != 1 {
		t.Fatalf("%d templates", len(path.flows))
	}

	// Halfway: one of two latencies that have changed has been reported.
	changed := 0
	h.fails = func(*metrics.Event) bool { changed++; return changed == 2 }
	path.run(t, h, b())
	h.fails = nil
	bugs(1)
	heard("after one from XDP", all)
	heard("the same", 0)
	heard("the same", 0)

	// By the socket, of the same flow.
	changed = 0
	h.fails = func(*metrics.Event) bool { changed++; return changed == 2 }
	if err := h.Add(collect.Packet{At: time.Now(), IP: b()}); err != nil {
		t.Error(err)
	}
	h.fails = nil
	bugs(2)
	heard("after one by the socket", all)
	heard("the same", 0)
	heard("the same", 0)

	// Now for what the template has taken.
	h.engine.Observe = func(metrics.Metric, uint32, uint64) { panic("the hook of latencies fails") }
	if err := path.Sweep(h.Collector); err != nil {
		t.Error(err)
	}
	h.engine.Observe = nil
	bugs(3)
	if len(path.flows) != 0 {
		t.Errorf("%d templates", len(path.flows))
	}
	heard("after one that was taken", all)
	if len(warned) != 1 || !strings.Contains(warned[0], "the hook of events fails (path_test.go:") || !strings.Contains(warned[0], "; packet 45000114") {
		t.Errorf("warned %q", warned)
	}
}
