// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// account is what scripts have left behind: each packet behind every hook, the slots but for
// their times, and the counters.
type account struct {
	frames   []frame
	slots    []*slot
	counters map[bpfobj.TcRdrCounter]uint64
}

// account lets a script run. full: without the fast path.
func (d *domain) account(script []byte, full bool) account {
	d.Helper()
	in := *d
	in.full = full
	before := in.counters()
	w := walk{domain: &in, script: script, leased: true}
	for w.step() {
	}
	w.finish()
	a := account{frames: w.frames, counters: in.counters()}
	for which, n := range before {
		a.counters[which] -= n
	}
	for index := range in.layout.Slots {
		a.slots = append(a.slots, in.slot(index).timeless())
	}
	w.clean()
	return a
}

// timeless is the slot without its times. (Of data cells it leaves out what would be one.)
func (s *slot) timeless() *slot {
	const nsBits = 1<<40 - 1
	binary.NativeEndian.PutUint64(s.raw[8:], 0)
	for at := 40; at < len(s.raw); at += 8 {
		if at >= 64 && at < afterHead {
			continue // named fields
		}
		cell := s.raw[at:]
		binary.NativeEndian.PutUint64(cell, binary.NativeEndian.Uint64(cell)&^nsBits)
	}
	return s
}

// Behind every hook a packet is the same, and so are slots and counters in the end, whether the
// fast path was there or the programs that do everything did all.
func TestFastPathWritesTheSame(t *testing.T) {
	for i, c := range []config{{}, {guid: "22"}, {guid: "paper"}, {watch: "ip[8] > 60 and len > 60"}} {
		t.Run(cmp.Or(c.guid, c.watch), func(t *testing.T) {
			c.slots, c.block = 64, 16
			d := newDomain(t, c)
			for number := range uint64(600) {
				if number%60 == 0 {
					d.fastNodes(number / 60)
				}
				d.sameAccounts(makeScript(rand.New(rand.NewPCG(uint64(i), number)))[1:])
				if t.Failed() {
					t.Fatalf("script %d", number)
				}
			}
		})
	}
}

// sameAccounts fails unless a script leaves the same with the fast path and without it.
func (d *domain) sameAccounts(script []byte) {
	d.Helper()
	fast, full := d.account(script, false), d.account(script, true)
	if len(fast.frames) != len(full.frames) {
		d.Errorf("%d and %d hooks", len(fast.frames), len(full.frames))
		return
	}
	for i, f := range fast.frames {
		if g := full.frames[i]; f.mark != g.mark || !bytes.Equal(f.data, g.data) {
			d.Errorf("hook %d: fast %x mark %#x, full %x mark %#x", i, f.data, f.mark, g.data, g.mark)
		}
	}
	for i, s := range fast.slots {
		if !bytes.Equal(s.raw, full.slots[i].raw) {
			d.Errorf("slot %d:\nfast %x\nfull %x", i, s.raw, full.slots[i].raw)
		}
	}
	for which, n := range fast.counters {
		if full.counters[which] != n {
			d.Errorf("%s is %d, without the fast path %d", counterName(which), n, full.counters[which])
		}
	}
}

