// SPDX-License-Identifier: Apache-2.0

// Package ebpf is the driver of INT nodes of Linux (pkg/telemetry/node): network namespaces of this machine. All
// devices of an INT domain are nodes of the domain of the same name there.
package ebpf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/telemetry/node/agent"
)

// Driver makes network namespaces INT nodes.
type Driver struct {
	Domain string
	// Find finds the namespace that a device's spec names. control.ErrGone: there is none any more.
	Find func(ctx context.Context, d control.Device) (node.Place, error)

	mu sync.Mutex // one device changes the domain at a time
}

// Name implements control.Driver.
func (*Driver) Name() string { return "ebpf" }

// options are those of a device.
type options struct {
	foreign     bool // packets that come with INT from outside are dropped
	noGSO       bool
	congestedAt uint32
}

// Options are the names of those that devices have, and what they are for.
var Options = map[string]string{
	"foreign":      "pass (under a cover) or drop: packets that come from outside with INT",
	"no_gso":       "true: segmentation and checksum offloads are off at the ports",
	"congested_at": "packets that find so many others in a queue are reported",
}

func wrong(field, format string, args ...any) error {
	return &control.FieldError{Field: "options." + field, Text: fmt.Sprintf(format, args...)}
}

// read reads the options of a device.
func read(d control.Device) (o options, err error) {
	for name, value := range d.Options {
		ok := false
		switch name {
		case "foreign":
			ok = value == "pass" || value == "drop"
			o.foreign = value == "drop"
		case "no_gso":
			o.noGSO, ok = value.(bool)
		case "congested_at":
			n, isNumber := number(value)
			o.congestedAt, ok = uint32(n), isNumber && n >= 0 && n <= 1<<32-1
		default:
			names := make([]string, 0, len(Options))
			for known := range Options {
				names = append(names, known)
			}
			slices.Sort(names)
			return o, wrong(name, "driver ebpf has no such option: use %s", strings.Join(names, ", "))
		}
		if !ok {
			return o, wrong(name, "%v: use %s", value, Options[name])
		}
	}
	return o, nil
}

// number is one of YAML or of JSON.
func number(value any) (int64, bool) {
	switch v := value.(type) {
	case uint64:
		return int64(v), v < 1<<62
	case int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		return int64(v), v == float64(int64(v))
	}
	return 0, false
}

// Check implements control.Driver.
func (*Driver) Check(d control.Device) error {
	if d.Spec == "" {
		return &control.FieldError{Field: "spec", Text: "which namespace is it? Use netns:NAME, docker:NAME or pid:N"}
	}
	_, err := read(d)
	return err
}

// Connect implements control.Driver.
func (v *Driver) Connect(ctx context.Context, d control.Device) (control.Conn, error) {
	if !filter.Available {
		return nil, filter.ErrNotBuilt
	}
	o, err := read(d)
	if err != nil {
		return nil, err
	}
	place, err := v.find(ctx, d)
	if err != nil {
		return nil, err
	}
	place.Name = d.Name
	if _, err := node.Interfaces(place); err != nil {
		return nil, err
	}
	return &conn{domain: v.Domain, driver: v, device: d, place: place, options: o}, nil
}

// find finds the device. One whose name is gone, but whose namespace still lives and holds something, is not gone.
func (v *Driver) find(ctx context.Context, d control.Device) (node.Place, error) {
	place, err := v.Find(ctx, d)
	if !errors.Is(err, control.ErrGone) {
		return place, err
	}
	if has, loadErr := node.Load(v.Domain); loadErr == nil {
		if n := has.NodeNamed(d.Name); n != nil && !n.IsGone() {
			return n.Place, nil
		}
	}
	return place, err
}

// abilities are the same for all.
var abilities = control.Abilities{
	Modes: []control.Mode{control.MD, control.MD10, control.MX, control.XD}, Instructions: 0xff00,
	Reports: []string{node.Report20, node.Report10}, MarkDSCP: true, MarkPort: true, Expressions: true, Ranges: true,
	Sampling: true, MaxEntries: node.MaxEntries, Postcards: true,
}

// conn is a connection to a namespace.
type conn struct {
	domain  string
	driver  *Driver
	device  control.Device
	place   node.Place
	options options
	last    *control.State
	entries []node.Entry // those of last: expressions are compiled once, and names in them resolved
}

// Abilities implements control.Conn.
func (*conn) Abilities() control.Abilities { return abilities }

// Close implements control.Conn.
func (*conn) Close() error { return nil }

