// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// recordingOf is a recording of a domain whose nodes, 1 and 2, are called a and b: n packets from a to b, in steps of 2 ms
// from a time on, of which the last is lost behind a.
func recordingOf(t *testing.T, name, a, b string, from time.Time, n int) *Recorded {
	t.Helper()
	d := &domain.Domain{Name: name, Nodes: []domain.Node{{ID: 1, Name: a}, {ID: 2, Name: b}},
		Ports: []domain.Port{{ID: 10, Node: 1, Name: "e0", Role: domain.Internal, Peer: 20}, {ID: 20, Node: 2, Name: "e0", Role: domain.Internal, Peer: 10}}}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w, err := segments.Create(dir, segments.Meta{Description: text}, segments.Options{MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	names := &scopeOf{d}
	for i := range n {
		p := &segments.Packet{ID: fmt.Sprintf("%s-%d", name, i), Source: record.EBPF, Packet: packet.Packet{
			Pos: uint64(i), T0: uint64(from.Add(time.Duration(2*i) * time.Millisecond).UnixNano()), State: record.Delivered, LatencyNs: 500, HasTuple: true, Proto: 17, Len: 100, Segs: 1,
			Tuple: packet.Tuple{Src: packet.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 0, 2}), SrcPort: 1, DstPort: 2},
			Hops: []packet.Hop{{Node: 1, In: packet.NoPort, Out: 10, InNs: packet.NoTime, DequeueNs: packet.NoTime},
				{Node: 2, In: 20, Out: packet.NoPort, InNs: 500, OutNs: packet.NoTime, DequeueNs: packet.NoTime}},
		}}
		if i == n-1 {
			p.State, p.LatencyNs, p.Hops, p.Lost = record.Lost, packet.NoTime, p.Hops[:1], true
			p.Loss = packet.Drop{Node: 1, Port: 10, At: record.AtQueue, Reason: "QDISC_DROP", AtNs: packet.NoTime, First: true}
		}
		if err := w.Add(p, names); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ReadRecorded(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Dir.Close)
	return r
}

// scopeOf has the names of a domain; stamps are Unix time.
type scopeOf struct{ *domain.Domain }

func (s *scopeOf) NodeName(n uint16) string { return s.NodeByID(n).Name }
func (s *scopeOf) PortName(p uint16) string {
	if p == packet.NoPort {
		return ""
	}
	return s.PortByID(p).Name
}
func (s *scopeOf) PortNode(p uint16) uint16 {
	if p == packet.NoPort {
		return packet.NoNode
	}
	return s.PortByID(p).Node
}
func (s *scopeOf) WallOffset() int64 { return 0 }
func (s *scopeOf) Host() string      { return "machine" }

// TestTogether: recordings of two domains that both have a node r1, with the same numbers, are one answer. r1 is told apart in
// rows, records and selections; other names stay.
func TestTogether(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	a, b := recordingOf(t, "left", "h1", "r1", start, 4), recordingOf(t, "right", "r1", "h2", start.Add(time.Millisecond), 6)
	s, notes, err := Together(&Selection{}, a, b)
	if err != nil || notes != nil {
		t.Fatalf("%+v, %v", notes, err)
	}
	c, notes, err := s.Ask(t.Context(), &Question{Selection: &Selection{}})
	if err != nil || !slices.ContainsFunc(notes, func(n Note) bool {
		return reflect.DeepEqual(n, note.SeveralDomains{Domains: []string{"left", "right"}})
	}) {
		t.Errorf("%+v, %v", notes, err)
	}
	paths := make(map[string]uint64)
	for _, r := range c.Paths().List {
		paths[r.Path] += r.Packets
	}
	if want := map[string]uint64{"h1 > r1@left": 3, "h1": 1, "r1@right > h2": 5, "r1@right": 1}; !maps.Equal(paths, want) {
		t.Errorf("paths %v, want %v", paths, want)
	}
	if rows := c.Losses(false).List; len(rows) != 2 || rows[0].Packets+rows[1].Packets != 2 || rows[0].Node == rows[1].Node {
		t.Errorf("losses %+v", rows)
	}
	if flows := c.Flows(ByPackets, 0).List; len(flows) != 1 || flows[0].Packets != 10 { // addresses are not a domain's
		t.Errorf("flows %+v", flows)
	}
	var nodes []string
	var times []int64
	notes, err = s.Records(t.Context(), &Selection{Last: 4}, func(r *record.Record) error {
		nodes, times = append(nodes, r.Hops[0].Node), append(times, r.TNs)
		return nil
	})
	if want := []string{"h1", "r1@right", "r1@right", "r1@right"}; err != nil || notes != nil || !slices.Equal(nodes, want) || !slices.IsSorted(times) {
		t.Errorf("records of %q at %v, notes %+v, %v; want %q", nodes, times, notes, err, want)
	}
	for node, want := range map[string]int{"r1@left": 3, "h2": 5} {
		selected, err := Select(filter.Spec{Node: node})
		if err != nil {
			t.Fatal(err)
		}
		some, _, err := Together(selected, a, b)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		_, err = some.Records(t.Context(), selected, func(*record.Record) error { n++; return nil })
		if err != nil || n != want {
			t.Errorf("%d packets by %s, %v; want %d", n, node, err, want)
		}
	}
	selected, err := Select(filter.Spec{Node: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	var no *NoSuchNode
	if _, _, err := Together(selected, a, b); !errors.As(err, &no) || !slices.Equal(no.Nodes, []string{"h1", "r1@left", "r1@right", "h2"}) {
		t.Errorf("r1: %v, %+v", err, no)
	}
	// Of two domains with one name the recordings tell them apart.
	if labels := labelsOf([]*Recorded{a, a}); labels[0] == labels[1] {
		t.Errorf("labels %q", labels)
	}
}

// monitor is a source that counts flows at ports.
type monitor struct {
	names packet.Scope
	sums  []aggregate.FlowSum
}

func (m *monitor) Abilities() Abilities {
	return Abilities{Source: "the monitor", Can: OfFlows | OfThroughput, Why: "it counts flows, and measures no packets"}
}
func (m *monitor) Lacks() []Note                               { return nil }
func (m *monitor) HasNode(string) bool                         { return true }
func (m *monitor) WhyEmpty(context.Context, *Selection) []Note { return nil }
func (m *monitor) Records(context.Context, *Selection, func(*record.Record) error) (Read, error) {
	return Read{}, nil
}
func (m *monitor) Count(_ context.Context, _ *Question, to *Counts) ([]Note, error) {
	to.From(m.names)
	for i := range m.sums {
		to.AddSum(&m.sums[i])
	}
	return nil, nil
}

// TestCannotAnswer: a source that counts gives rows of flows and throughput, beside others and alone. To any other question it
// says that it has nothing, and why.
func TestCannotAnswer(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	rec := recordingOf(t, "d", "h1", "r1", start, 4)
	all, _, err := rec.Open(&Selection{})
	if err != nil {
		t.Fatal(err)
	}
	counted := func(dport uint16, out bool, n uint64) aggregate.FlowSum {
		p := &packet.Packet{HasTuple: true, Proto: 17, Tuple: packet.Tuple{Src: packet.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 0, 2}), SrcPort: 1, DstPort: dport}}
		return aggregate.FlowSum{Key: aggregate.KeyOf(p), Place: aggregate.Place{Node: 1, Port: 10, Out: out}, Packets: n, Bytes: 100 * n,
			First: uint64(start.UnixNano()), Last: uint64(start.UnixNano()) + 1e9}
	}
	m := &monitor{names: rec.Scope, sums: []aggregate.FlowSum{counted(2, true, 9), counted(3, true, 7), counted(3, false, 7)}}
	all.list = append(all.list, m)
	for name, s := range map[string]*Sources{"beside a recording": all, "alone": {list: []Source{m}}} {
		c, notes, err := s.Ask(t.Context(), &Question{Selection: &Selection{}, Now: start})
		if err != nil || notes != nil {
			t.Fatalf("%s: %+v, %v", name, notes, err)
		}
		flows := c.Flows(ByPackets, 0)
		measured := uint64(0) // of the first flow
		if name != "alone" {
			measured = 4
		}
		if l := flows.List; len(l) != 2 || l[0].Packets != 9 || l[0].Unmeasured != 9-measured || l[1].Packets != 7 || l[1].Unmeasured != 7 || flows.Notes != nil {
			t.Errorf("%s: flows %+v", name, flows)
		}
		for want, spec := range map[int]filter.Spec{0: {State: "expired"}, 1: {Dport: "3"}, 2: {Node: "h1"}} {
			selected, err := Select(spec)
			if err != nil {
				t.Fatal(err)
			}
			some, _, err := s.Ask(t.Context(), &Question{Selection: selected, Now: start, ByFlow: true})
			if l := some.Flows(ByPackets, 0).List; err != nil || len(l) != want {
				t.Errorf("%s: %+v: flows %+v, %v", name, spec, l, err)
			}
		}
		if rows := c.Throughput(aggregate.ByPort, 1); rows.Notes != nil || rows.List[0].Packets != 16 || rows.List[1].Name != "h1/e0 out" || rows.List[1].Packets != 16 {
			t.Errorf("%s: throughput %+v", name, rows)
		}
		if remarks := c.Remarks(); remarks != nil {
			t.Errorf("%s: remarks %+v", name, remarks)
		}
		records, err := s.Records(t.Context(), &Selection{}, func(*record.Record) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for what, notes := range map[string][]Note{
			"latencies": c.Latency(aggregate.ByNode).Notes, "paths": c.Paths().Notes, "losses": c.Losses(false).Notes, "single packets": records,
		} {
			want := note.CannotAnswer{Source: "the monitor", What: what, Why: "it counts flows, and measures no packets"}
			if !slices.Contains(notes, Note(want)) {
				t.Errorf("%s: %s: %+v", name, what, notes)
			}
		}
		if notes := c.Throughput(aggregate.ByLink, 1).Notes; len(notes) != 1 {
			t.Errorf("%s: throughput of links: %+v", name, notes)
		}
	}
}
