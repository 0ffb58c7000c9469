// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Counts of one direction, in frames. In = Out + Lost + Full + Refused + Queued.
type Counts struct {
	From    string `json:"from"`
	To      string `json:"to"`
	In      uint64 `json:"in"`
	Out     uint64 `json:"out"`
	Lost    uint64 `json:"lost"`    // by Config.Loss
	Full    uint64 `json:"full"`    // no room in the queue
	Refused uint64 `json:"refused"` // by the interface it should have left by: down, too long, a train in a tunnel
	Queued  uint64 `json:"queued"`  // still waiting
	Overrun uint64 `json:"overrun"` // not in In: arrived faster than they were read
	Skipped uint64 `json:"skipped"` // not in In: with an offload that the kernel cannot hand over
}

// frame waits in a queue, with its virtio_net header.
type frame struct {
	due  time.Time
	turn uint64 // of arrival: frames due at the same time keep their order
	data []byte
}

type frameHeap []frame

func (h frameHeap) Len() int { return len(h) }
func (h frameHeap) Less(i, k int) bool {
	if h[i].due.Equal(h[k].due) {
		return h[i].turn < h[k].turn
	}
	return h[i].due.Before(h[k].due)
}
func (h frameHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *frameHeap) Push(x any)   { *h = append(*h, x.(frame)) }
func (h *frameHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = frame{}
	*h = old[:len(old)-1]
	return last
}

// direction is one direction through the forwarder.
type direction struct {
	from, to *port
	cfg      *Config
	rand     *rand.Rand
	queue    frameHeap
	turn     uint64
	free     time.Time // when the line is done with the frames so far (Config.Rate)
	last     time.Time // when the frame before this one is due

	in, out, lost, full, refused, queued, overrun, skipped atomic.Uint64
}

// batch bounds how many frames one direction handles before it is the other's turn.
const batch = 64

// receive takes what has arrived, up to a batch.
func (d *direction) receive(buf []byte) error {
	for range batch {
		n, at, err := d.from.receive(buf)
		switch {
		case errors.Is(err, errIdle):
			return nil
		case errors.Is(err, errSkip):
			d.skipped.Add(1)
			continue
		case err != nil:
			return err
		}
		d.in.Add(1)
		d.accept(buf[:n], at)
	}
	return nil
}

// accept decides what happens to the frame. Both random numbers are always drawn, so
// that it depends on nothing but the frame's place in the sequence.
func (d *direction) accept(b []byte, at time.Time) {
	lose := d.rand.Float64() < d.cfg.Loss
	delay := d.cfg.Delay.Sample(d.rand)
	if lose {
		d.lost.Add(1)
		return
	}
	if len(d.queue) >= d.cfg.Queue {
		d.full.Add(1)
		return
	}
	if d.cfg.Rate > 0 {
		if d.free.Before(at) {
			d.free = at
		}
		bits := float64(len(b)-vnetLen) * 8
		d.free = d.free.Add(time.Duration(bits / float64(d.cfg.Rate) * float64(time.Second)))
		at = d.free
	}
	due := at.Add(delay)
	if !d.cfg.Reorder {
		if due.Before(d.last) {
			due = d.last
		}
		d.last = due
	}
	d.turn++
	heap.Push(&d.queue, frame{due: due, turn: d.turn, data: append([]byte(nil), b...)})
	d.queued.Store(uint64(len(d.queue)))
}

// send lets out what is due, up to a batch, and says when the next frame is;
// false: there is none.
func (d *direction) send() (next time.Time, waits bool) {
	for n := 0; len(d.queue) > 0; n++ {
		if next = d.queue[0].due; n == batch || time.Now().Before(next) {
			return next, true
		}
		f := heap.Pop(&d.queue).(frame)
		if d.to.send(f.data) == nil {
			d.out.Add(1)
		} else {
			d.refused.Add(1)
		}
		d.queued.Store(uint64(len(d.queue)))
	}
	return time.Time{}, false
}

func (d *direction) counts() Counts {
	return Counts{
		From: d.from.name, To: d.to.name,
		In: d.in.Load(), Out: d.out.Load(), Lost: d.lost.Load(), Full: d.full.Load(), Refused: d.refused.Load(),
		Queued: d.queued.Load(), Overrun: d.overrun.Load(), Skipped: d.skipped.Load(),
	}
}
