// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

const (
	// A look that took long is followed by a pause that many times as long.
	quietShare = 50
	// The same for a look at everything, after messages were lost.
	lostShare = 10
)

// marks makes nodes give the mark up whose rules use its bits, though they came after
// attach. One goroutine stops nodes as soon as the kernel tells of a rule; it does nothing
// else. The other one looks where nobody tells, and settles what the nodes carry instead.
type marks struct {
	quick   *datapath.Handle // of the first goroutine
	handle  *datapath.Handle // of the second one
	watcher *rules.Watcher
	mask    uint32 // the domain's bits of the mark, for life
	watched []topo.NodeSpec
	told    map[rules.Conflict]bool
	log     *slog.Logger
	once    resident.Logger

	mu   sync.Mutex
	uses map[string]rules.Conflict // to settle, one a node
	more chan struct{}             // there are some
}

func newMarks(name string, log *slog.Logger, t *resident.Troubles) (_ *marks, err error) {
	m := &marks{log: log, once: resident.Logger{Log: log, Troubles: t}, told: make(map[rules.Conflict]bool),
		uses: make(map[string]rules.Conflict), more: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.quick, err = openHandle(name); err != nil {
		return nil, err
	}
	if m.handle, err = openHandle(name); err != nil {
		return nil, err
	}
	m.mask = m.handle.Domain.Options.MarkMask
	if m.watcher, err = rules.NewWatcher(); err != nil {
		return nil, err
	}
	// Rules may have come while no agent lived: they count before sources mark again.
	m.follow(context.Background())
	m.settle(context.Background())
	if m.handle.CanGiveMarksUp() {
		m.once.Warn("carry the mark again", m.handle.ResumeMarks())
	}
	return m, nil
}

func (m *marks) close() {
	if m.watcher != nil {
		m.watcher.Close()
	}
	for _, h := range []*datapath.Handle{m.quick, m.handle} {
		if h != nil {
			h.Close()
		}
	}
}

func (m *marks) run(ctx context.Context, p *resident.Pulse) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { m.stop(ctx, p) })
	quick, second, rest := p.Quick(), p.Second(), resident.Rest{Pulse: p}
	var silent, full time.Time // not before
	lost := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.more:
		case <-m.watcher.Lost():
			lost = true
		case <-second:
			// The loop that follows the ring notices a domain that is gone.
			if err := m.handle.ReloadChanged(); err != nil {
				continue
			}
			m.follow(ctx)
		case <-quick:
			// The kernel announces no rules of these kinds.
			begin := time.Now()
			if begin.Before(silent) || !rest.IsDue(begin) {
				continue
			}
			m.found(rules.FindQuiet(ctx, m.handle.MarkNodes(), m.mask))
			silent = time.Now().Add(quietShare * time.Since(begin))
		}
		if begin := time.Now(); lost && begin.After(full) {
			lost = false
			m.found(rules.Find(ctx, m.handle.MarkNodes(), m.mask))
			full = time.Now().Add(lostShare * time.Since(begin))
		}
		m.settle(ctx)
	}
}

// stop stops nodes as the kernel tells of their rules.
func (m *marks) stop(ctx context.Context, p *resident.Pulse) {
	reload := p.Second()
	for {
		select {
		case <-ctx.Done():
			return
		case <-reload:
			_ = m.quick.ReloadChanged() // else what is known holds
		case use := <-m.watcher.C():
			uses := []rules.Conflict{use}
			var err error
			if m.quick.CanGiveMarksUp() {
				err = m.quick.StopMarks(uses)
			}
			m.put(uses)
			if err != nil {
				m.log.Warn("stop using the mark", "node", use.Node, "error", err)
			}
		}
	}
}

// put leaves rules to be settled.
func (m *marks) put(uses []rules.Conflict) {
	m.keep(uses)
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// keep leaves them for the next tick.
func (m *marks) keep(uses []rules.Conflict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range rules.Overlapping(uses, m.mask) {
		m.uses[u.Node] = u
	}
}

// found takes what a look found.
func (m *marks) found(uses []rules.Conflict) {
	if uses = m.handle.Collisions(uses); len(uses) > 0 {
		m.put(uses)
	}
}

// follow watches the nodes that carry the mark, and looks at those that are new.
func (m *marks) follow(ctx context.Context) {
	specs := m.handle.MarkNodes()
	if slices.Equal(specs, m.watched) {
		return
	}
	err := m.watcher.Set(specs)
	m.once.Warn("watch users of the mark", err)
	if err != nil {
		return
	}
	var look []topo.NodeSpec
	for _, s := range specs {
		if !slices.Contains(m.watched, s) {
			look = append(look, s)
		}
	}
	m.watched = specs
	m.found(rules.Find(ctx, look, m.mask))
}

// settle lets nodes carry something else, and says so.
func (m *marks) settle(ctx context.Context) {
	m.mu.Lock()
	uses := make([]rules.Conflict, 0, len(m.uses))
	for _, u := range m.uses {
		uses = append(uses, u)
	}
	clear(m.uses)
	m.mu.Unlock()
	if uses = m.handle.Collisions(uses); len(uses) == 0 {
		m.once.Warn("give the mark up", nil) // what could not be settled has gone
		return
	}
	if !m.handle.CanGiveMarksUp() {
		for _, u := range uses {
			if len(m.told) < maxTold && !m.told[u] {
				m.told[u] = true
				m.log.Warn(fmt.Sprintf("node %s has a rule that uses bits of the mark which radar carries there, as ‹carry› says: attach with ‹carry› auto, or with other bits",
					u.Node), "rule", u.What+": "+u.Text)
			}
		}
		return
	}
	given, err := m.handle.SettleMarks(ctx, uses)
	if errors.Is(err, domain.ErrNotAttached) || errors.Is(err, system.ErrDetaching) {
		return
	}
	m.once.Warn("give the mark up", err)
	if err != nil {
		m.keep(uses)
	}
	for _, g := range given {
		if g.Apart != "" {
			m.log.Warn(fmt.Sprintf("node %s uses bits of the mark, and has %s: stories end where packets enter it, as left, and begin anew where they leave it; detach it, or attach with ‹carry› mark=MASK",
				g.Node, g.Apart), "rule", g.Why)
			continue
		}
		m.log.Warn(fmt.Sprintf("node %s uses bits of the mark: it carries the header from now on", g.Node), "rule", g.Why)
	}
}

// maxTold bounds how many rules are remembered that were told of.
const maxTold = 1000
