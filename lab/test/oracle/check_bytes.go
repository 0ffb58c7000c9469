// SPDX-License-Identifier: Apache-2.0

package oracle

import "fmt"

// CheckCaptures makes sure that the captures can be relied on: somebody sent every
// packet, every header checksum is right on every wire, and hooks, sockets and
// senders know no packet that the wires do not.
func (t *Truth) CheckCaptures(d Domain) *Row {
	row := &Row{Check: "captures hold together", Compared: t.caps.checked}
	for _, s := range t.caps.badSums {
		row.bad("%s", s)
	}
	for _, path := range t.paths {
		if f := path.first(); !f.place.out {
			row.bad("%s: entered %s, but nobody sent it", describe(path), f.place.ref())
		}
	}
	_, strays := t.datagrams(d)
	for _, pkt := range strays {
		row.bad("%s: seen by a %s of %s, on no wire", pkt.Packet, pkt.place.kind, pkt.place.node)
	}
	row.Note = fmt.Sprintf("%d packets seen %d times", len(t.paths), t.caps.checked)
	return row
}

func (k kind) String() string {
	return [...]string{wire: "wire", hook: "hook", socket: "socket", sent: "sender"}[k]
}

// CheckOutside compares every packet on every wire outside the domain with the
// packet as it was sent: all bytes, and the TTL less the routers on the path.
func (t *Truth) CheckOutside(d Domain) *Row {
	row := &Row{Check: "bytes outside the domain", MayBeEmpty: true}
	unknown := 0
	for _, path := range t.paths {
		o := t.origin(path, d)
		for i, pkt := range path.wire {
			if pkt == o || !d.outside(t.topo, pkt.place) {
				continue
			}
			if o == nil {
				unknown++
				continue
			}
			row.Compared++
			if s := difference(o, pkt, path.forwards(i)); s != "" {
				row.bad("%s at %s: %s", describe(path), pkt.place.ref(), s)
			}
		}
	}
	if unknown > 0 {
		row.Note = fmt.Sprintf("%d more were sent inside, where only their content can be compared", unknown)
	}
	return row
}

// CheckInside compares what the stack of every node saw, at prerouting and at
// output, with the packet as it was sent. The hooks log headers only.
func (t *Truth) CheckInside(d Domain) *Row {
	row := &Row{Check: "headers inside nodes"}
	for _, path := range t.paths {
		o := t.origin(path, d)
		if o == nil || o.fragment() {
			continue
		}
		passed := 0
		for _, h := range path.hops() {
			if pkt := path.hooks[h.node]; t.caps.hooks[h.node] && pkt != o {
				row.Compared++
				if pkt == nil {
					row.bad("%s: the hook of %s did not see it", describe(path), h.node)
				} else if s := difference(o, pkt, passed); s != "" {
					row.bad("%s in %s: %s", describe(path), h.node, s)
				}
			}
			if h.in != nil {
				passed++
			}
		}
	}
	return row
}

// CheckSockets compares what processes received with the packet as it was sent, or
// with the datagram that was sent in fragments.
func (t *Truth) CheckSockets(d Domain) *Row {
	row := &Row{Check: "bytes at sockets"}
	for _, path := range t.paths {
		last, o := path.last(), t.origin(path, d)
		// Sockets of IPv6 do not get the header.
		if !t.ends(last) || last.fragment() || last.isIPv6() || !t.caps.sockets[last.place.node][last.Proto] {
			continue
		}
		row.Compared++
		switch {
		case path.socket == nil:
			row.bad("%s: the socket of %s did not get it", describe(path), last.place.node)
		case o == nil:
			row.bad("%s: nobody saw it as it was sent", describe(path))
		default:
			if s := difference(o, path.socket, path.forwards(len(path.wire)-1)); s != "" {
				row.bad("%s at the socket of %s: %s", describe(path), last.place.node, s)
			}
		}
	}
	whole, _ := t.datagrams(d)
	for _, g := range whole {
		row.Compared++
		if s := difference(g.sent, g.seen, g.forwards); s != "" {
			row.bad("datagram %s at %s: %s", g.sent.Packet, g.seen.place.node, s)
		}
	}
	return row
}

// ends reports whether the packet has reached its destination.
func (t *Truth) ends(pkt *packet) bool {
	return !pkt.place.out && t.topo.owns(pkt.place.node, pkt.Dst)
}
