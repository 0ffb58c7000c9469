// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"reflect"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
)

// Seconds that begin later than what was asked for are a note, with the second from which on all rows have
// theirs.
func TestSecondsKept(t *testing.T) {
	seconds := make([]aggregate.Second, aggregate.Seconds)
	for i := range seconds {
		seconds[i].At = int64(1000 + i)
	}
	rows := []rowSeconds{{aggregate.Seconds + 5, seconds}, {aggregate.Seconds, seconds}, {7, seconds[:7]}}
	kept := []Note{note.SecondsKept{Rows: 1, Seconds: aggregate.Seconds, From: time.Unix(1000, 0)}}
	for since, want := range map[int64][]Note{0: kept, 990: kept, 1000: nil} {
		if got := secondsKept(rows, time.Unix(since, 0)); !reflect.DeepEqual(got, want) {
			t.Errorf("since %d: %+v, want %+v", since, got, want)
		}
	}
}

// Flows come in the order that was asked for, what is not known last, and what is cut off is a note.
// Latencies that count with others are a note if their flows are shown.
func TestFirstFlows(t *testing.T) {
	rate := func(bps uint64) *uint64 { return &bps }
	exact, inexact := &aggregate.Quantiles{Count: 9, P50Ns: 5}, &aggregate.Quantiles{Count: 9, P50Ns: 7, Inexact: 4}
	flows := func() []aggregate.FlowRow {
		return []aggregate.FlowRow{
			{Packets: 1, Bytes: 300, Latency: inexact}, {Packets: 3, Bytes: 200, RateBps: rate(1), Latency: exact}, {Packets: 2, Bytes: 100, RateBps: rate(2), Lost: 1},
		}
	}
	c := NewCounts(aggregate.New(0), nil)
	for _, test := range []struct {
		order FlowOrder
		top   int
		want  []uint64 // packets, which name flows
		notes []Note
	}{
		{ByPackets, 0, []uint64{3, 2, 1}, []Note{note.Inexact{Flows: 1, Packets: 4}}},
		{ByPackets, 3, []uint64{3, 2, 1}, []Note{note.Inexact{Flows: 1, Packets: 4}}},
		{ByPackets, 2, []uint64{3, 2}, []Note{note.MoreFlows{Flows: 1}}},
		{ByBytes, 1, []uint64{1}, []Note{note.MoreFlows{Flows: 2}, note.Inexact{Flows: 1, Packets: 4}}},
		{ByRate, 0, []uint64{2, 3, 1}, []Note{note.Inexact{Flows: 1, Packets: 4}}},
		{ByLatency, 0, []uint64{1, 3, 2}, []Note{note.Inexact{Flows: 1, Packets: 4}}},
		{ByLoss, 0, []uint64{2, 1, 3}, []Note{note.Inexact{Flows: 1, Packets: 4}}},
	} {
		rows, notes := c.topFlows(flows(), test.order, test.top)
		var got []uint64
		for _, r := range rows {
			got = append(got, r.Packets)
		}
		if !reflect.DeepEqual(got, test.want) || !reflect.DeepEqual(notes, test.notes) {
			t.Errorf("by %s, first %d: %v, %+v; want %v, %+v", test.order, test.top, got, notes, test.want, test.notes)
		}
	}
	for _, order := range []FlowOrder{ByPackets, ByBytes, ByRate, ByLatency, ByJitter, ByLoss, ByDropped, ByReordered, ByDuration} {
		if flowOrders[order] == nil {
			t.Errorf("no order %s", order)
		}
	}
	if n := len(flowOrders); n != 9 {
		t.Errorf("%d orders", n)
	}
}
