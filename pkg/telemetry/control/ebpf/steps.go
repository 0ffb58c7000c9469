// SPDX-License-Identifier: Apache-2.0

package ebpf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/telemetry/node/agent"
)

// steps are what is to be done for a device to hold a State.
type steps struct {
	c       *conn
	d       *node.Domain // as it is; nil: there is none
	want    *control.State
	entries []node.Entry
	all     bool     // the domain has another mark, or a killed process has begun to detach it: it is taken off first
	off     []string // the node, or ports of it, that go or change their role
	lines   []string // what is to be done, in words
	options bool     // those of the domain change
}

func (s *steps) addf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// steps works out what differs.
func (c *conn) steps(want *control.State, entries []node.Entry) (*steps, error) {
	s := &steps{c: c, want: want, entries: entries}
	d, err := node.Load(c.domain)
	switch {
	case err == nil:
		s.d = d
	case errors.Is(err, node.ErrNotAttached), errors.Is(err, node.ErrHalfAttached):
	default:
		return nil, err
	}
	mark, err := node.ParseMark(want.Mark)
	if err != nil {
		return nil, err
	}
	var n *node.Node
	if s.d != nil {
		if s.all = d.Options.Mark != mark; s.all {
			s.addf("the domain marks packets by %v in place of %v: it is detached first", mark, d.Options.Mark)
		} else if s.all = isDetaching(d.Name); s.all {
			s.addf("a process that was to detach the domain has not finished: it is detached first")
		} else if n = d.NodeNamed(c.device.Name); n != nil && n.Inum != c.place.Inum {
			s.addf("node %s is another namespace: what the one before held is detached", n.Name)
			s.off, n = []string{n.Name}, nil
		}
	}
	before, from := &node.Options{}, node.Place{}
	if s.d != nil && !s.all {
		before, from = &s.d.Options, s.d.Via
	}
	if len(want.Ports) > 0 && (before.Address != want.Collector || !isVia(from, want) || before.Report != want.Report || before.Quote != want.Quote) {
		s.options = true
		s.addf("reports of version %s go to %v, from %s, with %d bytes of the packet", want.Report, want.Collector, via(want), want.Quote)
	}
	s.ports(n)
	return s, nil
}

// ports compares what the node has with what it is to have.
func (s *steps) ports(n *node.Node) {
	if n == nil {
		n = &node.Node{}
	}
	for i := range n.Ports {
		p := &n.Ports[i]
		k := slices.IndexFunc(s.want.Ports, func(w control.DevicePort) bool { return w.Name == p.Name })
		if k < 0 || flags(s.want.Ports[k].Role) != p.Flags&(node.Source|node.Sink|node.Inside) {
			s.off = append(s.off, s.c.device.Name+"/"+p.Name)
			s.addf("port %s is %s no more", p.Name, p.Flags.Words())
		}
	}
	if len(s.want.Ports) == 0 {
		return
	}
	for _, w := range s.want.Ports {
		p := n.Port(w.Name)
		if p == nil || slices.Contains(s.off, s.c.device.Name+"/"+w.Name) {
			s.addf("port %s is %s: programs at its TC ingress and egress", w.Name, flags(w.Role).Words())
			continue
		}
		o := s.c.options
		if p.MTU != w.MTU || p.NoGSO != o.noGSO || p.CongestedAt != o.congestedAt || w.Role == control.Edge && (p.Flags&node.DropForeign != 0) != o.foreign {
			s.addf("port %s gets other settings", w.Name)
		}
	}
	if n.ID != s.want.NodeID {
		s.addf("its id is %d", s.want.NodeID)
	}
	if !sameEntries(n.Entries, s.entries) {
		for _, e := range n.Entries {
			if !slices.ContainsFunc(s.entries, func(x node.Entry) bool { return reflect.DeepEqual(x, e) }) {
				s.addf("watchlist: without %s", entryText(&e))
			}
		}
		for i := range s.entries {
			s.addf("watchlist %d: %s", i+1, entryText(&s.entries[i]))
		}
	}
}

func sameEntries(a, b []node.Entry) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

