// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
)

// Rows are the answer to a question: its rows, and what else there is to say.
type Rows[T any] struct {
	List  []T
	Notes []Note
}

// Paths are the paths that packets took.
func (c *Counts) Paths() Rows[aggregate.PathRow] {
	return Rows[aggregate.PathRow]{c.sums.Paths(c.Names), append(c.rowsFull(aggregate.ByPath), c.sources.cannot(OfPaths)...)}
}

// Latency is how long packets took in groups other than flows.
func (c *Counts) Latency(by aggregate.By) Rows[aggregate.LatencyRow] {
	rows := c.sums.Latency(by, c.Names)
	return Rows[aggregate.LatencyRow]{rows, slices.Concat(c.rowsFull(by), c.sources.cannot(OfLatency), c.noLatency(by, len(rows)), c.queueUnseen(by))}
}

// queueUnseen says how many waits are missing in rows of queues, and are part of those of links.
func (c *Counts) queueUnseen(by aggregate.By) []Note {
	if n := c.Totals().QueueUnseen; n > 0 && (by == aggregate.ByQueue || by == aggregate.ByLink) {
		return []Note{note.QueueUnseen{Waits: n}}
	}
	return nil
}

// noLatency says why there is no row of latencies although there were packets.
func (c *Counts) noLatency(by aggregate.By, rows int) []Note {
	if n := c.Totals().Packets; rows == 0 && n > 0 && c.matched {
		return []Note{note.NoLatency{By: by, Packets: n}}
	}
	return nil
}

// LatencyOfFlows is how long packets of each flow took, of the first top flows with most packets; 0: of all.
func (c *Counts) LatencyOfFlows(top int) Rows[aggregate.LatencyRow] {
	flows := slices.DeleteFunc(c.sums.Flows(c.Names, c.keep), func(f aggregate.FlowRow) bool { return f.Latency == nil })
	flows, notes := c.topFlows(flows, ByPackets, top)
	return Rows[aggregate.LatencyRow]{aggregate.LatencyOfFlows(flows), slices.Concat(notes, c.sources.cannot(OfLatency), c.noLatency(aggregate.ByFlow, len(flows)))}
}

// Spreads are the rows of Latency, or of LatencyOfFlows, with their distributions: the first top of them, 0: all.
func (c *Counts) Spreads(by aggregate.By, top int) (rows Rows[aggregate.Spread], more int) {
	rows.List, more = c.sums.Spreads(by, c.Names, c.keep, top)
	rows.Notes = slices.Concat(c.rowsFull(by), c.sources.cannot(OfLatency), c.noLatency(by, len(rows.List)), c.queueUnseen(by))
	if by == aggregate.ByFlow {
		rows.Notes = append(rows.Notes, tableFull(note.Flows, c.Totals().OverFlows, aggregate.MaxFlowRows)...)
	}
	return rows, more
}

// Flows are who talks to whom, in an order, greatest first; the first top of them, 0: all.
func (c *Counts) Flows(order FlowOrder, top int) Rows[aggregate.FlowRow] {
	flows, notes := c.topFlows(c.sums.Flows(c.Names, c.keep), order, top)
	return Rows[aggregate.FlowRow]{flows, append(notes, c.sources.cannot(OfFlows)...)}
}

func (c *Counts) topFlows(flows []aggregate.FlowRow, order FlowOrder, top int) ([]aggregate.FlowRow, []Note) {
	total := c.Totals()
	notes := tableFull(note.Flows, total.OverFlows, aggregate.MaxFlowRows)
	if total.OverOrder > 0 {
		notes = append(notes, note.Unordered{Packets: total.OverOrder})
	}
	if total.Undated > 0 {
		notes = append(notes, note.Undated{Packets: total.Undated})
	}
	flows, more := firstFlows(flows, order, top)
	notes = append(notes, more...)
	return flows, append(notes, inexact(flows)...)
}

// firstFlows sorts flows and cuts them off behind top (0: nowhere).
func firstFlows(flows []aggregate.FlowRow, order FlowOrder, top int) ([]aggregate.FlowRow, []Note) {
	by := flowOrders[order]
	slices.SortStableFunc(flows, func(x, y aggregate.FlowRow) int { return cmp.Compare(by(&y), by(&x)) })
	if top == 0 || len(flows) <= top {
		return flows, nil
	}
	return flows[:top], []Note{note.MoreFlows{Flows: len(flows) - top}}
}

// inexact says which percentiles are off by more than usual.
func inexact(flows []aggregate.FlowRow) []Note {
	var n note.Inexact
	for i := range flows {
		if q := flows[i].Latency; q != nil && q.Inexact > 0 {
			n.Flows++
			n.Packets += q.Inexact
		}
	}
	if n.Flows == 0 {
		return nil
	}
	return []Note{n}
}

// FlowOrder is an order of flows: greatest first, what is not known last.
type FlowOrder string

