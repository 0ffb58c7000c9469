// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/owner"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
	"github.com/vnetradar/radar/pkg/vnet/topo/readers"
)

// plan is a request, worked out.
type plan struct {
	change    *merge.Change
	result    *AttachResult
	blueprint *program.Blueprint // of a new domain
	features  program.Features   // the same: what the kernel can
	loaded    *program.Loaded    // once it is
	uses      []rules.Conflict   // rules of the request's nodes that use the mark
	looked    uint64             // when the topology was looked at
}

// prepare works a request out and changes nothing.
func prepare(ctx context.Context, req AttachRequest) (*plan, error) {
	if err := statedir.CheckDomain(req.Domain); err != nil {
		return nil, fault.Usage.Errorf("%v", err)
	}
	old, err := domain.Load(req.Domain)
	if err != nil && (req.Extend || !errors.Is(err, domain.ErrNotAttached)) {
		return nil, err
	}
	p := &plan{result: &AttachResult{}, uses: findUses(ctx, carryOf(old, req.Options), req.Nodes)}
	base := old
	if old == nil {
		base, err = p.newDomain(req)
	} else {
		err = checkOptions(old, req.Options)
	}
	if err != nil {
		return nil, err
	}
	if err := merge.CheckNames(base, req.Nodes); err != nil {
		return nil, err
	}
	specs, err := p.members(base, req.Nodes)
	if err != nil {
		return nil, err
	}
	if len(specs) == 0 && old == nil && !req.waits() {
		return nil, fault.Usage.Errorf("no nodes to attach: name some, such as netns:NAME")
	}
	p.looked = looksNow()
	if p.result.Topology, err = discover(ctx, specs, req.Roles); err != nil {
		return nil, err
	}
	if err := owner.CheckBridges(req.Domain, p.result.Topology); err != nil {
		return nil, err
	}
	for i := range req.VMs {
		if err := p.result.Topology.CheckVM(&req.VMs[i]); err != nil {
			return nil, err
		}
	}
	stale := stalePorts(base)
	p.change, err = merge.Into(merge.WithVMs(base, req.VMs), p.result.Topology, func(p *domain.Port) bool { return stale[p.ID] })
	if err != nil {
		return nil, err
	}
	p.change.Old = old
	p.change.Follow(req.Selectors, req.WatchContainers)
	if err := p.change.Carry(req.CarryHeader, p.uses); err != nil {
		return nil, err
	}
	if err := p.checkHeaderNodes(ctx); err != nil {
		return nil, err
	}
	if err := p.fitHops(); err != nil {
		return nil, err
	}
	if err := p.chooseIPv6(ctx, p.change.Next); err != nil {
		return nil, err
	}
	p.result.Readers = slices.DeleteFunc(readers.Find(req.Nodes), func(r readers.Reader) bool { return !r.ReadsSeveral() })
	return p, p.describe()
}

// describe fills in the result.
func (p *plan) describe() error {
	r, c := p.result, p.change
	r.Domain, r.New = c.Next, c.Old == nil
	r.AddedNodes, r.AddedPorts = len(c.AddedNodes), len(c.AddedPorts)
	r.Warnings = slices.Concat(r.Warnings, r.Topology.Notes, c.UsedUp())
	for _, n := range r.Topology.Nodes {
		if len(n.Ports) == 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("node %s has no interface to attach yet", n.Name))
		}
	}
	if r.New {
		r.Memory = p.blueprint.Memory
	} else {
		h, err := openHandle(c.Old)
		if err != nil {
			return err
		}
		defer h.Close()
		r.Memory = h.Memory()
		r.IPv6Held = h.IPv6Held() && !hasIPv6(c.Next, c.Locals)
	}
	r.Conflicts = merge.Collisions(c.Next, p.uses)
	return nil
}

