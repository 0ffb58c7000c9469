// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/ends"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestOtherLosses: without a loss that the kernel reported, packets that expired and drops after delivery are both said.
func TestOtherLosses(t *testing.T) {
	expired := note.Expired{Packets: 1, LastSeen: []ends.Seen{{Node: "r", Packets: 1, Ports: []ends.Port{{Port: "eth0", Out: true, Packets: 1}}}}}
	for name, c := range map[string]struct {
		expired, dropped int
		want             []Note
	}{
		"nothing": {0, 0, []Note{note.NothingLost{Packets: 1}}},
		"expired": {1, 0, []Note{expired}},
		"dropped": {0, 2, []Note{note.NothingLost{Packets: 3, Drops: 2}}},
		"both":    {1, 2, []Note{expired, note.NothingLost{Packets: 4, Expired: true, Drops: 2}}},
	} {
		sums := aggregate.New(0)
		add := func(n int, state record.State, local bool) {
			for range n {
				sums.Add(&packet.Packet{
					State: state, T0: 1, Len: 100, Segs: 1, LatencyNs: packet.NoTime, LocalDrop: local, Missing: state == record.Expired,
					Hops: []packet.Hop{{Node: 1, In: packet.NoPort, Out: 10, InNs: packet.NoTime, DequeueNs: packet.NoTime}},
					Loss: packet.Drop{Node: 1, Port: 10, At: record.AtNode, Reason: "SOCKET_RCVBUFF", First: true},
				})
			}
		}
		add(1, record.Delivered, false)
		add(c.expired, record.Expired, false)
		add(c.dropped, record.Delivered, true)
		if got := NewCounts(sums, oneNode{}).otherLosses(false); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestUnsentSinceAttach: only all that was not sent since attach is counted. Where a shorter time was asked for, that is said.
func TestUnsentSinceAttach(t *testing.T) {
	d := &domain.Domain{Nodes: []domain.Node{{ID: 1, Name: "h1"}}, Ports: []domain.Port{{ID: 3, Node: 1, Name: "eth0", Peer: -1}}}
	r := &Ring{&agent.Reader{Domain: d, Decoder: backpack.NewDecoder(d, nil)}}
	links := placenow.NewLinksOf(d, func(uint16) map[int]topo.Interface { return nil })
	list := []datapath.Unsent{{Port: 3, Proto: unix.IPPROTO_UDP, Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.9"), Dport: 53, Packets: 2, LastNs: 5e9}}
	at := func(s int64) time.Time { return time.Unix(0, r.Decoder.WallOffset()+s*1e9) }
	for name, c := range map[string]struct {
		since, until time.Time
		want         bool
	}{
		"ever":  {time.Time{}, time.Time{}, false},
		"since": {at(1), time.Time{}, true},
		"until": {time.Time{}, at(9), true},
		"both":  {at(1), at(9), true},
	} {
		s, err := Select(filter.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		s.Since, s.Until = c.since, c.until
		if rows := r.unsent(list, s, links); len(rows) != 1 || rows[0].SinceAttach != c.want || rows[0].Packets != 2 {
			t.Errorf("%s: %+v; want one row of 2 packets, since attach: %v", name, rows, c.want)
		}
	}
}
