// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
)

// ThroughputSecond is what passed in one second.
type ThroughputSecond struct {
	By      aggregate.By `json:"by"`
	Name    string       `json:"name"`
	TimeS   int64        `json:"time_s"` // Unix time
	Packets uint64       `json:"packets"`
	Bytes   uint64       `json:"bytes"`
}

// LossSecond is what was lost at one place, or dropped after delivery, in one second.
type LossSecond struct {
	TimeS   int64  `json:"time_s"` // Unix time
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	aggregate.LossPlace
	AfterDelivery bool `json:"after_delivery,omitempty"`
	FreedByTCP    bool `json:"freed_by_tcp,omitempty"`
	placenow.Place
}

// LatencySecond is how long packets took that set out in one second.
type LatencySecond struct {
	TimeS int64 `json:"time_s"` // Unix time
	aggregate.LatencyRow
}

// ThroughputBySecond are the seconds of all rows of Throughput, in order of time.
func (c *Counts) ThroughputBySecond(by aggregate.By) Rows[ThroughputSecond] {
	rows := c.Throughput(by, 1)
	kept := make([]rowSeconds, len(rows.List))
	for i, r := range rows.List {
		kept[i] = rowSeconds{r.ActiveS, r.Seconds}
	}
	return Rows[ThroughputSecond]{ThroughputSeconds(rows.List), append(rows.Notes, secondsKept(kept, c.question.Since)...)}
}

// ThroughputSeconds are the seconds of rows, in order of time.
func ThroughputSeconds(rows []aggregate.ThroughputRow) (list []ThroughputSecond) {
	for _, r := range rows {
		for _, s := range r.Seconds {
			list = append(list, ThroughputSecond{r.By, r.Name, s.At, s.Packets, s.Bytes})
		}
	}
	slices.SortStableFunc(list, func(x, y ThroughputSecond) int { return cmp.Compare(x.TimeS, y.TimeS) })
	return list
}

// LossesBySecond are the seconds of all places of Losses, in order of time.
func (c *Counts) LossesBySecond(afterDelivery bool) Rows[LossSecond] {
	var kept []rowSeconds
	var said []placenow.PortState
	a := Rows[LossSecond]{Notes: c.lossesLack()}
	for _, row := range c.lossSeconds(afterDelivery) {
		kept = append(kept, rowSeconds{row.ActiveS, row.Seconds})
		now := c.placeNow(&row.LossPlace, nil, meanOf(row.Seconds), afterDelivery)
		said = append(said, now.NotUp...)
		for _, s := range row.Seconds {
			a.List = append(a.List, LossSecond{s.At, s.Packets, s.Bytes, row.LossPlace, afterDelivery, afterDelivery && row.FreedByTCP(), now})
		}
	}
	slices.SortStableFunc(a.List, func(x, y LossSecond) int { return cmp.Compare(x.TimeS, y.TimeS) })
	a.Notes = append(a.Notes, secondsKept(kept, c.question.Since)...)
	a.Notes = append(a.Notes, c.besideLosses(c.lossRows(afterDelivery), said, afterDelivery)...)
	return a
}

// meanOf is how many bytes packets of these seconds had on average.
func meanOf(seconds []aggregate.Second) uint64 {
	var packets, bytes uint64
	for _, s := range seconds {
		packets, bytes = packets+s.Packets, bytes+s.Bytes
	}
	return placenow.Mean(bytes, packets)
}

func (c *Counts) lossSeconds(afterDelivery bool) []aggregate.LossSeconds {
	if afterDelivery {
		return c.sums.LocalDropsBySecond(c.Names)
	}
	return c.sums.LossesBySecond(c.Names)
}

// Lost is how many packets Losses has in all its rows.
func (c *Counts) Lost(afterDelivery bool) (packets uint64) {
	for _, row := range c.lossRows(afterDelivery) {
		packets += row.Packets
	}
	return packets
}

// RecentLosses are the packets that were freed in some seconds, by place.
type RecentLosses struct {
	Seconds int64
	Packets uint64
	Of      map[aggregate.LossPlace]uint64
}

// LossesBetween are those of the seconds from from on, before end; Unix time. What was not seen again is known
// only when the timeout is over, and is not among them.
func (c *Counts) LossesBetween(from, end int64, afterDelivery bool) *RecentLosses {
	recent := &RecentLosses{Seconds: end - from, Of: make(map[aggregate.LossPlace]uint64)}
	for _, row := range c.lossSeconds(afterDelivery) {
		for _, s := range row.Seconds {
			if s.At >= from && s.At < end && !row.Inferred() {
				recent.Of[row.LossPlace] += s.Packets
				recent.Packets += s.Packets
			}
		}
	}
	return recent
}

// LatencyBySecond are the latencies of packets by the second in which they set out, in order of time. The
// question must have asked for it (BySecond).
func (c *Counts) LatencyBySecond(by aggregate.By) (a Rows[LatencySecond]) {
	if from := c.timeline.From(); from > 0 {
		a.Notes = append(a.Notes, note.SecondsShown{From: time.Unix(from, 0)})
	}
	for _, row := range c.timeline.Latency(by, c.Names) {
		a.List = append(a.List, LatencySecond{row.At, row.LatencyRow})
	}
	a.Notes = slices.Concat(a.Notes, c.sources.cannot(OfLatency), c.noLatency(by, len(a.List)))
	return a
}
