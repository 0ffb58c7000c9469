// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/vnetradar/radar/pkg/record"
)

// mostHops bounds the spans of a packet: of a longer way the first hops and the last one are spans.
const mostHops = 256

// Spans hands the spans of a packet to add, with the node that each is of. IDs follow from the packet's id alone, so
// that a packet that is sent twice is one trace.
func (m *Maker) Spans(r *record.Record, add func(Resource, *tracepb.Span)) {
	t := &trace{Maker: m, r: r, sum: sha256.Sum256([]byte("radar packet " + r.ID)), lossHop: r.LossHop()}
	t.hops = t.chosen()
	last := at(r.TNs, 0)
	spans := make([]*tracepb.Span, 0, 2*len(t.hops))
	of := make([]Resource, 0, cap(spans))
	ends := make(map[int]uint64, len(t.hops))
	for _, i := range t.hops {
		span := t.hop(i, ends)
		ends[i] = span.EndTimeUnixNano
		last = max(last, span.EndTimeUnixNano)
		where := m.resource(r, r.Hops[i].Node, r.Hops[i].NodeID)
		spans, of = append(spans, span), append(of, where)
		if queue := t.queue(i, span); queue != nil {
			spans, of = append(spans, queue), append(of, where)
		}
	}
	if r.LatencyNs != nil {
		last = max(last, at(r.TNs, *r.LatencyNs))
	}
	first := m.resource(r, "", 0)
	if len(r.Hops) > 0 {
		first = m.resource(r, r.Hops[0].Node, r.Hops[0].NodeID)
	}
	add(first, t.root(last))
	for i, span := range spans {
		add(of[i], span)
	}
}

// Maker makes spans of packets. What is in them does not depend on how packets are chosen and sent: collectors know by that
// that they have a span already.
type Maker struct {
	Domain string
}

// Resource is what a span is of.
type Resource struct {
	Node   string
	NodeID int
	Host   string
	Domain string
}

// resource is a node; a packet of which no node is known is radar's own.
func (m *Maker) resource(r *record.Record, node string, id int) Resource {
	if node == "" {
		node = "radar"
	}
	return Resource{Node: cutText(node, mostName), NodeID: id, Host: cutText(r.Host, mostName), Domain: m.Domain}
}

// trace is a packet of which spans are made.
type trace struct {
	*Maker
	r       *record.Record
	sum     [sha256.Size]byte
	hops    []int // those that are spans
	lossHop int   // record.Record.LossHop
}

// chosen are the hops that become spans.
func (t *trace) chosen() []int {
	n := len(t.r.Hops)
	list := make([]int, 0, min(n, mostHops))
	for i := range min(n, mostHops) {
		list = append(list, i)
	}
	if n > mostHops {
		list[mostHops-1] = n - 1
	}
	return list
}

func (t *trace) id() []byte { return slices.Clone(t.sum[:16]) }

// instant is how long a moment lasts, ns: Jaeger warns of spans that take no time.
const instant = 1

// What spans of a packet are of.
const (
	ofPacket byte = iota
	ofHop
	ofQueue
)

// spanID is the id of a span: of the packet, of a hop, of the queue at a hop.
func (t *trace) spanID(kind byte, hop int) []byte {
	var b [16 + 1 + 8]byte
	copy(b[:], t.sum[:16])
	b[16] = kind
	binary.BigEndian.PutUint64(b[17:], uint64(hop))
	sum := sha256.Sum256(b[:])
	return sum[:8:8]
}

// at is a time of the packet, Unix ns.
func at(base, since int64) uint64 {
	switch {
	case base < 0:
		return 0
	case since < 0:
		return uint64(base)
	case since > math.MaxInt64-base:
		return math.MaxInt64
	}
	return uint64(base + since)
}

// root is the span of the whole packet.
func (t *trace) root(end uint64) *tracepb.Span {
	r := t.r
	s := &tracepb.Span{
		TraceId: t.id(), SpanId: t.spanID(ofPacket, 0), Name: cutText(r.Proto, mostName) + " packet", Kind: tracepb.Span_SPAN_KIND_PRODUCER,
		StartTimeUnixNano: at(r.TNs, 0), EndTimeUnixNano: max(at(r.TNs, 0)+instant, end),
	}
	s.Attributes = t.packet()
	if r.Inner != "" {
		inner := trace{sum: sha256.Sum256([]byte("radar packet " + r.Inner))}
		s.Links = append(s.Links, &tracepb.Span_Link{TraceId: inner.id(), SpanId: inner.spanID(ofPacket, 0)})
	}
	if l := r.Loss; l != nil {
		s.Status = failed(l)
		s.Attributes = append(s.Attributes, text("error.type", reason(l)))
		if len(t.hops) == 0 || len(r.Losses) == 0 && !slices.Contains(t.hops, t.lossHop) { // no hop's span has it
			s.Events = append(s.Events, t.event("packet lost", l, end))
		}
	}
	return s
}

