// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// A node that may have changed is looked at once more: the kernel tells of an address just
// before it uses it.
const lookAgain = 20 * time.Millisecond

// After a look at nodes that have changed the next one waits, by how long this one took, but
// not longer than that. Whoever controls a node can change it all the time.
const (
	changedShare = 4
	changedMost  = 100 * time.Millisecond
)

// addresses follows which addresses the nodes own. It tells the programs at once, and keeps
// when that was: what they noted before they knew is read with the help of it.
type addresses struct {
	handle  *datapath.Handle
	watcher *topo.AddressWatcher
	watched []topo.NodeSpec
	known   map[uint16]ownership
	moves   *domain.Moves
	unsaved bool
	once    resident.Logger
	// wide6 is told when a node has an IPv6 address beyond link-local, as long as IPv6 is held.
	wide6 chan struct{}
}

// ownership is what a look at a node has found.
type ownership struct {
	began uint64 // CLOCK_MONOTONIC in ns
	addrs []netip.Addr
}

func newAddresses(name string, log *slog.Logger, t *resident.Troubles) (_ *addresses, err error) {
	a := &addresses{known: make(map[uint16]ownership), once: resident.Logger{Log: log, Troubles: t}, wide6: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.handle, err = openHandle(name); err != nil {
		return nil, err
	}
	// A file that cannot be read is told, and begins anew.
	if a.moves, err = domain.LoadMoves(a.handle.Domain); err != nil {
		log.Warn("read which addresses have moved", "error", err)
	}
	if a.watcher, err = topo.NewAddressWatcher(); err != nil {
		return nil, err
	}
	// What has changed while no agent lived, the programs do not know.
	programs, err := a.handle.Addresses()
	if err != nil {
		return nil, err
	}
	for _, n := range a.handle.Domain.Nodes {
		a.known[n.ID] = ownership{addrs: programs[n.ID]}
	}
	a.follow()
	return a, nil
}

func (a *addresses) close() {
	if a.watcher != nil {
		a.watcher.Close()
	}
	if a.handle != nil {
		a.handle.Close()
	}
}

func (a *addresses) run(ctx context.Context, p *resident.Pulse) error {
	quick, reload := p.Quick(), p.Second()
	var again <-chan time.Time // nil: no node is to be looked at again
	var nodes []topo.Changed   // these
	ready := a.watcher.C()     // nil while it waits
	var wake <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-quick:
			a.watcher.NoteIdle()
			continue
		case <-reload:
			// The loop that follows the ring notices a domain that is gone.
			if a.handle.ReloadChanged() == nil {
				a.follow()
			}
			a.save() // there may be room again
			continue
		case <-wake:
			ready, wake = a.watcher.C(), nil
			continue
		case <-again:
			a.look(nodes, 0)
			nodes, again = nil, nil
			continue
		case <-ready:
		}
		begin := time.Now()
		changed, after := a.watcher.Take()
		a.look(changed, after)
		for _, n := range changed {
			if same := func(c topo.Changed) bool { return c.Node == n.Node }; !slices.ContainsFunc(nodes, same) {
				nodes = append(nodes, topo.Changed{Node: n.Node})
			}
		}
		if again == nil && len(nodes) > 0 {
			again = time.After(lookAgain)
		}
		ready, wake = nil, time.After(min(changedShare*time.Since(begin), changedMost))
	}
}

// follow watches the nodes of the domain, and looks at those that are new.
func (a *addresses) follow() {
	specs := topo.SpecsOf(a.handle.Domain.Nodes)
	if slices.Equal(specs, a.watched) {
		return
	}
	err := a.watcher.Set(specs)
	a.once.Warn("watch addresses", err)
	if err != nil {
		return
	}
	var fresh []topo.Changed
	for _, s := range specs {
		if !slices.Contains(a.watched, s) {
			fresh = append(fresh, topo.Changed{Node: s})
		}
	}
	a.watched = specs
	a.look(fresh, 0)
}

