// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// DryRun works out what devices would get, and asks them what that would change.
type DryRun struct {
	Wanted  Wanted
	Status  Status // of the service, if there is one
	Drivers map[string]Driver
	Resolve func(ctx context.Context, text string) (netip.AddrPort, error)
	// Held says of which devices the service keeps the one connection that they allow: they are not asked.
	// What it knows of them is taken. nil: none.
	Held func(Device) bool
}

// asked is what a device has answered.
type asked struct {
	conn      Conn
	abilities *Abilities
	held      *State
	err       error
}

// Run returns the plan of each device.
func (r *DryRun) Run(ctx context.Context) ([]DevicePlan, error) {
	if err := r.Wanted.Check(); err != nil {
		return nil, err
	}
	r.Wanted.tidy(time.Now())
	collector, err := r.Resolve(ctx, r.Wanted.Config.Full().Collector)
	if err != nil {
		return nil, err
	}
	var list []*TopologyNode
	for i := range r.Wanted.Topology.Nodes {
		if n := &r.Wanted.Topology.Nodes[i]; n.IsDevice() {
			list = append(list, n)
		}
	}
	answers := r.ask(ctx, list)
	abilities := make(map[string]Abilities)
	for i, a := range answers {
		if a.conn != nil {
			defer a.conn.Close()
		}
		if a.abilities != nil {
			abilities[list[i].Name] = *a.abilities
		}
	}
	c := compile(&r.Wanted, abilities, collector, time.Now())
	plans := make([]DevicePlan, len(list))
	for i, n := range list {
		plans[i] = r.plan(ctx, c, n, &answers[i])
	}
	return plans, nil
}

// ask connects to devices, a few at a time.
func (r *DryRun) ask(ctx context.Context, list []*TopologyNode) []asked {
	answers := make([]asked, len(list))
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, n := range list {
		k := slices.IndexFunc(r.Status.Devices, func(d DeviceStatus) bool { return keyOf(d.Device) == keyOf(n.Device) })
		if k >= 0 && r.Held != nil && r.Held(n.Device) {
			d := &r.Status.Devices[k]
			if answers[i] = (asked{abilities: d.Abilities, held: d.Held}); d.Abilities == nil {
				answers[i].err = fmt.Errorf("%s", d.Error)
			}
			continue
		}
		group.Add(1)
		slots <- struct{}{}
		go func() {
			defer group.Done()
			defer func() { <-slots }()
			inner, stop := context.WithTimeout(ctx, connectTime)
			defer stop()
			conn, _, a, err := open(inner, n.Device, r.Drivers[n.Driver], nil)
			if answers[i] = (asked{conn: conn, err: err}); err == nil {
				answers[i].abilities = &a
			}
		}()
	}
	group.Wait()
	return answers
}

func (r *DryRun) plan(ctx context.Context, c *compiled, n *TopologyNode, a *asked) DevicePlan {
	p := DevicePlan{Device: n.Name, Driver: n.Driver, Lines: []string{}}
	for _, i := range r.Wanted.Intents {
		for _, reason := range c.reasons[i.Name] {
			if reason.Device != n.Name {
				continue
			}
			reason.Intent = i.Name
			if reason.Approximated {
				p.Approximated = append(p.Approximated, reason)
			} else {
				p.Refused = append(p.Refused, reason)
			}
		}
	}
	if a.err != nil {
		p.Error = a.err.Error()
		return p
	}
	want := c.states[n.Name]
	if a.conn == nil {
		p.Lines = append(p.Lines, differences(a.held, &want)...)
		return p
	}
	inner, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	lines, err := a.conn.Plan(inner, want)
	if err != nil {
		p.Error = err.Error()
	}
	p.Lines = append(p.Lines, lines...)
	return p
}

// differences are what differs between two States, in words of no device.
func differences(held, want *State) (lines []string) {
	if held == nil {
		held = &State{}
	}
	for _, p := range want.Ports {
		if !slices.Contains(held.Ports, p) {
			lines = append(lines, fmt.Sprintf("port %s is %s", p.Name, p.Role))
		}
	}
	for _, p := range held.Ports {
		if !slices.ContainsFunc(want.Ports, func(o DevicePort) bool { return o.Name == p.Name }) {
			lines = append(lines, fmt.Sprintf("port %s has no role any more", p.Name))
		}
	}
	if held.NodeID != want.NodeID {
		lines = append(lines, fmt.Sprintf("its id is %d", want.NodeID))
	}
	if held.Mark != want.Mark {
		lines = append(lines, "packets with INT are marked by "+want.Mark)
	}
	if held.Collector != want.Collector || held.Report != want.Report || held.Via != want.Via {
		from := ""
		if held.Via != want.Via {
			from = ", from " + cmp.Or(want.Via, "the namespace of the service")
		}
		lines = append(lines, fmt.Sprintf("reports of version %s go to %v%s", want.Report, want.Collector, from))
	}
	before, now := make(map[string]bool), make(map[string]bool)
	for i := range held.Entries {
		before[held.Entries[i].String()] = true
	}
	for i := range want.Entries {
		text := want.Entries[i].String()
		if now[text] = true; !before[text] {
			lines = append(lines, "+ "+text)
		}
	}
	for i := range held.Entries {
		if text := held.Entries[i].String(); !now[text] {
			lines = append(lines, "- "+text)
		}
	}
	return lines
}

// String is the entry in one line.
func (e *Entry) String() string {
	text := fmt.Sprintf("%s: %v: %s %s", e.Intent, &e.Slice, e.Mode, node.InstructionText(e.Instructions))
	if e.Sample > 1 {
		text += fmt.Sprintf(", one packet in %d", e.Sample)
	}
	return text
}
