// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/record"
)

var portNames = map[int]string{11: "e0", 21: "e0", 22: "e1", 31: "e0", 32: "e1", 41: "e0"}

// record makes the records that radar must: one for a packet, or one for each
// segment of a train that another attached node saw cut.
func (w *world) record(at int64, ip []byte, steps []step, o opts) {
	pieces := [][]byte{ip}
	if o.cutAt > 0 {
		for i, s := range steps[:o.stop+1] {
			if i >= o.cutAt && !s.out && w.domain[s.node] {
				pieces = segment(ip, o.segs)
			}
		}
	}
	for k, b := range pieces {
		p, _ := decode(b)
		r := record.Record{
			V: record.Version, ID: fmt.Sprintf("t-%d", len(w.records)), Source: "ebpf",
			Src: p.Src.String(), Dst: p.Dst.String(), Proto: protoName(p.Proto),
			Sport: known(p.Sport), Dport: known(p.Dport),
			ICMPType: known(p.ICMPType), ICMPID: known(p.ICMPID), ICMPSeq: known(p.ICMPSeq),
			Segs: 1, Len: p.Len, DSCP: int(p.TOS >> 2), ECN: int(p.TOS & 3), IPID: int(p.ID), Loss: o.loss,
		}
		if p.fragment() {
			off := int(p.Frag&maskOffset) * 8
			r.FragOff = &off
		}
		if len(pieces) == 1 && o.segs > 1 {
			r.Segs = o.segs
			r.Len += (o.segs - 1) * (p.hdrLen + p.l4Len)
		}
		fillTCP(&r, p)
		w.hops(&r, at, int(p.TTL), int64(k)*100, steps, o)
		if len(r.Hops) > 0 {
			w.records = append(w.records, r)
		}
	}
}

// fillTCP sets what a record says of a TCP header.
func fillTCP(r *record.Record, p *Packet) {
	if !p.isTCP() {
		return
	}
	h := p.ip[p.hdrLen:]
	payload, flags := r.Len-r.Segs*(p.hdrLen+p.l4Len), int(h[13])
	r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = known(int(binary.BigEndian.Uint32(h[4:]))), &flags, known(int(binary.BigEndian.Uint16(h[14:]))), &payload
	if flags&tcpACK != 0 {
		r.TCPAck = known(int(binary.BigEndian.Uint32(h[8:])))
	}
}

func known(v int) *int {
	if v < 0 {
		return nil
	}
	return &v
}

// hops fills in the path, the times and the end.
func (w *world) hops(r *record.Record, at int64, ttl int, late int64, steps []step, o opts) {
	var stamps []int64
	lastOut := int64(0)
	for i, s := range steps[:o.stop+1] {
		if i > 0 {
			at += elapsed(s)
		}
		if i > 0 && s.out && len(stamps) == 0 {
			ttl--
		}
		if !w.domain[s.node] {
			continue
		}
		now := at
		if o.cutAt > 0 && i >= o.cutAt {
			now += late
		}
		if len(stamps) == 0 {
			r.TNs, r.TTL = at, ttl
		}
		stamps = append(stamps, now)
		n := len(r.Hops) - 1
		if s.out && n >= 0 && r.Hops[n].Node == s.node {
			r.Hops[n].Port = portNames[s.port]
			r.Hops[n].NodeNs = ns(now - stamps[len(stamps)-2])
			lastOut = now
			if s.port == queuePort { // behind it is a queue, which captures see from behind
				r.Hops[n].NodeNs, r.Hops[n].QueueNs = ns(0), r.Hops[n].NodeNs
				stamps[len(stamps)-1] = stamps[len(stamps)-2]
			} else {
				r.Hops[n].AtNs = ns(now - r.TNs)
			}
			continue
		}
		h := record.Hop{Node: s.node, AtNs: ns(now - r.TNs)}
		if s.out {
			h.Port, lastOut = portNames[s.port], now
		} else {
			h.InPort = portNames[s.port]
			if lastOut > 0 {
				h.LinkNs = ns(now - lastOut)
			}
		}
		r.Hops = append(r.Hops, h)
	}
	w.end(r, stamps, steps, o)
}