// before is the hop from which a packet came, of those that are spans; -1: none.
func (t *trace) before(i int) int {
	prev := t.r.PrevOf(i)
	if prev >= mostHops-1 { // the last one before the gap stands for it
		return mostHops - 2
	}
	return prev
}

// hop is the span of a hop: from when the packet came to the node until it left its queue.
func (t *trace) hop(i int, ends map[int]uint64) *tracepb.Span {
	h := &t.r.Hops[i]
	prev := t.before(i)
	s := &tracepb.Span{TraceId: t.id(), SpanId: t.spanID(ofHop, i), ParentSpanId: t.spanID(ofPacket, 0), Name: hopName(h), Kind: tracepb.Span_SPAN_KIND_CONSUMER}
	start := at(t.r.TNs, 0)
	if prev >= 0 {
		s.ParentSpanId = t.spanID(ofHop, prev)
		start = ends[prev]
	} else {
		s.Kind = tracepb.Span_SPAN_KIND_INTERNAL
	}
	end := start
	if h.AtNs != nil {
		end = at(t.r.TNs, *h.AtNs)
		if start = end; h.NodeNs != nil && *h.NodeNs > 0 && uint64(*h.NodeNs) <= end {
			start = end - uint64(*h.NodeNs)
		} else if h.InPort != "" && h.Port != "" && h.NodeNs == nil && prev >= 0 { // when it came is not known
			start = min(end, max(ends[prev], start))
		}
		if h.QueueNs != nil {
			end = at(int64(end), *h.QueueNs)
		}
	} else if h.NodeNs != nil {
		end = at(int64(start), *h.NodeNs)
	}
	for _, l := range t.lossesAt(i) {
		when := end
		if l.AtNs != nil {
			when = at(t.r.TNs, *l.AtNs)
		}
		end = max(end, when)
		name := "packet lost"
		if l.after {
			name = "dropped after delivery"
		} else {
			s.Status = failed(&l.Loss)
			s.Attributes = append(s.Attributes, text("error.type", reason(&l.Loss)))
		}
		s.Events = append(s.Events, t.event(name, &l.Loss, when))
	}
	s.StartTimeUnixNano, s.EndTimeUnixNano = start, max(start+instant, end)
	s.Attributes = append(s.Attributes, t.hopAttributes(i)...)
	return s
}

// queue is the span of the wait in a port's queue; nil: none is known.
func (t *trace) queue(i int, hop *tracepb.Span) *tracepb.Span {
	h := &t.r.Hops[i]
	if h.QueueNs == nil || h.AtNs == nil {
		return nil
	}
	start := at(t.r.TNs, *h.AtNs)
	return &tracepb.Span{
		TraceId: t.id(), SpanId: t.spanID(ofQueue, i), ParentSpanId: hop.SpanId, Name: "queue " + cutText(h.Port, mostName), Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: start, EndTimeUnixNano: max(start+instant, at(int64(start), *h.QueueNs)),
		Attributes: append(nanos(nil, "radar.queue_ns", h.QueueNs), text("radar.port.out", h.Port)),
	}
}

// hopName is what a node did, and at which ports.
func hopName(h *record.Hop) string {
	in, out := cutText(h.InPort, mostName), cutText(h.Port, mostName)
	switch {
	case in == "" && out == "":
		return "handle"
	case in == "":
		return "send " + out
	case out == "":
		return "receive " + in
	}
	return fmt.Sprintf("forward %s > %s", in, out)
}

// lossAt is a loss at a hop.
type lossAt struct {
	record.Loss
	after bool // delivery
}

// lossesAt are the losses where a packet, or a copy of it, was seen last at a hop.
func (t *trace) lossesAt(i int) (list []lossAt) {
	r := t.r
	for k := range r.Losses {
		if l := &r.Losses[k]; l.Hop == i && len(list) < mostEvents {
			list = append(list, lossAt{l.Loss, l.AfterDelivery})
		}
	}
	if len(r.Losses) > 0 {
		return list
	}
	if r.Loss != nil && t.lossHop == i {
		list = append(list, lossAt{*r.Loss, false})
	}
	if r.LocalDrop != nil && i == len(r.Hops)-1 { // it was delivered there
		list = append(list, lossAt{*r.LocalDrop, true})
	}
	return list
}

// mostEvents bounds those of a span, as OpenTelemetry does.
const mostEvents = 128