// Plan implements control.Conn.
func (c *conn) Plan(_ context.Context, want control.State) ([]string, error) {
	entries, err := compile(&want)
	if err != nil {
		return nil, err
	}
	s, err := c.steps(&want, entries)
	if err != nil {
		return nil, err
	}
	return s.lines, nil
}

// Apply implements control.Conn.
func (c *conn) Apply(ctx context.Context, want control.State) error {
	entries, err := compile(&want)
	if err != nil {
		return err
	}
	c.driver.mu.Lock()
	defer c.driver.mu.Unlock()
	if c.place, err = c.driver.find(ctx, c.device); err != nil { // it may have been made anew, or is gone
		return err
	}
	c.place.Name = c.device.Name
	s, err := c.steps(&want, entries)
	if err != nil {
		return err
	}
	if err := s.do(ctx); err != nil {
		return err
	}
	c.last, c.entries = &want, entries
	return nil
}

// Clear implements control.Conn.
func (c *conn) Clear(ctx context.Context) error {
	c.driver.mu.Lock()
	defer c.driver.mu.Unlock()
	c.last = nil
	d, err := c.load(ctx)
	if err != nil || d == nil || d.NodeNamed(c.device.Name) == nil {
		return err
	}
	return c.detach(ctx, d, c.device.Name)
}

// Holds implements control.Conn.
func (c *conn) Holds(ctx context.Context) (bool, error) {
	place, err := c.driver.find(ctx, c.device)
	if err != nil {
		return false, err
	}
	if place.Inum != c.place.Inum || c.last == nil {
		return false, nil
	}
	d, err := node.Load(c.domain)
	if err != nil {
		return false, nil
	}
	if n := d.NodeNamed(c.device.Name); n != nil {
		if stands, err := d.Stands(n); err != nil || !stands {
			return false, nil
		}
	}
	if s, err := c.steps(c.last, c.entries); err != nil || len(s.lines) > 0 {
		return false, nil
	}
	if len(c.last.Ports) == 0 {
		return true, nil
	}
	_, err = agent.Ensure(c.domain)
	return err == nil, err
}

// Counters implements control.Conn.
func (c *conn) Counters(context.Context) (map[string]uint64, error) {
	counts := make(map[string]uint64)
	d, err := node.Load(c.domain)
	if system.IsAbsent(err) {
		return counts, nil
	}
	if err != nil {
		return nil, err
	}
	n := d.NodeNamed(c.device.Name)
	if n == nil {
		return counts, nil
	}
	sum, err := d.Counters(n)
	if err != nil {
		return nil, err
	}
	for i, meaning := range node.Done {
		if meaning.Name != "" {
			counts[meaning.Name] = sum.Done[i]
		}
	}
	for i, meaning := range node.Skipped {
		if i != int(bpfobj.INT_SKIP_NONE) && sum.Skipped[i] > 0 {
			counts[meaning.Name] = sum.Skipped[i]
		}
	}
	return counts, nil
}

// load reads the domain's description; nil: there is none. What a killed detach has left is taken off.
func (c *conn) load(ctx context.Context) (*node.Domain, error) {
	d, err := node.Load(c.domain)
	if errors.Is(err, node.ErrNotAttached) || errors.Is(err, node.ErrHalfAttached) {
		return nil, nil // attaching makes it anew
	}
	if err != nil {
		return nil, err
	}
	if !d.Managed {
		return nil, fault.Usage.Errorf("INT domain %q was attached by hand: detach it («int detach ‹domain› %s»), or manage one of another name", c.domain, c.domain)
	}
	if !isDetaching(c.domain) {
		return d, nil
	}
	return nil, c.detach(ctx, d)
}

// isDetaching reports whether a process takes the domain off, or was killed as it did. A domain without a control page is
// whole again once it is attached.
func isDetaching(domain string) bool {
	control, err := node.OpenControl(domain)
	if err != nil {
		return false
	}
	defer control.Close()
	return control.Lease().IsDetaching()
}

// detach takes the domain off, or the nodes and ports named.
func (c *conn) detach(ctx context.Context, d *node.Domain, names ...string) error {
	_, err := node.Detach(ctx, node.DetachRequest{
		Domain: c.domain, Names: names, Drain: gives(d),
		EndAgent: func() error { return agent.End(ctx, c.domain) },
	})
	if system.IsAbsent(err) {
		return nil
	}
	return err
}

// gives reports whether packets may get INT at a node.
func gives(d *node.Domain) bool {
	return slices.ContainsFunc(d.Nodes, func(n node.Node) bool {
		return n.Marks() && slices.ContainsFunc(d.Watchlist(&n), func(e node.Entry) bool { return e.Mode != node.None && e.Mode != node.XD })
	})
}
