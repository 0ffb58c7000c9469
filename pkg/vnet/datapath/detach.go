// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/owner"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// DetachRequest says what to detach.
type DetachRequest struct {
	Domain string
	Nodes  []string // names, of virtual machines as well; none: all, and the domain ends
	// Keep: the domain goes on when no node is left, for those that join later.
	Keep bool
	// NoDrain does not wait for packets under way: their headers are restored
	// only as far as programs are still there.
	NoDrain bool
	// Silent, if not nil, is called when the domain ends: no program sees packets any more,
	// so that those are counted. Whoever holds the maps has to let them go then, because
	// Detach waits for the kernel to free them.
	Silent func()
	// Progress, if not nil, is told how many packets are under way.
	Progress func(inFlight int)
}

// DetachResult says what was detached.
type DetachResult struct {
	Nodes, Ports int
	VMs          int  // virtual machines
	InFlight     int  // packets still under way when the wait ended
	Ended        bool // the domain is no more
	Warnings     []string
}

// Detach stops the sources, waits for packets under way (at most the domain's
// timeout; ctx ending only cuts the wait short), takes the programs off, and, if
// no node is left (unless Keep says otherwise), removes pins, maps and the description. It copes with whatever
// is missing or damaged, so it also cleans up after a killed attach. Nothing at all
// there is domain.ErrNotAttached; a node that is not in the domain fault.Usage. A domain that a
// living process keeps by another state directory is left alone.
func Detach(ctx context.Context, req DetachRequest) (*DetachResult, error) {
	if err := statedir.CheckDomain(req.Domain); err != nil {
		return nil, fault.Usage.Errorf("%v", err)
	}
	if _, err := domain.Load(req.Domain); errors.Is(err, domain.ErrNotAttached) && !domain.Kind.HasPins(req.Domain) {
		// Without making a state directory for it, or waiting for who attaches it.
		if unlock, ok := domain.Kind.TryLock(req.Domain); ok {
			removeLeftover(req.Domain)
			unlock()
		}
		return nil, err
	}
	unlock, err := domain.Lock(req.Domain)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d, err := domain.Load(req.Domain)
	switch {
	case errors.Is(err, domain.ErrNotAttached) && !domain.Kind.HasPins(req.Domain):
		domain.Kind.ForgetUnused(req.Domain)
		return nil, err // another process was faster
	case errors.Is(err, domain.ErrNotAttached), errors.Is(err, domain.ErrDamaged):
		d = nil // pins without a description: what is left of a killed attach
	case err != nil:
		return nil, err
	}
	if err := domain.Kept(req.Domain).HeldElsewhere(); err != nil {
		return nil, err
	}
	if d != nil && len(req.Nodes) > 0 {
		if err := checkDetached(d, req.Nodes); err != nil {
			return nil, err
		}
		if !d.IsWhole(req.Nodes) || req.Keep {
			return detachNodes(ctx, d, req)
		}
	}
	return detachAll(ctx, d, req)
}

// removeLeftover removes the state directory of an attach that was killed before
// it had loaded anything. The caller holds the lock.
func removeLeftover(name string) {
	if !domain.Kind.HasPins(name) {
		domain.Kind.ForgetUnused(name)
	}
}

// checkDetached wants every name to be a node's of the domain, or a virtual machine's.
func checkDetached(d *domain.Domain, names []string) error {
	var have []string
	for _, n := range d.Chosen() {
		have = append(have, n.Name)
	}
	for _, name := range names {
		if !slices.Contains(have, name) && d.VMNamed(name) == nil {
			return fault.Usage.Errorf("domain %q has no node %s%s; it has: %s", d.Name, name, fault.Meant(name, have), strings.Join(have, ", "))
		}
	}
	return nil
}

// detachNodes takes some nodes out of the domain, which goes on.
func detachNodes(ctx context.Context, d *domain.Domain, req DetachRequest) (*DetachResult, error) {
	h, err := openHandle(d)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	h.look(looksNow())
	keep, _ := living(d)
	keep = slices.DeleteFunc(keep, func(s topo.NodeSpec) bool { return slices.Contains(req.Nodes, s.Name) })
	if len(keep) == 0 && !req.Keep && d.HasNode(req.Nodes) {
		return detachAll(ctx, d, req) // the others are gone already
	}
	t, err := topo.Discover(keep, nil)
	if err != nil {
		return nil, err
	}
	if err := owner.OpenBridges(d.Name, t); err != nil {
		return nil, err
	}
	stale := stalePorts(d)
	base, vms := merge.WithoutVMs(d, req.Nodes)
	c, err := merge.Into(base, t, func(p *domain.Port) bool { return stale[p.ID] })
	if err != nil {
		return nil, err
	}
	c.Old = d
	c.Unfollow(req.Nodes)
	r := &DetachResult{Ports: len(c.RemovedPorts), VMs: vms}
	for _, id := range c.RemovedNodes {
		if !d.NodeByID(id).Auto {
			r.Nodes++
		}
	}
	var undo undo
	a := &applier{h: h, c: c, undo: &undo, lenient: true}
	if !req.NoDrain {
		a.drain = func() error {
			r.InFlight = drainQuietly(ctx, h, req.Progress)
			return nil
		}
	}
	if err := a.run(ctx); err != nil {
		undo.run()
		return nil, err
	}
	r.Warnings = slices.Concat(a.warnings, c.UsedUp())
	return r, nil
}

