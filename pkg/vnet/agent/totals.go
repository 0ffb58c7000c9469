// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

// Totals says what became of every packet that met a source. All are packets:
// each segment of a GSO train counts.
//
//	Seen = Delivered + Left + Lost + Expired + Ignored + InFlight + NotMeasured + Unread + Unaccounted
type Totals struct {
	Seen        uint64 `json:"seen"`
	Delivered   uint64 `json:"delivered"`
	Left        uint64 `json:"left"`
	Lost        uint64 `json:"lost"`
	Expired     uint64 `json:"expired"`
	Ignored     uint64 `json:"ignored"` // came only to nodes that did not want it
	InFlight    uint64 `json:"in_flight"`
	NotMeasured uint64 `json:"not_measured"`
	Unread      uint64 `json:"unread"` // measured, but overwritten before anyone read it

	// Unaccounted is what the others leave of Seen. While packets pass it is
	// what changed between the reading of counters and ring; else 0.
	Unaccounted int64 `json:"unaccounted"`

	Measured   uint64 `json:"measured"` // Seen - NotMeasured
	Bytes      uint64 `json:"bytes"`    // of packets that have ended
	LocalDrops uint64 `json:"local_drops"`
	Truncated  uint64 `json:"truncated"`
}

// NewTotals puts counters of the programs and the aggregates together.
func NewTotals(counters []datapath.Counter, t aggregate.Totals) Totals {
	out := Totals{
		Delivered: t.Delivered, Left: t.Left, Lost: t.Lost, Expired: t.Expired, Ignored: t.Ignored,
		InFlight: t.InFlight, Unread: t.Unread + t.Torn,
		Bytes: t.Bytes, LocalDrops: t.LocalDrops, Truncated: t.Truncated,
	}
	for _, c := range counters {
		switch c.Group {
		case datapath.GroupTotal:
			out.Seen += c.Value
		case datapath.GroupMeasured:
			out.Measured += c.Value
		case datapath.GroupNotMeasured:
			out.NotMeasured += c.Value
		}
	}
	known := out.Delivered + out.Left + out.Lost + out.Expired + out.Ignored + out.InFlight + out.NotMeasured
	missing := int64(out.Seen - known)
	// Overwritten positions that were skipped look like those that had a packet:
	// there were no more packets than are missing.
	out.Unread = uint64(min(max(missing, 0), int64(out.Unread)))
	out.Unaccounted = missing - int64(out.Unread)
	return out
}
