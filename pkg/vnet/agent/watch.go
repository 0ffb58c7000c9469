// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// How long the topology must be quiet before it is worked out again.
const quietTime = 200 * time.Millisecond

// rulesGap is how long rules are not read again for another one at least.
const rulesGap = time.Second

// watch follows the topology: interfaces and addresses that come and go, nodes
// that others add to the domain.
type watch struct {
	name    string
	handle  *datapath.Handle
	watcher *topo.Watcher
	rules   *rules.Watcher // of another loop; this one reads Changing
	watched []topo.NodeSpec
	ruled   map[topo.NodeSpec]rules.Kind
	of      *domain.Domain // for which, and with which namespaces near, they were worked out
	near    []topo.NodeSpec
	known   int  // nodes in the description when they were set
	again   bool // what was seen last may be out of date: look once more
	// uncounted: what nodes had counted could not be noted. It is tried again.
	uncounted bool
	log       *slog.Logger
	once      resident.Logger
}

func newWatch(name string, log *slog.Logger, t *resident.Troubles, r *rules.Watcher) (*watch, error) {
	h, err := openHandle(name)
	if err != nil {
		return nil, err
	}
	watcher, err := topo.NewWatcher(quietTime)
	if err != nil {
		h.Close()
		return nil, err
	}
	w := &watch{name: name, handle: h, watcher: watcher, rules: r, log: log, once: resident.Logger{Log: log, Troubles: t}}
	if err := w.watchNodes(); err != nil {
		w.close()
		return nil, err
	}
	// Something may have changed while no agent lived.
	w.refresh(context.Background())
	return w, nil
}

func (w *watch) close() {
	w.watcher.Close()
	w.handle.Close()
}

// watchNodes tells the watcher which namespaces to watch, if they are others than
// before: the nodes', closing ones among them, and those where links end.
func (w *watch) watchNodes() error {
	nodes := len(w.handle.Domain.Nodes) // grows with every node, also with one that comes back
	specs := append(topo.SpecsOf(w.handle.Domain.Nodes), w.handle.Near()...)
	follow, err := w.watcher.FollowRoutes(hasTunnels(w.handle.Domain))
	if err != nil {
		return err
	}
	w.again = w.again || follow // routes may have changed before that
	if err := w.watchRules(); err != nil {
		return err
	}
	if nodes == w.known && slices.Equal(specs, w.watched) {
		if w.uncounted {
			w.noteCounted()
		}
		return nil
	}
	if err := w.watcher.Set(specs); err != nil {
		return err
	}
	w.noteCounted()
	// What happened there before it was watched, nobody has told.
	w.watched, w.known, w.again = specs, nodes, true
	return nil
}

// watchRules tells which rules change roles, and what nodes carry: those that set the IP ID where bridges may be between
// nodes, and in nodes that carry the header all that hide packets.
func (w *watch) watchRules() error {
	d, near := w.handle.Domain, w.handle.Near()
	if d == w.of && slices.Equal(near, w.near) {
		return nil
	}
	header, kinds := merge.HeaderNodes(d), make(map[topo.NodeSpec]rules.Kind)
	for _, n := range near {
		kinds[n] = rules.SetsNumber
	}
	for _, n := range d.Nodes {
		switch {
		case n.Removed:
		case n.Auto:
			kinds[topo.SpecOf(n)] = rules.SetsNumber
		case header(n.Name):
			kinds[topo.SpecOf(n)] = rules.SetsNumber | rules.SetsContent | rules.SetsAddresses | rules.TakesItself
		}
	}
	if !maps.Equal(kinds, w.ruled) {
		if err := w.rules.SetChanging(kinds); err != nil {
			return err
		}
		w.ruled, w.again = kinds, true // rules may have come before that
	}
	w.of, w.near = d, near
	return nil
}

func (w *watch) noteCounted() {
	err := noteCounted(w.handle.Domain, w.uncounted, w.log)
	w.uncounted = err != nil
	w.once.Warn("note what nodes have counted", err)
}

// hasTunnels says whether roles depend on routes.
func hasTunnels(d *domain.Domain) bool {
	return slices.ContainsFunc(d.Ports, func(p domain.Port) bool { return p.Tunnel && !p.Removed && !topo.IsFallback(p.Name) })
}

// empty says whether no node is left that the user attached.
func (w *watch) empty() bool {
	return len(w.handle.Domain.Chosen()) == 0
}

func (w *watch) run(ctx context.Context, p *resident.Pulse) error {
	quick, second, rest := p.Quick(), p.Second(), resident.Rest{Pulse: p}
	// Packets meet a rule already when it is heard of. All rules of some nodes are read for it, and whoever controls one can change
	// them without end.
	ruled := resident.Paced{Events: w.rules.Changing(), Gap: rulesGap, Burst: time.Second, Share: 10}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.watcher.C():
			w.refresh(ctx)
		case <-ruled.C():
			if began := time.Now(); ruled.IsDue(began) {
				w.refresh(ctx)
				ruled.Did(began, time.Now())
			}
		case <-quick:
			w.handle.ReleaseGone()
			if !w.again && w.handle.Changed() {
				w.refresh(ctx)
			}
			if rest.IsDue(time.Now()) {
				w.once.Warn("follow memberships of groups", w.handle.SyncGroups())
			}
		case <-second:
			// Nodes that another process added are to be watched as well. The
			// loop that follows the ring notices a domain that is gone.
			if err := w.handle.ReloadChanged(); err != nil {
				continue
			}
			w.once.Warn("watch nodes", w.watchNodes())
			for _, text := range w.handle.FollowRedirects() {
				w.log.Warn(text)
			}
			if w.again {
				w.refresh(ctx)
			}
		}
	}
}

// refresh works roles out again and logs what came of it.
func (w *watch) refresh(ctx context.Context) {
	changes, err := w.handle.Refresh(ctx)
	w.again = err != nil
	switch {
	case ctx.Err() != nil, errors.Is(err, domain.ErrNotAttached), errors.Is(err, system.ErrDetaching):
		return
	case err != nil:
		w.once.Warn("follow the topology", err)
		return
	}
	w.once.Warn("follow the topology", nil)
	w.once.Warn("watch nodes", w.watchNodes())
	if changes.Empty() {
		return
	}
	for _, text := range changes.Warnings {
		w.log.Warn(text)
	}
	var attrs []any
	for _, c := range []struct {
		key   string
		names []string
	}{{"added", changes.Added}, {"removed", changes.Removed}, {"nodes_gone", changes.NodesGone}, {"roles", changes.Roles}, {"queues", changes.Queues}} {
		if len(c.names) > 0 {
			attrs = append(attrs, c.key, c.names)
		}
	}
	w.log.Info("topology changed", attrs...)
	if len(changes.NodesGone) > 0 && w.empty() && !w.handle.Domain.WatchContainers {
		w.log.Warn("no node is left: end the domain with «detach»")
	}
}
