// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// The programs for IPv6 are two fifths of the verifier's work, so a domain in which --ipv6 is auto gets them
// when it needs them: docs/design/0048-programs-on-demand.md. Where --ipv6 is label or key it has them from
// the beginning, and never where it is off. Once they are there they stay.

// chooseIPv6 decides for a new domain how IPv6 is measured, and says what follows from
// that. A domain that exists keeps its way; what new nodes bring is told.
func (p *plan) chooseIPv6(ctx context.Context, d *domain.Domain) error {
	o := &d.Options
	if o.IPv6 == program.IPv6Key || o.IPv6 == program.IPv6Off {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	users := labelUsers(p.result.Topology.FindLabelHashes(ctx, merge.HeaderNodes(d)))
	if o.IPv6 == program.IPv6Auto {
		o.IPv6 = program.IPv6Label
		if len(users) > 0 {
			o.IPv6, o.LabelUsers = program.IPv6Key, users
			p.warn(fmt.Sprintf("IPv6 is found by key, its header bits stay as they are: the flow label is used by %s", strings.Join(users, ", ")))
		}
		if !hasIPv6(d, p.change.Locals) {
			p.blueprint.HoldIPv6()
			p.result.IPv6Held = true
		}
		return p.blueprint.SetIPv6(o.IPv6)
	}
	if len(users) > 0 {
		p.warn(fmt.Sprintf("packets of one IPv6 flow are taken for many flows, because radar rewrites the flow label, which is used by %s: detach, and attach with ‹ipv6› key", strings.Join(users, ", ")))
	}
	return nil
}

func (p *plan) warn(text string) { p.result.Warnings = append(p.result.Warnings, text) }

// maxUsers bounds how many of those that hash on the label are named.
const maxUsers = 5

func labelUsers(hashes []topo.LabelHash) []string {
	var users []string
	for i, h := range hashes {
		if i == maxUsers {
			return append(users, fmt.Sprintf("and %d more", len(hashes)-maxUsers))
		}
		users = append(users, h.String())
	}
	return users
}

// hasIPv6 reports whether a node that the user attached, or a virtual machine, has an IPv6 address beyond
// link-local.
func hasIPv6(d *domain.Domain, locals map[uint16][]netip.Addr) bool {
	for i := range d.VMs {
		if vm := &d.VMs[i]; !vm.Removed && slices.ContainsFunc(locals[vm.ID], isWide6) {
			return true
		}
	}
	return slices.ContainsFunc(topo.SpecsOf(d.Chosen()), func(s topo.NodeSpec) bool {
		has, err := s.HasIPv6()
		return has && err == nil // of a node that cannot be asked, packets tell
	})
}

func isWide6(a netip.Addr) bool {
	return a.Is6() && !a.Is4In6() && !a.IsLinkLocalUnicast() && !a.IsLoopback() && !a.IsMulticast()
}

func (h *Handle) ipv6Held() *uint64 {
	return &h.control[0].Ip6Held
}

// IPv6Held reports whether IPv6 is not measured because its programs are not loaded yet. It costs nothing to
// ask, and is never so again once it is not.
func (h *Handle) IPv6Held() bool {
	return h.Domain.Options.IPv6 != program.IPv6Off && atomic.LoadUint64(h.ipv6Held()) != 0
}

// MissesIPv6 reports whether the domain met IPv6 packets that LoadIPv6 would let it measure.
func (h *Handle) MissesIPv6() (bool, error) {
	if !h.IPv6Held() {
		return false, nil
	}
	n, err := h.counter(bpfobj.TcRdrCounterRDR_C_NM_IPV6)
	return n > 0, err
}

// LoadIPv6 loads the programs for IPv6, if the domain has none yet. Until both are in their places sources mark no
// IPv6 packet: none is changed that nobody would restore. A process that is killed in between leaves it so, and the
// next one begins anew.
func (h *Handle) LoadIPv6() error {
	if !h.IPv6Held() {
		return nil
	}
	spec, err := program.IPv6Spec(h.Domain.Options, h.hashKeys())
	if err != nil {
		return err
	}
	c, err := h.loadLater(spec)
	if err != nil {
		return loader.WatchError(len(h.Domain.Options.WatchProgram), loader.Error("load programs for IPv6", err))
	}
	defer c.Close() // the program array holds them
	for _, place := range program.IPv6Jumps {
		if err := h.maps[bpfobj.TcMapProgs].Put(uint32(place), c.Programs[program.Jumps[place]]); err != nil {
			return loader.Error("fill program array", err)
		}
	}
	atomic.StoreUint64(h.ipv6Held(), 0)
	return nil
}

// bringIPv6 loads them if nodes that are to be attached need them.
func (p *plan) bringIPv6(h *Handle) {
	if h.IPv6Held() && hasIPv6(p.change.Next, p.change.Locals) {
		if err := h.LoadIPv6(); err != nil {
			p.warn(fmt.Sprintf("IPv6 is not measured: %v", err))
		}
	}
	p.result.IPv6Held = h.IPv6Held()
}
