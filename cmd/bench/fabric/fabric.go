// SPDX-License-Identifier: Apache-2.0

// Package fabric makes a recording as that of a data centre: leaves and spines, many flows, losses in queues.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// The network of a recording that is made: hosts at leaves, and spines between these.
const (
	leaves      = 4
	spines      = 4
	hostsOfLeaf = 8
	hosts       = leaves * hostsOfLeaf
	portsOfNode = 16 // numbers
	uplink      = hostsOfLeaf
	lossPeriod  = 200 // one packet in so many is lost
	madeNoise   = 1 << 16
)

// Flows is how many there are.
const Flows = 20_000

// madeBegin is when the first packet of the recording was sent.
var madeBegin = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

// network names the nodes and ports of the network.
type network struct{}

func (network) NodeName(n uint16) string {
	switch {
	case n < hosts:
		return fmt.Sprintf("h%d", n+1)
	case n < hosts+leaves:
		return fmt.Sprintf("leaf%d", n-hosts+1)
	}
	return fmt.Sprintf("spine%d", n-hosts-leaves+1)
}

func (network) PortName(p uint16) string {
	if p == packet.NoPort {
		return ""
	}
	return fmt.Sprintf("eth%d", p%portsOfNode)
}

func (network) PortNode(p uint16) uint16 { return p / portsOfNode }
func (network) WallOffset() int64        { return 0 }
func (network) Host() string             { return "bench" }

// madeFlow is a flow of the recording.
type madeFlow struct {
	tuple    packet.Tuple
	hops     []packet.Hop // without times
	seq, ack uint32
	id       uint16
	tcp      bool
}

// madeTraffic makes packets as those of a data centre: many flows, of which few have most packets, over one or
// three switches, with noise in every time, queues that every second packet waits in, and losses in queues.
type madeTraffic struct {
	*rand.Rand
	flows []madeFlow
	which *rand.Zipf
	noise []float64 // around 1, most near and few far, as that of measured times
	now   int64     // ns
	p     segments.Packet
}

func newMadeTraffic(flows int) *madeTraffic {
	t := &madeTraffic{Rand: rand.New(rand.NewPCG(1, 2)), now: madeBegin.UnixNano()}
	t.which = rand.NewZipf(t.Rand, 1.1, 10, uint64(flows-1))
	for range madeNoise {
		t.noise = append(t.noise, math.Exp(t.NormFloat64()*0.25))
	}
	for i := range flows {
		t.flows = append(t.flows, t.newFlow(i))
	}
	t.p.Source = record.EBPF
	return t
}

// newFlow makes a flow between two hosts.
func (t *madeTraffic) newFlow(i int) madeFlow {
	from, to := t.IntN(hosts), t.IntN(hosts-1)
	if to >= from {
		to++
	}
	address := func(host int) packet.Addr {
		return packet.AddrFrom4([4]byte{10, byte(host / hostsOfLeaf), byte(host % hostsOfLeaf), 2})
	}
	f := madeFlow{tcp: i%3 != 0, seq: t.Uint32(), ack: t.Uint32(), id: uint16(t.Uint32())}
	f.tuple = packet.Tuple{Src: address(from), Dst: address(to), SrcPort: uint16(10_000 + i%50_000), DstPort: 443}
	hop := func(node, in, out int) {
		h := packet.Hop{Node: uint16(node), In: packet.NoPort, Out: packet.NoPort}
		if in >= 0 {
			h.In = uint16(node*portsOfNode + in)
		}
		if out >= 0 {
			h.Out = uint16(node*portsOfNode + out)
		}
		f.hops = append(f.hops, h)
	}
	a, b, spine := from/hostsOfLeaf, to/hostsOfLeaf, t.IntN(spines)
	hop(from, -1, 0)
	if a == b {
		hop(hosts+a, from%hostsOfLeaf, to%hostsOfLeaf)
	} else {
		hop(hosts+a, from%hostsOfLeaf, uplink+spine)
		hop(hosts+leaves+spine, a, b)
		hop(hosts+b, uplink+spine, to%hostsOfLeaf)
	}
	hop(to, 0, -1)
	return f
}

