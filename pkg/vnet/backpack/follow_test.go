// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// follower follows a ring of 64 slots, with the clock of the test.
func follower(m backpack.Source, now *uint64) *backpack.Follower {
	return backpack.NewFollower(m, backpack.NewDecoder(testDomain(64), names{}), backpack.FollowOptions{
		Now: func() uint64 { return *now },
	})
}

// poll returns the positions handed out.
func poll(t *testing.T, f *backpack.Follower) []uint64 {
	t.Helper()
	var got []uint64
	if err := f.Poll(func(p *packet.Packet) { got = append(got, p.Pos) }); err != nil {
		t.Fatalf("Poll: %v", err)
	}
	return got
}

func TestFollowerBeginsWithTheOldest(t *testing.T) {
	m := rt.New(64, 128, 1, 8)
	now := fill1(m, 200)
	f := follower(m, &now)
	if got := poll(t, f); len(got) != 64 {
		t.Errorf("%d packets handed out, want the 64 in the ring", len(got))
	}
	if s := f.Stats(); s != (backpack.FollowStats{}) {
		t.Errorf("%+v: what was overwritten before we came is not ours to count", s)
	}
	if got := poll(t, f); len(got) != 0 {
		t.Errorf("%d packets handed out twice", len(got))
	}
}

// fill1 is fill over one CPU; it returns a time when all has settled.
func fill1(m *rt.Image, n int) uint64 {
	now := 1000 * second
	for range n {
		now += second
		if pos, ok := m.Send(0, udp, rt.Egress, h1e0, now); ok {
			m.See(pos, rt.Deliver, rt.First, r1e0, now+1000)
		}
	}
	return now + second
}

func TestFollowerCountsUnread(t *testing.T) {
	m := rt.New(64, 128, 1, 8)
	now := fill1(m, 8)
	f := follower(m, &now)
	poll(t, f)
	for _, n := range []int{100, 5000} { // less than two rounds, and many
		before := f.Stats().Unread
		fill1(m, n)
		now = 1e6 * second
		got := uint64(len(poll(t, f)))
		if missed := f.Stats().Unread - before; got != 64 || missed != uint64(n)-64 {
			t.Errorf("%d packets while away: %d handed out, %d unread; want 64, the rest", n, got, missed)
		}
	}
}

// A CPU that slept while the ring came round gives up the rest of its block: that
// was never used, so nothing went unread.
func TestFollowerIdleCPU(t *testing.T) {
	m := rt.New(64, 128, 2, 8)
	now := 1000 * second
	f := follower(m, &now)
	send := func(cpu int) {
		now += second
		m.Send(cpu, udp, rt.Deliver, r1e0, now)
		poll(t, f)
	}
	send(1)
	for range 100 {
		send(0)
	}
	send(1)
	send(1)
	now += second
	poll(t, f)
	if s := f.Stats(); s != (backpack.FollowStats{}) {
		t.Errorf("%+v, want nothing missed", s)
	}
}

func TestFollowerSkipToNow(t *testing.T) {
	m := rt.New(64, 128, 2, 8)
	now := fill1(m, 3)
	m.Send(0, udp, rt.Egress, h1e0, now) // in flight: sent before
	f := follower(m, &now)
	if err := f.SkipToNow(); err != nil {
		t.Fatal(err)
	}
	in, _ := m.Send(0, udp, rt.Deliver, r1e0, now)  // in the block that was begun
	new, _ := m.Send(1, udp, rt.Deliver, r1e0, now) // in a new block
	now += second
	if got := poll(t, f); len(got) != 2 || got[0] != in || got[1] != new {
		t.Errorf("positions %v, want %d and %d", got, in, new)
	}
}

