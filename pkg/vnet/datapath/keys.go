// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
)

// arrivedFor is how long after its source a packet that has arrived keeps its key:
// a bridge may have flooded it, and a copy still be in a queue.
const arrivedFor = time.Second

// keyBatch is how many keys are read with one system call.
const keyBatch = 4096

// SweepKeys removes the keys of packets whose slot has been overwritten, or was
// marked longer than the timeout ago, or that have arrived, and returns how many, and how many are left.
// Without it the map would fill with packets that vanished quietly or left by a
// bridge. Call it about once a second.
func (h *Handle) SweepKeys() (removed, left int, err error) {
	m := h.maps[bpfobj.TcMapKeys]
	if h.sweep.keys == nil {
		batch := min(keyBatch, int(m.MaxEntries()))
		h.sweep.keys, h.sweep.positions = make([]bpfobj.TcRdrKey, batch), make([]uint64, batch)
	}
	keys, positions := h.sweep.keys, h.sweep.positions
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, positions, nil)
		end := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !end {
			return removed, left, fmt.Errorf("read keys: %w", err)
		}
		if n > 0 { // else the ring stays unmapped: mapped, it counts as this process's memory
			if _, err := h.slots(); err != nil {
				return removed, left, err
			}
		}
		for i := range n {
			if h.expired(positions[i]) && removeKey(m, &keys[i], positions[i]) {
				removed++
			} else {
				left++
			}
		}
		if end {
			return removed, left, nil
		}
	}
}

// expired says whether the packet at a position is history.
func (h *Handle) expired(pos uint64) bool {
	s, ok := h.slot(pos)
	switch {
	case !ok, s.pos < pos:
		return false // being written; the next sweep sees
	case s.pos > pos:
		return true // overwritten by a later packet
	}
	age := time.Duration(max(int64(clock.Monotonic()-s.t0), 0))
	const ended = bpfobj.TcRdrStateRDR_ST_DONE | bpfobj.TcRdrStateRDR_ST_LOST
	return age >= h.Domain.Options.Timeout ||
		age >= arrivedFor && s.state&ended == bpfobj.TcRdrStateRDR_ST_DONE
}

// removeKey removes a key unless it stands for another packet by now.
func removeKey(m *ebpf.Map, key *bpfobj.TcRdrKey, pos uint64) bool {
	var got uint64
	err := m.LookupAndDelete(key, &got)
	if err == nil && got != pos {
		// A new packet has it. Give it back, unless a newer one came meanwhile.
		_ = m.Update(key, got, ebpf.UpdateNoExist)
		return false
	}
	if err == nil || errors.Is(err, ebpf.ErrKeyNotExist) {
		return err == nil
	}
	// Before Linux 5.14: look and delete, with a moment in between.
	if m.Lookup(key, &got) != nil || got != pos {
		return false
	}
	return m.Delete(key) == nil
}
