// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// fakeStories has a packet of h1, s1, s2 and h2 for each one that is quoted, by its IP ID.
type fakeStories struct {
	asked int // for packets
	gone  bool
}

func (*fakeStories) Find(q *Quote) (Story, Unjoined) {
	return Story{Epoch: 1, Pos: uint64(q.Header.ID)}, Joins
}

func (s *fakeStories) Packet(of Story) *packet.Packet {
	if s.asked++; s.gone {
		return nil
	}
	return &packet.Packet{Pos: of.Pos, State: record.Delivered, Segs: 1, LatencyNs: 7, Hops: []packet.Hop{{Node: 0}, {Node: 1}, {Node: 2}, {Node: 3}}}
}

func (*fakeStories) NodeName(node uint16) string { return []string{"h1", "s1", "s2", "h2"}[node] }

func (s *fakeStories) Record(p *packet.Packet) record.Record {
	r := record.Record{ID: fmt.Sprint("own ", p.Pos), Source: record.EBPF, State: p.State}
	for i := range p.Hops {
		r.Hops = append(r.Hops, record.Hop{Node: s.NodeName(p.Hops[i].Node)})
	}
	return r
}

// TestStoryOnce: a packet of a domain is asked for once, for its record and for the way of its flow, whose
// switches stand as the story has them.
func TestStoryOnce(t *testing.T) {
	for _, gone := range []bool{false, true} {
		stories := &fakeStories{gone: gone}
		tr := &Translator{Join: time.Second, Stories: stories, Names: map[uint32]string{1: "s1", 2: "s2"}}
		var records []string
		c := New(tr, metrics.New(metrics.DefaultConfig()), &memory{info: Info{All: true}}, func(r *record.Record) {
			var said []string
			for _, h := range r.Hops {
				said = append(said, fmt.Sprint(h.Node, " ", h.INT["hop_latency"]))
			}
			records = append(records, fmt.Sprint(r.ID, " ", strings.Join(said, ", ")))
		})
		var paths []string
		c.Changed = func(e *metrics.Event) {
			if e.Metric == metrics.FlowPath {
				paths = append(paths, fmt.Sprint(e.Path))
			}
		}
		for _, one := range []sentCard{{2, 9, 77, 0, false}, {1, 9, 77, 1, false}} { // in the wrong order, and no TTL tells it
			if err := c.Add(one.packet(t)); err != nil {
				t.Fatal(err)
			}
		}
		info, err := c.Close()
		if err != nil {
			t.Fatal(err)
		}
		want, way := []string{"own 9 h1 0, s1 100, s2 100, h2 0"}, []string{"[1 2]"}
		if gone {
			want, way = []string{"00000000-i0 s1 100, s2 100"}, nil
		}
		if !slices.Equal(records, want) || !slices.Equal(paths, way) || stories.asked != 1 {
			t.Errorf("gone %v: %q, paths %q, asked %d times; want %q, %q, once", gone, records, paths, stories.asked, want, way)
		}
		if j := info.Counts.Joins; gone != (j.Forgotten == 2) || gone == (j.Joined == 2 && j.Packets == 1) {
			t.Errorf("gone %v: %+v", gone, j)
		}
	}
}

// TestOwnNumbers: an own packet is the domain's, in its numbers, beside what switches have said.
func TestOwnNumbers(t *testing.T) {
	var got []string
	tr := Translator{Join: time.Second, Stories: &fakeStories{}, Names: map[uint32]string{1: "s1", 3: "elsewhere"}, Numbers: &packet.Registry{}}
	tr.Emit = func(p *Reported) {
		text := fmt.Sprint(p.IsOwn(), " ", p.Own.Pos, ":")
		for i := range p.Hops {
			text += fmt.Sprint(" ", p.Hops[i].Node, "/", len(p.INT(i)) > 0)
		}
		got = append(got, text)
	}
	for _, one := range []sentCard{{1, 9, 77, 0, false}, {3, 9, 77, 1, false}, {1, 9, 77, 2, false}} {
		tr.Translate(one.packet(t), 0)
	}
	tr.End()
	node := tr.Numbers.Node("elsewhere")
	want := []string{"true 9: 0/false 1/true 2/false 3/false", fmt.Sprint("false 0: ", node, "/true")}
	if j := tr.Counts.Joins; !slices.Equal(got, want) || j.Joined != 1 || j.OffPath != 1 || j.Repeated != 1 {
		t.Errorf("%q, %+v; want %q", got, j, want)
	}
}

