// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

const ip6Key = int(bpfobj.TcRdrIp6RDR_IP6KEY)

// TestIPv6Off: switched off, IPv6 is counted and left alone.
func TestIPv6Off(t *testing.T) {
	d := newDomain(t, config{ip6: ip6Off})
	for _, name := range []string{"six-udp-64", "six-tcp-data", "ttl-2-six", "bad-six-length"} {
		orig := packet(t, name)
		same(t, name, d.egress(h1Out, frame{data: orig}).data, orig)
		d.counted(tally{cSeen: 1, cIPv6: 1})
		d.wantUntouched(orig, tally{cPassed: 1})
	}
	d.wantMarked(d.send(frame{data: packet(t, "tcp-data")}).data, packet(t, "tcp-data"))
}

// TestIPv6ByKey: where the flow label must stay, packets are followed without one changed
// bit; equal but for their content they have stories of their own.
func TestIPv6ByKey(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{ip6: ip6Key, carry: carry})
		for _, name := range append(named(false, "six-"), named(false, "fragment-six-")...) {
			t.Run(carry+"/"+name, func(t *testing.T) { testKeyed(d.in(t), name) })
		}
		t.Run(carry+"/together", func(t *testing.T) {
			d := d.in(t)
			one, other := packet(t, "six-tcp-data"), packet(t, "six-tcp-data")
			other[etherHeader+40+7]++ // the next sequence number
			first := uint32(d.nextPos()) & (d.layout.Slots - 1)
			w := []frame{d.send(frame{data: one}), d.send(frame{data: other})}
			d.counted(tally{cSeen: 2, cMarked: 2})
			for k := range w {
				d.deliver(w[1-k], 3)
			}
			for k := range w {
				d.wantStory(first+uint32(k), "out@0/FSK deliver@3/FK")
			}
		})
		t.Run(carry+"/train", func(t *testing.T) {
			d, tr := d.in(t), loadTrain(t, "train-six-tcp")
			first := uint32(d.nextPos()) & (d.layout.Slots - 1)
			w := d.send(tr.whole)
			same(t, "on the wire", w.data, tr.whole.data)
			for k, seg := range tr.cut(t, w) {
				same(t, fmt.Sprint("segment ", k), d.deliver(seg, k).data, lowered(t, tr.segments[k], k))
				want := "deliver@3/FPK"
				if k == 0 {
					want = "out@0/FSK " + want
				}
				d.wantStory(first+uint32(k), want)
			}
		})
	}
}

// TestIPv6FragmentAgain: a node puts fragments together (connection tracking) and cuts
// them again, with a new Identification: the key goes with it.
func TestIPv6FragmentAgain(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "fragment-six-first")
	index := uint32(d.nextPos()) & (d.layout.Slots - 1)
	routed := d.route(d.ingress(r1In, d.link(d.send(frame{data: orig}), 0)), r1In)
	routed.data[etherHeader+40+7] ^= 0x55
	want := bytes.Clone(routed.data)
	w := d.egress(r1Out, routed)
	same(t, "behind r1", w.data, want)
	same(t, "at h2", d.deliver(w, 0).data, want)
	d.wantStory(index, "out@0/FSK in@1/FK out@2/FK deliver@3/FK")
	if n := d.keyCount(); n != 0 {
		t.Errorf("%d keys left: %v", n, d.keyList())
	}
}

// TestIPv6FragmentID: all 32 bits of the Identification say which packet a fragment is of.
func TestIPv6FragmentID(t *testing.T) {
	d := newDomain(t, config{})
	for _, at := range []int{4, 7} {
		one, other := packet(t, "fragment-six-atomic"), packet(t, "fragment-six-atomic")
		other[etherHeader+40+at] ^= 1
		first := uint32(d.nextPos()) & (d.layout.Slots - 1)
		w := []frame{d.send(frame{data: one}), d.send(frame{data: other})}
		d.counted(tally{cSeen: 2, cMarked: 2})
		d.deliver(w[1], 0)
		d.wantStory(first, "out@0/FSK")
		d.wantStory(first+1, "out@0/FSK deliver@3/FK")
		d.deliver(w[0], 0)
	}
}

// TestIPv6Local: an address is a node's own only if all 16 bytes are, in that node.
func TestIPv6Local(t *testing.T) {
	d := newDomain(t, config{})
	for _, at := range []int{0, 7, 8, 15} {
		orig := packet(t, "six-udp-64")
		orig[etherHeader+24+at] ^= 0x10
		w := d.send(frame{data: orig})
		d.deliver(w, 0)
		d.wantStory(d.guid(w.data), "out@0/FS in@3/F")
	}
	w := d.send(frame{data: packet(t, "six-udp-64")})
	d.ingress(r1In, d.link(w, 0))
	d.wantStory(d.guid(w.data), "out@0/FS in@1/F")
}

