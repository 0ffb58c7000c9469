// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// unique returns a packet that no other of the same test equals.
func unique(t testing.TB, n int) []byte {
	t.Helper()
	p := packet(t, "udp-64")
	at := etherHeader + 20 + 8
	p[at], p[at+1], p[at+2] = byte(n>>16), byte(n>>8), byte(n)
	return p
}

// TestInFlightNeverReused: however many packets are in flight, each has a slot
// of its own or none, and all come back as they were.
func TestInFlightNeverReused(t *testing.T) {
	for _, c := range []config{{slots: 64, block: 16}, {slots: 128, block: 4}, {slots: 1024, block: 256}} {
		t.Run(fmt.Sprint(c.slots), func(t *testing.T) {
			d := newDomain(t, c)
			var out []frame
			holder := make(map[uint32]int)
			n := int(3 * c.slots)
			for i := range n {
				w := d.send(frame{data: unique(t, i)})
				out = append(out, w)
				index, _, marked := d.decodeGUID(header(t, w.data))
				if !marked {
					same(t, "not measured", w.data, unique(t, i))
					continue
				}
				if other, taken := holder[index]; taken {
					t.Fatalf("packets %d and %d, both in flight, have slot %d", other, i, index)
				}
				holder[index] = i
			}
			d.counted(tally{cSeen: uint64(n), cMarked: uint64(c.slots), cNoSlot: uint64(n) - uint64(c.slots),
				cSkipped: d.counters()[cSkipped]})
			for i, w := range out {
				same(t, fmt.Sprint("packet ", i), d.deliver(w, 5).data, lowered(t, unique(t, i), 5))
			}
		})
	}
}

// TestMinimumAge: the slot of a packet that has arrived is left alone for a while:
// duplicates and late segments still need it.
func TestMinimumAge(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16, minAge: time.Hour})
	for i := range 64 {
		d.deliver(d.send(frame{data: unique(t, i)}), 0)
	}
	same(t, "no slot is old enough", d.send(frame{data: unique(t, 64)}).data, unique(t, 64))

	d = newDomain(t, config{slots: 64, block: 16, minAge: time.Second})
	for i := range 64 {
		d.deliver(d.send(frame{data: unique(t, i)}), 0)
	}
	for i := range uint32(64) {
		d.age(i, 2*time.Second)
	}
	d.wantMarked(d.send(frame{data: unique(t, 64)}).data, unique(t, 64))
}

// TestHeldAfterLoss: a packet lost inside a node may live on in a forwarder's
// memory; its slot is kept longer than the minimum age, but not for ever.
func TestHeldAfterLoss(t *testing.T) {
	for _, c := range []struct {
		state  bpfobj.TcRdrState
		age    time.Duration
		reused bool
	}{
		{bpfobj.TcRdrStateRDR_ST_DONE | bpfobj.TcRdrStateRDR_ST_LOST, 100 * time.Millisecond, true},
		{bpfobj.TcRdrStateRDR_ST_DONE | bpfobj.TcRdrStateRDR_ST_LOST | bpfobj.TcRdrStateRDR_ST_HELD, 100 * time.Millisecond, false},
		{bpfobj.TcRdrStateRDR_ST_DONE | bpfobj.TcRdrStateRDR_ST_LOST | bpfobj.TcRdrStateRDR_ST_HELD, 30 * time.Second, true},
	} {
		d := newDomain(t, config{slots: 16, block: 4, minAge: time.Millisecond})
		for i := range uint32(16) {
			d.send(frame{data: unique(t, int(i))})
			s := d.slot(i)
			s.State, s.T0Ns = uint8(c.state), s.T0Ns-uint64(c.age)
			d.write(s)
		}
		_, _, marked := d.decodeGUID(header(t, d.send(frame{data: unique(t, 16)}).data))
		if marked != c.reused {
			t.Errorf("state %#x at age %v: slot reused: %v", c.state, c.age, marked)
		}
	}
}