// The common packets pass all hooks by the fast path: the other programs are not there.
func TestFastPathIsTaken(t *testing.T) {
	d := newDomain(t, config{})
	for which, name := range program.Jumps {
		if !slices.Contains([]string{bpfobj.TcProgRadarIngress, bpfobj.TcProgRadarEgress}, name) {
			if err := d.Maps[bpfobj.TcMapProgs].Delete(uint32(which)); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.fastNodes(0)
	for _, name := range []string{"tcp-data", "tcp-ack", "udp-64", "udp-8", "udp-1472", "icmp-echo", "train-tcp", "train-udp"} {
		t.Run(name, func(t *testing.T) {
			d := d.in(t)
			f := frame{data: packet(d, name)}
			if isTrain(name) {
				f = loadTrain(d, name).whole
			}
			wire := d.send(f)
			index := d.guid(wire.data)
			_, out := d.transit(wire, 2)
			d.deliver(out, 0)
			want := fmt.Sprintf("out@%d/FS in@%d/F out@%d/F deliver@%d/F", h1Out, r1In, r1Out, h2In)
			if s := d.slot(index); s.story() != want || bpfobj.TcRdrState(s.State) != stDone {
				t.Errorf("%s, state %d; want %s", s.story(), s.State, want)
			}
		})
	}
}

// odd are slots and packets that are not as the fast path expects them, by what is odd.
var odd = map[string]func(d *domain, s *slot, f *frame){
	"nothing":         func(*domain, *slot, *frame) {},
	"done":            func(_ *domain, s *slot, _ *frame) { s.State |= uint8(stDone) },
	"lost":            func(_ *domain, s *slot, _ *frame) { s.State |= uint8(stLost | stDone) },
	"keyed":           func(_ *domain, s *slot, _ *frame) { s.State |= uint8(stKeyed) },
	"full":            func(_ *domain, s *slot, _ *frame) { s.State |= uint8(stFull) },
	"tree":            func(_ *domain, s *slot, _ *frame) { s.State |= uint8(stGroup) },
	"IPv6":            func(_ *domain, s *slot, _ *frame) { s.State |= uint8(stIPv6) },
	"dropped here":    func(_ *domain, s *slot, _ *frame) { s.State |= uint8(bpfobj.TcRdrStateRDR_ST_LOCAL_DROP) },
	"held":            func(_ *domain, s *slot, _ *frame) { s.State |= uint8(bpfobj.TcRdrStateRDR_ST_HELD) },
	"own bits":        func(_ *domain, s *slot, _ *frame) { s.Cut |= uint8(bpfobj.TcRdrCutRDR_OWN) },
	"copies":          func(_ *domain, s *slot, _ *frame) { s.Cut |= uint8(bpfobj.TcRdrCutRDR_COPIES) },
	"minus zero":      func(_ *domain, s *slot, _ *frame) { s.Cut |= uint8(bpfobj.TcRdrCutRDR_MINUS_ZERO) },
	"old":             func(_ *domain, s *slot, _ *frame) { s.T0Ns -= uint64(2 * usualTimeout) },
	"other position":  func(_ *domain, s *slot, _ *frame) { s.Pos = 0 },
	"other protocol":  func(_ *domain, s *slot, _ *frame) { s.Proto++ },
	"other content":   func(_ *domain, s *slot, _ *frame) { s.Tag++ },
	"other content 2": func(_ *domain, s *slot, _ *frame) { s.Tag2++ },
	"other length":    func(_ *domain, s *slot, _ *frame) { s.Len++ },
	"a train's head":  func(_ *domain, s *slot, _ *frame) { s.Segs++ },
	"other addresses": func(_ *domain, s *slot, _ *frame) { s.FlowHash++ },
	"other TTL":       func(_ *domain, s *slot, _ *frame) { s.Ttl = 2 },
	"no TTL left": func(d *domain, s *slot, f *frame) {
		s.Ttl = 2
		for range 3 {
			decrement(d, f.data)
		}
	},
	"other ID":         func(_ *domain, s *slot, _ *frame) { s.Id++ },
	"no event":         func(_ *domain, s *slot, _ *frame) { s.Nev = 0 },
	"a full log":       func(d *domain, s *slot, _ *frame) { fillLog(d, s, 0) },
	"a short log":      func(d *domain, s *slot, _ *frame) { fillLog(d, s, 4) },
	"a log that fits":  func(d *domain, s *slot, _ *frame) { fillLog(d, s, 5) },
	"seen elsewhere":   func(_ *domain, s *slot, _ *frame) { setPort(s, h3In) },
	"a node's mark":    func(_ *domain, _ *slot, f *frame) { f.mark |= 1 },
	"another's mark":   func(d *domain, _ *slot, f *frame) { f.mark ^= 2 << d.layout.MarkShift },
	"no mark":          func(_ *domain, _ *slot, f *frame) { f.mark = 0 },
	"DF clear":         func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+6] &^= 0x40; fixSum(f.data, etherHeader) },
	"a fragment":       func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+6] |= 0x20; fixSum(f.data, etherHeader) },
	"a TTL of 1":       func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+8] = 1; fixSum(f.data, etherHeader) },
	"a low TTL":        func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+8] = 5; fixSum(f.data, etherHeader) },
	"CE":               func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+1] |= 3; fixSum(f.data, etherHeader) },
	"a spelled sum":    func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+10], f.data[etherHeader+11] = 0xff, 0xff },
	"a frame to all":   func(_ *domain, _ *slot, f *frame) { f.data[0] |= 1 },
	"an address of D":  func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+16] = 224; fixSum(f.data, etherHeader) },
	"a short frame":    func(_ *domain, _ *slot, f *frame) { f.data = f.data[:etherHeader+20] },
	"an odd length":    func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+2] = 0xff },
	"an option":        func(_ *domain, _ *slot, f *frame) { f.data[etherHeader] = 0x46 },
	"another protocol": func(_ *domain, _ *slot, f *frame) { f.data[etherHeader+9] = 132; fixSum(f.data, etherHeader) },
}

