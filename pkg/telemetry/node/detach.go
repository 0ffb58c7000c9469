// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
)

// DetachRequest takes roles away.
type DetachRequest struct {
	Domain string
	Names  []string // NODE or NODE/PORT; none: the whole domain
	Drain  bool     // wait for packets under way
	// EndAgent ends the domain's agent when nothing is attached any more.
	EndAgent func() error
}

// Detached is what Detach has taken off.
type Detached struct {
	Nodes, Ports int
	Ended        bool // the domain is gone
}

// Detach takes ports off: sources first, by the lease, then ports inside, and sinks when packets under way
// have passed. ErrNotAttached: there is nothing.
func Detach(ctx context.Context, req DetachRequest) (*Detached, error) {
	if err := statedir.CheckDomain(req.Domain); err != nil {
		return nil, fault.Usage.Errorf("%w", err)
	}
	unlock, err := Lock(req.Domain)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d, err := Load(req.Domain)
	if system.IsAbsent(err) {
		_ = Kind.Forget(req.Domain)
		return nil, err
	}
	if err := Kind.Kept(req.Domain).HeldElsewhere(); err != nil {
		if d == nil {
			_ = Kind.Forget(req.Domain)
		}
		return nil, err
	}
	if len(req.Names) > 0 {
		if err != nil {
			return nil, err
		}
		next, err := d.without(req.Names)
		if err != nil {
			return nil, err
		}
		if len(next.Nodes) > 0 {
			return d.detachSome(ctx, next, req.Drain)
		}
	}
	if d == nil { // its description is lost
		d = &Domain{Name: req.Domain, Version: Version}
	}
	return d.detachAll(ctx, req)
}

func (d *Domain) detachAll(ctx context.Context, req DetachRequest) (*Detached, error) {
	done := &Detached{Nodes: len(d.Nodes), Ended: true}
	for _, n := range d.Nodes {
		done.Ports += len(n.Ports)
	}
	if c, err := OpenControl(d.Name); err == nil {
		c.Lease().Stop()
		c.Close()
		if req.Drain {
			d.drain(ctx)
		}
	}
	var errs []error
	if d.Version == Version {
		errs = append(errs, d.takeOffPorts())
	}
	if req.EndAgent != nil { // it sends what is left in the ring
		errs = append(errs, req.EndAgent())
	}
	errs = append(errs, removeAll(d))
	if err := errors.Join(errs...); err != nil {
		return done, err
	}
	return done, Kind.Forget(d.Name)
}

