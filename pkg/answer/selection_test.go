// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// What is asked since attach is answered by the domain's own counts only if these can tell.
func TestSinceAttach(t *testing.T) {
	created := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		spec     filter.Spec
		narrow   string
		change   func(*Question)
		rows     bool // of flows
		want     bool
		wantFlow bool // a reader of the ring is told which flows to skip
	}{
		"all":                  {want: true},
		"since before":         {change: func(q *Question) { q.Since = created.Add(-1) }, want: true},
		"since later":          {change: func(q *Question) { q.Since = created.Add(1) }},
		"until":                {change: func(q *Question) { q.Until = created.Add(1) }},
		"last":                 {change: func(q *Question) { q.Last = 3 }},
		"by second":            {change: func(q *Question) { q.BySecond = true }},
		"flow, rows of flows":  {spec: filter.Spec{Src: "10.0.0.1"}, rows: true, want: true, wantFlow: true},
		"flow, other rows":     {spec: filter.Spec{Src: "10.0.0.1"}, wantFlow: true},
		"node":                 {spec: filter.Spec{Node: "r1"}, rows: true},
		"state":                {spec: filter.Spec{State: "lost"}, rows: true},
		"flow and node":        {spec: filter.Spec{Dport: "53", Node: "r1"}, rows: true, wantFlow: true},
		"expression of a flow": {narrow: "udp port 53", rows: true, want: true, wantFlow: true},
		"expression of a TTL":  {narrow: "ip[8] = 64", rows: true},
	} {
		if c.narrow != "" && !filter.Available {
			continue
		}
		s, err := Select(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if c.narrow != "" {
			if err := s.Narrow(c.narrow); err != nil {
				t.Fatal(err)
			}
		}
		q := &Question{Selection: s, ByFlow: c.rows}
		if c.change != nil {
			c.change(q)
		}
		if got := q.sinceAttach(created); got != c.want {
			t.Errorf("%s: since attach %v, want %v", name, got, c.want)
		}
		if got := s.Ring().Flow != nil; got != c.wantFlow {
			t.Errorf("%s: by flow %v, want %v", name, got, c.wantFlow)
		}
	}
}

// The zero Selection takes every packet, others those of their time and state.
func TestMatch(t *testing.T) {
	names := &packet.Registry{} // of no domain: stamps are Unix time
	at := func(ns uint64, state record.State) *packet.Packet { return &packet.Packet{T0: ns, State: state} }
	if s := new(Selection); !s.Match(at(1, record.Lost), names) || s.Ring().Match != nil || s.Wants(record.Lost) || s.Nodes() != nil {
		t.Error("the zero value asks for something")
	}
	s, err := Select(filter.Spec{State: "lost"})
	if err != nil {
		t.Fatal(err)
	}
	s.Since, s.Until = time.Unix(0, 10), time.Unix(0, 20)
	for _, c := range []struct {
		p        *packet.Packet
		any, all bool
	}{
		{at(10, record.Lost), true, true}, {at(19, record.Lost), true, true}, {at(9, record.Lost), false, false},
		{at(20, record.Lost), false, false}, {at(10, record.Left), true, false},
	} {
		if any, all := s.matchAnyState(c.p, names), s.Match(c.p, names); any != c.any || all != c.all {
			t.Errorf("%+v: %v, %v; want %v, %v", c.p, any, all, c.any, c.all)
		}
	}
	if _, err := Select(filter.Spec{Node: ",", State: "lost"}); err == nil {
		t.Error("a node without a name is taken")
	}
	if s := s.Scan().Since; s < time.Hour {
		t.Errorf("the ring is asked for the last %v only", s)
	}
	if s, _ := Select(filter.Spec{}); s.ScanEnded().Match(at(15, record.InFlight), names) || !s.ScanEnded().Match(at(15, record.Left), names) {
		t.Error("packets in flight have ended")
	}
}

// TestWithin: a selection within another asks for what both ask for. If one of them asks for more than a flow, counts of flows
// cannot answer.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		inner, outer  filter.Spec
		want, wantAll bool
	}{
		{filter.Spec{Src: "10.0.0.1"}, filter.Spec{Dport: "53"}, true, false},
		{filter.Spec{Src: "10.0.0.1"}, filter.Spec{}, true, false},
		{filter.Spec{}, filter.Spec{Src: "10.0.0.1"}, true, false},
		{filter.Spec{}, filter.Spec{}, true, true},
		{filter.Spec{Src: "10.0.0.1"}, filter.Spec{Node: "r1"}, false, false},
		{filter.Spec{Node: "r1"}, filter.Spec{Src: "10.0.0.1"}, false, false},
		{filter.Spec{}, filter.Spec{State: "lost"}, false, false},
	} {
		s, err := Select(c.inner)
		if err != nil {
			t.Fatal(err)
		}
		o, err := Select(c.outer)
		if err != nil {
			t.Fatal(err)
		}
		s.Within(o)
		if got := (&Question{Selection: s, ByFlow: true}).sinceAttach(time.Unix(1000, 0)); got != c.want || s.IsAll() != c.wantAll {
			t.Errorf("%+v within %+v: since attach %v, all %v; want %v, %v", c.inner, c.outer, got, s.IsAll(), c.want, c.wantAll)
		}
	}
}
