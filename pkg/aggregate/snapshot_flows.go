// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"math"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

func (a *Aggregates) encodeFlows(e *encoder) {
	e.uints(uint64(len(a.flows)))
	number := uint32(0)
	for _, f := range a.flows {
		number++
		f.number = number
		e.boundary()
		chunk, from := uint16(len(e.done)), uint32(len(e.b))
		if f.same {
			e.b = append(e.b, a.written[f.chunk][f.from:f.to]...)
		} else {
			f.encode(e)
			a.encodeWaiting(e, f)
		}
		f.same, f.chunk, f.from, f.to = true, chunk, from, uint32(len(e.b))
	}
}

func (f *flow) encode(e *encoder) {
	k, o := &f.key, &f.order
	k.encode(e)
	encodeTuple(e, f.nat, k.ipv6)
	e.uints(f.packets, f.bytes, f.delivered, f.left, f.lost, f.expired, f.ignored, f.localDrops, f.otherPaths,
		f.first, f.last-f.first)
	f.times.encode(e)
	e.uints(uint64(len(f.paths)))
	for _, p := range f.paths {
		e.uints(uint64(p.id), p.packets)
	}
	e.uints(o.arrivals)
	if o.arrivals > 0 {
		e.uints(o.reordered, o.steps, math.Float64bits(o.jitter),
			o.lastAt-f.first, o.lastSent-f.first, o.maxSent-f.first)
	}
}

func (k *FlowKey) encode(e *encoder) {
	e.b = append(e.b, version(k.ipv6), k.proto, byte(k.kind), k.icmp)
	e.addr(k.src, k.ipv6)
	e.addr(k.dst, k.ipv6)
	e.uints(uint64(k.sport), uint64(k.dport))
}

func version(ipv6 bool) byte {
	if ipv6 {
		return 6
	}
	return 4
}

// addr writes as many bytes as an address of that version has.
func (e *encoder) addr(a packet.Addr, ipv6 bool) {
	if !ipv6 {
		e.b = append(e.b, a[12:]...)
		return
	}
	e.b = append(e.b, a[:]...)
}

// encodeTuple writes one byte if there is none.
func encodeTuple(e *encoder, t packet.Tuple, ipv6 bool) {
	if t == (packet.Tuple{}) {
		e.b = append(e.b, 0)
		return
	}
	e.b = append(e.b, 1)
	e.addr(t.Src, ipv6)
	e.addr(t.Dst, ipv6)
	e.uints(uint64(t.SrcPort), uint64(t.DstPort))
}

func (a *Aggregates) encodeWaiting(e *encoder, f *flow) {
	n := uint64(0)
	for i := f.head; i >= 0; i = a.waiting[i].next {
		n++
	}
	e.uints(n)
	for i := f.head; i >= 0; i = a.waiting[i].next {
		w := a.waiting[i]
		e.uints(w.at-f.first, w.sent-f.first, uint64(w.n))
	}
}

// flows reads all flows, in order of their numbers.
func (d *decoder) flows(a *Aggregates) []*flow {
	n := d.count(30)
	list := make([]*flow, 0, n)
	for range n {
		f := d.flow()
		list = append(list, f)
		a.flows[f.key] = f
		a.buckets += len(f.times.buckets)
		for range d.count(3) {
			x := arrival{at: f.first + d.uint(), sent: f.first + d.uint(), n: uint32(d.uint())}
			if len(a.waiting) < maxWaiting {
				a.wait(f, x)
			}
		}
	}
	return list
}

func (d *decoder) flow() *flow {
	f := &flow{head: -1, tail: -1}
	o := &f.order
	f.key = d.key()
	f.nat = d.tuple(f.key.ipv6)
	var lasted uint64
	d.uints(&f.packets, &f.bytes, &f.delivered, &f.left, &f.lost, &f.expired, &f.ignored, &f.localDrops, &f.otherPaths,
		&f.first, &lasted)
	f.last = f.first + lasted
	f.times = d.flowLatency()
	f.paths = make([]pathUse, d.count(2))
	for i := range f.paths {
		f.paths[i] = pathUse{uint32(d.below(MaxPaths)), d.uint()}
	}
	if o.arrivals = d.uint(); o.arrivals == 0 {
		return f
	}
	var jitter, at, sent, most uint64
	d.uints(&o.reordered, &o.steps, &jitter, &at, &sent, &most)
	o.jitter = math.Float64frombits(jitter)
	o.lastAt, o.lastSent, o.maxSent = f.first+at, f.first+sent, f.first+most
	return f
}

func (d *decoder) key() (k FlowKey) {
	var fixed [4]byte
	d.bytes(fixed[:])
	k.ipv6, k.proto, k.kind, k.icmp = fixed[0] == version(true), fixed[1], flowKind(fixed[2]), fixed[3]
	k.src, k.dst = d.addr(k.ipv6), d.addr(k.ipv6)
	k.sport, k.dport = uint16(d.uint()), uint16(d.uint())
	return k
}

func (d *decoder) tuple(ipv6 bool) (t packet.Tuple) {
	var there [1]byte
	if d.bytes(there[:]); there[0] == 0 {
		return t
	}
	t.Src, t.Dst = d.addr(ipv6), d.addr(ipv6)
	t.SrcPort, t.DstPort = uint16(d.uint()), uint16(d.uint())
	return t
}

func (d *decoder) addr(ipv6 bool) packet.Addr {
	if ipv6 {
		var a packet.Addr
		d.bytes(a[:])
		return a
	}
	var a [4]byte
	d.bytes(a[:])
	return packet.AddrFrom4(a)
}

// bytes fills to.
func (d *decoder) bytes(to []byte) {
	if len(d.b) < len(to) {
		d.b, d.bad = nil, true
		return
	}
	d.b = d.b[copy(to, d.b):]
}

func encodeTallies(e *encoder, table map[place]*tally) {
	e.uints(uint64(len(table)))
	for k, t := range table {
		e.boundary()
		e.uints(uint64(k.Node), uint64(k.Port))
		for _, s := range []string{string(k.At), k.Reason, k.Qdisc, k.Function} {
			e.text(s)
		}
		e.uints(t.packets, t.skbs, t.bytes, t.overFlows)
		t.when.encode(e)
		e.uints(uint64(len(t.flows)))
		for f, h := range t.flows {
			e.boundary()
			e.uints(uint64(f.number), h.packets, h.bytes)
			encodeTuple(e, h.there, f.key.ipv6)
		}
	}
}

func (d *decoder) tallies(a *Aggregates, table map[place]*tally, flows []*flow) {
	for range d.count(20) {
		k := place{Node: uint16(d.uint()), Port: uint16(d.uint()), At: record.At(d.text()),
			Reason: d.text(), Qdisc: d.text(), Function: d.text()}
		t := &tally{flows: make(map[*flow]hit)}
		d.uints(&t.packets, &t.skbs, &t.bytes, &t.overFlows)
		t.when = d.meter(&a.seconds)
		for range d.count(4) {
			number := d.below(uint64(len(flows)) + 1)
			if number == 0 {
				d.bad = true
				return
			}
			h := hit{d.uint(), d.uint(), d.tuple(flows[number-1].key.ipv6)}
			t.flows[flows[number-1]] = h
			a.hits++
		}
		table[k] = t
	}
}