// TestSkip: the source steps over packets in flight, also over whole trains, and
// over no more than a bounded number.
func TestSkip(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 64 / 4})
	a := d.send(frame{data: unique(t, 0)}) // slot 0 stays in flight
	tr := loadTrain(t, "train-tcp")
	d.fillRing(1)
	train := d.send(tr.whole) // slots 2..7
	d.fillRing(56)            // the rest of the ring
	d.counted(tally{cSeen: 1 + 1 + 6 + 56, cMarked: 1 + 1 + 6 + 56})
	w := d.send(frame{data: unique(t, 1)})
	if got := d.guid(w.data); got != 1 {
		t.Errorf("slot %d, want 1: behind the one in flight", got)
	}
	d.counted(tally{cSeen: 1, cMarked: 1, cSkipped: 1})
	w = d.send(frame{data: unique(t, 2)})
	if got := d.guid(w.data); got != 8 {
		t.Errorf("slot %d, want 8: behind the train", got)
	}
	d.counted(tally{cSeen: 1, cMarked: 1, cSkipped: 6})
	same(t, "slot 0", d.deliver(a, 0).data, unique(t, 0))
	same(t, "train", d.deliver(train, 0).data, tr.whole.data)

	d = newDomain(t, config{slots: 1024, block: 256})
	for i := range 100 {
		d.send(frame{data: unique(t, i)})
	}
	d.fillRing(924)
	d.counted(tally{cSeen: 1024, cMarked: 1024})
	same(t, "100 in a row are too many", d.send(frame{data: unique(t, 101)}).data, unique(t, 101))
	d.counted(tally{cSeen: 1, cNoSlot: 1, cSkipped: 64})
	if got := d.guid(d.send(frame{data: unique(t, 102)}).data); got != 100 {
		t.Errorf("slot %d, want 100: the search goes on where it ended", got)
	}
	d.counted(tally{cSeen: 1, cMarked: 1, cSkipped: 36})
}

// TestSkippedMembers: slots of an arrived train that a longer one steps over because
// a packet in flight stands behind them are free for the next round.
func TestSkippedMembers(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16})
	short, long := loadTrain(t, "train-clear"), loadTrain(t, "train-tcp")
	d.deliver(d.send(short.whole), 0)                     // slots 0..2, done
	stays := d.send(frame{data: unique(t, 0)})            // slot 3, in flight
	d.fillRing(60)                                        // the ring is round
	d.fillRing(1)                                         // slot 0: the head of the old train is gone
	if got := d.guid(d.send(long.whole).data); got != 4 { // 1 and 2 do not suffice
		t.Fatalf("train at slot %d, want 4", got)
	}
	d.deliver(stays, 0)
	d.fillRing(64 - 4 - len(long.segments))
	before := d.counters()
	d.fillRing(4) // slots 0..3 are all free
	if after := d.counters(); after[cSkipped] != before[cSkipped] || after[cNoSlot] != before[cNoSlot] {
		t.Errorf("free slots were taken for busy: %d skipped, %d without slot",
			after[cSkipped]-before[cSkipped], after[cNoSlot]-before[cNoSlot])
	}
}

// TestIdleCPU: a CPU that comes back to its block after others have been round the
// ring must neither touch what they have in flight nor write positions that no
// reader looks for any more.
func TestIdleCPU(t *testing.T) {
	for _, c := range []struct {
		name  string
		train bool // what the CPU last saw in its block was a train that had arrived
		long  bool // it comes back with a train that its block has no room for
	}{{"alone", false, false}, {"behind a train", true, false}, {"with a train", true, true}} {
		t.Run(c.name, func(t *testing.T) { testIdleCPU(newDomain(t, config{slots: 64, block: 16}), c.train, c.long) })
	}
}

