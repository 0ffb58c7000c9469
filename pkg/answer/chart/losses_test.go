// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// copied is a packet of which so many copies were lost at one place.
func copied(copies int, ns int64) *packet.Packet {
	p := &packet.Packet{State: record.Lost, Segs: 2, Tree: true, Hops: []packet.Hop{{Node: 1, In: packet.NoPort, Out: packet.NoPort}}}
	for range copies {
		p.Drops = append(p.Drops, packet.BranchDrop{Drop: packet.Drop{Node: 1, Port: packet.NoPort, At: record.AtNode, Reason: "X", AtNs: ns}})
	}
	return p
}

// TestCopies: a packet counts once at a place where many of its copies were lost, so that shares are shares.
func TestCopies(t *testing.T) {
	l := NewLosses()
	for i := range int64(10) {
		l.Add(copied(3, 5), i*1e6)
	}
	var names packet.Registry
	names.Node("a")
	list := l.Places(&names)
	if len(list) != 1 || l.Lost != 20 || l.Packets != 20 {
		t.Fatalf("%d of %d, %+v", l.Lost, l.Packets, list)
	}
	if s := list[0]; s.Packets != 20 || s.Copies != 60 || s.Of != 20 || s.Share != 1 || !(s.Low > 0.5 && s.Low < 1 && s.High > 0.99 && s.High <= 1) {
		t.Errorf("%+v", s)
	}
	bins, _, _, _ := l.Times(&names)
	sum := uint64(0)
	for _, b := range bins {
		sum += b.Packets
	}
	if sum != 20 {
		t.Errorf("%d in bins", sum)
	}
}

// TestLossBins: there are at most so many bins where all losses come after all packets were sent.
func TestLossBins(t *testing.T) {
	l := NewLosses()
	for i := range int64(mostBins) {
		l.Add(copied(1, mostBins*firstBin), i*firstBin)
	}
	var names packet.Registry
	list, from, to, width := l.Times(&names)
	sum := uint64(0)
	for _, b := range list {
		sum += b.Packets
		if b.WidthNs != width || b.StartNs < from || b.StartNs > to {
			t.Errorf("%+v from %d to %d, %d wide", b, from, to, width)
		}
	}
	if (to-from)/width >= mostBins || sum != 2*mostBins {
		t.Errorf("%d bins have %d", (to-from)/width+1, sum)
	}
}
