// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// nothingAttached returns a domain that is not attached.
func nothingAttached(t *testing.T) string {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	return "nothing"
}

// keep keeps n generated reports of packets that three nodes have seen, the first called s1, and returns the
// collector's store.
func keep(t *testing.T, name string, n int) *store.Store {
	t.Helper()
	from, to := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:32766")
	start := time.Unix(1_700_000_000, 0)
	maker, err := generate.New(generate.Description{
		Flows: 2, Hops: 3, FirstNode: 1, Group: 1, Start: start, Interval: time.Millisecond, Instructions: generate.V20.Instructions(), DSCP: 1, Payload: 100,
		Latency: generate.Range{Min: 1000, Max: 2000},
	})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := store.Create(name, 1<<20, collect.Info{Epoch: 1, Since: start, All: true, Ports: []uint16{32766}, Names: map[uint32]string{1: "s1"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d, err := maker.Next()
		if err != nil {
			t.Fatal(err)
		}
		ip, err := collect.AppendUDP(nil, from, to, d.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.Add(collect.Packet{At: start.Add(time.Duration(i) * time.Second), IP: ip}); err != nil {
			t.Fatal(err)
		}
	}
	kept.Info().Gaps = 1
	if err := kept.Save(); err != nil {
		t.Fatal(err)
	}
	return kept
}

// Reports alone are a source: of their nodes, with what they lack, and with why they have nothing.
func TestReportsAlone(t *testing.T) {
	name := nothingAttached(t)
	kept := keep(t, name, 4)
	s, notes, err := Open(name, &Selection{})
	if err != nil || notes != nil || s.Domain() != nil || s.Streams() {
		t.Fatalf("%+v, %+v, %v", s, notes, err)
	}
	defer s.Close()
	missing, nothing := note.ReportsMissing{Reports: 1}, note.NoReportMatches{Reports: 4, Since: time.Unix(1_700_000_000, 0).UTC()}
	for _, c := range []struct {
		change  func(*Selection)
		packets int
		nothing []Note
	}{
		{func(*Selection) {}, 4, nil},
		{func(s *Selection) { s.Last = 3 }, 3, nil},
		{func(s *Selection) { s.Since = time.Unix(1_800_000_000, 0) }, 0, []Note{nothing}},
		{func(s *Selection) { s.Since, s.Last = time.Unix(1_800_000_000, 0), 3 }, 0, []Note{nothing}},
	} {
		selected := new(Selection)
		c.change(selected)
		counts, notes, err := s.Ask(t.Context(), &Question{Selection: selected})
		if err != nil || !reflect.DeepEqual(notes, []Note{missing}) {
			t.Errorf("notes %+v, %v", notes, err)
		}
		sum := uint64(0)
		for _, r := range counts.Paths().List {
			if sum += r.Packets; r.Path != "s1 > int-2 > int-3" {
				t.Errorf("path %s", r.Path)
			}
		}
		if remarks := counts.Remarks(); sum != uint64(c.packets) || !reflect.DeepEqual(remarks, c.nothing) {
			t.Errorf("%d packets, %+v; want %d, %+v", sum, remarks, c.packets, c.nothing)
		}
		var times []int64
		notes, err = s.Records(t.Context(), selected, func(r *record.Record) error {
			times = append(times, r.TNs)
			return nil
		})
		if err != nil || !reflect.DeepEqual(notes, append([]Note{missing}, c.nothing...)) || len(times) != c.packets || !slices.IsSorted(times) {
			t.Errorf("records of %v, notes %+v, %v; want %d", times, notes, err, c.packets)
		}
	}
	if err := errors.Join(s.Update(), kept.Close()); err != nil {
		t.Errorf("nothing has changed: %v", err)
	}
	if err := store.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(); !errors.Is(err, ErrReportsRemoved) {
		t.Errorf("reports are gone: %v", err)
	}
}

// What cannot be opened is an error that says of what kind it is.
func TestOpenFails(t *testing.T) {
	name, steps := nothingAttached(t), make(map[string]func())
	node := func(name string) *Selection {
		s, err := Select(filter.Spec{Node: name})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for what, c := range map[string]struct {
		s    *Selection
		keep func()
		want func(error) bool
	}{
		"0 nothing": {&Selection{}, func() {}, func(err error) bool { return errors.Is(err, domain.ErrNotAttached) }},
		"1 no such node": {node("s2"), func() { keep(t, name, 1).Close() }, func(err error) bool {
			no, ok := errors.AsType[*NoSuchNode](err)
			return ok && no.Name == "s2" && no.Domain == ""
		}},
		"2 its node":      {node("s1"), func() {}, func(err error) bool { return err == nil }},
		"3 one by its ID": {node("int-7"), func() {}, func(err error) bool { return err == nil }},
		"4 damaged": {&Selection{}, func() {
			if err := os.WriteFile(filepath.Join(store.Dir(name), "collector.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool { return err != nil && !errors.Is(err, domain.ErrNotAttached) }},
	} {
		steps[what] = func() {
			c.keep()
			if _, _, err := Open(name, c.s); !c.want(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(steps)) { // each leaves its reports to the next
		steps[what]()
	}
	if _, err := OwnersOf(name).Addresses("h1"); !errors.Is(err, domain.ErrNotAttached) {
		t.Errorf("addresses of a node of nothing: %v", err)
	}
	d := &domain.Domain{Name: "d", Nodes: []domain.Node{{ID: 1, Name: "h1"}, {ID: 3, Name: "h1", Removed: true}}, VMs: []domain.VM{{ID: 2, Name: "vm"}}}
	if no, ok := errors.AsType[*NoSuchNode](noSuchNode("x", d)); !ok || !reflect.DeepEqual(no.Nodes, []string{"h1", "vm"}) {
		t.Errorf("its nodes are %+v", no)
	}
}

// What switches have said goes to the hop of that node in radar's own record, and to no other.
func TestSaid(t *testing.T) {
	said := make(said)
	queue := intwire.Values{}
	queue.Set(intwire.QueueOcc, 3)
	reported := &collect.Reported{Packet: packet.Packet{Hops: []packet.Hop{{Node: 1}, {Node: 7}}}, Said: []intwire.Values{{}, queue}}
	if said.take(reported) {
		t.Error("a packet of reports alone is taken for radar's")
	}
	reported.Own = collect.Story{Epoch: 1, Pos: 1}
	if !said.take(reported) {
		t.Error("radar's own packet is not recognised")
	}
	id := backpack.Position{Epoch: 1, Pos: 1}.ID()
	for _, c := range []struct {
		r    record.Record
		want map[string]uint64
	}{
		{record.Record{ID: id, Hops: []record.Hop{{NodeID: 1}, {NodeID: 7}}}, map[string]uint64{"queue_occ": 3}},
		{record.Record{ID: id, Hops: []record.Hop{{NodeID: 1}, {NodeID: 8}}}, nil},
		{record.Record{ID: id, Hops: []record.Hop{{NodeID: 1}}}, nil},
		{record.Record{ID: "2", Hops: []record.Hop{{NodeID: 1}, {NodeID: 7}}}, nil},
	} {
		said.add(&c.r)
		if got := c.r.Hops[len(c.r.Hops)-1].INT; !reflect.DeepEqual(got, c.want) || c.r.Hops[0].INT != nil {
			t.Errorf("%+v, want %v", c.r.Hops, c.want)
		}
	}
}

// The newest and the slowest of very many are kept, and no more.
func TestKept(t *testing.T) {
	newest, slowest := collect.Newest{Last: 3}, Slowest{N: 2}
	var reported collect.Reported
	for i := range int64(5000) {
		took := (i * 7919) % 5000 // each once
		reported.T0 = uint64(i)
		newest.Add(&reported)
		slowest.Add(&record.Record{LatencyNs: &took})
		until := took + 10_000 // it was lost later than any other one arrived
		slowest.Add(&record.Record{State: record.Lost, LatencyNs: &until})
	}
	var got []int64
	for p := range newest.All() {
		got = append(got, int64(p.T0))
	}
	for _, r := range slowest.Records() {
		got = append(got, *r.LatencyNs)
	}
	if !reflect.DeepEqual(got, []int64{4997, 4998, 4999, 4999, 4998}) {
		t.Errorf("kept %v", got)
	}
}