// drainQuietly is Drain for those who go on whatever comes of it.
func drainQuietly(ctx context.Context, h *Handle, progress func(int)) int {
	left, _ := h.Drain(ctx, progress)
	return left
}

// detachAll ends the domain. d is nil if its description is lost.
func detachAll(ctx context.Context, d *domain.Domain, req DetachRequest) (*DetachResult, error) {
	r := &DetachResult{Ended: true}
	if d != nil {
		r.Nodes = len(d.Chosen())
		for _, p := range d.Ports {
			if !p.Removed {
				r.Ports++
			}
		}
		var err error
		r.InFlight, err = stopAndDrain(ctx, d, req)
		if errors.Is(err, domain.ErrDamaged) {
			d = nil // it does not say where filters are either
		}
	} else {
		stopUndescribed(req.Domain)
	}
	defer hook.Expedite(len(system.Directions) * r.Ports)()
	ids := domain.Kind.Maps(req.Domain)
	errs := []error{removeFilters(req.Domain, d), domain.Kind.RemovePins(req.Domain)}
	if err := errors.Join(errs...); err != nil {
		// The description stays, so that detaching can be tried again.
		return r, fmt.Errorf("detach domain %q: %w", req.Domain, err)
	}
	if req.Silent != nil {
		hook.AwaitPrograms()
		req.Silent()
	}
	if err := domain.Kind.Forget(req.Domain); err != nil {
		return r, err
	}
	hook.AwaitFreed(ids)
	return r, nil
}

// RemoveOther removes a domain that has another layout, links and filters first: its lease
// has ended, or packets under way keep rewritten bits. The caller has made sure that its
// agent is gone.
func RemoveOther(name string) (*DetachResult, error) {
	unlock, err := domain.Lock(name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d, err := domain.Load(name)
	if !errors.Is(err, domain.ErrOtherVersion) {
		return nil, fmt.Errorf("domain %q was changed meanwhile: try again", name)
	}
	// By its description, as far as that can be read; and wherever else they may be.
	if err := errors.Join(removeFilters(name, d), sweepFilters(name), domain.Kind.RemovePinsIn(d.OtherPinDir())); err != nil {
		return nil, fmt.Errorf("remove domain %q: %w", name, err)
	}
	if err := domain.Kind.Forget(name); err != nil {
		return nil, err
	}
	return &DetachResult{Ended: true}, nil
}

// stopAndDrain stops the sources as far as the maps are still there. err is why packets
// under way were not waited for.
func stopAndDrain(ctx context.Context, d *domain.Domain, req DetachRequest) (inFlight int, err error) {
	h, err := openHandle(d)
	if err != nil {
		stopUndescribed(req.Domain)
		return 0, err
	}
	defer h.Close()
	h.Lease().Stop()
	if req.NoDrain {
		return h.InFlight()
	}
	return drainQuietly(ctx, h, req.Progress), nil
}

// stopUndescribed stops the sources of a domain of which only the pins are known.
func stopUndescribed(name string) {
	if control, err := domain.Kind.OpenMap(name, bpfobj.TcMapControl); err == nil {
		_ = control.Put(uint32(0), &bpfobj.TcRdrControl{LeaseNs: system.StopAt})
		control.Close()
	}
}

// removeFilters removes clsact filters: from the domain's ports, or, where those
// are not known, from every interface of every namespace that can be found. All
// egress hooks come first, so that nothing is marked that nobody would restore.
func removeFilters(name string, d *domain.Domain) error {
	if d == nil {
		return sweepFilters(name)
	}
	if d.Options.Hook != program.HookClsact {
		return nil
	}
	var ids []uint16
	for _, p := range d.Ports {
		if !p.Removed {
			ids = append(ids, p.ID)
		}
	}
	nodes, of := byNode(d, ids)
	var errs []error
	each := func(f func(p *domain.Port) error) {
		for _, n := range nodes {
			err := inNode(n, topo.NodeSpec.Find, func() error {
				var errs []error
				for _, p := range of[n.ID] {
					errs = append(errs, f(p))
				}
				return errors.Join(errs...)
			})
			if err != nil && !errors.Is(err, topo.ErrGone) {
				errs = append(errs, fmt.Errorf("node %s: %w", n.Name, err))
			}
		}
	}
	each(func(p *domain.Port) error {
		return system.Backpack.Failed(hook.Egress, port.At(d, p).At(hook.Egress).Detach())
	})
	each(func(p *domain.Port) error { return port.Detach(d, p) })
	return errors.Join(errs...)
}

// sweepFilters removes the domain's filters wherever they are; on the host they are at the ports of bridges.
func sweepFilters(name string) error {
	return system.SweepFilters(func(other string) bool {
		return other == domain.Kind.FilterName(name) || port.IsPayloadFilter(name, other)
	}, false)
}
