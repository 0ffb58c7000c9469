// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// decodeGUID reads the slot index out of an IP header by the words of
// bpf/backpack/config.h, without the programs' code. decrements is how often the
// TTL was lowered since it was written.
func (d *domain) decodeGUID(ip ipHeader) (index uint32, decrements int, ok bool) {
	l := d.layout
	band := -1
	for b := range int(l.Bands) {
		top, ttl := int(l.BandTop[b]), int(ip.ttl())
		if ttl <= top && ttl > top-int(l.TTLWidth) {
			band, decrements = b, top-ttl
		}
	}
	if band < 0 {
		return 0, 0, false
	}
	dscp := uint32(ip.tos()) >> 2 & (1<<l.DSCPBits - 1)
	index = uint32(band)<<(16+l.DSCPBits) | dscp<<16 | uint32(ip.id())
	return index, decrements, index < l.Slots
}

// guid is decodeGUID of a frame that must carry one.
func (d *domain) guid(data []byte) uint32 {
	d.Helper()
	index, _, ok := d.decodeGUID(header(d, data))
	if !ok {
		d.Fatalf("no GUID in id %#x ttl %d tos %#x", header(d, data).id(), header(d, data).ttl(), header(d, data).tos())
	}
	return index
}

// markIndex reads the slot index out of skb->mark.
func (d *domain) markIndex(mark uint32) uint32 {
	return (mark&d.layout.MarkMask)>>d.layout.MarkShift - 1
}

// slot is a copy of one slot.
type slot struct {
	bpfobj.TcRdrSlot
	index uint32
	raw   []byte
}

func (d *domain) slot(index uint32) *slot {
	d.Helper()
	s := &slot{index: index}
	raw, err := d.Maps[bpfobj.TcMapRing].LookupBytes(index)
	if err != nil || raw == nil {
		d.Fatalf("read slot %d: %v", index, err)
	}
	s.raw = raw
	if err := binary.Read(bytes.NewReader(raw), binary.NativeEndian, &s.TcRdrSlot); err != nil {
		d.Fatal(err)
	}
	return s
}

// write puts a changed header of the slot back.
func (d *domain) write(s *slot) {
	d.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, &s.TcRdrSlot); err != nil {
		d.Fatal(err)
	}
	copy(s.raw, b.Bytes())
	d.put(bpfobj.TcMapRing, s.index, s.raw)
}

// age makes a slot look as if its packet had been sourced that much earlier.
func (d *domain) age(index uint32, by time.Duration) {
	d.Helper()
	s := d.slot(index)
	s.T0Ns -= uint64(by)
	d.write(s)
}

// event is one cell of a slot.
type event struct {
	kind  bpfobj.TcRdrEvent
	flags bpfobj.TcRdrEventFlag
	port  int
	at    time.Duration
}

// cellAt is where cell k begins in a slot.
func cellAt(k int) int {
	if k < 3 {
		return 40 + 8*k
	}
	return afterHead + 8*(k-3)
}

// afterHead is where the fields of a slot's second line end, and its cells go on.
const afterHead = 112

// events reads the slot's log; data cells are skipped.
func (s *slot) events() []event {
	var out []event
	for k := 0; k < int(s.Nev); k++ {
		c := binary.NativeEndian.Uint64(s.raw[cellAt(k):])
		e := event{
			kind: bpfobj.TcRdrEvent(c >> 60), flags: bpfobj.TcRdrEventFlag(c >> 56 & 0xf),
			port: int(c >> 40 & 0xffff), at: time.Duration(c & (1<<40 - 1)),
		}
		out = append(out, e)
		switch e.kind {
		case bpfobj.TcRdrEventRDR_EV_LOSS, bpfobj.TcRdrEventRDR_EV_ADDR:
			k += 2
		case bpfobj.TcRdrEventRDR_EV_ADDR6:
			k += 5
		}
	}
	return out
}