// about is a time around a typical one.
func (t *madeTraffic) about(ns float64) int64 {
	return int64(ns * t.noise[t.Uint32()%madeNoise])
}

// next makes a packet, valid until the next one.
func (t *madeTraffic) next() *segments.Packet {
	p, f := &t.p, &t.flows[t.which.Uint64()]
	hops := append(p.Hops[:0], f.hops...)
	pos := p.Pos + 1
	t.now += t.about(2000)
	f.id++
	p.Packet = packet.Packet{
		Pos: pos, T0: uint64(t.now), State: record.Delivered, Tuple: f.tuple, HasTuple: true, Proto: record.ProtoUDP, ID: f.id,
		TTL: 64, SentTTL: uint8(64 - len(f.hops) + 2), Segs: 1, Len: 200, FragOff: 1 << 14,
	}
	if f.tcp {
		p.Proto, p.HasTCP, p.Len = record.ProtoTCP, true, 1500
		p.TCP = packet.TCP{Seq: f.seq, Ack: f.ack, Flags: packet.TCPAck, Window: uint16(500 + pos%8), Payload: 1448}
		if f.seq += 1448; t.IntN(4) == 0 {
			f.ack += 100
		}
	}
	if t.IntN(lossPeriod) == 0 {
		hops = hops[:2+t.IntN(len(hops)-2)]
	}
	p.LatencyNs = t.stamp(hops)
	p.Hops, p.LastNs = hops, p.LatencyNs
	if len(hops) < len(f.hops) {
		last := &hops[len(hops)-1]
		p.State, p.Lost, p.LastNs = record.Lost, true, p.LatencyNs+t.about(500)
		p.Loss = packet.Drop{Node: last.Node, Port: last.Out, At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "fq_codel", Function: dropFunction, AtNs: p.LastNs, First: true}
	}
	return p
}

var dropFunction = packet.NamedFunction("__dev_queue_xmit")

// stamp gives times to hops, and returns the last one. The packet was freed behind the last hop if that has a port to
// leave by.
func (t *madeTraffic) stamp(hops []packet.Hop) (at int64) {
	for i := range hops {
		h := &hops[i]
		h.InNs, h.OutNs, h.DequeueNs = packet.NoTime, packet.NoTime, packet.NoTime
		if i > 0 {
			at += t.about(900)
			h.InNs = at
		}
		if h.Out == packet.NoPort {
			continue
		}
		if i > 0 {
			at += t.about(700)
		}
		h.OutNs = at
		if i > 0 && i < len(hops)-1 && t.Uint32()&1 == 0 {
			at += t.about(20_000)
			h.DequeueNs = at
		}
	}
	return at
}

// Record writes packets into a directory, as a recorder does.
func Record(ctx context.Context, dir string, packets int) error {
	w, err := segments.Create(dir, segments.Meta{Radar: "bench", Host: "bench", Domain: "fabric", Epoch: 0xbe7c, Slots: 1 << 20, Created: madeBegin}, segments.Options{MaxAge: time.Hour, Once: true})
	if err != nil {
		return err
	}
	t := newMadeTraffic(Flows)
	for n := range packets {
		for !w.HasRoom() {
			time.Sleep(time.Millisecond) // the other core is the writer's
		}
		if err = w.Add(t.next(), network{}); err != nil {
			break
		}
		if n%1024 == 0 && ctx.Err() != nil {
			err = ctx.Err()
			break
		}
	}
	err = errors.Join(err, w.Close())
	if s := w.Stats(); err == nil && (len(s.NotKept) > 0 || s.Kept != uint64(packets)) {
		err = fmt.Errorf("the recording is not whole: %+v", s)
	}
	return err
}