// look looks at nodes, keeps what has changed, and tells the programs. What has changed did so
// after that time.
func (a *addresses) look(changed []topo.Changed, after uint64) {
	var moved []uint16
	for _, c := range changed {
		node := a.nodeOf(c.Node)
		if node == 0 {
			continue
		}
		a.tellWide6(c.Node)
		began := clock.Monotonic()
		addrs, err := c.Node.Locals()
		if errors.Is(err, topo.ErrGone) {
			continue
		}
		a.once.Warn("list addresses", err)
		if err != nil {
			continue
		}
		was, known := a.known[node]
		a.known[node] = ownership{began, addrs}
		if known && a.keep(node, was, addrs, c.Told, max(after, was.began)) {
			moved = append(moved, node)
		}
	}
	if len(moved) > 0 {
		a.unsaved = true
	}
	a.save()
	if len(moved) == 0 {
		return
	}
	err := a.handle.SyncLocals(moved)
	if errors.Is(err, domain.ErrNotAttached) {
		return
	}
	a.once.Warn("follow addresses", err)
}

// tellWide6 says that the programs for IPv6 are needed, if the node has such an address. It is there a second or two
// before packets have it, while the kernel looks for duplicates.
func (a *addresses) tellWide6(node topo.NodeSpec) {
	n := a.handle.Domain.NodeByID(a.nodeOf(node))
	if !a.handle.IPv6Held() || n == nil || n.Auto {
		return
	}
	if has, err := node.HasIPv6(); err != nil || !has {
		return // of a node that cannot be asked, packets tell
	}
	select {
	case a.wide6 <- struct{}{}:
	default:
	}
}

// save keeps which addresses have moved, if that is not done.
func (a *addresses) save() {
	if !a.unsaved {
		return
	}
	err := a.moves.Save(a.handle.Domain.Name)
	a.once.Warn("keep which addresses have moved", err)
	a.unsaved = err != nil
}

// keep notes which addresses the node has got or lost, and says whether there are any: by what
// the kernel told, and by what the node has now.
func (a *addresses) keep(node uint16, was ownership, now []netip.Addr, told []topo.Told, after uint64) (changed bool) {
	looked := clock.Monotonic()
	owned := make(map[netip.Addr]bool)
	for _, addr := range was.addrs {
		owned[addr] = true
	}
	since := make(map[netip.Addr]uint64) // when the kernel last told of it
	note := func(m domain.Move) {
		m.Node, changed = node, true
		a.moves.Add(m)
		owned[m.Addr] = m.Owned
	}
	for i, e := range told {
		since[e.Addr] = e.After
		if owned[e.Addr] == e.Owned {
			continue // the last look has seen it, or it is there by two routes
		}
		m := domain.Move{Addr: e.Addr, Owned: e.Owned, After: e.After, Before: e.Read}
		if !e.Owned {
			m.Before = looked // or when it had come again
			again := func(later topo.Told) bool { return later.Addr == e.Addr && later.Owned }
			if k := slices.IndexFunc(told[i:], again); k >= 0 {
				m.Before = told[i+k].Read
			}
		}
		note(m)
	}
	for _, addr := range now {
		if !owned[addr] {
			note(domain.Move{Addr: addr, Owned: true, After: max(after, since[addr]), Before: looked})
		}
	}
	for addr, has := range owned {
		if has && !slices.Contains(now, addr) {
			note(domain.Move{Addr: addr, Owned: false, After: max(after, since[addr]), Before: looked})
		}
	}
	return changed
}

// nodeOf is the number of a node, 0 if it is none any more.
func (a *addresses) nodeOf(spec topo.NodeSpec) uint16 {
	for _, n := range a.handle.Domain.Nodes {
		if !n.Removed && n.Name == spec.Name && n.Inum == spec.Inum {
			return n.ID
		}
	}
	return 0
}
