// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/vnetradar/radar/pkg/record"
)

// Endpoint is an address and a port.
type Endpoint struct {
	Addr string
	Port int
}

// Flow is a connection: a protocol with ports, and its two ends. Src is the one that is asked about as the sender.
type Flow struct {
	Proto    string
	Src, Dst Endpoint
}

// reverse is the other direction.
func (f Flow) reverse() Flow { return Flow{f.Proto, f.Dst, f.Src} }

// flowOf is the flow of a record as its source saw it. False: it shows no ports, or no header.
func flowOf(r *record.Record) (Flow, bool) {
	if r.Src == "" || r.Sport == nil || r.Dport == nil {
		return Flow{}, false
	}
	return Flow{r.Proto, Endpoint{r.Src, *r.Sport}, Endpoint{r.Dst, *r.Dport}}, true
}

// tuples calls fn for the flow of a record as its source saw it, and as each node left it that changed it (NAT).
func tuples(r *record.Record, fn func(Flow)) bool {
	f, ok := flowOf(r)
	if !ok {
		return false
	}
	fn(f)
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.Src == "" && h.Dst == "" && h.Sport == nil && h.Dport == nil {
			continue
		}
		if h.Src != "" {
			f.Src.Addr = h.Src
		}
		if h.Dst != "" {
			f.Dst.Addr = h.Dst
		}
		if h.Sport != nil {
			f.Src.Port = *h.Sport
		}
		if h.Dport != nil {
			f.Dst.Port = *h.Dport
		}
		fn(f)
	}
	return true
}

// maxNames is how many names a flow can have on its way. NAT of NAT takes six.
const maxNames = 64

// members knows which records are of a flow, and of which direction. Where a node translates addresses, it learns the
// other names from the packets that have both.
type members struct {
	names map[Flow]direction
}

func newMembers(f Flow) *members {
	return &members{map[Flow]direction{f: forth, f.reverse(): back}}
}

// of says whether a record is of the flow.
func (m *members) of(r *record.Record) (dir direction, ok bool) {
	changed := 0
	if !tuples(r, func(f Flow) {
		changed++
		if d, known := m.names[f]; known && !ok {
			dir, ok = d, true
		}
	}) {
		return dir, false
	}
	if !ok || changed == 1 {
		return dir, ok
	}
	tuples(r, func(f Flow) {
		for _, name := range []struct {
			of  Flow
			dir direction
		}{{f, dir}, {f.reverse(), 1 - dir}} {
			if _, known := m.names[name.of]; !known && len(m.names) < maxNames {
				m.names[name.of] = name.dir
			}
		}
	})
	return dir, true
}

// Untranslated is a packet that passed a node as it was, though that translates the addresses of its flow: the other end
// does not know it, and answers with a reset.
type Untranslated struct {
	Node    string `json:"node"` // that did not translate
	At      string `json:"at"`   // the node where it arrived
	Src     string `json:"src"`  // as it arrived, ADDRESS:PORT
	Packets uint64 `json:"packets"`
	dir     direction
}

// translates notes which node changes addresses of a direction, and the packets that it does not change.
func (c *conn) translates(r *record.Record, dir direction) {
	for i := range r.Hops {
		if h := &r.Hops[i]; h.Src != "" || h.Dst != "" || h.Sport != nil || h.Dport != nil {
			c.translators[dir] = h.Node
			return
		}
	}
	node := c.translators[dir]
	if node == "" || r.State != record.Delivered || r.Truncated || !slices.ContainsFunc(r.Hops, func(h record.Hop) bool { return h.Node == node && h.Port != "" }) {
		return
	}
	if c.untranslated == nil {
		c.untranslated = &Untranslated{Node: node, At: r.Hops[len(r.Hops)-1].Node, Src: Endpoint{r.Src, *r.Sport}.text(), dir: dir}
	}
	c.untranslated.Packets += uint64(max(r.Segs, 1))
}

// piece notes a later fragment of the flow's datagrams, which has no ports: of two flows between the same ends it may be
// the other's.
func (a *Analyzer) piece(r *record.Record) {
	if r.FragOff == nil || *r.FragOff == 0 || r.Proto != a.flow.Proto || r.Sport != nil {
		return
	}
	for name, dir := range a.members.names {
		if name.Src.Addr != r.Src || name.Dst.Addr != r.Dst {
			continue
		}
		p := newSent(r, dir)
		p.payload = p.size
		h := &a.conn.halves[dir]
		if h.pieces += uint64(p.segs); p.fate == lost {
			h.lostPieces += uint64(p.segs)
			h.pieceLosses.add(p)
			a.conn.queues.lose(r, dir)
		}
		return
	}
}

// ICMP reports whether a record is an error that a node sent to an end of the flow.
func (m *members) icmp(r *record.Record) bool {
	if r.ICMPType == nil || (r.Proto != "icmp" || *r.ICMPType != 3) && (r.Proto != "icmpv6" || *r.ICMPType != 1 && *r.ICMPType != 2) {
		return false
	}
	for f := range m.names {
		if r.Dst == f.Src.Addr {
			return true
		}
	}
	return false
}

// Candidate is a flow that could be meant, both directions together.
type Candidate struct {
	Flow
	Packets, Bytes uint64
	FirstNs        int64 // Unix time
}

// Text is "10.0.1.1:4000-10.0.4.2:5201".
func (f Flow) Text() string { return f.Src.text() + "-" + f.Dst.text() }

func (e Endpoint) text() string { return net.JoinHostPort(e.Addr, strconv.Itoa(e.Port)) }

// maxCandidates is how many flows are told apart.
const maxCandidates = 20_000

// Candidates finds the flows that records are of.
type Candidates struct {
	Full uint64 // packets of small flows that made room for others
	all  map[Flow]*Candidate
	back map[Flow]Flow // from names of the other direction
}

// Add counts a record of TCP or UDP, others it leaves out.
func (c *Candidates) Add(r *record.Record) {
	first, ok := flowOf(r)
	if !ok || r.Proto != "tcp" && r.Proto != "udp" {
		return
	}
	if c.all == nil {
		c.all, c.back = make(map[Flow]*Candidate), make(map[Flow]Flow)
	}
	one := c.all[first]
	if one == nil {
		one = c.all[c.back[first]]
	}
	if one == nil {
		if len(c.all) == maxCandidates {
			c.evict()
		}
		one = &Candidate{Flow: first, FirstNs: r.TNs}
		c.all[first] = one
	}
	if len(c.back) < 4*maxCandidates && one.Flow == first {
		tuples(r, func(f Flow) { c.back[f.reverse()] = first })
	}
	one.Packets += uint64(r.Segs)
	one.Bytes += uint64(r.Len)
}

// evict makes room: the flow with most bytes may be one that has just begun. It takes off half of them at once, since it
// sorts all.
func (c *Candidates) evict() {
	list := c.List()
	for i := range list[maxCandidates/2:] {
		one := &list[maxCandidates/2+i]
		c.Full += one.Packets
		delete(c.all, one.Flow)
	}
	maps.DeleteFunc(c.back, func(_, of Flow) bool { return c.all[of] == nil })
}

// List returns them, those with most bytes first.
func (c *Candidates) List() (list []Candidate) {
	for _, one := range c.all {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.FirstNs, y.FirstNs),
			cmp.Compare(x.Src.Addr, y.Src.Addr), cmp.Compare(x.Src.Port, y.Src.Port), cmp.Compare(x.Dst.Port, y.Dst.Port))
	})
	return list
}
