// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// patience is for how long a packet that left the attached nodes is awaited at another of their edges, ns.
const patience = int64(1e9)

// abroad are packets of a flow that have left the attached nodes and may come back to them: nodes between, which are
// not attached, make two records of one packet. Each is kept for as long as it is awaited.
type abroad struct {
	used   bool // any has left
	forgot bool // there was no room for all
	exact  map[abroadKey][]*sent
	trains []*sent // that may come back in parts
	order  []*sent // all, as they left
}

// abroadKey is what both records of a packet have in common.
type abroadKey struct {
	dir             direction
	seq, end, ack   int64
	flags, size, id int
}

func keyOf(p *sent) abroadKey {
	key := abroadKey{dir: p.dir, seq: p.seq, end: p.seq + p.bytes(), ack: p.ack, flags: p.flags, size: p.size}
	if p.ipv4 {
		key.id = p.ipID
	}
	return key
}

// mostAbroad is how many are awaited at a time.
const mostAbroad = 1 << 15

// mostTrains is how many trains are awaited at a time whose parts come back: each part is compared with all of them.
const mostTrains = 1024

// add awaits a packet that has left. It is called before sequence numbers are unwrapped.
func (b *abroad) add(p *sent, key abroadKey) {
	b.used = true
	if b.exact == nil {
		b.exact = make(map[abroadKey][]*sent)
	}
	b.order = append(b.order, p)
	list := awaited(b.exact[key], p.at)
	if len(list) > 0 && !p.tcp {
		p.alike = true
		for i := len(list) - 1; i >= 0 && !list[i].alike; i-- {
			list[i].alike = true
		}
	}
	b.exact[key] = append(list, p)
	if p.segs > 1 && p.tcp {
		b.addTrain(p)
	}
	for len(b.order) > mostAbroad || p.at-b.order[0].at > patience {
		if first := b.order[0]; p.at-first.at <= patience {
			first.forgot = true
			b.forgot = b.forgot || first.joined == 0
		}
		b.order[0] = nil
		b.order = b.order[1:]
	}
	if len(b.exact) > 2*len(b.order)+64 {
		b.clean(p.at)
	}
}

func (b *abroad) addTrain(p *sent) {
	for len(b.trains) > 0 && p.at-b.trains[0].at > patience {
		b.trains[0] = nil
		b.trains = b.trains[1:]
	}
	if len(b.trains) == mostTrains {
		b.trains = slices.DeleteFunc(b.trains, func(t *sent) bool { return t.joined >= t.segs })
		if room := mostTrains / 4; len(b.trains) > mostTrains-room { // at once: all are gone through
			b.trains, b.forgot = slices.Delete(b.trains, 0, room), true
		}
	}
	b.trains = append(b.trains, p)
}

// awaited is a list without those at its beginning that are awaited no more.
func awaited(list []*sent, now int64) []*sent {
	for len(list) > 0 && (list[0].forgot || now-list[0].at > patience) {
		list = list[1:]
	}
	return list
}

// clean forgets what is awaited no more.
func (b *abroad) clean(now int64) {
	for key, list := range b.exact {
		if list = awaited(list, now); len(list) == 0 {
			delete(b.exact, key)
		} else {
			b.exact[key] = list
		}
	}
}

// find returns the packet of which p is the rest of the way; nil: it is of none.
func (b *abroad) find(p *sent) *sent {
	if !p.outside || !b.used {
		return nil
	}
	key := keyOf(p)
	list := awaited(b.exact[key], p.at)
	if len(list) > 0 && list[0].at <= p.at {
		found := list[0]
		if b.exact[key] = list[1:]; len(list) == 1 {
			delete(b.exact, key)
		}
		return found
	}
	if !p.tcp || p.payload == 0 {
		return nil
	}
	for i := len(b.trains) - 1; i >= 0; i-- {
		t := b.trains[i]
		seq := t.seq
		if t.noted {
			seq = int64(uint32(t.seq))
		}
		from := int64(uint32(p.seq) - uint32(seq))
		sameID := !p.ipv4 || uint16(p.ipID-t.ipID) < uint16(t.segs)
		if t.dir == p.dir && sameID && t.at <= p.at && p.at-t.at <= patience && t.joined+p.segs <= t.segs && from+int64(p.payload) <= int64(t.payload) {
			return t
		}
	}
	return nil
}