// takeOffPorts takes programs off all ports, sinks last.
func (d *Domain) takeOffPorts() error {
	var errs []error
	for _, inside := range []bool{true, false} {
		for i := range d.Nodes {
			n := &d.Nodes[i]
			for k := range n.Ports {
				if p := &n.Ports[k]; (p.Flags&Inside != 0) == inside {
					errs = append(errs, takeOff(d, n, p))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// removeAll removes everything of a domain from the kernel, whatever its description knows of it.
func removeAll(d *Domain) error {
	errs := []error{d.takeOffPorts(), d.restoreOffloads(func(*Node, *Port) bool { return true }), removeFilters(d)}
	maps := Kind.Maps(d.Name)
	errs = append(errs, Kind.RemovePins(d.Name))
	hook.AwaitFreed(maps)
	return errors.Join(errs...)
}

// removeFilters removes clsact filters of the domain's name in its nodes, and where its description is lost,
// in all namespaces.
func removeFilters(d *Domain) error {
	chosen := func(name string) bool { return name == Kind.FilterName(d.Name) }
	if len(d.Nodes) == 0 {
		return system.SweepFilters(chosen, true)
	}
	if d.Hook == hook.ByTCX {
		return nil
	}
	var errs []error
	for _, n := range d.Nodes {
		err := n.Do(func() error {
			filters, err := hook.Filters(chosen)
			for _, f := range filters {
				errs = append(errs, f.Remove(), hook.RemoveClsact(f.Ifindex))
			}
			return err
		})
		if err != nil && !gone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// without is the description without these nodes and ports.
func (d *Domain) without(names []string) (*Domain, error) {
	next := d.clone()
	for _, name := range names {
		node, port, hasPort := strings.Cut(name, "/")
		n := next.NodeNamed(node)
		if n == nil {
			if d.NodeNamed(node) != nil {
				continue // named twice
			}
			return nil, fault.Usage.Errorf("domain %q has no INT node %s", d.Name, node)
		}
		if hasPort && n.Port(port) == nil {
			if d.NodeNamed(node).Port(port) != nil {
				continue
			}
			return nil, fault.Usage.Errorf("%s has no role: it has none to take away", name)
		}
		if hasPort {
			n.Ports = slices.DeleteFunc(n.Ports, func(p Port) bool { return p.Name == port })
		}
		if !hasPort || len(n.Ports) == 0 {
			index := n.Index
			next.Nodes = slices.DeleteFunc(next.Nodes, func(x Node) bool { return x.Index == index })
		}
	}
	if len(next.Nodes) == 0 {
		return next, nil
	}
	return next, next.checkSinks()
}

// detachSome takes some ports off; the others go on.
func (d *Domain) detachSome(ctx context.Context, next *Domain, drain bool) (*Detached, error) {
	done := &Detached{Nodes: len(d.Nodes) - len(next.Nodes)}
	for _, n := range d.Nodes {
		done.Ports += len(n.Ports)
	}
	for _, n := range next.Nodes {
		done.Ports -= len(n.Ports)
	}
	// What bears INT now passes the ports that go, before they do.
	if c, err := OpenControl(d.Name); err == nil {
		defer c.Close()
		if left, ends := c.Lease().Left(); drain && (!ends || left > 0) {
			c.Lease().Stop()
			defer c.Lease().Resume(d.Options.Lease)
			d.drain(ctx)
		}
	}
	errs := []error{d.restoreOffloads(func(n *Node, p *Port) bool {
		left := next.NodeByIndex(n.Index)
		return left == nil || left.Port(p.Name) == nil
	})}
	reload := make(map[uint32]bool)
	for i := range next.Nodes {
		n := &next.Nodes[i]
		was := d.NodeByIndex(n.Index)
		reload[n.Index] = was.Has(Source) != n.Has(Source) // it needs no watchlist any more
	}
	_, err := apply(d, next, reload, make(map[uint32][]Interface))
	return done, errors.Join(append(errs, err, next.save())...)
}

// How long packets under way are waited for, and how long nothing must have passed.
const (
	drainMost  = 5 * time.Second
	drainQuiet = 100 * time.Millisecond
)

// drain waits until no packet with INT passes, and none waits in a queue of the nodes.
func (d *Domain) drain(ctx context.Context) {
	last, since := uint64(0), time.Now()
	for end := since.Add(drainMost); time.Now().Before(end); {
		now, err := d.passed()
		if err != nil {
			return
		}
		if now != last || d.waiting() {
			last, since = now, time.Now()
		} else if time.Since(since) >= drainQuiet {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(drainQuiet / 10):
		}
	}
}

// passed counts what bore INT at any node.
func (d *Domain) passed() (sum uint64, err error) {
	for i := range d.Nodes {
		c, err := d.Counters(&d.Nodes[i])
		if err != nil {
			return 0, err
		}
		sum += c.Done[bpfobj.INT_DONE_TRANSIT] + c.Done[bpfobj.INT_DONE_SINK] + c.Done[bpfobj.INT_DONE_UNCOVERED] + c.Skipped[bpfobj.INT_SKIP_LEASE]
	}
	return sum, nil
}

// waiting reports whether packets wait in the queue of a port inside.
func (d *Domain) waiting() bool {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		waits := false
		_ = n.Do(func() error {
			for _, p := range n.Ports {
				if p.Flags&Inside == 0 || p.Gone {
					continue
				}
				list, err := netlink.QdiscList(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: p.Ifindex}})
				for _, q := range list {
					s := q.Attrs().Statistics
					waits = waits || err == nil && s != nil && s.Queue != nil && s.Queue.Backlog > 0
				}
			}
			return nil
		})
		if waits {
			return true
		}
	}
	return false
}
