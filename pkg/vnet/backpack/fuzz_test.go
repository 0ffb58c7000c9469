// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// FuzzRing reads a ring of random bytes, in which only the positions fit their slots:
// nothing may panic, no time may be negative, and records must be valid.
func FuzzRing(f *testing.F) {
	b := rt.New(4, 256, 1, 2)
	b.Write(4, train, 5)
	b.SetCut(4, rt.Cut)
	b.See(4, rt.Egress, rt.First|rt.Source, h1e0, 5)
	b.See(5, rt.Ingress, rt.Part, r1e0, 50)
	b.Translate(5, rt.Part, r1e1, udp.Src, udp.Dst, 1, 2, 60)
	b.See(5, rt.Egress, rt.Part, r1e1, 70)
	b.Drop(5, rt.Part, r1e1, 64, fnQueue, "tbf", false, 80)
	f.Add(append([]byte(nil), b.Mem...), uint64(100))
	f.Add(make([]byte, len(b.Mem)), ^uint64(0))
	b6 := rt.New(4, 256, 1, 2)
	b6.Write(4, udp6, 5)
	b6.See(4, rt.Egress, rt.First|rt.Source, h1e0, 5)
	b6.Translate6(4, rt.First, r1e1, udp6.V6.Dst, udp6.V6.Src, 1, 2, 60)
	b6.See(4, rt.Left, rt.First, r1e1, 70)
	f.Add(append([]byte(nil), b6.Mem...), uint64(100))
	f.Fuzz(func(t *testing.T, mem []byte, now uint64) {
		m := rt.New(4, 256, 1, 2)
		copy(m.Mem, mem)
		for i := range uint64(4) { // low bits of a position are its slot
			if pos := m.Pos(i); pos != 0 {
				m.SetPos(i, pos&^3|i)
			}
		}
		dec := backpack.NewDecoder(testDomain(4), names{})
		recs, _, err := backpack.Scan(m, dec, backpack.ScanOptions{Now: func() uint64 { return now }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range recs {
			checkRecord(t, &recs[i])
		}
		src := &cursorAt{m, binary.LittleEndian.Uint64(append(mem, make([]byte, 8)...)) % 1e6}
		fl := backpack.NewFollower(src, dec, backpack.FollowOptions{Now: func() uint64 { return now }})
		seen, recorder, bare := make(map[uint64]bool), backpack.NewRecorder(dec, false), backpack.NewRecorder(dec, true)
		for range 2 {
			if err := fl.Poll(func(p *packet.Packet) {
				if seen[p.Pos] {
					t.Errorf("position %d handed out twice", p.Pos)
				}
				seen[p.Pos] = true
				r := dec.Record(p)
				checkRecord(t, &r)
				checkSame(t, recorder.Record(p), r)
				if p.LocalDrop { // a bare one may lack the function
					return
				}
				r.ID, r.GUID, r.Time = "", "", ""
				checkSame(t, bare.Record(p), r)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := follower(m, &now).Restore(mem); err == nil {
			t.Error("random bytes taken for a state of 64 slots") // the ring has 4
		}
	})
}

// cursorAt is a ring with another cursor.
type cursorAt struct {
	*rt.Image
	cursor uint64
}

func (c *cursorAt) Cursor() uint64 { return c.cursor }

// checkSame compares records that were made in different memory.
func checkSame(t *testing.T, got *record.Record, want record.Record) {
	t.Helper()
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("in memory that was used before:\n%s", diff)
	}
}

func checkRecord(t *testing.T, r *record.Record) {
	t.Helper()
	notNegative := func(what string, ns *int64) {
		if ns != nil && (*ns < 0 || *ns >= 1<<40) {
			t.Errorf("%s of %d ns: %+v", what, *ns, r)
		}
	}
	notNegative("latency", r.LatencyNs)
	for i := range r.Hops {
		h := &r.Hops[i]
		notNegative("at", h.AtNs)
		notNegative("node", h.NodeNs)
		notNegative("link", h.LinkNs)
		notNegative("hop latency", h.LatencyNs)
	}
	for _, l := range []*record.Loss{r.Loss, r.LocalDrop} {
		if l != nil {
			notNegative("loss at", l.AtNs)
			if l.At == "" || l.Node == "" {
				t.Errorf("loss without a place: %+v", *l)
			}
		}
	}
	if r.Loss != nil && r.State != record.Lost && (r.State != record.Expired || r.Loss.Reason != record.NotSeen) || r.LocalDrop != nil && r.State != record.Delivered {
		t.Errorf("%s with loss %+v, local drop %+v", r.State, r.Loss, r.LocalDrop)
	}
	if _, err := time.Parse(time.RFC3339Nano, r.Time); err != nil && r.TNs > 0 && r.TNs < 1<<62 {
		t.Errorf("time %q: %v", r.Time, err)
	}
}

// FuzzState restores random states: an error, or a Follower that can go on.
func FuzzState(f *testing.F) {
	m := rt.New(64, 256, 1, 8)
	now := fill1(m, 10)
	m.Send(0, train, rt.Egress, h1e0, now)
	fl := follower(m, &now)
	_ = fl.Poll(func(*packet.Packet) {})
	f.Add(fl.AppendState(nil))
	f.Fuzz(func(t *testing.T, state []byte) {
		fl := follower(m, &now)
		if fl.Restore(state) != nil {
			return
		}
		if err := fl.Poll(func(*packet.Packet) {}); err != nil {
			t.Fatal(err)
		}
		_ = fl.Stats()
	})
}
