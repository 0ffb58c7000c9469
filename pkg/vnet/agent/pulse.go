// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	quickEvery  = 250 * time.Millisecond // what costs nothing to look at
	secondEvery = time.Second            // snapshot, and the domain's description
	restMost    = 2 * time.Second        // what matters only while packets pass, where none do
)

// pulse wakes the loops of an agent, all at the same time. A timer of each loop's own would wake the process as often
// as there are loops, and waking is most of what an idle agent costs.
type pulse struct {
	ring atomic.Uint64 // the cursor of the ring, when it was last looked at

	mu            sync.Mutex
	quick, second []chan struct{}
}

// Quick is a channel that has something every quickEvery, if it was empty.
func (p *pulse) Quick() <-chan struct{} { return p.add(&p.quick) }

// Second is the same every secondEvery.
func (p *pulse) Second() <-chan struct{} { return p.add(&p.second) }

func (p *pulse) add(to *[]chan struct{}) <-chan struct{} {
	c := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, c)
	return c
}

func (p *pulse) wake(all []chan struct{}) {
	for _, c := range all {
		select {
		case c <- struct{}{}:
		default: // it is still busy with the last one
		}
	}
}

func (p *pulse) run(ctx context.Context) error {
	ticker := time.NewTicker(quickEvery)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		p.mu.Lock()
		p.wake(p.quick)
		if n%int(secondEvery/quickEvery) == 0 {
			p.wake(p.second)
		}
		p.mu.Unlock()
	}
}

// rest tells a loop when to look at what matters only while packets pass: every secondEvery while the ring moves,
// at once when it begins to, and every restMost while it does not. Ask it at each Quick.
type rest struct {
	pulse  *pulse
	ring   uint64
	moving bool
	at     time.Time
}

func (r *rest) isDue(now time.Time) bool {
	ring := r.pulse.ring.Load()
	moves, since := ring != r.ring, now.Sub(r.at)
	if since < restMost && !(moves && (!r.moving || since >= secondEvery)) {
		return false
	}
	r.ring, r.moving, r.at = ring, moves, now
	return true
}
