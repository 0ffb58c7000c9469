// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// TestBranchEnds: of a packet with copies each branch counts where it ended, also where
// that is another copy's hop, and in a snapshot.
func TestBranchEnds(t *testing.T) {
	d := &domain.Domain{Options: domain.Options{Slots: 64, Timeout: time.Second}}
	for i, name := range []string{"a", "b", "c"} {
		d.Nodes = append(d.Nodes, domain.Node{ID: uint16(i + 1), Name: name})
	}
	for id, peer := range map[uint16]int{10: 20, 20: 10, 21: 30, 30: 21, 22: -1, 23: -1} {
		d.Ports = append(d.Ports, domain.Port{ID: id, Node: id / 10, Name: letters{}.PortName(id), Peer: peer})
	}
	const t0 = uint64(1e12)
	ring := rt.New(64, 256, 1, 16)
	ring.Write(16, rt.Packet{Proto: 17, Len: 100, Segs: 3}, t0)
	ring.SetState(16, rt.Group)
	for i, s := range []struct {
		kind byte
		port uint16
	}{
		{rt.Egress, 10}, {rt.Ingress, 20}, {rt.Egress, 21}, {rt.Deliver, 30}, {rt.Left, 22}, {rt.Egress, 23},
	} {
		flags := byte(rt.First)
		if i == 0 {
			flags |= rt.Source
		}
		ring.See(16, s.kind, flags, s.port, t0+uint64(i)*100)
	}
	ring.Take(0, 1, t0)
	ring.Settle(0, 19)

	first := aggregate.New(0)
	f := backpack.NewFollower(ring, backpack.NewDecoder(d, nil), backpack.FollowOptions{Now: func() uint64 { return t0 + 5e9 }})
	if err := f.Poll(first.Add); err != nil {
		t.Fatal(err)
	}
	second, err := first.Copy()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*aggregate.Aggregates{first, second} {
		rows := a.Paths(letters{})
		if len(rows) != 1 || rows[0].Packets != 3 || rows[0].Delivered != 3 || rows[0].Left+rows[0].Expired != 0 {
			t.Fatalf("paths %+v", rows)
		}
		type end struct {
			Node, Port    string
			Left, Expired uint64
		}
		var got []end
		for i, h := range rows[0].Hops {
			left, expired := rows[0].EndsAt(i)
			got = append(got, end{h.Node, h.Port, left, expired})
		}
		want := []end{{"a", "e0", 0, 0}, {"b", "e1", 0, 0}, {"c", "", 0, 0}, {"b", "e2", 3, 0}, {"b", "e3", 0, 3}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
		times := make(map[string]aggregate.Quantiles)
		for _, row := range a.Latency(aggregate.ByEndToEnd, letters{}) {
			times[row.Name] = row.Quantiles
		}
		wantTimes := map[string]aggregate.Quantiles{aggregate.All: exactly(3, 400), "a > c": exactly(3, 300), "a > b": exactly(3, 400)}
		if diff := cmp.Diff(wantTimes, times); diff != "" {
			t.Errorf("end to end (-want +got):\n%s", diff)
		}
	}
}

// Where hops are missing no link is made up, and what began and ended at known nodes counts
// between these; a snapshot keeps it.
func TestPathsWithGaps(t *testing.T) {
	a, p := aggregate.New(0), delivered()
	p.Truncated, p.Hops[2].Gap = true, true
	a.Add(p)
	tree := delivered()
	tree.Truncated, tree.Tree, tree.Hops[1].Gap = true, true, true
	a.Add(tree)
	b, err := a.Copy()
	must(t, err)
	for name, agg := range map[string]*aggregate.Aggregates{"counted": a, "from a snapshot": b} {
		paths := agg.Paths(letters{})
		if len(paths) != 2 || paths[0].Path != "a > b > ... > c" || !paths[1].Hops[1].Gap || paths[1].Hops[2].Gap {
			t.Errorf("%s: paths %+v", name, paths)
		}
		if got := aggregate.TruncatedText(paths[0].Path, paths[0].Hops, true); got != paths[0].Path {
			t.Errorf("%s: %q says twice that hops are missing", name, got)
		}
		for _, l := range agg.Latency(aggregate.ByLink, letters{}) {
			if l.Name == "b/e1 > c/e0" && l.Count != 1 {
				t.Errorf("%s: a link over a gap: %+v", name, l)
			}
		}
		if rows := agg.Latency(aggregate.ByEndToEnd, letters{}); len(rows) < 2 || rows[1].Name != "a > c" || rows[1].Count != 1 {
			t.Errorf("%s: end to end %+v", name, rows)
		}
	}
}