func entryText(e *node.Entry) string {
	text := e.Expr
	if text == "" {
		text = "all TCP and UDP"
	}
	text += ": " + e.Mode.String() + " " + node.InstructionText(e.Instructions)
	if e.Sample > 1 {
		text += fmt.Sprintf(", one packet in %d", e.Sample)
	}
	return text
}

func flags(r control.Role) node.Flags {
	if r == control.Edge {
		return node.Source | node.Sink
	}
	return node.Inside
}

// do does it: first what goes, then ports, then entries.
func (s *steps) do(ctx context.Context) error {
	c := s.c
	d, err := c.load(ctx)
	if err != nil {
		return err
	}
	if d != nil && s.all {
		if err := c.detach(ctx, d); err != nil {
			return err
		}
		d = nil
	}
	if d != nil && len(s.off) > 0 {
		if err := c.detach(ctx, d, s.off...); err != nil {
			return err
		}
	}
	if len(s.want.Ports) == 0 {
		return nil
	}
	isNew := d == nil
	if err := s.attach(ctx, isNew); err != nil {
		return err
	}
	if _, err := agent.Ensure(c.domain); err != nil {
		return fmt.Errorf("%w%s", err, s.undo(ctx, isNew))
	}
	return nil
}

// undo takes a domain off that nobody would keep alive.
func (s *steps) undo(ctx context.Context, isNew bool) string {
	if !isNew {
		return ""
	}
	if _, err := node.Detach(context.WithoutCancel(ctx), node.DetachRequest{Domain: s.c.domain}); err != nil {
		return fmt.Sprintf(" (and taking off what was attached: %v)", err)
	}
	return ""
}

// attach gives ports their roles, those of one MTU at a time, and entries at last.
func (s *steps) attach(ctx context.Context, isNew bool) error {
	byMTU := make(map[int][]node.Target)
	var sizes []int
	for _, p := range s.want.Ports {
		if _, is := byMTU[p.MTU]; !is {
			sizes = append(sizes, p.MTU)
		}
		byMTU[p.MTU] = append(byMTU[p.MTU], node.Target{Place: s.c.place, Port: p.Name, Roles: flags(p.Role)})
	}
	o := s.c.options
	for i, mtu := range sizes {
		req := node.Request{
			Domain: s.c.domain, Managed: true, Targets: byMTU[mtu], Roles: node.Inside,
			Settings: node.Settings{ID: &s.want.NodeID, DropForeign: &o.foreign, CongestedAt: &o.congestedAt, MTU: &mtu, NoGSO: &o.noGSO},
		}
		if i == len(sizes)-1 {
			req.Settings.Entries = &s.entries
		}
		if isNew || s.options {
			from, err := s.via(ctx)
			if err != nil {
				return err
			}
			req.Options, req.Via = s.setOptions, &from
		}
		if _, err := node.Attach(ctx, req); err != nil {
			return err
		}
		isNew = false
	}
	return nil
}

// isVia reports whether reports are sent from the namespace that is wanted. One that was made anew has the same name; ours may
// have several.
func isVia(from node.Place, want *control.State) bool {
	if want.Via == "" {
		return from.Inum == node.Here().Inum
	}
	return from.Spec == want.Via && !from.IsGone()
}

// via is what the namespace is called that reports are sent from.
func via(want *control.State) string { return cmp.Or(want.Via, node.Here().Spec) }

// via is that namespace.
func (s *steps) via(ctx context.Context) (node.Place, error) {
	if s.want.Via == "" {
		return node.Here(), nil
	}
	place, err := s.c.driver.Find(ctx, control.Device{Name: s.want.Via, Spec: s.want.Via})
	if err != nil {
		return place, fmt.Errorf("reports are to be sent from %s: %w", s.want.Via, err)
	}
	return place, nil
}

// setOptions sets those of the domain. Nodes have watchlists of their own: the domain's gives nothing.
func (s *steps) setOptions(o *node.Options) error {
	mark, err := node.ParseMark(s.want.Mark)
	if err != nil {
		return err
	}
	lease := o.Lease
	*o = node.Options{
		Mark: mark, Entries: []node.Entry{{Mode: node.None}}, Collector: s.want.Collector.String(), Address: s.want.Collector,
		Report: s.want.Report, Quote: s.want.Quote, Lease: lease,
		SinkElsewhere: true, // the management has seen to that
	}
	return nil
}
