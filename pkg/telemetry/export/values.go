// SPDX-License-Identifier: Apache-2.0

package export

import (
	"math"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

// values are what is known of a hop, as metadata of INT (INT 2.1, "Metadata Instructions").
//
// Ports are both there or both not: only a whole word can be "not available". The end that a
// packet did not pass, at its source and its sink, is 0, which is no interface's index. Where
// an index has more than 16 bits, level-1 ports are not available, and level-2 ports have it.
//
// The latency of a hop is the time between its two times: from ingress to where the packet
// left the queue of the port, if that is known, else to where it came to it.
//
// loss is that of the copy whose last hop this is, if it was lost there. The egress that the node
// had chosen then may be known from it alone.
func (e *Encoder) values(r *record.Record, i int, loss *record.Loss) (v intwire.Values) {
	h := &r.Hops[i]
	out := h.Port
	if out == "" && loss != nil && loss.At != record.AtIngress && loss.Port != h.InPort {
		out = loss.Port
	}
	if id := e.nodeOf(h); id != Unknown {
		v.Set(intwire.NodeID, uint64(id))
	}
	e.ports(&v, e.Numbers.Port(h.Node, h.NodeID, h.InPort), e.Numbers.Port(h.Node, h.NodeID, out))
	if h.AtNs == nil {
		return v
	}
	at := r.TNs + *h.AtNs
	if h.Port == "" { // then it is when it came in
		e.time(&v, intwire.IngressTS, at)
		return v
	}
	waited := int64(0)
	if h.QueueNs != nil {
		waited = *h.QueueNs
	}
	e.time(&v, intwire.EgressTS, at+waited)
	if h.NodeNs == nil {
		return v
	}
	e.time(&v, intwire.IngressTS, at-*h.NodeNs)
	if latency := *h.NodeNs + waited; latency >= 0 && latency < math.MaxUint32 {
		v.Set(intwire.HopLatency, uint64(latency))
	}
	return v
}

// ports sets the ports of a node, interface indices or 0.
func (e *Encoder) ports(v *intwire.Values, in, out uint32) {
	switch {
	case in == 0 && out == 0:
		return
	case max(in, out) < math.MaxUint16:
		v.Set(intwire.L1In, uint64(in))
		v.Set(intwire.L1Out, uint64(out))
	}
	v.Set(intwire.L2In, uint64(in))
	v.Set(intwire.L2Out, uint64(out))
}

// time sets a time, Unix ns; in INT and TR 1.0 the low 32 bits.
func (e *Encoder) time(v *intwire.Values, f intwire.Field, ns int64) {
	t := uint64(ns)
	if e.Version == TR10 {
		t = uint64(uint32(ns))
	}
	v.Set(f, t)
}

// nodeOf is the node id of a hop.
func (e *Encoder) nodeOf(h *record.Hop) uint32 {
	id := e.Numbers.Node(h.Node, h.NodeID)
	if id == Unknown {
		e.Counts.UnknownNodes++
	}
	return id
}

// without takes fields out.
func without(v *intwire.Values, fields ...intwire.Field) {
	v.Has &^= intwire.Of(fields...)
}

// level2 takes out level-2 ports that say no more than level-1 ports do.
func level2(list []intwire.Hop) {
	for i := range list {
		v := &list[i].Values
		if v.Has.Has(intwire.L2In) && !v.Has.Has(intwire.L1In) {
			return // one needs them: then all have them
		}
	}
	for i := range list {
		without(&list[i].Values, intwire.L2In, intwire.L2Out)
	}
}
