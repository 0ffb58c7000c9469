// SPDX-License-Identifier: Apache-2.0

package oracle

import "fmt"

// CheckCaptures makes sure that the captures are fit to judge anything: every
// packet was sent by somebody, every header checksum is right on every wire,
// and hooks, sockets and senders know no packet that the wires do not.
func (t *Truth) CheckCaptures(d Domain) *Row {
	row := &Row{Check: "captures hold together", Compared: t.caps.checked}
	for _, s := range t.caps.badSums {
		row.bad("%s", s)
	}
	for _, j := range t.journeys {
		if f := j.first(); !f.place.out {
			row.bad("%s: entered %s, but nobody sent it", describe(j), f.place.ref())
		}
	}
	_, strays := t.datagrams(d)
	for _, u := range strays {
		row.bad("%s: seen by a %s of %s, on no wire", u.Packet, u.place.kind, u.place.node)
	}
	row.Note = fmt.Sprintf("%d packets seen %d times", len(t.journeys), t.caps.checked)
	return row
}

func (k kind) String() string {
	return [...]string{wire: "wire", hook: "hook", socket: "socket", sent: "sender"}[k]
}

// CheckOutside compares every packet on every wire outside the domain with the
// packet as it was sent: all bytes, the TTL lowered by the routers on the way.
func (t *Truth) CheckOutside(d Domain) *Row {
	row := &Row{Check: "bytes outside the domain", MayBeEmpty: true}
	unknown := 0
	for _, j := range t.journeys {
		o := t.origin(j, d)
		for i, u := range j.wire {
			if u == o || !d.outside(t.topo, u.place) {
				continue
			}
			if o == nil {
				unknown++
				continue
			}
			row.Compared++
			if s := difference(o, u, j.forwards(i)); s != "" {
				row.bad("%s at %s: %s", describe(j), u.place.ref(), s)
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
	for _, j := range t.journeys {
		o := t.origin(j, d)
		if o == nil || o.fragment() {
			continue
		}
		passed := 0
		for _, v := range j.visits() {
			if u := j.hooks[v.node]; t.caps.hooks[v.node] && u != o {
				row.Compared++
				if u == nil {
					row.bad("%s: the hook of %s did not see it", describe(j), v.node)
				} else if s := difference(o, u, passed); s != "" {
					row.bad("%s in %s: %s", describe(j), v.node, s)
				}
			}
			if v.in != nil {
				passed++
			}
		}
	}
	return row
}

// CheckSockets compares what processes received with the packet as it was sent;
// fragments with the datagram that they make up.
func (t *Truth) CheckSockets(d Domain) *Row {
	row := &Row{Check: "bytes at sockets"}
	for _, j := range t.journeys {
		last, o := j.last(), t.origin(j, d)
		// Sockets of IPv6 do not get the header.
		if !t.ends(last) || last.fragment() || last.isIPv6() || !t.caps.sockets[last.place.node][last.Proto] {
			continue
		}
		row.Compared++
		switch {
		case j.socket == nil:
			row.bad("%s: the socket of %s did not get it", describe(j), last.place.node)
		case o == nil:
			row.bad("%s: nobody saw it as it was sent", describe(j))
		default:
			if s := difference(o, j.socket, j.forwards(len(j.wire)-1)); s != "" {
				row.bad("%s at the socket of %s: %s", describe(j), last.place.node, s)
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

// ends says whether a packet seen there has reached its destination.
func (t *Truth) ends(u *unit) bool {
	return !u.place.out && t.topo.owns(u.place.node, u.Dst)
}
