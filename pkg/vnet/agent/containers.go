// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// How long to wait before the engine is asked again, after one that ended and
// after one that did not answer for long.
const (
	reconnectLeast = time.Second
	reconnectMost  = 30 * time.Second
)

// retryEvery is when nodes that could not be attached are tried again, retryTimes
// how often: a container may be half made when the engine says that it starts.
const (
	retryEvery = time.Second
	retryTimes = 5
)

// containers attaches containers that start, if the domain's description says so.
// Those that end are noticed by watch, as every namespace that ends.
type containers struct {
	name  string
	log   *slog.Logger
	once  resident.Logger
	file  statedir.Stamp // of the description
	watch bool           // it says so
}

func newContainers(name string, log *slog.Logger) *containers {
	return &containers{name: name, log: log, once: resident.Logger{Log: log}}
}

func (c *containers) run(ctx context.Context, p *resident.Pulse) error {
	second, pause := p.Second(), reconnectLeast
	for {
		if !c.wanted() { // the description may say so later
			select {
			case <-ctx.Done():
				return nil
			case <-second:
			}
			continue
		}
		answered, err := c.follow(ctx)
		if answered {
			pause = reconnectLeast
		}
		if ctx.Err() == nil {
			c.once.Warn("follow containers", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMost)
	}
}

func (c *containers) wanted() bool {
	_ = c.file.IfChanged(domain.File(c.name, domain.Description), func() error {
		d, err := domain.Load(c.name)
		c.watch = err == nil && d.WatchContainers
		return err // the loop that follows the ring notices a domain that is gone
	})
	return c.watch
}

// follow attaches containers until the engine ends. answered says whether it was
// there at all.
func (c *containers) follow(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- selector.Follow(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // one that waits already will see this one too
			}
		})
	}()
	var again <-chan time.Time
	tries := 0
	for {
		select {
		case err := <-ended:
			return answered, err
		case <-changed:
			tries = 0
			if !answered {
				answered = true
				c.once.Warn("follow containers", nil)
			}
		case <-again:
		}
		again = nil
		if !c.attach(ctx) && tries < retryTimes {
			tries++
			again = time.After(retryEvery)
		}
	}
}

// attach attaches the containers that the domain's selectors match and that are
// not in it. It says whether all went well.
func (c *containers) attach(ctx context.Context) bool {
	d, err := domain.Load(c.name)
	if err != nil || !d.WatchContainers {
		return true // the loop that follows the ring notices a domain that is gone
	}
	if text := merge.NumbersUsedUp(d); text != "" {
		c.once.Warn("attach containers", errors.New(text))
		return true
	}
	found, ok := c.find(ctx, d)
	if len(found) == 0 {
		return ok
	}
	if c.attachNodes(ctx, found) == nil {
		return ok
	}
	if len(found) == 1 {
		return false
	}
	for i := range found {
		// One that cannot be attached must not keep the others out.
		ok = c.attachNodes(ctx, found[i:i+1]) == nil && ok
	}
	return ok
}

func (c *containers) attachNodes(ctx context.Context, specs []topo.NodeSpec) error {
	r, err := datapath.Attach(ctx, datapath.AttachRequest{Domain: c.name, Nodes: specs, Extend: true})
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, domain.ErrNotAttached), errors.Is(err, system.ErrDetaching):
		return nil
	case errors.Is(err, topo.ErrGone):
		return err // ended again: what comes next is another one
	case err != nil:
		c.once.Warn(fmt.Sprintf("attach %v", names), err)
		return err
	}
	for _, text := range r.Warnings {
		c.log.Warn(text)
	}
	c.log.Info("containers joined", "nodes", names, "ports", r.AddedPorts)
	return nil
}

// find returns the containers that are to be attached, and whether all selectors
// could be asked for.
func (c *containers) find(ctx context.Context, d *domain.Domain) (found []topo.NodeSpec, ok bool) {
	known := topo.SpecsOf(d.Nodes)
	ok = true
	for _, one := range selector.OfContainers(d.Selectors) {
		// One by one: a selector that is wrong now must not keep the others out.
		r, err := selector.Resolve(ctx, selector.Request{Selectors: []string{one}, Known: slices.Concat(known, found), Wait: true})
		if ctx.Err() != nil {
			return nil, true
		}
		c.once.Warn("find "+one, err)
		if err != nil {
			ok = false
			continue
		}
		for _, s := range r.Nodes {
			if !listed(d, s) && !slices.ContainsFunc(found, func(f topo.NodeSpec) bool { return f.Inum == s.Inum }) {
				found = append(found, s)
			}
		}
	}
	return found, ok
}

// listed says whether the container's process is, or was, a node of the domain:
// one that the user detached stays out until it starts anew. Inode numbers of
// namespaces are used again at once, hence the path too.
func listed(d *domain.Domain, s topo.NodeSpec) bool {
	return slices.ContainsFunc(d.Nodes, func(n domain.Node) bool { return n.Inum == s.Inum && n.Path == s.Path })
}