// fillLog leaves so many cells of a slot's log free.
func fillLog(d *domain, s *slot, free int) {
	for k := int(s.Nev); k < int(d.layout.Cells)-free; k++ {
		copy(s.raw[cellAt(k):], s.raw[cellAt(int(s.Nev)-1):][:8])
	}
	s.Nev = uint8(int(d.layout.Cells) - free)
}

// setPort changes where the slot's packet was last seen.
func setPort(s *slot, port int) {
	if s.Nev > 0 && s.Nev <= 3 {
		binary.NativeEndian.PutUint16(s.raw[cellAt(int(s.Nev)-1)+5:], uint16(port))
		_ = binary.Read(bytes.NewReader(s.raw), binary.NativeEndian, &s.TcRdrSlot)
	}
}

// What is odd makes no difference between the fast path and the programs that do everything, at
// no hook: either the fast path leaves the packet to them, or it does as they would.
func TestFastPathAndOddities(t *testing.T) {
	d := newDomain(t, config{})
	for _, packet := range []string{"tcp-data", "udp-64", "icmp-echo", "train-tcp"} {
		for name, change := range odd {
			for stage := range 4 {
				t.Run(fmt.Sprintf("%s/%s/%d", packet, name, stage), func(t *testing.T) {
					d := d.in(t)
					fast, fastSlot, fastCounts := d.oddAt(packet, stage, change, false)
					full, fullSlot, fullCounts := d.oddAt(packet, stage, change, true)
					if fast.mark != full.mark || !bytes.Equal(fast.data, full.data) {
						t.Errorf("fast %x mark %#x\nfull %x mark %#x", fast.data, fast.mark, full.data, full.mark)
					}
					if !bytes.Equal(fastSlot.raw, fullSlot.raw) {
						t.Errorf("slot\nfast %x %s\nfull %x %s", fastSlot.raw, fastSlot.story(), fullSlot.raw, fullSlot.story())
					}
					for which, n := range fastCounts {
						if fullCounts[which] != n {
							t.Errorf("%s is %d, without the fast path %d", counterName(which), n, fullCounts[which])
						}
					}
				})
			}
		}
	}
}

// oddAt sends a packet on its way, changes it and its slot before the hook with that number, and
// returns what was there behind that hook.
func (d *domain) oddAt(name string, stage int, change func(*domain, *slot, *frame), full bool) (frame, *slot, map[bpfobj.TcRdrCounter]uint64) {
	d.Helper()
	d.reset()
	d.fastNodes(0)
	in := *d
	in.full = full
	f := frame{data: packet(d, name)}
	if isTrain(name) {
		f = loadTrain(d, name).whole
	}
	s := d.slot(0)
	hooks := []func(){
		func() { f = in.send(f) },
		func() { f = in.ingress(r1In, f) },
		func() { f = in.egress(r1Out, f) },
		func() { f = in.ingress(h2In, f) },
	}
	for i, hook := range hooks[:stage+1] {
		if i == 1 || i == 3 {
			f = in.link(f, 0)
		} else if i == 2 {
			f = in.route(f, r1In)
		}
		if i == stage {
			f.data = bytes.Clone(f.data)
			change(d, s, &f)
			d.write(s)
			d.last = nil
			if !runnable(f.data) {
				break
			}
		}
		hook()
		if i == 0 && stage > 0 {
			s = d.slot(d.guid(f.data))
		}
		s = d.slot(s.index)
	}
	return f, s.timeless(), in.counters()
}