// The orders.
const (
	ByPackets   FlowOrder = "packets"
	ByBytes     FlowOrder = "bytes"
	ByRate      FlowOrder = "rate"
	ByLatency   FlowOrder = "latency"
	ByJitter    FlowOrder = "jitter"
	ByLoss      FlowOrder = "loss"
	ByDropped   FlowOrder = "dropped"
	ByReordered FlowOrder = "reordered"
	ByDuration  FlowOrder = "duration"
)

var flowOrders = map[FlowOrder]func(*aggregate.FlowRow) float64{
	ByPackets:  func(r *aggregate.FlowRow) float64 { return float64(r.Packets) },
	ByBytes:    func(r *aggregate.FlowRow) float64 { return float64(r.Bytes) },
	ByDuration: func(r *aggregate.FlowRow) float64 { return float64(r.DurationNs) },
	ByLoss: func(r *aggregate.FlowRow) float64 {
		if r.Packets == r.Unmeasured {
			return -1
		}
		return LossShare(r)
	},
	ByDropped: func(r *aggregate.FlowRow) float64 { return float64(r.Dropped) },
	ByRate: func(r *aggregate.FlowRow) float64 {
		if r.RateBps == nil {
			return -1
		}
		return float64(*r.RateBps)
	},
	ByLatency: func(r *aggregate.FlowRow) float64 {
		if r.Latency == nil {
			return -1
		}
		return float64(r.Latency.P50Ns)
	},
	ByJitter: func(r *aggregate.FlowRow) float64 {
		if r.JitterNs == nil {
			return -1
		}
		return float64(*r.JitterNs)
	},
	ByReordered: func(r *aggregate.FlowRow) float64 {
		if r.ReorderedRatio == nil {
			return -1
		}
		return *r.ReorderedRatio
	},
}

// LossShare is the share of a flow's packets that were lost or expired, of those that were measured; 0 of none.
func LossShare(r *aggregate.FlowRow) float64 {
	measured := r.Packets - r.Unmeasured
	if measured == 0 {
		return 0
	}
	return float64(r.Lost+r.Expired) / float64(measured)
}

// Throughput is how much passed in groups other than flows. LastBps of its rows is of so many whole seconds
// before the question.
func (c *Counts) Throughput(by aggregate.By, seconds int64) Rows[aggregate.ThroughputRow] {
	now := c.question.Now.Unix()
	return Rows[aggregate.ThroughputRow]{c.sums.Throughput(by, c.Names, now-seconds, now), append(c.rowsFull(by), c.sources.cannot(throughputOf(by))...)}
}

// ThroughputOfFlows is how much passed in each flow, of the first top flows with most bytes; 0: of all.
func (c *Counts) ThroughputOfFlows(top int) Rows[aggregate.ThroughputRow] {
	flows, notes := firstFlows(c.sums.Flows(c.Names, c.keep), ByBytes, top)
	notes = append(notes, tableFull(note.Flows, c.Totals().OverFlows, aggregate.MaxFlowRows)...)
	return Rows[aggregate.ThroughputRow]{aggregate.ThroughputOfFlows(flows), append(notes, c.sources.cannot(OfFlows)...)}
}

// rowsFull says what rows of a group other than flows lack.
func (c *Counts) rowsFull(by aggregate.By) []Note {
	t := c.Totals()
	switch {
	case by == aggregate.ByPath:
		return tableFull(note.Paths, t.OverPaths, aggregate.MaxPaths)
	case t.OverLinks > 0:
		return []Note{note.NoRoom{Packets: t.OverLinks}}
	}
	return nil
}

// tableFull says that a table was full and lacks n packets.
func tableFull(table note.Table, n uint64, limit int) []Note {
	if n == 0 {
		return nil
	}
	return []Note{note.TableFull{Table: table, Packets: n, Limit: limit}}
}

// secondsKept says where the seconds that are kept begin later than what was asked for.
func secondsKept(rows []rowSeconds, since time.Time) []Note {
	short, from := 0, int64(0)
	for _, r := range rows {
		if s := r.seconds; len(s) >= aggregate.Seconds && s[0].At > since.Unix() && uint64(len(s)) < r.active {
			short++
			from = max(from, s[0].At)
		}
	}
	if short == 0 {
		return nil
	}
	return []Note{note.SecondsKept{Rows: short, Seconds: aggregate.Seconds, From: time.Unix(from, 0)}}
}

// rowSeconds is how many of a row's seconds are kept, and which.
type rowSeconds struct {
	active  uint64 // in all
	seconds []aggregate.Second
}

// Histograms are the distributions of latencies in groups other than paths and flows.
func (c *Counts) Histograms(by aggregate.By) Rows[aggregate.Histogram] {
	rows := c.sums.Histograms(by, c.Names)
	return Rows[aggregate.Histogram]{rows, slices.Concat(c.rowsFull(by), c.sources.cannot(OfLatency), c.noLatency(by, len(rows)))}
}
