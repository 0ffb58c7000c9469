// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

const (
	ms       = uint64(1e6)
	settleNs = 50 * ms
	holdNs   = 200 * ms
)

// model is a network that writes a ring at random, and knows the truth about it.
type model struct {
	*rt.Image
	rng   *rand.Rand
	slots uint64
	now   uint64

	truths map[uint64]*truth // by head position
	live   []*truth
	used   uint64 // positions that carried a packet
}

// truth is what happened to a packet or train.
type truth struct {
	pos, t0 uint64
	cut     bool
	parts   []part // one; with cut, one for each segment
	segs    int
	// Before it is cut, parts[0] is all of it.
}

type part struct {
	state  record.State
	local  bool
	held   bool
	last   uint64 // last event
	cells  int
	handed int
	stage  int // on its path, in steps of m.happen
}

func newModel(rng *rand.Rand, slots uint32, cpus int, block uint64) *model {
	return &model{
		Image: rt.New(slots, 256, cpus, block), rng: rng, slots: uint64(slots),
		now: 1000 * second, truths: make(map[uint64]*truth),
	}
}

// send lets a random CPU send a packet or a train.
func (m *model) send(cpus int) {
	p := udp
	if m.rng.IntN(4) == 0 {
		p = train
		p.Segs = byte(2 + m.rng.IntN(int(min(m.Block, 8))-1))
	}
	pos, ok := m.Send(m.rng.IntN(cpus), p, rt.Egress, h1e0, m.now)
	if !ok {
		return
	}
	tr := &truth{pos: pos, t0: m.now, segs: int(max(p.Segs, 1)), parts: make([]part, max(p.Segs, 1))}
	for k := range tr.parts {
		tr.parts[k] = part{state: record.InFlight, last: m.now, cells: 1}
	}
	if m.truths[pos] != nil {
		panic("model: position given twice")
	}
	m.truths[pos] = tr
	m.live = append(m.live, tr)
	m.used += uint64(tr.segs)
}

// step lets something happen to a random packet that still may.
func (m *model) step() {
	for len(m.live) > 0 {
		i := m.rng.IntN(len(m.live))
		tr := m.live[i]
		k := m.rng.IntN(tr.segs)
		there := m.Has(tr.pos) && (!tr.cut || m.Has(tr.pos+uint64(k)))
		if m.rng.IntN(8) > 0 && there && m.now-tr.t0 < m.TimeoutNs {
			m.happen(tr, k)
			return
		}
		m.live[i] = m.live[len(m.live)-1]
		m.live = m.live[:len(m.live)-1]
	}
}

func (m *model) happen(tr *truth, k int) {
	pos, flags := tr.pos, byte(rt.First)
	if tr.segs > 1 && (tr.cut || m.rng.IntN(3) == 0) {
		if !tr.cut {
			tr.cut = true
			m.SetCut(tr.pos, rt.Cut)
			for i := range tr.parts {
				tr.parts[i] = tr.parts[0]
			}
		}
		pos, flags = pos+uint64(k), flags|rt.Part
	} else {
		k = 0
	}
	p := &tr.parts[k]
	age := m.now - p.last
	over := p.state != record.InFlight && (age >= settleNs && !p.held || age >= holdNs)
	if over || p.local || p.cells > 12 {
		return
	}
	// There are no copies: it goes on from where it is, perhaps by where nobody looks.
	step := m.rng.IntN(7)
	if step < 4 && step < p.stage {
		return
	}
	switch step {
	case 0:
		m.See(pos, rt.Ingress, flags, r1e0, m.now)
		p.state, p.held, p.stage = record.InFlight, false, 1
	case 1:
		m.See(pos, rt.Egress, flags, r1e1, m.now)
		p.state, p.held, p.stage = record.InFlight, false, 2
	case 2:
		m.See(pos, rt.Deliver, flags, r2e0, m.now)
		p.state, p.held, p.stage = record.Delivered, false, 3
	case 3:
		m.See(pos, rt.Left, flags, r2e1, m.now)
		p.state, p.held, p.stage = record.Left, false, 4
	default:
		if p.state == record.Left || p.state == record.Lost {
			return // another drop says nothing new
		}
		held := m.rng.IntN(4) == 0
		port := uint16(r1e1)
		if p.state == record.Delivered {
			port = r2e0 // by the receiver
		}
		m.Drop(pos, flags, port, 64, fnQueue, "tbf", held, m.now)
		if p.local = p.state == record.Delivered; !p.local {
			p.state, p.held = record.Lost, held
		}
		p.cells += 2
	}
	p.cells++
	p.last = m.now
}

