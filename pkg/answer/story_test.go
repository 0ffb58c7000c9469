// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/record"
)

// Outer packets stand behind the hop whose tunnel they are of, in the order of time:
// those of several tunnels on one way, and several of one.
func TestStoryOfTunnels(t *testing.T) {
	hop := func(node string, id int, in, out string, at int64) record.Hop {
		return record.Hop{Node: node, NodeID: id, InPort: in, Port: out, AtNs: &at}
	}
	inner := &record.Record{TNs: 1000, State: record.Delivered, Hops: []record.Hop{
		hop("a", 1, "", "tun1", 0), hop("b", 2, "tun1", "tun2", 500), hop("c", 3, "tun2", "", 900),
	}}
	outer := func(id string, at int64, hops ...record.Hop) record.Record {
		return record.Record{ID: id, TNs: at, Hops: hops}
	}
	first := outer("o1", 1010, hop("a", 1, "", "e0", 0), hop("r", 4, "e0", "e1", 100), hop("b", 2, "e0", "", 200))
	again := outer("o2", 1020, hop("a", 1, "", "e0", 0), hop("s", 5, "e0", "", 100))
	second := outer("o3", 1510, hop("b", 2, "", "e1", 0), hop("r", 4, "e1", "e2", 100), hop("c", 3, "e0", "", 200))
	lost := outer("o4", 1600)
	for name, tc := range map[string]struct {
		outers []record.Record
		want   string
	}{
		"two tunnels":               {[]record.Record{first, second}, "a |a |r |b b |b |r |c c"},
		"two tunnels, newest first": {[]record.Record{second, first}, "a |a |r |b b |b |r |c c"},
		"two packets at one hop":    {[]record.Record{again, first}, "a |a |r |b |a |s b c"},
		"nothing known of it":       {[]record.Record{lost, first}, "a |a |r |b b c"},
	} {
		s := NewStory(inner, 0, &domain.Domain{}, time.Time{})
		s.goInto(tc.outers)
		var got []string
		for _, st := range s.Steps {
			node := st.Packet.Hops[st.Hop].Node
			if st.Packet != inner {
				node = "|" + node
			}
			got = append(got, node)
		}
		if way := strings.Join(got, " "); way != tc.want {
			t.Errorf("%s: %s\nwant %s", name, way, tc.want)
		}
	}
	// A node by whose tunnels the packet goes twice: each time its own.
	twice := &record.Record{TNs: 0, Hops: []record.Hop{hop("a", 1, "", "tun1", 0), hop("b", 2, "tun1", "tun1", 500), hop("a", 1, "tun1", "tun2", 1000)}}
	s := NewStory(twice, 0, &domain.Domain{}, time.Time{})
	s.goInto([]record.Record{outer("o2", 1001, hop("a", 1, "", "e1", 0)), outer("o1", 1, hop("a", 1, "", "e0", 0))})
	if got := len(s.Steps); got != 5 || s.Steps[1].Packet.ID != "o1" || s.Steps[4].Packet.ID != "o2" || *s.Steps[4].AtNs != 1001 {
		t.Errorf("%d steps: %+v", got, s.Steps)
	}
}
