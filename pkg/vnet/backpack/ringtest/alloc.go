// SPDX-License-Identifier: Apache-2.0

package ringtest

import "sync/atomic"

// maxSkip is how many packets in flight a source steps over here. (The programs step over more, in windows.)
const maxSkip = 32

// Take gives n neighbouring positions to a packet of one CPU, 0 if a bounded search
// found none. They count as held until Settle. One goroutine for each CPU.
func (r *Image) Take(cpu int, n, now uint64) uint64 {
	a := &r.cpus[cpu]
	from, free, busy := a.next.Load(), uint64(0), 0
	for range 1000 {
		switch {
		case from+n > a.end.Load(), r.cameRound(a):
			r.abandon(from, min(free, a.end.Load()-from))
			r.takeBlock(a)
			from, free = a.next.Load(), 0
		case free >= n:
			return from
		default:
			span, ok := r.reusable(from+free, now)
			if ok {
				free += span
				continue
			}
			if busy++; busy > maxSkip {
				return 0
			}
			from += free + span
			free = 0
			a.next.Store(from)
		}
		if free >= n {
			return from
		}
	}
	return 0
}

// cameRound says that the CPU's block begins to belong to others again.
func (r *Image) cameRound(a *alloc) bool {
	next := a.next.Load()
	return next < a.end.Load() && r.cursor.Load()-next > r.slots-r.Block
}

// abandon marks slots that were found free but are not used: they may be segments of
// a train whose head is overwritten already, and look in flight.
func (r *Image) abandon(from, n uint64) {
	for pos := from; pos < from+n; pos++ {
		r.SetState(pos, r.State(pos)|Done)
	}
}

// takeBlock gives the CPU the next block; in the programs' order, so that a reader
// who knows the cursor knows who holds what is below.
func (r *Image) takeBlock(a *alloc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pos := r.next
	r.next += r.Block
	a.end.Store(pos + r.Block)
	a.next.Store(pos)
	r.cursor.Store(r.next)
}

// reusable returns how many positions from pos on the slot's packet speaks for, and whether it may
// be reused.
func (r *Image) reusable(pos, now uint64) (span uint64, ok bool) {
	if r.Pos(pos) == 0 {
		return 1, true
	}
	span = 1
	// A head that a later train has left among its members is none any more.
	if r.Byte(pos, offSeg) == 0 && r.Byte(pos, offCut)&Cut == 0 && !r.unfilled[pos&(r.slots-1)] {
		span = uint64(max(r.Byte(pos, offSegs), 1))
	}
	age := now - atomic.LoadUint64(r.word(pos, offT0))
	return span, age >= r.TimeoutNs || r.State(pos)&Done != 0 && age >= r.MinAgeNs
}

// Settle says that all positions of the CPU's block below pos are written.
func (r *Image) Settle(cpu int, pos uint64) { r.cpus[cpu].next.Store(pos) }

// Send is Take, Write, the source's event, and Settle.
func (r *Image) Send(cpu int, p Packet, kind byte, port uint16, now uint64) (pos uint64, ok bool) {
	n := uint64(max(p.Segs, 1))
	if pos = r.Take(cpu, n, now); pos == 0 {
		return 0, false
	}
	r.Write(pos, p, now)
	r.See(pos, kind, First|Source, port, now)
	r.Settle(cpu, pos+n)
	return pos, true
}
