// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// backpack is the driver of domains of radar's own: what their watchlist is. That is part of their programs, and
// fixed when they are attached. So the driver reports whether a domain measures what intents ask for, and
// what to do if it does not; it changes nothing.
type backpack struct{}

// Name implements control.Driver.
func (backpack) Name() string { return "backpack" }

// Check implements control.Driver.
func (backpack) Check(d control.Device) error {
	if d.Spec == "" {
		return &control.FieldError{Field: "spec", Text: "which domain is it? Use the name of one that is attached"}
	}
	for name := range d.Options {
		return &control.FieldError{Field: "options." + name, Text: "driver backpack has no options"}
	}
	return nil
}

// Connect implements control.Driver.
func (backpack) Connect(_ context.Context, d control.Device) (control.Conn, error) {
	c := &backpackConn{name: d.Spec}
	_, err := c.watch()
	return c, err
}

// backpackConn is a connection to a domain: its description.
type backpackConn struct {
	name string
	last *control.State
}

// watch is what the domain measures; "": all.
func (c *backpackConn) watch() (string, error) {
	d, err := domain.Load(c.name)
	if errors.Is(err, domain.ErrNotAttached) {
		return "", fmt.Errorf("%w: %w", control.ErrGone, err)
	}
	if err != nil {
		return "", err
	}
	return d.Options.Watch, nil
}

// asked is the expression that stands for all entries; ok is false if nobody asks for anything.
func asked(want *control.State) (text string, ok bool) {
	var list []string
	for i := range want.Entries {
		e := want.Entries[i].Slice.Expression()
		if e == "" {
			return "", true
		}
		if !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	if len(list) > 1 {
		return "(" + strings.Join(list, ") or (") + ")", true
	}
	return strings.Join(list, ""), len(list) > 0
}

// Abilities implements control.Conn.
func (*backpackConn) Abilities() control.Abilities {
	return control.Abilities{Modes: []control.Mode{control.Backpack}, Expressions: filter.Available, Ranges: true, Postcards: true}
}

// Plan implements control.Conn.
func (c *backpackConn) Plan(_ context.Context, want control.State) ([]string, error) {
	has, err := c.watch()
	if err != nil {
		return nil, err
	}
	if text, ok := asked(&want); ok && text != has {
		return []string{fmt.Sprintf("domain %s must be detached, and attached with ‹watch› %q: it measures %s", c.name, text, all(has))}, nil
	}
	return nil, nil
}

func all(watch string) string {
	if watch == "" {
		return "all packets"
	}
	return fmt.Sprintf("%q", watch)
}

// Apply implements control.Conn. It refuses what only attaching anew could do.
func (c *backpackConn) Apply(_ context.Context, want control.State) error {
	has, err := c.watch()
	if err != nil {
		return err
	}
	if text, ok := asked(&want); ok && text != has {
		return fault.Usage.Errorf("domain %s measures %s, and that is fixed when it is attached: detach it («detach ‹domain› %s»), and attach it with ‹watch› %q", c.name, all(has), c.name, text)
	}
	c.last = &want
	return nil
}

// Clear implements control.Conn: the domain stays, as it was before.
func (c *backpackConn) Clear(context.Context) error {
	c.last = nil
	return nil
}

// Holds implements control.Conn.
func (c *backpackConn) Holds(ctx context.Context) (bool, error) {
	if c.last == nil {
		_, err := c.watch()
		return false, err
	}
	lines, err := c.Plan(ctx, *c.last)
	return err == nil && len(lines) == 0, err
}

// Counters implements control.Conn. «status» has those of a domain.
func (*backpackConn) Counters(context.Context) (map[string]uint64, error) { return nil, nil }

// Close implements control.Conn.
func (*backpackConn) Close() error { return nil }