func testIdleCPU(d *domain, train, long bool) {
	tr := loadTrain(d, "train-tcp")
	if train {
		d.deliver(d.send(tr.whole), 0) // slots 0..5
		d.fillRing(10)
		d.onCPU(1, func() { d.fillRing(48) })
	}
	d.fillRing(1) // this CPU has looked at the train once, for all its slots
	if train {
		for k := range uint32(5) { // the rest of it is as old as the pause is long
			d.age(1+k, time.Minute)
		}
	}
	var inFlight []frame
	d.onCPU(1, func() {
		d.fillRing(96)
		for i := range 64 {
			inFlight = append(inFlight, d.send(frame{data: unique(d, i)}))
		}
	})
	cursor := d.cursor()
	if long {
		d.send(frame{data: packet(d, "train-129"), segs: 16, size: 65})
	} else {
		for i := range 20 {
			w := d.send(frame{data: unique(d, 1000+i)})
			if index, _, marked := d.decodeGUID(header(d, w.data)); marked {
				d.Errorf("packet %d got position %d of slot %d; the cursor is at %d and the ring of 64 full",
					i, d.slot(index).Pos, index, cursor)
			}
		}
	}
	d.onCPU(1, func() {
		for i := range 100 { // whatever is now thought to be free
			d.send(frame{data: unique(d, 2000+i)})
		}
	})
	for i, w := range inFlight {
		if _, _, marked := d.decodeGUID(header(d, w.data)); marked {
			same(d, fmt.Sprint("in flight ", i), d.deliver(w, 1).data, lowered(d, unique(d, i), 1))
		}
	}
}

// TestIdleCPUPosition: the same with everything delivered: the slots are free, but
// the positions of the old block are in the past.
func TestIdleCPUPosition(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16})
	d.fillRing(1)
	d.onCPU(1, func() { d.fillRing(128) })
	cursor := d.cursor()
	w := d.send(frame{data: unique(t, 1)})
	if pos := d.slot(d.guid(w.data)).Pos; pos+64 < cursor {
		t.Errorf("position %d, %d behind the cursor: a ring of 64 has no such position any more", pos, cursor-pos)
	}
}

// TestClocks: CPUs' clocks may differ by a little: a slot that was written a moment
// from now is young, not ancient.
func TestClocks(t *testing.T) {
	d := newDomain(t, config{slots: 16, block: 4})
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	d.age(d.guid(w.data), -10*time.Second)
	same(t, "at h2", d.deliver(w, 0).data, orig)

	d = newDomain(t, config{slots: 16, block: 4})
	for i := range 16 {
		d.send(frame{data: unique(t, i)})
		d.age(uint32(i), -10*time.Second)
	}
	same(t, "no slot", d.send(frame{data: unique(t, 16)}).data, unique(t, 16))
}

// TestEventsFull: what does not fit is counted, and the packet restored all the same.
func TestEventsFull(t *testing.T) {
	d := newDomain(t, config{slotBytes: 128}) // 5 events
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	for range 4 {
		_, w = d.transit(w, 1)
	}
	same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 8))
	d.counted(tally{cSeen: 1, cMarked: 1, cEventFull: 8})
	d.wantStory(index, "out@0/FS deliver@3/F") // the end has room of its own
	if s := d.slot(index); s.State != uint8(stDone|stFull) {
		t.Errorf("state %#x", s.State)
	}
}

// TestEndFull: the end of a story has room whatever came before, and of two the later one: what
// is for an address of a masquerading node is delivered there first.
func TestEndFull(t *testing.T) {
	for _, c := range []struct {
		packet    string
		slotBytes uint32
		path      string
	}{
		{"udp-64", 128, "out@0/FS "},
		{"udp-64", 192, "out@0/FS in@1/F out@2/F in@1/F out@2/F in@1/F out@2/F in@1/F out@2/F "},
		{"six-udp-64", 192, "out@0/FS in@1/F out@2/F in@1/F out@2/F "},
	} {
		t.Run(fmt.Sprint(c.packet, " ", c.slotBytes), func(t *testing.T) {
			d := newDomain(t, config{slotBytes: c.slotBytes})
			orig := packet(t, c.packet)
			w := d.send(frame{data: orig})
			index := d.guid(w.data)
			for range 6 {
				_, w = d.transit(w, 1)
			}
			late := d.link(w, 1)
			d.egress(r1Edge, d.route(d.ingress(r1In, late), r1In))
			d.wantStory(index, c.path+"left@4/F")
			room := d.slot(index).Nev
			d.deliver(w, 1)
			d.wantStory(index, c.path+"deliver@3/F")
			d.deliver(w, 1) // a copy by the same port changes nothing
			// Departures whose arrivals are not noted look like copies: the slot is kept for them.
			if s := d.slot(index); s.State&^uint8(stIPv6) != uint8(stDone|stFull) || s.Cut&^uint8(bpfobj.TcRdrCutRDR_COPIES) != 0 || s.Nev != room {
				t.Errorf("state %#x, cut %#x, %d cells, want %d", s.State, s.Cut, s.Nev, room)
			}
			// Three cells are left for a loss.
			cells := 5 + 8*(int(c.slotBytes)/64-2)
			if strings.HasPrefix(c.packet, "six") {
				cells -= 4
			}
			if int(room)+3 != cells {
				t.Errorf("%d of %d cells are used: no room for a loss", room, cells)
			}
		})
	}
}

