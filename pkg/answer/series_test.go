// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// oneNode names node 1 and its port 10.
type oneNode struct{}

func (oneNode) NodeName(uint16) string { return "r" }
func (oneNode) PortName(uint16) string { return "eth0" }
func (oneNode) PortNode(uint16) uint16 { return 1 }

// TestLossesBetween: what was lost in these seconds counts, and what was not seen again does not: that is known only
// after the timeout, so it would be missing now and come in late.
func TestLossesBetween(t *testing.T) {
	const sec = int64(1e9)
	sums := aggregate.New(0)
	add := func(at int64, state record.State, reason string) {
		sums.Add(&packet.Packet{
			State: state, T0: uint64(at * sec), Len: 100, Segs: 1, LatencyNs: packet.NoTime, Missing: state == record.Expired,
			Hops: []packet.Hop{{Node: 1, In: packet.NoPort, Out: 10, InNs: packet.NoTime, DequeueNs: packet.NoTime}},
			Loss: packet.Drop{Node: 1, Port: 10, At: record.AtQueue, Reason: reason, First: true},
		})
	}
	add(9, record.Lost, "QDISC_DROP") // before
	add(10, record.Lost, "QDISC_DROP")
	add(11, record.Lost, "NETFILTER_DROP")
	add(11, record.Expired, record.NotSeen)
	add(12, record.Lost, "QDISC_DROP") // after
	recent := NewCounts(sums, oneNode{}).LossesBetween(10, 12, false)
	if recent.Packets != 2 || recent.Seconds != 2 || len(recent.Of) != 2 {
		t.Errorf("%d packets in %d seconds, %+v", recent.Packets, recent.Seconds, recent.Of)
	}
	for place, n := range recent.Of {
		if n != 1 || place.Inferred() {
			t.Errorf("%d packets at %+v", n, place)
		}
	}
}
