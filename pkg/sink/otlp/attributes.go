// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"cmp"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/vnetradar/radar/pkg/record"
)

// Bounds of texts, bytes, and of what INT said of a hop.
const (
	mostName = 200
	mostPath = 1000
	mostINT  = 40
)

type attribute = commonpb.KeyValue

// cutText is the beginning of s, at most so many bytes. Names in recordings of others can be any bytes, of any length:
// those that are no UTF-8, which OTLP does not take, become question marks.
func cutText(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "?")
}

func text(name, value string) *attribute {
	return &attribute{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: cutText(value, mostPath)}}}
}

func number(name string, value int64) *attribute {
	return &attribute{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}}
}

func texts(list []*attribute, name, value string) []*attribute {
	if value == "" {
		return list
	}
	return append(list, text(name, value))
}

func numbers(list []*attribute, name string, value *int) []*attribute {
	if value == nil {
		return list
	}
	return append(list, number(name, int64(*value)))
}

func nanos(list []*attribute, name string, value *int64) []*attribute {
	if value == nil {
		return list
	}
	return append(list, number(name, *value))
}

// pb is the resource as OTLP has it: a node is a service, on the machine that measured it.
func (r *Resource) pb() *resourcepb.Resource {
	list := []*attribute{text("service.name", r.Node)}
	list = texts(list, "service.namespace", r.Domain)
	list = texts(list, "host.name", r.Host)
	// All nodes of a machine have one clock. Jaeger looks at host.name to see that; its version 1 at this one.
	list = texts(list, "ip", r.Host)
	if r.NodeID > 0 {
		list = append(list, number("radar.node.id", int64(r.NodeID)))
	}
	return &resourcepb.Resource{Attributes: list}
}

// tuple is addresses and ports, by OpenTelemetry's names.
type tuple struct {
	src, dst     string
	sport, dport *int
}

func (u *tuple) attributes(r *record.Record) []*attribute {
	list := texts(nil, "source.address", u.src)
	list = numbers(list, "source.port", u.sport)
	list = texts(list, "destination.address", u.dst)
	list = numbers(list, "destination.port", u.dport)
	switch r.Proto {
	case "tcp", "udp":
		list = append(list, text("network.transport", r.Proto))
	default:
		list = texts(list, "radar.proto", r.Proto)
	}
	switch r.IPVersion {
	case 4:
		list = append(list, text("network.type", "ipv4"))
	case 6:
		list = append(list, text("network.type", "ipv6"))
	}
	return list
}

// translate takes over what a node changed.
func (u *tuple) translate(h *record.Hop) {
	u.src, u.dst = cmp.Or(h.Src, u.src), cmp.Or(h.Dst, u.dst)
	u.sport, u.dport = cmp.Or(h.Sport, u.sport), cmp.Or(h.Dport, u.dport)
}

// packet are attributes of the whole packet.
func (t *trace) packet() []*attribute {
	r := t.r
	u := tuple{r.Src, r.Dst, r.Sport, r.Dport}
	list := u.attributes(r)
	list = append(list, text("radar.packet.id", r.ID), text("radar.state", string(r.State)), text("radar.source", r.Source),
		number("radar.len", int64(r.Len)), number("radar.segs", int64(r.Segs)))
	if r.Src != "" {
		list = append(list, number("radar.ttl", int64(r.TTL)), number("radar.dscp", int64(r.DSCP)), number("radar.ecn", int64(r.ECN)))
	}
	if !r.IsLost() {
		list = nanos(list, "radar.latency_ns", r.LatencyNs)
	}
	list = numbers(list, "radar.flow_label", r.FlowLabel)
	list = numbers(list, "radar.icmp.type", r.ICMPType)
	list = numbers(list, "radar.icmp.code", r.ICMPCode)
	list = numbers(list, "radar.icmp.id", r.ICMPID)
	list = numbers(list, "radar.icmp.seq", r.ICMPSeq)
	list = numbers(list, "radar.tcp.seq", r.TCPSeq)
	list = numbers(list, "radar.tcp.ack", r.TCPAck)
	list = numbers(list, "radar.tcp.flags", r.TCPFlags)
	list = texts(list, "radar.inner", r.Inner)
	if r.Straight() {
		list = texts(list, "radar.path", pathOf(r))
	}
	if r.Truncated {
		list = append(list, flag("radar.truncated"))
	}
	if n := len(r.Hops) - len(t.hops); n > 0 {
		list = append(list, number("radar.hops.cut", int64(n)))
	}
	return list
}

