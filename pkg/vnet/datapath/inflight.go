// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
)

// drainPoll is how often the ring is looked at while draining, unless looking
// takes long itself.
const drainPoll = 20 * time.Millisecond

// slots maps the ring for reading, once.
func (h *Handle) slots() ([]byte, error) {
	if h.ring != nil {
		return h.ring, nil
	}
	m := h.maps[bpfobj.TcMapRing]
	size := int(m.MaxEntries()) * int(m.ValueSize())
	mem, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring: %w", err)
	}
	h.ring = mem
	return mem, nil
}

// slotHead is what this package wants to know of a slot.
type slotHead struct {
	pos, t0 uint64
	state   bpfobj.TcRdrState
	seg     uint64
	cut     bpfobj.TcRdrCut
}

// slot reads one slot of the mapped ring. ok is false if it was being written.
func (h *Handle) slot(pos uint64) (s slotHead, ok bool) {
	o := h.Domain.Options
	raw := (*bpfobj.TcRdrSlot)(unsafe.Pointer(&h.ring[pos%uint64(o.Slots)*uint64(o.SlotBytes)]))
	s.pos = atomic.LoadUint64(&raw.Pos)
	s.t0 = atomic.LoadUint64(&raw.T0Ns)
	s.state, s.seg, s.cut = bpfobj.TcRdrState(raw.State), uint64(raw.Seg), bpfobj.TcRdrCut(raw.Cut)
	return s, s.pos != 0 && atomic.LoadUint64(&raw.Pos) == s.pos
}

// InFlight returns how many packets (trains count once while they are whole) are
// under way: marked within the timeout and not delivered, lost or gone, or with copies of which
// that is not known.
func (h *Handle) InFlight() (int, error) { return h.inFlight(clock.Monotonic()) }

// inFlight counts those that were marked before a time.
func (h *Handle) inFlight(before uint64) (int, error) {
	if _, err := h.slots(); err != nil {
		return 0, err
	}
	now, timeout := clock.Monotonic(), uint64(h.Domain.Options.Timeout)
	n := 0
	for i := range uint64(h.Domain.Options.Slots) {
		s, ok := h.slot(i)
		// Of one that is done, flooded copies may still be under way.
		done := s.state&bpfobj.TcRdrStateRDR_ST_DONE != 0 && s.cut&bpfobj.TcRdrCutRDR_COPIES == 0
		if !ok || s.t0 >= before || now-s.t0 >= timeout || done {
			continue
		}
		if s.seg > 0 {
			// The head speaks for its train until that has been cut.
			head, ok := h.slot(s.pos - s.seg)
			if !ok || head.pos != s.pos-s.seg || head.cut&bpfobj.TcRdrCutRDR_CUT == 0 {
				continue
			}
		}
		n++
	}
	return n, nil
}

// Drain waits until no packet that was marked before the call is under way, at
// most for the timeout, after which packets count as expired. Sources should be
// stopped. progress, if not nil, is told how many are left. It returns how many
// are left at the end; ctx ending early is an error.
func (h *Handle) Drain(ctx context.Context, progress func(inFlight int)) (inFlight int, err error) {
	before := clock.Monotonic()
	for {
		start := time.Now()
		if inFlight, err = h.inFlight(before); err != nil {
			return inFlight, err
		}
		if progress != nil {
			progress(inFlight)
		}
		if inFlight == 0 {
			return 0, nil
		}
		select {
		case <-ctx.Done():
			return inFlight, fmt.Errorf("wait for packets under way: %w", ctx.Err())
		case <-time.After(max(drainPoll, 3*time.Since(start))):
		}
	}
}
