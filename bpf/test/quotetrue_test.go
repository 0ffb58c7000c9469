// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// whereQuoted are places at which an error is met that quotes the bits of a packet of h1's, and what
// became of that packet before. In some they can be our bits; in the others a true header spells them
// by chance.
var whereQuoted = []struct {
	name, carry string
	before      func(d *domain, w frame)            // what becomes of the slot's packet, on the wire as w
	meet        func(d *domain, data []byte) []byte // the error
	ours        bool
}{
	{"comes by an edge", "mark", nil, meetAt(r1Edge), false},
	{"comes by an edge to a node that carries the header", "header", nil, meetAt(r1Edge), false},
	{"comes by a bridge's member", "mark", nil, meetAt(member), false},
	{"came by an edge, and goes on", "mark", nil, leaveBy(closed, r1Edge), false},
	{"came by an edge, and goes on, carrying the header", "header", enterR1, leaveBy(r1Out, r1Edge), false},
	{"comes by a link on which it is", "mark", nil, meetAt(r1In), true},
	{"comes by a link on which it was lost", "mark", loseOnLink, meetAt(r1In), true},
	{"comes by the link by which it left", "mark", nil, meetAt(h1Out), true},
	{"comes by a link, and it has arrived", "mark", deliverAt(h2In), meetAt(r1In), false},
	{"comes by a link to which it was not sent", "mark", sendElsewhere, meetAt(r1In), false},
	{"comes by a link by which it came", "mark", enterR1, meetAt(r1In), false},
	{"made in a node in which it is, and that carries the header", "header", enterR1, leaveBy(closed, 0), true},
	{"made in a node in which it is, and that carries the mark", "mark", enterR1, leaveBy(closed, 0), false},
	{"made in a node that it has left", "header", passR1, leaveBy(r1In, 0), false},
	{"made in a node to which it was delivered", "header", deliverAt(h2In), leaveBy(h2Out, 0), false},
	{"made in a node whose tunnel it has left by", "mark", nil, leaveBy(h1Out, 0), true},
	{"leaves a bridge on which it is", "mark", nil, leaveBy(member, 99), true},
	{"leaves a bridge from which it has come", "mark", deliverAt(h2In), leaveBy(member, 99), false},
}

func meetAt(port uint32) func(*domain, []byte) []byte {
	return func(d *domain, data []byte) []byte { return d.ingress(port, frame{data: data}).data }
}

func leaveBy(port, from uint32) func(*domain, []byte) []byte {
	return func(d *domain, data []byte) []byte {
		f := frame{data: data, from: from}
		if from == r1Edge {
			f.from = ifindex(r1Edge)
		}
		return d.egress(port, f).data
	}
}

func deliverAt(port uint32) func(*domain, frame) {
	return func(d *domain, w frame) { d.ingress(port, d.link(w, 0)) }
}

func enterR1(d *domain, w frame) { d.ingress(r1In, d.link(w, 0)) }

// passR1 carries it through r1 to h2.
func passR1(d *domain, w frame) {
	_, out := d.transit(w, 0)
	d.deliver(out, 0)
}

// sendElsewhere says that what h1 sends goes to h2.
func sendElsewhere(d *domain, _ frame) { d.sentTo(nodeH2) }

// loseOnLink is what the program at kfree_skb writes of a packet that is dropped by a router that is
// not attached.
func loseOnLink(d *domain, w frame) {
	s := d.slot(d.guid(w.data))
	s.State |= uint8(stDone | stLost)
	s.Ev0[1] = uint64(bpfobj.TcRdrEventRDR_EV_LOSS)<<60 | 0xffff<<40
	s.Nev += 3
	d.write(s)
}

// TestQuoteByChance: an error that quotes a packet whose own bits spell a slot of its flow is left
// alone, unless it comes from where that slot's packet is.
func TestQuoteByChance(t *testing.T) {
	for _, name := range []string{"udp-64", "tcp-data", "six-udp-64"} {
		for _, c := range whereQuoted {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				d := newDomain(t, config{carry: c.carry})
				orig := packet(t, name)
				w := d.send(frame{data: orig})
				bad := errorOf(t, w.data, 28, 0)
				want := bad
				if c.ours {
					want = errorOf(t, orig, 28, 0)
				}
				if c.before != nil {
					c.before(d, w)
				}
				d.last = d.counters()
				got := c.meet(d, bad)
				// The error itself may be a packet that is sourced here.
				same(t, "the quote", got[quotedAt(t, got):], want[quotedAt(t, want):])
				if n := d.moved()[cQuote]; n > 1 || n == 1 != c.ours {
					t.Errorf("%d quotes restored", n)
				}
			})
		}
	}
}

// quotedAt is where the header begins that an error quotes.
func quotedAt(t testing.TB, data []byte) int {
	if header(t, data).v6() {
		return quote6At
	}
	return quoteAt
}

// TestQuoteOfRedirected: a router that is not attached tells of a better route (ICMP Redirect), and
// passes the packet on: it may have been seen behind the router before the error comes back.
func TestQuoteOfRedirected(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	enterR1(d, w)
	for _, redirect := range []bool{false, true} {
		bad, want := errorOf(t, w.data, 28, 0), errorOf(t, orig, 28, 0)
		for _, data := range [][]byte{bad, want} {
			data[etherHeader+20] = 3
			if redirect {
				data[etherHeader+20] = 5
			}
		}
		if !redirect {
			want = bad
		}
		same(t, "at h1", d.ingress(h1Out, frame{data: bad}).data, want)
	}
}