func (w *world) end(r *record.Record, stamps []int64, steps []step, o opts) {
	if len(stamps) > 1 {
		r.LatencyNs = ns(stamps[len(stamps)-1] - stamps[0])
	}
	last := steps[o.stop]
	switch {
	case o.state != "":
		r.State = o.state
	case w.domain[last.node] && !last.out:
		r.State = record.Delivered
	default:
		r.State = record.Left
	}
	if r.State == record.Lost && o.loss != nil {
		l, h := *o.loss, &r.Hops[len(r.Hops)-1]
		l.AtNs, r.Loss = ns(*h.AtNs), &l
		if l.At == record.AtQueue {
			h.Port, h.NodeNs = l.Port, ns(0)
		}
	}
}

func ns(v int64) *int64 { return &v }

// newWorld makes traffic of every kind: UDP, pings there and back, a TCP
// connection with trains and duplicate acknowledgements, fragments, losses.
func newWorld(t *testing.T, domain ...string) *world {
	w := &world{
		domain: NewDomain(domain...),
		wire:   map[string][]shot{}, hooks: map[string][]shot{},
		sockets: map[string][]shot{}, sent: map[string][]shot{},
		drops: []Drop{
			{
				Name: "nft r1", Node: "r1", At: record.AtNode, Reasons: []string{"NETFILTER_DROP"}, Kernel: 5,
				Match: func(p *Packet) bool { return p.Dport == dropPort },
			},
			{Name: "tbf r2", Node: "r2", Port: "e1", At: record.AtQueue, Reasons: []string{"QDISC_DROP"}, Kernel: 5, Skbs: true},
		},
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	w.udp(t, rnd)
	w.udpTrains(t, rnd)
	w.pings(t)
	w.tcp(t, rnd)
	w.fragments(t, rnd)
	w.errors(t)
	for node := range w.wire { // only the end points have raw sockets
		if node == "r1" || node == "r2" {
			delete(w.sockets, node)
		}
	}
	return w
}

func body(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// udp: 40 packets, every 8th dropped by nft in r1, every 8th by tbf in r2.
func (w *world) udp(t *testing.T, rnd *rand.Rand) {
	inner := w.domain["r1"]
	for i := range 40 {
		at := start + int64(i)*1e5
		u := &layers.UDP{SrcPort: 4000, DstPort: 5000}
		o := opts{}
		switch i % 8 {
		case 3:
			u.DstPort, o.stop = dropPort, 1
			o.state, o.loss = record.Lost, &record.Loss{Node: "r1", Port: "e0", At: record.AtNode, Reason: "NETFILTER_DROP"}
		case 5:
			o.stop, o.state = 3, record.Lost
			o.loss = &record.Loss{Node: "r2", Port: "e1", At: record.AtQueue, Reason: "QDISC_DROP"}
		}
		if !inner {
			o.state, o.loss = "", nil
		}
		ip := layers.IPv4{Id: uint16(i*977 + 5), TTL: uint8(70 + i), TOS: uint8(i * 4), Flags: layers.IPv4DontFragment}
		b := buildPacket(t, ip, u, body(rnd, 20+i*30))
		w.sent["h1"] = append(w.sent["h1"], shot{at: at - 2, ip: clone(b)})
		w.send(at, b, o)
	}
	if inner {
		w.summary = []Losses{{"r1", "e0", record.AtNode, "NETFILTER_DROP", 5, 5}, {"r2", "e1", record.AtQueue, "QDISC_DROP", 5, 5}}
	}
}

// udpTrains: three trains of four datagrams that r2's queue cuts.
func (w *world) udpTrains(t *testing.T, rnd *rand.Rand) {
	for i := range 3 {
		ip := layers.IPv4{Id: uint16(65534 + i), TTL: 64, Flags: layers.IPv4DontFragment}
		u := &layers.UDP{SrcPort: 4004, DstPort: trainPort}
		w.send(start+7e6+int64(i)*1e5, buildPacket(t, ip, u, body(rnd, 3*trainSize+200)), opts{segs: 4, cutAt: 4})
	}
}

func (w *world) pings(t *testing.T) {
	back := layers.IPv4{SrcIP: addr2.AsSlice(), DstIP: addr1.AsSlice()}
	for i := range 10 {
		at := start + 5e6 + int64(i)*1e5
		echo := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 77, Seq: uint16(i)}
		w.send(at, buildPacket(t, layers.IPv4{Id: uint16(i + 9), Flags: layers.IPv4DontFragment}, echo, make([]byte, 56)), opts{})
		reply := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(0, 0), Id: 77, Seq: uint16(i)}
		back.Id = uint16(500 + i)
		w.send(at+3e4, buildPacket(t, back, reply, make([]byte, 56)), opts{back: true})
	}
}