// newDomain makes the description of a domain without nodes, and the blueprint of
// its maps and programs.
func (p *plan) newDomain(req AttachRequest) (*domain.Domain, error) {
	if domain.Kind.HasPins(req.Domain) {
		if err := statedir.Check(domain.PinDir(req.Domain)); err != nil {
			return nil, fmt.Errorf("pin directory: %w", err) // nothing of ours
		}
		if err := domain.Kept(req.Domain).HeldElsewhere(); err != nil {
			return nil, err
		}
		return nil, halfAttached(req.Domain, "it has pins but no description")
	}
	o := program.DefaultOptions()
	if req.Options != nil {
		o = *req.Options
	}
	layout, err := o.Layout()
	if err != nil {
		return nil, err
	}
	if o.Carry == program.CarryAuto {
		layout.SetMark(merge.FreeMark(p.uses, bits.OnesCount32(layout.MarkMask)))
	}
	if err := system.CheckKernel(); err != nil {
		return nil, err
	}
	f := program.Probe()
	p.features = f
	hook, err := loader.ChooseHook(o.Hook, hook.Support{TCX: f.TCX, Clsact: f.Clsact}, f.Kernel)
	if err != nil {
		return nil, err
	}
	if p.blueprint, err = program.New(o, layout, f); err != nil {
		return nil, err
	}
	if err := p.blueprint.Memory.Fits(); err != nil {
		return nil, err
	}
	p.result.Warnings = append(p.result.Warnings, layout.Warnings...)
	if !f.DropHook {
		p.result.Warnings = append(p.result.Warnings, "this kernel does not show dropped packets to radar: losses are found by timeout, without reasons (see «check»)")
	}
	epoch, err := newEpoch()
	if err != nil {
		return nil, err
	}
	local := ""
	if f.LocalIn && f.BTF {
		local = program.LocalHook
	}
	return &domain.Domain{
		LocalHook: local,
		Version:   domain.Version, Name: req.Domain, Epoch: epoch,
		Created: time.Now().UTC(), Host: host.Name(), WallOffset: clock.WallOffset(), Options: o.Stored(layout, hook),
	}, nil
}

// newEpoch returns what makes packets of this domain differ from those of every
// other one.
func newEpoch() (uint32, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw epoch: %w", err)
	}
	return binary.NativeEndian.Uint32(b[:]), nil
}

// checkOptions refuses options that the domain does not have.
func checkOptions(d *domain.Domain, o *program.Options) error {
	if o == nil {
		return nil
	}
	layout, err := o.Layout()
	if err != nil {
		return err
	}
	if names := o.Differs(layout, d.Options); names != "" {
		return fault.Usage.Errorf("domain %q is attached with other %s: a domain keeps its options, detach it first to change them", d.Name, names)
	}
	return nil
}

// members returns the namespaces that shall be in the domain: those that are and
// still exist, and the new ones.
func (p *plan) members(base *domain.Domain, nodes []topo.NodeSpec) ([]topo.NodeSpec, error) {
	specs, gone := living(base)
	for _, name := range gone {
		p.result.Warnings = append(p.result.Warnings, fmt.Sprintf("node %s: its network namespace is gone", name))
	}
	for _, n := range nodes {
		known := func(s topo.NodeSpec) bool { return s.Inum == n.Inum && s.Name == n.Name }
		if i := slices.IndexFunc(specs, known); i >= 0 {
			specs[i] = n // it can be reached as it was named last
			p.result.Warnings = append(p.result.Warnings, fmt.Sprintf("node %s is attached already", n.Name))
			continue
		}
		specs = append(specs, n)
	}
	return specs, owner.Check(base.Name, specs)
}

// living returns the nodes whose namespaces exist, and the names of the others.
func living(d *domain.Domain) (specs []topo.NodeSpec, gone []string) {
	for _, s := range topo.SpecsOf(d.Chosen()) {
		ns, err := s.Open()
		if errors.Is(err, topo.ErrGone) {
			gone = append(gone, s.Name)
			continue
		}
		if err == nil {
			ns.Close()
		}
		specs = append(specs, s) // Discover tells what is wrong with it
	}
	return specs, gone
}

// stalePorts returns the known ports that have lost their programs: the interface
// is gone and another has its number, or someone took them off.
func stalePorts(d *domain.Domain) map[uint16]bool {
	stale := make(map[uint16]bool)
	var ids []uint16
	for _, p := range d.Ports {
		if !p.Removed {
			ids = append(ids, p.ID)
		}
	}
	nodes, of := byNode(d, ids)
	for _, n := range nodes {
		// A namespace that is gone is found out elsewhere. One that is not where it was
		// may go on, or another one have its number: then no program is there.
		_ = inNode(n, topo.NodeSpec.Find, func() error {
			for _, p := range of[n.ID] {
				stale[p.ID] = !port.At(d, p).Stands()
			}
			return nil
		})
	}
	return stale
}
