// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// find looks for the packet at pos.
func (b *bench) find(pos uint64) (*backpack.Found, error) {
	return backpack.Find(b, backpack.NewDecoder(testDomain(64), names{}), fmt.Sprintf("%08x-%x", testEpoch, pos), b.now)
}

// newFindBench is newBench with positions given away up to the packet.
func newFindBench(t *testing.T, p rt.Packet) *bench {
	b := &bench{Image: rt.New(64, 256, 1, 16), t: t, t0: 100 * second, now: 101 * second}
	for range 3*64 + 5 {
		pos, ok := b.Send(0, p, rt.Egress, h1e0, b.t0)
		if !ok {
			t.Fatal("no slot")
		}
		b.See(pos, rt.Deliver, rt.First, r1e0, b.t0+500)
		b.pos, b.t0 = pos, b.t0+second
		b.now = b.t0
	}
	return b
}

// Whatever a scan shows is found by its id, and is the same.
func TestFindWhatScanShows(t *testing.T) {
	for name, p := range map[string]rt.Packet{"alone": udp, "train": train} {
		b := newFindBench(t, p)
		recs := b.all()
		if len(recs) < 8 {
			t.Fatalf("%s: %d records", name, len(recs))
		}
		for _, want := range recs {
			found, err := backpack.Find(b, backpack.NewDecoder(testDomain(64), names{}), want.ID, b.now)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, found.Record); diff != "" || found.Segment != 0 {
				t.Errorf("%s: %s (-scan +find):\n%s", name, want.ID, diff)
			}
		}
	}
}

// A segment has the story of its train while it has none of its own.
func TestFindSegments(t *testing.T) {
	b := newFindBench(t, train)
	found, err := b.find(b.pos + 2)
	if err != nil || found.Segment != 3 || found.Record.ID != fmt.Sprintf("%08x-%x", testEpoch, b.pos) || found.Record.Segs != 4 {
		t.Errorf("%+v, %v: want the train, of which it is the third", found, err)
	}
	b.SetCut(b.pos, rt.Cut)
	b.Drop(b.pos+2, rt.First|rt.Part, r1e1, 64, fnQueue, "tbf", false, b.t0)
	found, err = b.find(b.pos + 2)
	if err != nil || found.Segment != 0 || found.Record.ID != fmt.Sprintf("%08x-%x", testEpoch, b.pos+2) || found.Record.Segs != 1 {
		t.Errorf("%+v, %v: want the segment alone", found, err)
	}
}

func TestFindErrors(t *testing.T) {
	b := newFindBench(t, udp)
	dec := backpack.NewDecoder(testDomain(64), names{})
	id := func(pos uint64) string { return fmt.Sprintf("%08x-%x", testEpoch, pos) }
	for text, want := range map[string]error{
		"": backpack.ErrID, "12": backpack.ErrID, "0badcafe": backpack.ErrID, "badcafe-1": backpack.ErrID,
		"0badcafe-x": backpack.ErrID, "0badcafe-11112222333344445": backpack.ErrID,
		"0badcaff-1":   backpack.ErrForeign,
		id(0):          backpack.ErrNoPacket,
		id(b.pos + 1):  backpack.ErrNoPacket, // given to a CPU, not used
		id(1 << 40):    backpack.ErrNoPacket,
		id(b.pos - 64): backpack.ErrOverwritten,
		id(1):          backpack.ErrOverwritten,
	} {
		if found, err := backpack.Find(b, dec, text, b.now); !errors.Is(err, want) || found != nil {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	// 197 packets of which the last 64 are there, one a second.
	e := backpack.Remembered(b, dec)
	var newest record.Record
	for _, r := range b.all() {
		newest = r
	}
	if age := newest.TNs - e.Oldest.UnixNano(); e.Packets != 64 || age < 60*int64(second) || age > 64*int64(second) {
		t.Errorf("%d packets, the oldest %d ns older than the newest", e.Packets, age)
	}
}

// TTL and TOS that a node changed are those of the segment, if it has any, else the train's.
func TestSentBits(t *testing.T) {
	const offTTL, offTrainTTL = 30, 98
	sent := func(r record.Record) string {
		text := ""
		for _, v := range []*int{r.TTLSent, r.DSCPSent, r.ECNSent} {
			if v == nil {
				text += " -"
			} else {
				text += fmt.Sprintf(" %d", *v)
			}
		}
		return text
	}
	b := newBench(t, 128, udp) // TTL 64, TOS 0xb9: DSCP 46, ECN 1
	if got := sent(b.one()); got != " - - -" {
		t.Errorf("unchanged: %s", got)
	}
	b.Put(b.pos, offTTL, 62, 0xb9)
	if got := sent(b.one()); got != " 62 - -" {
		t.Errorf("routed: %s", got)
	}
	b.Put(b.pos, offTTL, 62, 0x03)
	if got := sent(b.one()); got != " 62 0 3" {
		t.Errorf("remarked: %s", got)
	}
	cut := cutBench(t)
	cut.Put(cut.pos, offTrainTTL, 63, 0xb9)
	cut.Put(cut.pos+1, offTTL, 61, 0xb9)
	cut.SetCut(cut.pos+1, rt.Own)
	var got []string
	for _, r := range cut.all() {
		got = append(got, sent(r))
	}
	if want := []string{" - - -", " 61 - -", " 63 - -", " 63 - -"}; !cmp.Equal(got, want) {
		t.Errorf("of a cut train: %q, want %q", got, want)
	}
}
