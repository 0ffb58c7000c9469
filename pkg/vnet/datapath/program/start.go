// SPDX-License-Identifier: Apache-2.0

package program

import (
	"math/rand/v2"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/loader"
)

// startRing gives the ring's cursor its first position, CPUs their first blocks, and user space
// the keys that the programs have.
// Where they begin is left to chance: copies of one lab that run side by side send equal
// packets, and what the kernel frees in a socket's queue has nothing but its mark, the
// index of a slot, to say which domain's packet it is.
func (l *Loaded) startRing(b *Blueprint) error {
	cursor, control, alloc := l.Maps[bpfobj.TcMapCursor], l.Maps[bpfobj.TcMapControl], l.Maps[bpfobj.TcMapAlloc]
	if cursor == nil || control == nil || alloc == nil {
		return fault.NotLoaded.Errorf("the BPF object lacks a map: rebuild radar")
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return loader.Error("count CPUs", err)
	}
	start, next, held := b.Layout.firstPositions(cpus, rand.Uint64N)
	if err := alloc.Put(uint32(0), held); err != nil {
		return loader.Error("give CPUs their first slots", err)
	}
	if err := cursor.Put(uint32(0), &bpfobj.TcRdrCursor{Next: next}); err != nil {
		return loader.Error("set first position", err)
	}
	page := bpfobj.TcRdrControl{Cursor: next, Start: start, Hash: b.keys}
	if b.ipv6Held {
		page.Ip6Held = 1
	}
	if err := control.Put(uint32(0), &page); err != nil {
		return loader.Error("set control page", err)
	}
	return nil
}

// firstPositions are the first position of all, at the start of some block, that of the
// first block that no CPU has, and what CPUs have: the rest of a block each, as far as a
// quarter of the ring suffices. No position is 0. random returns a number below its
// argument.
func (l *Layout) firstPositions(cpus int, random func(uint64) uint64) (start, next uint64, held []bpfobj.TcRdrAlloc) {
	slots, block := uint64(l.Slots), uint64(l.Block)
	start = slots + random(slots/block)*block
	next = start
	held = make([]bpfobj.TcRdrAlloc, cpus)
	for i := range held {
		if next+block-start > slots/4 {
			break
		}
		held[i].Next = next + random(block)
		next += block
		held[i].End = next
	}
	return start, next, held
}