func flag(name string) *attribute {
	return &attribute{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}}
}

// pathOf is "h1 > r1 > h2", as far as it is shown.
func pathOf(r *record.Record) string {
	var b strings.Builder
	for i := range r.Hops {
		if i > 0 {
			b.WriteString(" > ")
		}
		b.WriteString(cutText(r.Hops[i].Node, mostName))
		if b.Len() > mostPath {
			break
		}
	}
	return b.String()
}

// hopAttributes are those of a hop's span; addresses are those with which the packet came.
func (t *trace) hopAttributes(i int) []*attribute {
	h := &t.r.Hops[i]
	u := tuple{t.r.Src, t.r.Dst, t.r.Sport, t.r.Dport}
	for j := t.r.PrevOf(i); j >= 0; j = t.r.PrevOf(j) { // the nearest change counts
		if prev := &t.r.Hops[j]; prev.Src != "" || prev.Dst != "" || prev.Sport != nil || prev.Dport != nil {
			u.translate(prev)
			break
		}
	}
	list := u.attributes(t.r)
	list = append(list, text("radar.packet.id", t.r.ID))
	list = texts(list, "radar.port.in", h.InPort)
	list = texts(list, "radar.port.out", h.Port)
	list = texts(list, "radar.role", string(h.Role))
	list = texts(list, "radar.outcome", string(h.Outcome))
	list = nanos(list, "radar.link_ns", h.LinkNs)
	list = nanos(list, "radar.node_ns", h.NodeNs)
	list = nanos(list, "radar.queue_ns", h.QueueNs)
	list = nanos(list, "radar.latency_ns", h.LatencyNs)
	list = texts(list, "radar.nat.source.address", h.Src)
	list = texts(list, "radar.nat.destination.address", h.Dst)
	list = numbers(list, "radar.nat.source.port", h.Sport)
	list = numbers(list, "radar.nat.destination.port", h.Dport)
	names := make([]string, 0, min(len(h.INT), mostINT))
	for name := range h.INT {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), mostINT)] {
		list = append(list, number("radar.int."+cutText(name, mostName), int64(h.INT[name])))
	}
	return list
}

// reason is why a packet was lost, as far as that is known.
func reason(l *record.Loss) string { return cmp.Or(l.Reason, record.NotSpecified) }

// failed is the status of a packet that was lost: what happened, and where.
func failed(l *record.Loss) *tracepb.Status {
	where := l.Node
	if l.Port != "" {
		where += "/" + l.Port
	}
	message := reason(l)
	if where != "" {
		message += " at " + where
	}
	if l.At == record.AtQueue {
		message += " (queue"
		if l.Qdisc != "" {
			message += " " + l.Qdisc
		}
		message += ")"
	}
	return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: cutText(message, mostPath)}
}

// event is a loss as an event.
func (t *trace) event(name string, l *record.Loss, when uint64) *tracepb.Span_Event {
	list := []*attribute{text("radar.loss.reason", reason(l))}
	list = texts(list, "radar.loss.node", l.Node)
	list = texts(list, "radar.loss.port", l.Port)
	list = texts(list, "radar.loss.at", string(l.At))
	list = texts(list, "radar.loss.qdisc", l.Qdisc)
	list = texts(list, "radar.loss.function", l.Function)
	return &tracepb.Span_Event{Name: name, TimeUnixNano: when, Attributes: list}
}