var kindNames = map[bpfobj.TcRdrEvent]string{
	bpfobj.TcRdrEventRDR_EV_INGRESS: "in", bpfobj.TcRdrEventRDR_EV_EGRESS: "out",
	bpfobj.TcRdrEventRDR_EV_DELIVER: "deliver", bpfobj.TcRdrEventRDR_EV_LEFT: "left",
	bpfobj.TcRdrEventRDR_EV_LOSS: "loss", bpfobj.TcRdrEventRDR_EV_ADDR: "addr",
	bpfobj.TcRdrEventRDR_EV_IGNORED: "ignored", bpfobj.TcRdrEventRDR_EV_DEQUEUE: "queue",
	bpfobj.TcRdrEventRDR_EV_ADDR6: "addr6",
}

// story is the slot's log in words: kind@port and the flags first, part, source,
// keyed by their first letters.
func (s *slot) story() string {
	var b strings.Builder
	for i, e := range s.events() {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s@%d", kindNames[e.kind], e.port)
		for bit, letter := range "FPSK" {
			if e.flags&(1<<bit) != 0 {
				if !strings.ContainsRune(b.String()[strings.LastIndexByte(b.String(), '@'):], '/') {
					b.WriteByte('/')
				}
				b.WriteRune(letter)
			}
		}
	}
	return b.String()
}

// wantStory compares the log and demands that time does not run backwards.
func (d *domain) wantStory(index uint32, want string) {
	d.Helper()
	s := d.slot(index)
	if got := s.story(); got != want {
		d.Errorf("slot %d: story %q, want %q", index, got, want)
	}
	var last time.Duration
	for _, e := range s.events() {
		if e.at < last || e.at > time.Hour {
			d.Errorf("slot %d: event at %v follows one at %v", index, e.at, last)
		}
		last = e.at
	}
}

// now is the clock of the programs.
func now(t testing.TB) uint64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return uint64(ts.Nano())
}

// counters returns all counters, summed over the CPUs.
func (d *domain) counters() map[bpfobj.TcRdrCounter]uint64 {
	d.Helper()
	out := make(map[bpfobj.TcRdrCounter]uint64)
	for c := range bpfobj.TcRdrCounterRDR_C_MAX {
		var perCPU []uint64
		if err := d.Maps[bpfobj.TcMapCounters].Lookup(uint32(c), &perCPU); err != nil {
			d.Fatal(err)
		}
		for _, n := range perCPU {
			out[c] += n
		}
	}
	return out
}

type tally map[bpfobj.TcRdrCounter]uint64

// counted demands that exactly these counters have moved since the last call.
func (d *domain) counted(want tally) {
	d.Helper()
	if got := d.moved(); !maps.Equal(got, want) {
		d.Errorf("counters moved: %v, want %v", got, want)
	}
}

// moved returns the counters that have moved since the last call.
func (d *domain) moved() tally {
	d.Helper()
	all := d.counters()
	got := make(tally)
	for c, n := range all {
		if n != d.last[c] {
			got[c] = n - d.last[c]
		}
	}
	d.last = all
	return got
}

func (t tally) String() string {
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%v+%d", counterName(c), t[c]))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// checkSum holds the counters to their definition: seen = marked + not measured.
func (d *domain) checkSum() {
	c := tally(d.counters())
	noteMoved(c)
	if c.seen() != c.answered() {
		d.Errorf("counters: %d packets seen, but %d marked or not measured: %v", c.seen(), c.answered(), c)
	}
}

func (t tally) seen() uint64 { return t[cSeen] }

// answered is how many packets were marked, or not measured for some reason.
func (t tally) answered() uint64 {
	sum := t[cMarked] + t[cWatch] + t[cNeighbour] + t[cExtensions]
	for c := bpfobj.TcRdrCounterRDR_C_NM_IPV6; c <= bpfobj.TcRdrCounterRDR_C_NM_VLAN_DEPTH; c++ {
		sum += t[c]
	}
	return sum
}