func TestFollowerSettles(t *testing.T) {
	m := rt.New(64, 256, 1, 8)
	t0 := 1000 * second
	now := t0
	f := follower(m, &now)
	delivered, _ := m.Send(0, udp, rt.Deliver, r1e0, t0)
	lost, _ := m.Send(0, udp, rt.Egress, h1e0, t0)
	m.Drop(lost, rt.First, h1e0, 64, fnQueue, "tbf", false, t0)
	held, _ := m.Send(0, udp, rt.Ingress, r1e0, t0)
	m.Drop(held, rt.First, rt.NoPort, 2, fnIP, "", true, t0)
	vanished, _ := m.Send(0, udp, rt.Egress, h1e0, t0)
	for _, step := range []struct {
		at   uint64
		want []uint64
	}{
		{0, nil},
		{49 * ms, nil},
		{50 * ms, []uint64{delivered, lost}},
		{1999 * ms, nil},
		{2001 * ms, []uint64{held}},
		{10049 * ms, nil},
		{10051 * ms, []uint64{vanished}},
	} {
		now = t0 + step.at
		got := poll(t, f)
		if len(got) != len(step.want) || len(got) > 0 && got[0] != step.want[0] {
			t.Errorf("after %v: %v, want %v", time.Duration(step.at), got, step.want)
		}
	}
	if s := f.Stats(); s.InFlight != 0 {
		t.Errorf("%+v at the end", s)
	}
}

// The memory for a burst of packets in flight is given back when the burst is over. Packets that
// are still in flight then are not lost with it.
func TestFollowerGivesBack(t *testing.T) {
	const slots, burst, rest = 8192, 5000, 300
	m := rt.New(slots, 128, 1, 8)
	now := 1000 * second
	f := backpack.NewFollower(m, backpack.NewDecoder(testDomain(slots), nil), backpack.FollowOptions{
		Now: func() uint64 { return now },
	})
	send := func(n int) {
		for range n {
			m.Send(0, udp, rt.Ingress, r1e0, now)
		}
		poll(t, f)
	}
	expire := func(want int) {
		t.Helper()
		now += 6 * second
		if got := poll(t, f); len(got) != want {
			t.Fatalf("%d packets handed out, want %d", len(got), want)
		}
	}
	send(burst)
	if full := backpack.Room(f); full < burst {
		t.Fatalf("room for %d packets when %d are in flight", full, burst)
	}
	expire(0)
	send(rest)
	expire(burst) // the timeout is 10 s
	for range 40 {
		poll(t, f) // one burst more would need the memory again; a while without says that it is over
	}
	if backpack.Room(f) > burst/4 {
		t.Errorf("room for %d packets when %d are under way", backpack.Room(f), rest)
	}
	expire(rest)
}

// TestFollowerWithdrawn: a packet that the programs took back was not measured: it
// is neither unread nor in flight.
func TestFollowerWithdrawn(t *testing.T) {
	m := rt.New(64, 256, 1, 8)
	now := 1000 * second
	f := follower(m, &now)
	pos, _ := m.Send(0, udp, rt.Ingress, r1e0, now)
	if poll(t, f); f.Stats().InFlight != 1 {
		t.Fatalf("%+v, want one in flight", f.Stats())
	}
	m.SetPos(pos, 0)
	now += 20 * second
	if got := poll(t, f); len(got) != 0 || f.Stats() != (backpack.FollowStats{}) {
		t.Errorf("%v, %+v; want nothing", got, f.Stats())
	}
}

// TestFollowerAsItStands: one reading sees ends of a moment ago, and only packets without
// an end as in flight. That includes packets that an earlier follower left pending.
func TestFollowerAsItStands(t *testing.T) {
	m := rt.New(64, 256, 1, 8)
	now := 1000 * second
	f := follower(m, &now)
	held, _ := m.Send(0, udp, rt.Ingress, r1e0, now)
	m.Drop(held, rt.First, rt.NoPort, 2, fnIP, "", true, now)
	if got := poll(t, f); len(got) != 0 {
		t.Fatalf("%v at once, want nothing", got)
	}
	m.Send(0, udp, rt.Egress, h1e0, now)
	f.AsItStands()
	if got := poll(t, f); len(got) != 1 || got[0] != held {
		t.Errorf("%v, want the loss at %d", got, held)
	}
	if s := f.Stats(); s.InFlight != 1 {
		t.Errorf("%d in flight, want 1", s.InFlight)
	}
}