// TestIPv6NAT: NAT66 in r1 is one story with both tuples, for lone packets, trains and
// their segments.
func TestIPv6NAT(t *testing.T) {
	d := newDomain(t, config{})
	translate := func(data []byte) {
		data[etherHeader+8+15] = 0x77 // source address
		data[etherHeader+24+3] = 0x88 // destination
		proto, l4 := l4Of(data, etherHeader)
		if proto == 6 || proto == 17 {
			binary.BigEndian.PutUint16(data[l4:], 33333)
		}
	}
	for _, name := range []string{"six-tcp-data", "six-udp-64", "six-icmp-echo", "six-chain", "train-six-tcp"} {
		t.Run(name, func(t *testing.T) {
			d := d.in(t)
			f := frame{data: packet(t, name)}
			if strings.HasPrefix(name, "train-") {
				f = loadTrain(t, name).whole
			}
			w := d.send(f)
			routed := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
			translate(routed.data)
			want := bytes.Clone(routed.data)
			out := d.egress(r1Out, routed)
			d.wantMarked(out.data, want)
			index := d.guid(out.data)
			d.wantStory(index, "out@0/FS in@1/F addr6@2/F out@2/F")
			s := d.slot(index)
			// Cells 3 to 7 follow the head of the log and its fields.
			if got := s.raw[afterHead : afterHead+32]; !bytes.Equal(got, want[etherHeader+8:etherHeader+40]) {
				t.Errorf("addresses behind NAT: %x, packet %x", got, want[etherHeader+8:etherHeader+40])
			}
			_, l4 := l4Of(want, etherHeader)
			if proto := s.Proto; proto == 6 || proto == 17 {
				if got := s.raw[afterHead+32 : afterHead+36]; !bytes.Equal(got, want[l4:l4+4]) {
					t.Errorf("ports behind NAT: %x, packet %x", got, want[l4:l4+4])
				}
			}
			same(t, "next", d.ingress(h3In, d.link(out, 0)).data, want)
		})
	}
	t.Run("cut before", func(t *testing.T) {
		d, tr := d.in(t), loadTrain(t, "train-six-udp")
		w := d.send(tr.whole)
		for k, seg := range tr.cut(t, w) {
			routed := d.route(d.ingress(r1In, d.link(seg, 0)), r1In)
			translate(routed.data)
			want := bytes.Clone(routed.data)
			d.wantMarked(d.egress(r1Out, routed).data, want)
			story := "in@1/FP addr6@2/FP out@2/FP"
			if k == 0 {
				story = "out@0/FS " + story
			}
			d.wantStory(d.guid(w.data)+uint32(k), story)
		}
	})
}

// TestIPv6EventsFull: the last four cells hold the addresses, however many events come; the four
// before them are for the packet's end.
func TestIPv6EventsFull(t *testing.T) {
	for _, bytesOf := range []uint32{128, 192} {
		d := newDomain(t, config{slotBytes: bytesOf})
		orig := packet(t, "six-udp-64")
		w := d.send(frame{data: orig})
		index, cells := d.guid(w.data), 5+8*(int(bytesOf)/64-2)
		room := max(cells-4-4, 1)
		for n := 1; n < 2*cells; n++ {
			d.ingress(r1In, d.link(w, 0))
			if s := d.slot(index); int(s.Nev) != min(n+1, room) {
				t.Fatalf("%d events after %d sightings in a slot of %d cells", s.Nev, n+1, cells)
			}
		}
		s := d.slot(index)
		d.wantAddressCells(s, orig)
		if s.State&uint8(stFull) == 0 {
			t.Errorf("state %#x of a full slot", s.State)
		}
		d.counted(tally{cSeen: 1, cMarked: 1, cEventFull: uint64(2*cells - 1 - (room - 1))})
	}
}

// wantAddressCells compares the last four cells, wherever they lie.
func (d *domain) wantAddressCells(s *slot, orig []byte) {
	d.Helper()
	var got []byte
	for k := int(d.layout.Cells) - 4; k < int(d.layout.Cells); k++ {
		at := cellAt(k)
		got = append(got, s.raw[at:at+8]...)
	}
	if at := ipAt(orig); !bytes.Equal(got, orig[at+8:at+40]) {
		d.Errorf("slot: addresses %x, packet %x", got, orig[at+8:at+40])
	}
}

// TestIPv6TrainAlike: datagrams that begin alike cannot be told apart once a queue has
// cut their train: it is not measured, and nothing is left of the attempt.
func TestIPv6TrainAlike(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range []string{"train-six-alike", "train-six-alike-turns", "train-six-alike-again"} {
		t.Run(name, func(t *testing.T) {
			d, tr := d.in(t), loadTrain(t, name)
			pos, n := d.nextPos(), uint64(len(tr.segments))
			same(t, "on the wire", d.send(tr.whole).data, tr.whole.data)
			d.counted(tally{cSeen: n, cSegs: n})
			for k := range n {
				if s := d.slot(uint32(pos+k) & (d.layout.Slots - 1)); s.Pos != 0 {
					t.Errorf("slot of datagram %d is in use: position %d", k, s.Pos)
				}
			}
			one := tr.segments[0]
			same(t, "alone", d.deliver(d.send(frame{data: one}), 0).data, one)
			d.counted(tally{cSeen: 1, cMarked: 1})
		})
	}
}