// TestLeftFull: how a story ended is known though the event that says so did not fit.
func TestLeftFull(t *testing.T) {
	d := newDomain(t, config{slotBytes: 128}) // 5 events
	const left = uint8(bpfobj.TcRdrCutRDR_LEFT)
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	for range 3 {
		_, w = d.transit(w, 1)
	}
	// Delivered in a node, and freed there, as far as the kernel knew.
	s := d.slot(index)
	s.Nev = 5
	d.write(s)
	d.egress(r1Edge, d.route(d.ingress(r1In, d.link(w, 1)), r1In))
	if s := d.slot(index); s.State != uint8(stDone|stFull) || s.Cut != left {
		t.Errorf("state %#x, cut %#x of a packet that left", s.State, s.Cut)
	}
	// A copy of it arrives after all.
	d.deliver(w, 1)
	if s := d.slot(index); s.State != uint8(stDone|stFull) || s.Cut&left != 0 {
		t.Errorf("state %#x, cut %#x of a packet that was delivered", s.State, s.Cut)
	}
}

// TestAddressesFull: a change of addresses that does not fit into the log is no less of a gap
// than a hop, and what still fits does not hide it.
func TestAddressesFull(t *testing.T) {
	for _, c := range []struct {
		packet    string
		slotBytes uint32
		change    func(data []byte)
		story     string
	}{
		{"udp-64", 192, func(data []byte) { data[etherHeader+15] = 77; fixSum(data, etherHeader) },
			"out@0/FS in@1/F out@2/F in@1/F out@2/F in@1/F out@2/F in@1/F out@2/F deliver@3/F"},
		{"six-udp-64", 192, func(data []byte) { data[etherHeader+23] = 77 }, "out@0/FS in@1/F out@2/F in@1/F out@2/F deliver@3/F"},
	} {
		t.Run(c.packet, func(t *testing.T) {
			d := newDomain(t, config{slotBytes: c.slotBytes})
			w := d.send(frame{data: packet(t, c.packet)})
			index := d.guid(w.data)
			for d.slot(index).Nev < uint8(strings.Count(c.story, "@")-3) {
				_, w = d.transit(w, 0)
			}
			inside := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
			c.change(inside.data)
			d.deliver(d.egress(r1Out, inside), 0)
			d.wantStory(index, c.story)
			if s := d.slot(index); s.State&^uint8(stIPv6) != uint8(stDone|stFull) {
				t.Errorf("state %#x", s.State)
			}
			d.counted(tally{cSeen: 1, cMarked: 1, cEventFull: 1})
		})
	}
}

// TestWithdrawnLoss: a later sighting withdraws a loss.
func TestWithdrawnLoss(t *testing.T) {
	d := newDomain(t, config{})
	w := d.send(frame{data: packet(t, "udp-64")})
	s := d.slot(d.guid(w.data))
	s.State = uint8(stDone | stLost | bpfobj.TcRdrStateRDR_ST_HELD)
	d.write(s)
	d.ingress(r1In, d.link(w, 0))
	d.counted(tally{cSeen: 1, cMarked: 1, cWithdrawn: 1})
	if s := d.slot(s.index); s.State&^uint8(bpfobj.TcRdrStateRDR_ST_HELD) != 0 {
		t.Errorf("state %#x of a packet that lives", s.State)
	}
}
