// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/query"
	"github.com/vnetradar/radar/pkg/record"
)

// fakeReports are a source of so many packets that one node has seen.
type fakeReports struct {
	node    string
	packets int
}

func (f *fakeReports) Lacks() []Note            { return nil }
func (f *fakeReports) HasNode(name string) bool { return name == f.node }
func (f *fakeReports) WhyEmpty(*Selection) []Note {
	return []Note{NoReportMatches{Reports: uint64(f.packets)}}
}

func (f *fakeReports) Count(_ context.Context, q *Question, to *Counts) ([]Note, error) {
	names := &packet.Registry{Domain: to.Names}
	to.Names = names
	for range f.packets {
		if q.Since.IsZero() {
			to.Add(&packet.Packet{State: record.Left, Segs: 1, LatencyNs: packet.NoTime, Hops: []packet.Hop{{Node: names.Node(f.node), In: packet.NoPort, Out: packet.NoPort}}})
		}
	}
	return []Note{ReportsMissing{1}}, nil
}

func (f *fakeReports) Records(_ context.Context, _ *Selection, fn func(*record.Record) error) ([]Note, error) {
	return nil, fn(&record.Record{Source: record.INT})
}

// nothingAttached returns a domain that is not attached.
func nothingAttached(t *testing.T) string {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	return "nothing"
}

// Reports alone are a source: of their nodes, with what they lack, and with why they have nothing.
func TestReportsAlone(t *testing.T) {
	name, kept := nothingAttached(t), Source(&fakeReports{"s1", 3})
	open := func(ring *Ring) (Source, error) {
		if ring != nil {
			t.Error("there is a ring")
		}
		return kept, nil
	}
	s, notes, err := Open(name, &Selection{}, open)
	if err != nil || notes != nil || s.Domain() != nil || s.Streams() {
		t.Fatalf("%+v, %+v, %v", s, notes, err)
	}
	defer s.Close()
	for since, want := range map[time.Time]struct {
		packets uint64
		remarks []Note
	}{{}: {3, nil}, time.Unix(1, 0): {0, []Note{NoReportMatches{Reports: 3}}}} {
		c, notes, err := s.Ask(t.Context(), &Question{Selection: &Selection{Since: since, Last: 5}})
		if err != nil || !reflect.DeepEqual(notes, []Note{ReportsMissing{1}}) {
			t.Errorf("notes %+v, %v", notes, err)
		}
		sum := uint64(0)
		for _, r := range c.Paths().List {
			if sum += r.Packets; r.Path != "s1" {
				t.Errorf("path %s", r.Path)
			}
		}
		if remarks := c.Remarks(); sum != want.packets || !reflect.DeepEqual(remarks, want.remarks) {
			t.Errorf("%d packets, %+v; want %+v", sum, remarks, want)
		}
	}
	if err := s.Update(); err != nil {
		t.Errorf("nothing has changed: %v", err)
	}
	kept = nil
	if err := s.Update(); !errors.Is(err, ErrReportsRemoved) {
		t.Errorf("reports are gone: %v", err)
	}
}

// What cannot be opened is an error that says of what kind it is.
func TestOpenFails(t *testing.T) {
	name, damaged := nothingAttached(t), errors.New("damaged")
	node := func(name string) *Selection {
		s, err := Select(query.Spec{Node: name})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for what, c := range map[string]struct {
		s       *Selection
		reports Source
		err     error
		want    func(error) bool
	}{
		"nothing": {&Selection{}, nil, nil, func(err error) bool { return errors.Is(err, domain.ErrNotAttached) }},
		"damaged": {&Selection{}, nil, damaged, func(err error) bool { return errors.Is(err, damaged) }},
		"no such node": {node("s2"), &fakeReports{"s1", 1}, nil, func(err error) bool {
			no, ok := errors.AsType[*NoSuchNode](err)
			return ok && no.Name == "s2" && no.Domain == ""
		}},
		"its node": {node("s1"), &fakeReports{"s1", 1}, nil, func(err error) bool { return err == nil }},
	} {
		_, _, err := Open(name, c.s, func(*Ring) (Source, error) { return c.reports, c.err })
		if !c.want(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := NodeAddresses(name, "h1"); !errors.Is(err, domain.ErrNotAttached) {
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
	hop := func(node string, what map[string]uint64) record.Hop { return record.Hop{Node: node, INT: what} }
	queue := map[string]uint64{"queue_occ": 3}
	if said.take(&record.Record{ID: "1", Source: record.INT, Hops: []record.Hop{hop("s1", queue)}}) {
		t.Error("a switch's own packet is taken for radar's")
	}
	if !said.take(&record.Record{ID: "1", Source: record.EBPF, Hops: []record.Hop{hop("h1", nil), hop("s1", queue)}}) {
		t.Error("radar's own packet is not recognised")
	}
	for _, c := range []struct {
		r    record.Record
		want map[string]uint64
	}{
		{record.Record{ID: "1", Hops: []record.Hop{hop("h1", nil), hop("s1", nil)}}, queue},
		{record.Record{ID: "1", Hops: []record.Hop{hop("h1", nil), hop("s2", nil)}}, nil},
		{record.Record{ID: "1", Hops: []record.Hop{hop("h1", nil)}}, nil},
		{record.Record{ID: "2", Hops: []record.Hop{hop("h1", nil), hop("s1", nil)}}, nil},
	} {
		said.add(&c.r)
		if got := c.r.Hops[len(c.r.Hops)-1].INT; !reflect.DeepEqual(got, c.want) || c.r.Hops[0].INT != nil {
			t.Errorf("%+v, want %v", c.r.Hops, c.want)
		}
	}
}

// The newest and the slowest of very many are kept, and no more.
func TestKeptRecords(t *testing.T) {
	newest, slowest := Newest{Last: 3}, Slowest{N: 2}
	for i := range int64(5000) {
		took := (i * 7919) % 5000 // each once
		newest.Add(&record.Record{TNs: i})
		slowest.Add(&record.Record{LatencyNs: &took})
		slowest.Add(&record.Record{State: record.Lost})
	}
	var got []int64
	for _, r := range newest.Records() {
		got = append(got, r.TNs)
	}
	for _, r := range slowest.Records() {
		got = append(got, *r.LatencyNs)
	}
	if !reflect.DeepEqual(got, []int64{4997, 4998, 4999, 4999, 4998}) {
		t.Errorf("kept %v", got)
	}
	if cap(newest.list) > 4000 {
		t.Errorf("%d are kept for 3", cap(newest.list))
	}
}