func TestFollowerRefresh(t *testing.T) {
	m := rt.New(64, 128, 1, 8)
	now := 1000 * second
	asked := 0
	var refuse error
	f := backpack.NewFollower(m, backpack.NewDecoder(testDomain(64), nil), backpack.FollowOptions{
		Now: func() uint64 { return now },
		Refresh: func() (*domain.Domain, error) {
			asked++
			d := testDomain(64)
			d.Nodes = append(d.Nodes, domain.Node{ID: 9, Name: "new"})
			d.Ports = append(d.Ports, domain.Port{ID: unlisted, Node: 9, Name: "eth0"})
			return d, refuse
		},
	})
	send := func() {
		for range 2 {
			m.Send(0, udp, rt.Deliver, unlisted, now)
		}
		now += second
	}
	var nodes []uint16
	see := func(p *packet.Packet) { nodes = append(nodes, p.Hops[0].Node) }

	refuse = errors.New("no description")
	send()
	if err := f.Poll(see); !errors.Is(err, refuse) || asked != 1 || len(nodes) != 2 || nodes[0] != packet.NoNode {
		t.Errorf("refused: error %v, asked %d times, nodes %v; want the error and both packets", err, asked, nodes)
	}
	refuse, asked, nodes = nil, 0, nil
	send()
	if err := f.Poll(see); err != nil || asked != 1 || len(nodes) != 2 || nodes[0] != 9 || nodes[1] != 9 {
		t.Errorf("error %v, asked %d times, nodes %v; want 9 and 9", err, asked, nodes)
	}
}

func TestTail(t *testing.T) {
	m := rt.New(64, 128, 1, 8)
	dec := backpack.NewDecoder(testDomain(64), nil)
	m.Send(0, udp, rt.Deliver, r1e0, clock.Monotonic()) // before
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	enough := errors.New("enough")
	var got []record.Record
	sent := false
	err := backpack.Tail(ctx, &onFirstHeld{m, func() {
		if sent {
			return
		}
		sent = true
		now := clock.Monotonic()
		for i := range 3 { // the youngest first
			p := udp
			p.ID = uint16(i)
			m.Send(0, p, rt.Deliver, r1e0, now-uint64(i)*ms)
		}
	}}, dec, backpack.FollowOptions{Settle: time.Nanosecond}, time.Millisecond, func(r *record.Record) error {
		if got = append(got, *r); len(got) == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatalf("Tail: %v after %d records", err, len(got))
	}
	if got[0].IPID != 2 || got[2].IPID != 0 {
		t.Errorf("packets %d, %d, %d: want the oldest first", got[0].IPID, got[1].IPID, got[2].IPID)
	}
	cancel()
	if err := backpack.Tail(ctx, m, dec, backpack.FollowOptions{}, time.Millisecond, nil); err != nil {
		t.Errorf("Tail of an ended context: %v", err)
	}
}

// onFirstHeld calls then after the follower has found out where now is.
type onFirstHeld struct {
	*rt.Image
	then func()
}

func (s *onFirstHeld) Held(dst []backpack.Range) ([]backpack.Range, error) {
	dst, err := s.Image.Held(dst)
	s.then()
	return dst, err
}

func TestRestoreRefuses(t *testing.T) {
	m := rt.New(64, 256, 1, 8)
	now := fill1(m, 10)
	m.Send(0, train, rt.Egress, h1e0, now)
	f := follower(m, &now)
	poll(t, f)
	state := f.AppendState(nil)
	for n := range state {
		if err := f.Restore(state[:n]); !errors.Is(err, backpack.ErrState) {
			t.Errorf("first %d of %d bytes: %v", n, len(state), err)
		}
	}
	if err := f.Restore(append(state, 0)); !errors.Is(err, backpack.ErrState) {
		t.Errorf("with a byte too many: %v", err)
	}
	if err := follower(rt.New(128, 128, 1, 8), &now).Restore(state); !errors.Is(err, backpack.ErrState) {
		t.Errorf("of a ring with other slots: %v", err)
	}
	huge := []byte{1, 64, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f} // ranges
	if err := f.Restore(huge); !errors.Is(err, backpack.ErrState) {
		t.Errorf("with a number of ranges that cannot be: %v", err)
	}
	if err := f.Restore(state); err != nil {
		t.Errorf("as it was: %v", err)
	}
	if got := f.Stats().InFlight; got != 4 {
		t.Errorf("%d in flight after Restore, want 4", got)
	}
}
