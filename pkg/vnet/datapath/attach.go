// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
	"github.com/vnetradar/radar/pkg/vnet/topo/readers"
)

// AttachRequest says what to attach.
type AttachRequest struct {
	Domain string
	Nodes  []topo.NodeSpec
	Roles  []topo.RoleOverride
	// VMs are virtual machines behind ports of the domain. One of a name that the
	// domain knows replaces it.
	VMs []topo.VM
	// CarryHeader names nodes that carry the header while others carry the mark.
	CarryHeader []string
	// Selectors are what the nodes were named by. The domain keeps them beside
	// those that it has.
	Selectors []string
	// WatchContainers, if not nil, says whether containers that the selectors match
	// join when they start. A new domain that waits for them needs no nodes.
	WatchContainers *bool
	// Extend: the domain must be there. It may be detached while an agent that adds
	// nodes waits for it, and must not come back then.
	Extend bool
	// Options of a new domain; nil takes the defaults. A domain keeps its options
	// for life: nil takes those of one that exists, and what differs is fault.Usage.
	Options *program.Options
}

// AttachResult says what was attached, or would be.
type AttachResult struct {
	Domain     *domain.Domain
	Topology   *topo.Topology
	Memory     program.Memory
	New        bool // the domain did not exist
	AddedNodes int
	AddedPorts int
	// IPv6Held: IPv6 is not measured before a node has an address, or an IPv6 packet comes.
	IPv6Held bool
	// Warnings are full sentences, with marks of pkg/fault.
	Warnings []string
	// Notes are sentences as well, of what need not be wrong.
	Notes []string
	// Readers are processes that read all that comes in at several interfaces of one of the
	// request's nodes, and may forward it.
	Readers []readers.Reader
	// Conflicts are rules of the request's nodes that use our mark bits although these
	// nodes carry the mark: Options.Carry says which bits.
	Conflicts []rules.Conflict
}

// Empty says whether nothing is asked for.
func (r *AttachRequest) Empty() bool {
	return len(r.Nodes)+len(r.Roles)+len(r.VMs)+len(r.Selectors)+len(r.CarryHeader) == 0 && r.WatchContainers == nil
}

// waits says whether nodes may join later, so that a new domain needs none yet.
func (r *AttachRequest) waits() bool {
	return r.WatchContainers != nil && *r.WatchContainers && len(r.Selectors) > 0
}

// Plan works out what Attach would do, and changes nothing. It takes the same
// rights.
func Plan(ctx context.Context, req AttachRequest) (*AttachResult, error) {
	p, err := prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	return p.result, nil
}

// Attach attaches the nodes to the domain, which it creates if need be, and gives
// the sources of a new domain their first lease. It does all or nothing: on an
// error everything is as it was.
//
// Errors: fault.Usage, fault.Unsupported, fault.NotLoaded, system.ErrDetaching,
// topo.ErrGone; with Extend domain.ErrNotAttached.
func Attach(ctx context.Context, req AttachRequest) (_ *AttachResult, err error) {
	if err := statedir.CheckDomain(req.Domain); err != nil {
		return nil, fault.Usage.Errorf("%v", err)
	}
	unlock, err := domain.Lock(req.Domain)
	if err != nil {
		return nil, err
	}
	defer unlock()
	unlockAll, err := domain.LockAll(req.Domain)
	if err != nil {
		return nil, err
	}
	defer unlockAll()
	var undo undo
	undo.add(func() { domain.Kind.ForgetUnused(req.Domain) })
	defer func() {
		if err != nil {
			undo.run()
		}
	}()
	p, err := prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	h, err := p.open(&undo)
	if err != nil {
		return nil, err
	}
	undo.add(func() { h.Close() })
	h.look(p.looked)
	a := &applier{h: h, c: p.change, undo: &undo}
	if !p.result.New {
		p.bringIPv6(h)
	}
	if p.result.New {
		if err := p.attachChangeHook(&undo); err != nil {
			return nil, err
		}
		a.between = func() error { return p.attachDropHook(&undo) }
	}
	if err := a.run(ctx); err != nil {
		return nil, err
	}
	if p.result.New {
		if err := h.Renew(); err != nil {
			return nil, err
		}
	}
	p.result.Warnings = append(p.result.Warnings, a.warnings...)
	p.result.Notes = Changers(ctx, p.change.Next)
	p.close(h)
	return p.result, nil
}

// open returns the handle of the domain, which it loads and pins if it is new.
func (p *plan) open(undo *undo) (*Handle, error) {
	if !p.result.New {
		h, err := openHandle(p.change.Old)
		if err != nil {
			return nil, err
		}
		if err := h.checkStays(); err != nil {
			h.Close()
			return nil, fmt.Errorf("%w (finish with: «detach ‹domain› %s»)", err, p.change.Old.Name)
		}
		if h.Lease().IsNone() {
			h.Close()
			return nil, halfAttached(p.change.Old.Name, "attaching it was interrupted")
		}
		return h, nil
	}
	name := p.change.Next.Name
	if err := loader.MountPins(); err != nil {
		return nil, err
	}
	if err := domain.Kind.MakePins(name); err != nil {
		return nil, err
	}
	undo.add(func() { _ = domain.Kind.RemovePins(name) })
	var err error
	if p.loaded, err = p.blueprint.Load(); err != nil {
		return nil, err
	}
	undo.add(p.loaded.Close)
	if err := p.loaded.PinMaps(name); err != nil {
		return nil, err
	}
	h, err := openHandle(p.change.Next)
	if err != nil {
		return nil, err
	}
	if h.hold, err = domain.Kept(name).Hold(); err != nil { // a living process keeps the domain until it is attached
		h.Close()
		return nil, err
	}
	return h, nil
}

// close releases what a successful attach has no more use for.
func (p *plan) close(h *Handle) {
	if p.loaded != nil {
		p.loaded.Close()
	}
	h.Close()
}

// attachDropHook attaches the program that sees dropped packets, where there is
// one, and notes it in the description.
func (p *plan) attachDropHook(undo *undo) error {
	prog := p.loaded.Progs[bpfobj.TraceProgRadarKfreeSkb]
	if prog == nil {
		return nil
	}
	pin := dropLink(p.change.Next.Name)
	if err := hook.AttachPinned(prog, hook.Tracing(program.DropHook), pin); err != nil {
		return loader.LinkError(program.DropHook, err)
	}
	undo.add(func() { _ = hook.Detach(pin) })
	p.change.Next.LossHook = program.DropHook
	return nil
}