// TestCopy: a copy stays what it is when the packet's memory is used again, and so does its record.
func TestCopy(t *testing.T) {
	all := frames(t)
	var copies []*Reported
	var want []*record.Record
	tr := Translator{Sources: nil, Emit: func(p *Reported) {
		copies = append(copies, new(Reported))
		p.Copy(copies[len(copies)-1])
		want = append(want, p.Record())
	}}
	for _, name := range []string{"geant-bmv2-report", "intcollector-e2e-p0", "p4studio-switch-v2-drop", "hostint-report-ipv4"} {
		tr.Translate(Packet{noon, all[name]}, uint64(len(copies)))
	}
	for i, p := range copies {
		if diff := cmp.Diff(want[i], p.Record()); diff != "" {
			t.Error(diff)
		}
	}
	copies[0].Copy(copies[1])
	copies[2].Copy(copies[0])
	if diff := cmp.Diff(want[0], copies[1].Record()); diff != "" || len(copies) != 4 {
		t.Error(len(copies), diff)
	}
}

// TestNoMemoryEach: a report costs no memory until somebody wants its text, postcards included.
func TestNoMemoryEach(t *testing.T) {
	agg, numbers := aggregate.New(0), &packet.Registry{}
	whole := Packet{noon, frames(t)["intcollector-e2e-p0"]}
	cards := []Packet{sentCard{1, 1, 63, 0, false}.packet(t), sentCard{2, 1, 62, 0, false}.packet(t)}
	emitted := 0
	tr := Translator{Join: time.Second, Numbers: numbers, Emit: func(p *Reported) { agg.Add(&p.Packet); emitted++ }}
	for name, once := range map[string]func(){
		"whole": func() { tr.Translate(whole, 0) },
		"postcards": func() {
			for _, p := range cards {
				tr.Translate(p, 0)
			}
			tr.End()
		},
	} {
		for range 10 {
			once()
		}
		// Aggregates grow now and then.
		if n := testing.AllocsPerRun(1000, once); n >= 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if emitted < 2000 {
		t.Errorf("%d packets", emitted)
	}
}

// TestCutQuote: a quote that ends before the ports tells none: neither record nor flow has port 0, and no
// filter finds one.
func TestCutQuote(t *testing.T) {
	quote := sentCard{1, 1, 63, 0, false}.quote(t)
	for _, c := range []struct {
		bytes int // behind the IP header
		flow  string
	}{{0, "10.1.0.1 > 10.2.0.2 udp"}, {4, "10.1.0.1:1000 > 10.2.0.2:2000 udp"}} {
		agg, numbers := aggregate.New(0), &packet.Registry{}
		var ports []bool
		tr := Translator{Numbers: numbers, Emit: func(p *Reported) {
			agg.Add(&p.Packet)
			r := p.Record()
			ports = append(ports, p.HasPorts(), r.Sport != nil, r.Dport != nil)
		}}
		tr.Translate(reportOf(t, 1, &intwire.Single{RepType: 1, InType: 4, F: true, Inner: quote[:ipv4Header+c.bytes]}), 0)
		flows := agg.Flows(numbers, func(p *packet.Packet) bool {
			ports = append(ports, p.HasPorts())
			return true
		})
		if len(flows) != 1 || flows[0].Flow.String() != c.flow || !slices.Equal(ports, slices.Repeat([]bool{c.bytes == 4}, 4)) {
			t.Errorf("%d bytes: %+v, %v; want %s", c.bytes, flows, ports, c.flow)
		}
	}
}
