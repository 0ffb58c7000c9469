// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"time"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// measured is the report as the metrics take it, in memory that r has.
func (t *Translator) measured(o *Observed, r *metrics.Report, at time.Time) {
	h := &o.Header
	*r = metrics.Report{At: at.UnixNano(), SeenAt: t.told(o, at), HasFlow: o.Quoted, WholePath: !o.Postcard && !o.Dropped && !o.Partial, Hops: r.Hops[:0]}
	if o.Quoted {
		r.Flow = metrics.Flow{Src: h.Src, Dst: h.Dst, Proto: h.Proto, HasPorts: h.HasPorts, SrcPort: h.SrcPort, DstPort: h.DstPort}
	}
	for i := range o.Hops {
		r.Hops = append(r.Hops, measuredHop(&o.Hops[i], uint64(o.LatencyNs)))
	}
	if o.Own {
		last := &r.Hops[len(r.Hops)-1]
		last.Has |= metrics.HasFlag
		last.Flag = o.Queued
	}
	if o.clock.shared && !o.Partial {
		t.stays = o.appendStays(t.stays[:0])
		t.between(r, t.stays)
	}
}

// measuredHop is what one node says. Its egress port is that of level 1, else that of level 2.
// unit is how many ns its latency counts by.
func measuredHop(v *intwire.Values, unit uint64) (h metrics.Hop) {
	take := func(f intwire.Field, has metrics.Has) uint64 {
		n, ok := v.Get(f)
		if ok {
			h.Has |= has
		}
		return n
	}
	h.Node = uint32(take(intwire.NodeID, metrics.HasNode))
	h.Port = uint32(take(intwire.L1Out, metrics.HasPort))
	if h.Has&metrics.HasPort == 0 {
		h.Port = uint32(take(intwire.L2Out, metrics.HasPort))
	}
	h.Queue = uint32(take(intwire.QueueID, metrics.HasQueue))
	h.Occupancy = take(intwire.QueueOcc, metrics.HasOccupancy)
	h.Utilization = take(intwire.EgressTxUtil, metrics.HasUtilization)
	h.LatencyNs = unit * take(intwire.HopLatency, metrics.HasLatency)
	if h.Congestion = take(intwire.QueueCongestion, metrics.HasCongestion); h.Has&metrics.HasCongestion != 0 {
		h.CongestionQueue = uint32(take(intwire.CongestionQueueID, 0))
	}
	return h
}
