// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
)

// Latencies are apart by the second in which packets set out, also where that was long ago.
func TestTimeline(t *testing.T) {
	a := aggregate.NewTimeline(0)
	a.Add(sent(3*sec, 900))
	a.Add(sent(sec-300, 2000))
	a.Add(sent(sec/2, 1000))
	rows := a.Latency(aggregate.ByEndToEnd, letters{})
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	if len(rows) != 4 || rows[0].Name != "all" || rows[1].Name != "a > c" {
		t.Fatalf("rows %q, want all and a > c of two seconds", names)
	}
	for i, want := range []struct {
		at, least, most int64
		count           uint64
	}{{base, 1000, 2000, 2}, {base, 1000, 2000, 2}, {base + 3, 900, 900, 1}, {base + 3, 900, 900, 1}} {
		if r := rows[i]; r.At != want.at || r.Count != want.count || r.MinNs != want.least || r.MaxNs != want.most {
			t.Errorf("row %d: second %d, %+v; want %+v", i, r.At-base, r.Quantiles, want)
		}
	}
	if a.From() != 0 {
		t.Errorf("it forgot what was before %d", a.From())
	}
}

// Only the newest seconds are kept, in whatever order packets come; and it says from when.
func TestTimelineForgets(t *testing.T) {
	a := aggregate.NewTimeline(0)
	for i := int64(aggregate.Seconds) + 4; i >= 0; i-- {
		a.Add(sent(i*sec, 900))
	}
	rows := a.Latency(aggregate.ByEndToEnd, letters{})
	if len(rows) != 2*aggregate.Seconds || rows[0].At != base+5 || a.From() != base+5 {
		t.Errorf("%d rows from %d on, forgotten before %d; want those from 5 on", len(rows), rows[0].At-base, a.From()-base)
	}

	// A packet's ports make its path: as many as nobody has, and still a bound.
	b := aggregate.NewTimeline(0)
	for i := range int64(5 * aggregate.MaxPaths) {
		p := sent(i/aggregate.MaxPaths*sec, 900)
		p.Hops[0].Out = uint16(i % aggregate.MaxPaths)
		b.Add(p)
	}
	if b.From() != base+1 {
		t.Errorf("with five seconds full of paths it kept those from %d on, want 1", b.From()-base)
	}
}

// Losses are kept by the second in which the packet was freed; what expired, by that in
// which it was seen last. A snapshot keeps them.
func TestLossesBySecond(t *testing.T) {
	a := aggregate.New(0)
	for _, ns := range []int64{sec / 2, 4 * sec, 4*sec + 1} {
		p := lostAt()
		p.T0, p.Loss.AtNs = at(ns), 0
		a.Add(p)
	}
	late := lostAt()
	late.T0, late.Loss.AtNs = at(4*sec), 3*sec
	a.Add(late)
	unknown := lostAt()
	unknown.T0, unknown.Loss.AtNs = at(9*sec), packet.NoTime
	last := &unknown.Hops[len(unknown.Hops)-1]
	last.InNs, last.OutNs = sec+1, packet.NoTime
	a.Add(unknown)
	a, err := a.Copy()
	if err != nil {
		t.Fatal(err)
	}
	rows := a.LossesBySecond(letters{})
	if len(rows) != 1 || rows[0].ActiveS != 4 || rows[0].Node != "b" {
		t.Fatalf("%+v", rows)
	}
	want := []aggregate.Second{{At: base, Packets: 1, Bytes: 100}, {At: base + 4, Packets: 2, Bytes: 200},
		{At: base + 7, Packets: 1, Bytes: 100}, {At: base + 10, Packets: 1, Bytes: 100}}
	for i, s := range rows[0].Seconds {
		if len(rows[0].Seconds) != len(want) || s != want[i] {
			t.Fatalf("%+v, want %+v", rows[0].Seconds, want)
		}
	}
	if rows := a.LocalDropsBySecond(letters{}); len(rows) != 0 {
		t.Errorf("after delivery: %+v", rows)
	}
}

// beside calls what is behind port 31 of node c otherwise.
type beside struct{ letters }

func (b beside) HopNode(node, in, out uint16) string {
	if node == 3 && in == 31 {
		return "beside c"
	}
	return b.NodeName(node)
}

// A node that is called otherwise by some of its ports is so in paths, links and pairs; its
// own times and losses stay its own.
func TestHopNames(t *testing.T) {
	a := aggregate.New(0)
	a.Add(sent(0, 900))
	other := sent(sec, 900)
	other.Hops[len(other.Hops)-1].In = 31
	a.Add(other)
	has := func(by aggregate.By, want ...string) {
		t.Helper()
		got := make(map[string]bool)
		for _, r := range a.Latency(by, beside{}) {
			got[r.Name] = true
		}
		for _, name := range want {
			if !got[name] {
				t.Errorf("by %s there is no %q, but %v", by, name, got)
			}
		}
	}
	has(aggregate.ByPath, "a > b > c", "a > b > beside c")
	has(aggregate.ByEndToEnd, "a > beside c or c")
	has(aggregate.ByNode, "b")
	for _, r := range a.Throughput(aggregate.ByNode, beside{}, 0, 0) {
		if r.Name == "c" && r.Packets != 2 {
			t.Errorf("c has %d packets, want both", r.Packets)
		}
	}
}