// TestIPv6TrainLong: a long train of datagrams that all differ, of some also what the
// source's quick look at them takes.
func TestIPv6TrainLong(t *testing.T) {
	d := newDomain(t, config{block: 256, slots: 1024})
	const n, size = 128, 16
	data := packet(t, "train-six-udp-16")
	data = data[:len(data)-len(payloadOf(data))]
	for k := range uint64(n) {
		data = binary.BigEndian.AppendUint64(data, k)
		data = binary.BigEndian.AppendUint64(data, 0)
	}
	setLength(data)
	w := d.send(frame{data: data, segs: n, size: size})
	d.wantMarked(w.data, data)
	d.counted(tally{cSeen: n, cMarked: n})
}

// TestBigTCP: trains of more than 64 KiB say no length, or say it in an option that
// their segments do not have.
func TestBigTCP(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range []string{"big-six", "big-six-option"} {
		t.Run(name, func(t *testing.T) {
			d := d.in(t)
			tr := trainOf{name: name, whole: frame{data: packet(t, name), size: 100},
				segments: [][]byte{packet(t, "big-six.0"), packet(t, "big-six.1")}}
			w := d.send(tr.whole)
			d.counted(tally{cSeen: 2, cMarked: 2})
			d.wantMarked(w.data, tr.whole.data)
			for k, seg := range tr.cut(t, w) {
				same(t, fmt.Sprint("segment ", k), d.deliver(seg, 1).data, lowered(t, tr.segments[k], 1))
			}
			d.wantSlots(tr, d.guid(w.data))
			d.counted(tally{cSeen: 2, cMarked: 2}) // the segments alone
		})
	}
}

// TestIPv6Raw: an interface without Ethernet header.
func TestIPv6Raw(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "raw-six")
	out := d.egress(r1Raw, frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	h, want := ipHeader(out.data[:40]), bytes.Clone(orig)
	index, _, ok := d.decodeGUID(h)
	if !ok {
		t.Fatalf("no GUID in %x", h)
	}
	ipHeader(want[:40]).set(h.id(), h.ttl(), h.tos())
	if !bytes.Equal(out.data, want) {
		t.Errorf("on the wire %x, want %x", out.data[:48], want[:48])
	}
	in := d.ingress(r1Raw, frame{data: out.data})
	if !bytes.Equal(in.data, orig) {
		t.Errorf("restored %x, want %x", in.data[:48], orig[:48])
	}
	d.wantStory(index, "out@6/FS in@6/F")
}

// checksumComplete is BPF_F_TEST_SKB_CHECKSUM_COMPLETE (Linux 6.16): the kernel sums the
// packet up as a device does, and compares afterwards.
const checksumComplete = 1 << 2

// TestChecksumComplete: what a device has summed up of a packet is right behind every
// hook, also where a quote is restored.
func TestChecksumComplete(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range append(named(false, "six-"), "tcp-data", "six-vlan") {
		if name == "six-vlan" || name == "six-vlan-2" {
			continue // test_run looks for the IP header behind Ethernet's
		}
		t.Run(name, func(t *testing.T) {
			d, orig := d.in(t), packet(t, name)
			w := d.complete(bpfobj.TcProgRadarEgress, h1Out, orig)
			d.wantMarked(w, orig)
			same(t, "at h2", d.complete(bpfobj.TcProgRadarIngress, h2In, w), orig)
		})
	}
	orig := packet(t, "six-udp-64")
	w := d.link(d.send(frame{data: orig}), 3)
	bad := quoting6(t, "error-six-udp-64", w.data)
	same(t, "quote", d.complete(bpfobj.TcProgRadarIngress, r1In, bad), quoting6(t, "error-six-udp-64", lowered(t, orig, 3)))
}

// complete runs a program on a packet with CHECKSUM_COMPLETE.
func (d *domain) complete(prog string, port uint32, data []byte) []byte {
	d.Helper()
	in := skBuff{}
	in.Cb[0] = port
	opts := ebpf.RunOptions{Data: data, DataOut: make([]byte, len(data)+64), Context: &in, Flags: checksumComplete}
	_, err := d.Programs[prog].Run(&opts)
	if errors.Is(err, unix.EINVAL) {
		need.Lack(d, need.Kernel, "CHECKSUM_COMPLETE in test_run (Linux 6.16)")
	}
	if err != nil {
		d.Fatalf("%s: %v (EBADMSG: the device's sum is wrong)", prog, err)
	}
	return opts.DataOut
}
