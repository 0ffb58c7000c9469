// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// How often loops are woken, and how long those wait at most that matter only while packets pass.
const (
	QuickEvery  = 250 * time.Millisecond // what costs nothing to look at
	SecondEvery = time.Second            // snapshot, and the domain's description
	RestMost    = 2 * time.Second        // what matters only while packets pass, where none do
)

// Pulse wakes the loops of an agent, all at the same time. A timer of each loop's own would wake the process as often
// as there are loops, and waking is most of what an idle agent costs.
type Pulse struct {
	moved atomic.Uint64 // grows with what passes

	mu            sync.Mutex
	quick, second []chan struct{}
}

// Quick is a channel that has something every QuickEvery, if it was empty.
func (p *Pulse) Quick() <-chan struct{} { return p.add(&p.quick) }

// Second is the same every SecondEvery.
func (p *Pulse) Second() <-chan struct{} { return p.add(&p.second) }

// Moved says how far the system has come, by a number that only grows, such as the cursor of a ring.
func (p *Pulse) Moved(to uint64) { p.moved.Store(to) }

func (p *Pulse) add(to *[]chan struct{}) <-chan struct{} {
	c := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, c)
	return c
}

func (p *Pulse) wake(all []chan struct{}) {
	for _, c := range all {
		select {
		case c <- struct{}{}:
		default: // it is still busy with the last one
		}
	}
}

// Run wakes them until ctx ends.
func (p *Pulse) Run(ctx context.Context) error {
	ticker := time.NewTicker(QuickEvery)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		p.mu.Lock()
		p.wake(p.quick)
		if n%int(SecondEvery/QuickEvery) == 0 {
			p.wake(p.second)
		}
		p.mu.Unlock()
	}
}

// Rest tells a loop when to look at what matters only while packets pass: every SecondEvery while the ring moves,
// at once when it begins to, and every RestMost while it does not. Ask it at each Quick.
type Rest struct {
	Pulse *Pulse

	moved  uint64
	moving bool
	at     time.Time
}

// IsDue reports whether it is to look now.
func (r *Rest) IsDue(now time.Time) bool {
	moved := r.Pulse.moved.Load()
	moves, since := moved != r.moved, now.Sub(r.at)
	if since < RestMost && !(moves && (!r.moving || since >= SecondEvery)) {
		return false
	}
	r.moved, r.moving, r.at = moved, moves, now
	return true
}
