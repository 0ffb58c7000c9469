// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func TestDetachNodes(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		before := l.tc("b")
		l.attach(chain...)
		objects := l.objects()
		if _, err := Detach(t.Context(), DetachRequest{Domain: l.domain, Nodes: []string{"nobody"}}); !errors.Is(err, fault.Usage) {
			t.Errorf("detach of a node that is not there: %v", err)
		}
		if r := l.detach("b"); r.Nodes != 1 || r.Ports != 1 || r.Ended || len(r.Warnings) > 0 {
			t.Errorf("detached %+v", r)
		}
		l.wantFlags("a/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+edgePort)
		if hook == program.HookTCX {
			wantNoTCXAt(t, l, "b", "e0") // at once
		}
		if after := l.tc("b"); after != before {
			t.Errorf("tc of b before:\n%s\nand after:\n%s", before, after)
		}
		l.ping()
		d, err := domain.Load(l.domain)
		if err != nil {
			t.Fatal(err)
		}
		if n := d.Nodes[2]; n.Name != "b" || !n.Removed {
			t.Errorf("b stays listed: %+v", n)
		}

		// It comes back with another number, and goes with the rest.
		r := l.attach("b")
		if id := l.port(r.Domain, "b", "e0").Node; id == d.Nodes[2].ID {
			t.Errorf("node b has number %d again", id)
		}
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort)
		if r := l.detach("b", "r", "a"); !r.Ended {
			t.Errorf("detached %+v", r)
		}
		l.wantNothing(objects)
	})
}

// While packets are under way, those that leave only restore, and nobody marks
// toward them.
func TestDetachNodesOrder(t *testing.T) {
	l := newChain(t, program.HookTCX)
	l.opts.Timeout = time.Minute
	l.attach(chain...)
	h := l.open()
	putSlot(t, h, slotState{pos: domain.MinSlots + 1, segs: 1})
	looks := 0
	_, err := Detach(t.Context(), DetachRequest{Domain: l.domain, Nodes: []string{"b"}, Progress: func(int) {
		if looks++; looks == 2 {
			putSlot(t, h, slotState{pos: domain.MinSlots + 1, segs: 1, state: bpfobj.TcRdrStateRDR_ST_DONE})
		}
		// The description still has b; the programs know that it leaves.
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+restoring, "r/e0 "+internalPort, "r/e1 "+edgePort)
		wantAttached(t, l, h.Domain, "b", "e0")
	}})
	if err != nil || looks < 2 {
		t.Errorf("looked around %d times, %v", looks, err)
	}
}

// While the domain ends no lease is given, and programs stay until it is over.
func TestDetachOrder(t *testing.T) {
	bothHooks(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		l.opts.Timeout = time.Minute
		l.attach(chain...)
		h := l.open()
		putSlot(t, h, slotState{pos: domain.MinSlots + 1, segs: 1})
		looks := 0
		_, err := Detach(t.Context(), DetachRequest{Domain: l.domain, Progress: func(int) {
			if looks++; looks == 2 {
				putSlot(t, h, slotState{pos: domain.MinSlots + 1, segs: 1, state: bpfobj.TcRdrStateRDR_ST_DONE})
			}
			if err := h.Renew(); !errors.Is(err, system.ErrDetaching) {
				t.Errorf("lease while draining: %v", err)
			}
			wantAttached(t, l, h.Domain, "b", "e0")
		}})
		if err != nil || looks < 2 {
			t.Errorf("looked around %d times, %v", looks, err)
		}
	})
}

// Detaching copes with what went away in the meantime.
func TestDetachSurvives(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		l.attach(chain...)
		objects := l.objects()
		l.Delete("b")
		l.Run("a", "ip", "link", "del", "e0")
		if r := l.detach(); !r.Ended || len(r.Warnings) > 0 {
			t.Errorf("detached %+v", r)
		}
		l.wantNothing(objects)
	})
}

// The wait ends when nothing is under way, at the latest after the timeout.
func TestDrain(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.opts.Timeout = 15 * time.Minute // the most
	l.attach("a")
	h := l.open()
	if left, err := h.Drain(t.Context(), nil); left != 0 || err != nil {
		t.Errorf("nothing under way: %d, %v", left, err)
	}
	const rest = 2 * time.Second // of the packet's time, far less than the timeout
	var seen []int
	for try := 0; try < 5 && len(seen) < 2; try++ { // on a busy machine it may be over at the first look
		seen = nil
		start := time.Now()
		putSlot(t, h, slotState{pos: domain.MinSlots + 1, segs: 1, age: l.opts.Timeout - rest})
		left, err := h.Drain(t.Context(), func(n int) { seen = append(seen, n) })
		if took := time.Since(start); left != 0 || err != nil || took < rest && len(seen) > 1 || took > l.opts.Timeout/2 {
			t.Errorf("a packet that never arrives: %d left, %v, after %v", left, err, took)
		}
	}
	if len(seen) < 2 || seen[0] != 1 || seen[len(seen)-1] != 0 {
		t.Errorf("progress %v", seen)
	}
	putSlot(t, h, slotState{pos: domain.MinSlots + 2, segs: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if left, err := h.Drain(ctx, nil); left != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("cut short: %d, %v", left, err)
	}
}

// An attach that was killed before it had loaded anything leaves its lock only.
func TestDetachRemovesLock(t *testing.T) {
	l := newLab(t, program.HookTCX)
	unlock, err := domain.Lock(l.domain)
	if err != nil {
		t.Fatal(err)
	}
	detach := func() {
		t.Helper()
		if _, err := Detach(t.Context(), DetachRequest{Domain: l.domain}); !errors.Is(err, domain.ErrNotAttached) {
			t.Errorf("detach of what is not attached: %v", err)
		}
	}
	detach()
	if _, err := os.Stat(domain.File(l.domain, "lock")); err != nil {
		t.Errorf("detach removed the lock of a living process: %v", err)
	}
	unlock()
	detach()
	l.wantNoFiles()
}
