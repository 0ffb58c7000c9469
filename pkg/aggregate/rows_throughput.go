// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"github.com/vnetradar/radar/pkg/packet"

	"cmp"
	"math"
	"slices"
)

// ThroughputRow is what passed a link, port, node or path, or all packets that set
// out. Bytes are IP bytes; seconds are those of Unix time.
//
// Of packets that only sums have counted no rate is known.
//
// A link counts a packet when it comes out at its end, a port when it comes in or
// goes out (before the port's queue), a node each visit when it begins, a path and
// all when the packet sets out.
type ThroughputRow struct {
	By         By       `json:"by"`
	Name       string   `json:"name"` // as in LatencyRow; of a port "r1/eth1 in", "r1/eth1 out"
	Packets    uint64   `json:"packets"`
	Bytes      uint64   `json:"bytes"`
	ActiveS    uint64   `json:"active_s,omitempty"`    // seconds in which something passed
	AverageBps *uint64  `json:"average_bps,omitempty"` // bits/s over these, less what was before the first and after the last packet, 1 s at least; of a flow over its duration
	LastBps    *uint64  `json:"last_bps,omitempty"`    // bits/s over the last seconds that were asked for
	PeakBps    *uint64  `json:"peak_bps,omitempty"`    // bits/s in the second of the clock with most of them; AverageBps, if that is more
	PeakS      int64    `json:"peak_s,omitempty"`      // which second that was, Unix time
	Seconds    []Second `json:"-"`
}

// Second is what passed in one second of Unix time.
type Second struct {
	At             int64
	Packets, Bytes uint64
}

// Throughput returns a row for each link, port, node or path, those with most bytes
// first, and before them one for all packets. The last seconds are those from first
// on and before end (Unix time, s); each row has at most the last Seconds.
func (a *Aggregates) Throughput(by By, names packet.Names, first, end int64) []ThroughputRow {
	meters := a.meters(by, names)
	rows := a.countedRows(by, names, meters)
	for name, m := range meters {
		rows = append(rows, m.row(by, name, first, end))
	}
	slices.SortFunc(rows, func(a, b ThroughputRow) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	packets, bytes := a.unmeasured()
	switch {
	case packets > 0:
		rows = slices.Insert(rows, 0, ThroughputRow{By: by, Name: All, Packets: a.whole.packets + packets, Bytes: a.whole.bytes + bytes})
	case a.whole.packets > 0:
		rows = slices.Insert(rows, 0, a.whole.row(by, All, first, end))
	}
	return rows
}

// countedRows are what sums have of ports and nodes, in the place of meters that have less: these it takes out. In which
// seconds that passed is not known, so there is no rate. Of links and paths sums know nothing.
func (a *Aggregates) countedRows(by By, names packet.Names, meters map[string]*meter) (rows []ThroughputRow) {
	passed := make(map[string]sum)
	add := func(name string, s sum) {
		t := passed[name]
		t.add(s)
		passed[name] = t
	}
	switch by {
	case ByPort:
		for place, s := range a.counted() {
			direction := " in"
			if place.Out {
				direction = " out"
			}
			add(endName(place.Port, names)+direction, s)
		}
	case ByNode:
		for node, s := range a.visited() {
			add(names.NodeName(node), s)
		}
	}
	for name, s := range passed {
		if m := meters[name]; m == nil || m.packets < s.packets {
			rows = append(rows, ThroughputRow{By: by, Name: name, Packets: s.packets, Bytes: s.bytes})
			delete(meters, name)
		}
	}
	return rows
}

func (a *Aggregates) meters(by By, names packet.Names) map[string]*meter {
	m := make(map[string]*meter)
	add := func(name string, more *meter) {
		switch {
		case more.packets == 0:
		case m[name] == nil:
			c := *more
			c.recent = slices.Clone(more.recent)
			m[name] = &c
		default:
			m[name].merge(more)
		}
	}
	switch by {
	case ByNode:
		for node, n := range a.nodes {
			add(names.NodeName(node), &n.visits)
		}
	case ByLink:
		for k, l := range a.links {
			add(linkName(k, names), &l.passed)
		}
	case ByPort:
		for port, p := range a.ports {
			add(endName(port, names)+" in", &p.in)
			add(endName(port, names)+" out", &p.out)
		}
	case ByPath:
		ways, _ := a.waysByName(names)
		for _, w := range ways {
			add(TruncatedText(w.row.Path, w.row.Hops, w.row.Truncated), &w.sums)
		}
	}
	return m
}

func (m *meter) row(by By, name string, first, end int64) ThroughputRow {
	row := ThroughputRow{By: by, Name: name, Packets: m.packets, Bytes: m.bytes, ActiveS: m.active}
	if m.active > 0 {
		row.AverageBps, row.PeakBps = perSecond(m.bytes, m.busySeconds()), perSecond(m.peak.bytes, 1)
		// Seconds of the clock cut the busiest second of a short burst in two.
		row.PeakBps = new(max(*row.PeakBps, *row.AverageBps))
		row.PeakS = int64(m.peak.at)
	}
	if end > first {
		_, bytes := m.between(uint32(first), uint32(end))
		row.LastBps = perSecond(bytes, float64(end-first))
	}
	row.Seconds = m.seconds()
	return row
}

// seconds are those that are remembered.
func (m *meter) seconds() (list []Second) {
	for _, s := range m.recent {
		list = append(list, Second{int64(s.at), uint64(s.packets), s.bytes})
	}
	return list
}

// perSecond is bits/s.
func perSecond(bytes uint64, seconds float64) *uint64 {
	v := uint64(math.Round(float64(bytes) * 8 / seconds))
	return &v
}

// ThroughputOfFlows turns flows into rows, in their order: what their sources sent,
// over their duration.
func ThroughputOfFlows(flows []FlowRow) []ThroughputRow {
	rows := make([]ThroughputRow, len(flows))
	for i := range flows {
		f := &flows[i]
		rows[i] = ThroughputRow{By: ByFlow, Name: f.String(), Packets: f.Packets, Bytes: f.Bytes, AverageBps: f.RateBps}
	}
	return rows
}