// rejoin makes p, with its record, the rest of the way of whole.
func (a *Analyzer) rejoin(whole, p *sent, r *record.Record) {
	c := a.conn
	c.receive(r, p)
	c.last = max(c.last, p.at, p.arrival)
	if r.Truncated {
		c.incomplete++
	}
	c.queues.add(r, p.dir)
	h := &c.halves[p.dir]
	h.joins++
	if !whole.alike {
		h.slowest = max(h.slowest, p.at-whole.at)
	}
	if whole.noted {
		return // it came later than anyone waits
	}
	if whole.joined == 0 {
		from, to := whole.leftBy, place(r.Hops[0].Node, r.Hops[0].InPort)
		if ns := p.at - whole.arrival; whole.arrival >= 0 && ns >= 0 && !whole.alike {
			if gap := c.parts.get(partKey{p.dir, Gap, from, to}, func() string { return from + " > " + to }); gap != nil {
				whole.parts = append(whole.parts, partTime{gap, ns})
			}
		}
		whole.parts = append(whole.parts, c.parts.of(r, p.dir)...)
		whole.route = c.routes.then(whole.route, p.route)
	}
	whole.joined += p.segs
	whole.ce = whole.ce || p.ce
	if p.segs < whole.segs && (p.fate == lost || p.fate == dropped) { // one of a train
		whole.segs, whole.size, whole.payload = whole.segs-p.segs, whole.size-p.size, whole.payload-p.payload
		whole.joined -= p.segs
		p.at = whole.at
		a.push(event{at: p.at, of: p, conn: c})
		return
	}
	whole.fate, whole.loss, whole.pending = p.fate, p.loss, p.pending
	whole.leftBy = p.leftBy
	// Of datagrams that are alike it is known how many come back, not which: a lost one would make all later ones slow.
	if p.arrival < 0 || whole.alike {
		whole.arrival = -1
		return
	}
	whole.arrival = max(whole.arrival, p.arrival)
	a.push(event{at: whole.arrival, arrives: true, of: whole, conn: c})
}

// stayedAbroad decides on a packet that has left the attached nodes and was not seen again: where others come back, it was
// lost between. until is up to when records tell.
func (h *half) stayedAbroad(p *sent, until int64) {
	if p.leftBy == "" || p.fate != arrived || p.joined > 0 || h.joins == 0 {
		return
	}
	least := min(max(leastMissing, 3*h.slowest), patience)
	if p.alike {
		least = patience
	}
	if p.arrival = -1; until-p.at < least {
		p.fate = unknown
		return
	}
	node, port, _ := strings.Cut(p.leftBy, "/")
	p.fate, p.loss = lost, &record.Loss{Node: node, Port: port, At: record.AtLink, Reason: record.NotSeen}
}

// route is which nodes a packet has passed.
type route struct{ hops []string }

// routes are those of a connection, each once.
type routes struct{ all map[string]*route }

// maxRoutes is how many are told apart.
const maxRoutes = 256

// of returns the route of a record; nil: there was no room.
func (rs *routes) of(r *record.Record) *route {
	if len(r.Hops) == 0 {
		return nil
	}
	key := make([]byte, 0, 128)
	for i := range r.Hops {
		key = append(append(append(append(key, r.Hops[i].Node...), '/'), r.Hops[i].Port...), '\n')
	}
	return rs.get(key)
}

func (rs *routes) get(key []byte) *route {
	if one := rs.all[string(key)]; one != nil {
		return one
	}
	if rs.all == nil {
		rs.all = make(map[string]*route)
	}
	if len(rs.all) == maxRoutes {
		return nil
	}
	one := &route{strings.Split(strings.TrimSuffix(string(key), "\n"), "\n")}
	rs.all[string(key)] = one
	return one
}

// then is the route by way of both.
func (rs *routes) then(x, y *route) *route {
	if x == nil || y == nil {
		return nil
	}
	return rs.get([]byte(strings.Join(x.hops, "\n") + "\n" + strings.Join(y.hops, "\n") + "\n"))
}

// forks returns the node from which two routes go on by different ports; "": they are one, or not known.
func forks(x, y *route) string {
	if x == nil || y == nil || x == y {
		return ""
	}
	for i := range min(len(x.hops), len(y.hops)) {
		if x.hops[i] == y.hops[i] {
			continue
		}
		node, _, _ := strings.Cut(x.hops[i], "/")
		if other, _, _ := strings.Cut(y.hops[i], "/"); other == node {
			return node
		}
		if i == 0 {
			return ""
		}
		node, _, _ = strings.Cut(x.hops[i-1], "/")
		return node
	}
	return ""
}

// isMissing reports whether a packet that has not ended by now is taken for lost: it is under way for much longer than
// any before it.
func (a *Analyzer) isMissing(r *record.Record, dir direction) bool {
	return r.State == record.InFlight && a.Now > 0 && len(r.Hops) > 0 && a.Now-r.TNs > max(leastMissing, 3*a.slowest[dir])
}

// leastMissing is for how long a packet is under way at least that is taken for lost, ns. It is more than TCP's least
// timeout: what was lost has been sent again by then.
const leastMissing = int64(250e6)

// missing is where a packet that was not seen again must be: behind the port that it went out by, or in the node.
func missing(r *record.Record) *record.Loss {
	last := &r.Hops[len(r.Hops)-1]
	if last.Port != "" {
		return &record.Loss{Node: last.Node, Port: last.Port, At: record.AtLink, Reason: record.NotSeen}
	}
	return &record.Loss{Node: last.Node, Port: last.InPort, At: record.AtNode, Reason: record.NotSeen}
}
