// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// traffic makes typical packets: some flows of TCP and UDP over three or four nodes, half a million a
// second, with noise in every time and a queue that some wait in.
type traffic struct {
	*rand.Rand
	now   uint64
	pos   uint64
	flows []benchFlow
	p     Packet
}

type benchFlow struct {
	tuple    packet.Tuple
	tcp      bool
	hops     int
	seq, ack uint32
	id       uint16
}

func newTraffic(flows int) *traffic {
	t := &traffic{Rand: rand.New(rand.NewPCG(1, 2)), now: 1e12}
	for i := range flows {
		f := benchFlow{tcp: i%3 != 0, hops: 3 + i%2, seq: t.Uint32(), ack: t.Uint32(), id: uint16(t.Uint32())}
		f.tuple = packet.Tuple{
			Src: packet.AddrFrom4([4]byte{10, 0, byte(i % 8), 2}), Dst: packet.AddrFrom4([4]byte{10, 1, byte(i % 16), 2}),
			SrcPort: uint16(32768 + i), DstPort: 443,
		}
		t.flows = append(t.flows, f)
	}
	t.p.Source = record.EBPF
	return t
}

// noise is a time around a typical one, as measured ones are: most near, few far.
func (t *traffic) noise(typical float64) int64 {
	return int64(typical * math.Exp(t.NormFloat64()*0.25))
}

// next makes a packet, valid until the next one.
func (t *traffic) next() *Packet {
	p := &t.p
	f := &t.flows[t.IntN(len(t.flows))]
	hops := p.Hops[:0]
	p.Packet = packet.Packet{State: record.Delivered, HasTuple: true, Proto: record.ProtoUDP, TTL: 64, Segs: 1, FragOff: 1 << 14}
	t.now += uint64(t.noise(2000))
	t.pos++
	p.Pos, p.T0, p.Tuple = t.pos, t.now, f.tuple
	f.id++
	p.Packet.ID, p.SentTTL = f.id, uint8(64-f.hops+2)
	p.Len = 128
	if f.tcp {
		p.Proto, p.HasTCP = record.ProtoTCP, true
		p.TCP = packet.TCP{Seq: f.seq, Ack: f.ack, Flags: packet.TCPAck, Window: uint16(500 + t.IntN(8)), Payload: 1448}
		p.Len, f.seq = 1500, f.seq+1448
		if t.IntN(4) == 0 {
			f.ack += 100
		}
	}
	at := int64(0)
	for i := range f.hops {
		h := packet.Hop{Node: uint16(i), In: packet.NoPort, Out: packet.NoPort, InNs: packet.NoTime, OutNs: packet.NoTime, DequeueNs: packet.NoTime}
		if i > 0 {
			at += t.noise(900)
			h.In, h.InNs = uint16(2*i), at
		}
		if i < f.hops-1 {
			if i > 0 {
				at += t.noise(700)
			}
			h.Out, h.OutNs = uint16(2*i+1), at
			if i == 1 && t.IntN(2) == 0 {
				at += t.noise(20_000)
				h.DequeueNs = at
			}
		}
		hops = append(hops, h)
	}
	p.Hops, p.LatencyNs, p.LastNs = hops, at, at
	return p
}

// made are packets of so many flows, made before a benchmark runs.
func made(n, flows int) []*Packet {
	t := newTraffic(flows)
	all := make([]*Packet, n)
	for i := range all {
		all[i] = clone(t.next())
	}
	return all
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func diskBytes(b *testing.B, dir string) (sum int64) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.parquet"))
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			b.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// BenchmarkWrite writes typical packets, and those of so many flows that a row group has some two packets of each.
// records/cpu-s counts all CPU time of the process, that of the kernel and of memory management as well.
func BenchmarkWrite(b *testing.B) {
	for _, flows := range []int{64, 30_000} {
		b.Run(fmt.Sprintf("flows=%d", flows), func(b *testing.B) { benchmarkWrite(b, flows) })
	}
}

func benchmarkWrite(b *testing.B, flows int) {
	packets, of := made(1<<18, flows), &testScope{offset: base}
	runtime.GC()
	dir := b.TempDir()
	w, err := Create(dir, testMeta(), Options{MaxAge: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	begin, n := cpuTime(), 0
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range packets {
			for !w.HasRoom() {
				runtime.Gosched()
			}
			if err := w.Add(p, of); err != nil {
				b.Fatal(err)
			}
		}
		n += len(packets)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	cpu := cpuTime() - begin
	if s := w.Stats(); len(s.NotKept) > 0 {
		b.Fatal(s)
	}
	b.ReportMetric(float64(n)/cpu.Seconds(), "records/cpu-s")
	b.ReportMetric(float64(diskBytes(b, dir))/float64(n), "B/record")
}

// BenchmarkRead reads them again.
func BenchmarkRead(b *testing.B) {
	of, dir := &testScope{offset: base}, b.TempDir()
	w, err := Create(dir, testMeta(), Options{MaxAge: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	packets := made(1<<17, 64)
	for _, p := range packets {
		if err := w.Add(p, of); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	begin, n := cpuTime(), 0
	b.ReportAllocs()
	for b.Loop() {
		d, err := Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Read(context.Background(), time.Time{}, time.Time{}, func(*Packet) error { n++; return nil }); err != nil {
			b.Fatal(err)
		}
		d.Close()
	}
	b.ReportMetric(float64(n)/(cpuTime()-begin).Seconds(), "records/cpu-s")
}