// hand checks a packet that a Follower hands out against the truth.
func (m *model) hand(p *packet.Packet, pressed bool) error {
	for back := range uint64(8) {
		tr := m.truths[p.Pos-back]
		if tr == nil || int(back) >= tr.segs {
			continue
		}
		if !tr.cut && p.Segs != tr.segs || tr.cut && p.Segs != 1 {
			return fmt.Errorf("position %d: %d segments handed out, train of %d, cut %v", p.Pos, p.Segs, tr.segs, tr.cut)
		}
		if back > 0 && !tr.cut {
			return fmt.Errorf("position %d: segment %d of a whole train handed out", p.Pos, back)
		}
		t := &tr.parts[back]
		if t.handed++; t.handed > 1 {
			return fmt.Errorf("position %d handed out %d times", p.Pos, t.handed)
		}
		want := t.state
		if want == record.InFlight && m.now-tr.t0 > m.TimeoutNs {
			want = record.Expired
		}
		if !p.HasTuple && t.local {
			return nil // whether it had been delivered, the head's slot knew
		}
		if p.State != want || p.LocalDrop != t.local || p.Truncated != !p.HasTuple {
			return fmt.Errorf("position %d: %s, local drop %v, truncated %v; truth %s, %v", p.Pos, p.State, p.LocalDrop, p.Truncated, want, t.local)
		}
		wait := settleNs
		if t.held {
			wait = holdNs
		}
		if age := m.now - t.last; age < wait && !pressed && want != record.Expired {
			return fmt.Errorf("position %d: handed out %s after %v", p.Pos, p.State, time.Duration(age))
		}
		return nil
	}
	return fmt.Errorf("position %d handed out, nothing was sent there", p.Pos)
}

// handed counts the positions that were handed out.
func (m *model) handed() (n uint64) {
	for _, tr := range m.truths {
		switch {
		case tr.cut:
			for _, p := range tr.parts {
				n += uint64(p.handed)
			}
		case tr.parts[0].handed > 0:
			n += uint64(tr.segs)
		}
	}
	return n
}

func TestFollowerModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		slots := uint32(64) << rng.IntN(4)
		cpus := 1 + rng.IntN(4)
		block := uint64(4) << rng.IntN(2)
		t.Run(fmt.Sprintf("seed=%d,slots=%d,cpus=%d,block=%d", seed, slots, cpus, block), func(t *testing.T) {
			m := newModel(rng, slots, cpus, block)
			m.Unfilled = seed%2 == 0
			runModel(t, m, cpus)
		})
	}
}

func runModel(t *testing.T, m *model, cpus int) {
	m.TimeoutNs = 600 * ms
	dom := testDomain(uint32(m.slots))
	dom.Options.Timeout = time.Duration(m.TimeoutNs)
	dec := backpack.NewDecoder(dom, names{})
	opts := backpack.FollowOptions{
		Now: func() uint64 { return m.now }, Settle: time.Duration(settleNs), Hold: time.Duration(holdNs),
	}
	f := backpack.NewFollower(m, dec, opts)
	oldest, jumped := m.Cursor(), false // of what was open at the last poll
	poll := func() {
		t.Helper()
		cursor := m.Cursor()
		jumped = jumped || cursor-oldest >= m.slots
		oldest = cursor
		held, _ := m.Held(nil)
		for _, r := range held {
			oldest = min(oldest, r.From)
		}
		err := f.Poll(func(p *packet.Packet) {
			if err := m.hand(p, cursor-p.Pos > m.slots/4*3); err != nil {
				t.Fatal(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if m.rng.IntN(3) == 0 { // another process goes on
			state := f.AppendState(nil)
			f = backpack.NewFollower(m, dec, opts)
			if err := f.Restore(state); err != nil {
				t.Fatalf("restore: %v", err)
			}
		}
		// While polls come before the ring comes round to what was open at the last,
		// what was missed is known exactly.
		s := f.Stats()
		missed, counted := m.used-m.handed()-s.InFlight, s.Unread+s.Torn
		if missed > counted || missed < counted && !jumped {
			t.Fatalf("%d sent, %d handed out, %d in flight: %d missed, %d unread + %d torn",
				m.used, m.handed(), s.InFlight, missed, s.Unread, s.Torn)
		}
	}
	poll()
	for range 4000 {
		m.now += uint64(m.rng.Int64N(int64(4 * ms)))
		before := m.Cursor()
		if m.rng.IntN(5) == 0 {
			m.send(cpus)
		} else {
			m.step()
		}
		if m.rng.IntN(8) == 0 || m.Cursor()-before > 0 && m.rng.IntN(2) == 0 {
			poll()
		}
	}
	m.now += m.TimeoutNs + settleNs + holdNs + 1
	poll()
	s := f.Stats()
	if s.InFlight != 0 {
		t.Errorf("%d packets in flight after the timeout", s.InFlight)
	}
	t.Logf("%d sent, %d handed out, ring came round %d times, jumped %v, %+v",
		m.used, m.handed(), m.Cursor()/m.slots, jumped, s)
}