// tcp: a handshake, ten trains that r2's queue cuts, three equal
// acknowledgements after each.
func (w *world) tcp(t *testing.T, rnd *rand.Rand) {
	options := []layers.TCPOption{{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{1460 >> 8, 1460 & 255}}, stamps(1)}
	forth := layers.IPv4{Flags: layers.IPv4DontFragment}
	back := layers.IPv4{Flags: layers.IPv4DontFragment, SrcIP: addr2.AsSlice(), DstIP: addr1.AsSlice()}
	syn := &layers.TCP{SrcPort: 3333, DstPort: 5201, SYN: true, Seq: 1, Window: 65535, Options: options}
	w.send(start+8e6, buildPacket(t, forth, syn, nil), opts{})
	synAck := &layers.TCP{SrcPort: 5201, DstPort: 3333, SYN: true, ACK: true, Seq: 9, Ack: 2, Window: 65535, Options: options}
	w.send(start+8e6+5e4, buildPacket(t, back, synAck, nil), opts{back: true})
	forth.Id, back.Id = 65530, 100
	seq := uint32(2)
	for i := range 10 {
		at := start + 9e6 + int64(i)*1e6
		n := 4*mss + 300
		data := &layers.TCP{SrcPort: 3333, DstPort: 5201, ACK: true, PSH: true, Seq: seq, Ack: 10, Window: 500, Options: []layers.TCPOption{stamps(uint32(i))}}
		w.send(at, buildPacket(t, forth, data, body(rnd, n)), opts{segs: 5, cutAt: 4})
		forth.Id += 5
		seq += uint32(n)
		ack := &layers.TCP{SrcPort: 5201, DstPort: 3333, ACK: true, Seq: 10, Ack: seq, Window: 900, Options: []layers.TCPOption{stamps(uint32(i))}}
		for k := range 3 {
			w.send(at+1e5+int64(k)*1500, buildPacket(t, back, ack, nil), opts{back: true})
			back.Id++
		}
	}
}

func stamps(v uint32) layers.TCPOption {
	return layers.TCPOption{OptionType: layers.TCPOptionKindTimestamps, OptionLength: 10, OptionData: binary.BigEndian.AppendUint64(nil, uint64(v))}
}

// fragments: two datagrams of two fragments; hooks of the sender and sockets
// of the receiver see them whole.
func (w *world) fragments(t *testing.T, rnd *rand.Rand) {
	for i := range 2 {
		at := start + 30e6 + int64(i)*1e5
		whole := buildPacket(t, layers.IPv4{Id: uint16(i + 7000)}, &layers.UDP{SrcPort: 4001, DstPort: 5001}, body(rnd, 2000))
		const first = 1480
		a, b := clone(whole[:20+first]), append(clone(whole[:20]), whole[20+first:]...)
		for k, f := range [][]byte{a, b} {
			binary.BigEndian.PutUint16(f[2:], uint16(len(f)))
			binary.BigEndian.PutUint16(f[6:], []uint16{flagMF, first / 8}[k])
			fixSum(f)
		}
		hooks, sockets := len(w.hooks["h1"]), len(w.sockets["h2"])
		w.send(at, a, opts{})
		w.send(at+2e4, b, opts{})
		setTTL(whole, 64)
		w.hooks["h1"] = append(w.hooks["h1"][:hooks], shot{at: at - 1, out: true, ip: clone(whole)})
		setTTL(whole, 62)
		w.sockets["h2"] = append(w.sockets["h2"][:sockets], shot{at: at + 4e4, ip: clone(whole)})
	}
}

// errors: h2 refuses a packet and quotes it.
func (w *world) errors(t *testing.T) {
	b := buildPacket(t, layers.IPv4{Id: 4242, TTL: 90, Flags: layers.IPv4DontFragment}, &layers.UDP{SrcPort: 4002, DstPort: 1}, []byte("refused"))
	w.send(start+40e6, clone(b), opts{})
	setTTL(b, 88)
	refusal := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 3)}
	back := layers.IPv4{Id: 17, SrcIP: addr2.AsSlice(), DstIP: addr1.AsSlice()}
	w.send(start+40e6+1e5, buildPacket(t, back, refusal, b), opts{back: true})
}
