// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// kernelText is the upper 16 bits of a code address, which a loss's cell lacks.
const kernelText = 0xffff << 48

// maxNames bounds each cache of names: addresses and reasons come from slots, which
// must not make the reader grow without end.
const maxNames = 1 << 14

// A tunnel answers that a packet is too large, and has made the answer of the skb itself: the kernel
// frees nothing, and gives no reason. This one is what routers give, from Linux 5.18 on.
const tooBigForTunnel = "PKT_TOO_BIG"

var tunnelCheck = packet.NamedFunction("skb_tunnel_check_pmtu")

// drop returns where and why e freed the packet that was last seen at last (nil: not
// known). dequeued: it had left the queue there.
func (d *Decoder) drop(e, last *event, dequeued bool) packet.Drop {
	fn := d.function(e.data1&(1<<48-1) | kernelText)
	dr := packet.Drop{
		Node: packet.NoNode, Port: packet.NoPort, At: record.AtNode,
		Reason:   d.reason(unpackReason(uint16(e.data1 >> 48))),
		Function: fn,
		AtNs:     e.at,
		First:    e.flags&flagFirst != 0,
	}
	if e.data1 == 0 {
		dr.Reason, dr.Function = tooBigForTunnel, tunnelCheck
	}
	qdisc := d.qdisc(e.data2)
	queued := qdisc != "noqueue" && !dequeued && (strings.HasPrefix(dr.Reason, "QDISC_") || isQueue(fn.Name()))
	d.place(&dr, e, last, queued)
	if dr.At == record.AtQueue {
		dr.Qdisc = qdisc
	}
	if process := d.switchOf(dr.Node); process != nil && isOwnCopy(e, last) {
		dr.Reason, dr.Function = record.NotForwarded, process
	}
	return dr
}

// switchOf is the process that forwards packets in a node, nil if none is known.
func (d *Decoder) switchOf(node uint16) *packet.Function {
	if int(node) >= len(d.switches) {
		return nil
	}
	return d.switches[node]
}

// isOwnCopy reports whether e is the kernel's drop of its own copy of a packet that came in at
// last: the packet was not for the node, and nothing had sent it on yet.
func isOwnCopy(e, last *event) bool {
	return last != nil && last.kind == evIngress && e.port == last.port
}

// TakeForwarders returns the nodes in which packets have gone on though the kernel had dropped its
// copies: something there has sent others. Each call returns those since the last call.
func (d *Decoder) TakeForwarders() []uint16 {
	nodes := slices.Collect(maps.Keys(d.forwarders))
	clear(d.forwarders)
	return nodes
}

// place sets node, port and At. The packet's device when it was freed says on which side
// of a link it was: a packet that crosses a veth belongs to the peer before the peer's
// ingress stamp.
func (d *Decoder) place(dr *packet.Drop, e, last *event, queued bool) {
	port, node := e.port, d.PortNode(e.port)
	if port != packet.NoPort && node == packet.NoNode {
		d.unlisted = true
	}
	leaving := record.AtEgress
	if queued {
		leaving = record.AtQueue
	}
	if last == nil {
		dr.Node, dr.Port = node, port
		if queued && port != packet.NoPort {
			dr.At = record.AtQueue
		}
		return
	}
	at := d.PortNode(last.port)
	switch {
	case d.closing(port) != "": // in the bridge of a link
		dr.Node, dr.Port = node, port
		if queued {
			dr.At = record.AtQueue
		}
	case !last.out() && (node == at || node == packet.NoNode):
		dr.Node = at
		if node == at {
			dr.Port = port
		}
	case last.out() && (port == packet.NoPort || port == last.port):
		dr.Node, dr.Port, dr.At = at, last.port, leaving
	case node == at && d.peer(last.port) != port: // a bridge's port behind the bridge
		dr.Node, dr.Port, dr.At = at, port, leaving
	default: // at ingress, perhaps of a node behind the last that saw it
		dr.Node, dr.Port, dr.At = node, port, record.AtIngress
	}
}

// Why names the reason and the function of a drop, from a loss's second cell; "" for what is not
// known.
func (d *Decoder) Why(cell uint64) (reason, function string) {
	return d.reason(unpackReason(uint16(cell >> 48))), d.function(cell&(1<<48-1) | kernelText).Name()
}

// missing returns where a packet must be that nobody saw after last and whose drop nobody
// reported: inside the node that it went into, or behind the port that it went out by.
func (d *Decoder) missing(p *story, last *event) packet.Drop {
	dr := packet.Drop{Node: d.PortNode(last.port), Port: last.port, At: record.AtNode, Reason: record.NotSeen, AtNs: packet.NoTime}
	dr.First = last.flags&flagFirst != 0
	if vm := d.inVM(p); vm != 0 {
		dr.Node = vm
	} else if last.out() {
		dr.At = record.AtLink
	}
	return dr
}

func (d *Decoder) function(address uint64) *packet.Function {
	fn := d.functions[address]
	if fn == nil {
		fn = new(packet.Function)
		if d.symbols != nil {
			fn = packet.NewFunction(func() string { return d.symbols.Function(address) })
		}
		if len(d.functions) < maxNames {
			d.functions[address] = fn
		}
	}
	return fn
}

// isQueue reports whether packets that this function frees were dropped by a qdisc:
// most qdiscs hand them back to __dev_queue_xmit in a list, which frees them.
func isQueue(name string) bool {
	switch name {
	case "__dev_queue_xmit", "__dev_xmit_skb", "dev_qdisc_enqueue", "dev_requeue_skb",
		"kfree_skb_list", "kfree_skb_list_reason", "net_tx_action":
		return true
	}
	for _, prefix := range []string{"qdisc_", "__qdisc_", "tbf_", "htb_", "sch_", "netem_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "_enqueue") || strings.HasSuffix(name, "_dequeue")
}

// unpackReason undoes what pack_reason() in bpf/backpack/loss.h does: subsystem:4 |
// number:12 becomes the kernel's subsystem:16 | number:16.
func unpackReason(packed uint16) uint32 {
	return uint32(packed&0xfff) | uint32(packed>>12)<<16
}

// reason returns a reason's name, its number if it has no name, "" if it is 0.
func (d *Decoder) reason(code uint32) string {
	if code == 0 {
		return ""
	}
	name, ok := d.reasons[code]
	if ok {
		return name
	}
	if d.symbols != nil {
		name = d.symbols.Reason(code)
	}
	if name == "" {
		name = strconv.Itoa(int(code))
	}
	d.reasons[code] = name // at most 65,536: a cell has 16 bits
	return name
}

// longQdiscs completes names that are longer than the 8 bytes of a cell.
var longQdiscs = map[string]string{
	"pfifo_fa": "pfifo_fast",
	"pfifo_he": "pfifo_head_drop",
	"blackhol": "blackhole",
}

// qdisc reads the name of a qdisc from a cell, "" if there is none.
func (d *Decoder) qdisc(cell uint64) string {
	name, ok := d.qdiscs[cell]
	if ok {
		return name
	}
	var b []byte
	for c := cell; c&0xff > ' ' && c&0xff < 0x7f; c >>= 8 {
		b = append(b, byte(c))
	}
	name = string(b)
	if long, ok := longQdiscs[name]; ok {
		name = long
	}
	if len(d.qdiscs) < maxNames {
		d.qdiscs[cell] = name
	}
	return name
}
