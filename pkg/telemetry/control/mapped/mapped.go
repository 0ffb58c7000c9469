// SPDX-License-Identifier: Apache-2.0

// Package mapped is the driver of P4 programs that are not radar's: a map says which of the program's tables,
// keys and actions hold what (docs/int/drivers.md).
package mapped

import (
	"context"
	"fmt"

	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
)

// Driver makes P4 switches with programs of others hold what is wanted.
type Driver struct {
	// Find finds the network namespace of a switch whose address is inside one.
	Find p4runtime.FindNamespace
}

// options are those of a device.
type options struct {
	p4runtime.Reach
	Map string         `json:"map"` // the file that maps the program
	Set map[string]any `json:"set"` // values that the map takes from the device, as set.NAME
}

// Name implements control.Driver.
func (*Driver) Name() string { return "mapped" }

// Check implements control.Driver.
func (*Driver) Check(d control.Device) error {
	_, _, err := read(d)
	return err
}

// Connect implements control.Driver.
func (v *Driver) Connect(ctx context.Context, d control.Device) (control.Conn, error) {
	o, m, err := read(d)
	if err != nil {
		return nil, err
	}
	to, err := o.Target(ctx, d.Spec, v.Find)
	if err != nil {
		return nil, err
	}
	program, err := o.Program()
	if err != nil {
		return nil, err
	}
	return p4runtime.Open(ctx, to, &layout{m: m, o: o}, program, o.Pipeline)
}

func wrong(field, format string, args ...any) error {
	return &control.FieldError{Field: "options." + field, Text: fmt.Sprintf(format, args...)}
}

func read(d control.Device) (*options, *Map, error) {
	o := &options{Reach: p4runtime.DefaultReach()}
	if err := p4runtime.ReadOptions(d, o); err != nil {
		return nil, nil, err
	}
	if err := o.Reach.Check(d.Spec); err != nil {
		return nil, nil, err
	}
	switch {
	case o.Map == "":
		return nil, nil, wrong("map", "which file maps the program's tables?")
	case o.Pipeline == p4runtime.Push && o.P4Info == "":
		return nil, nil, wrong("pipeline", "push needs a program: give p4info and config")
	}
	text, err := p4runtime.ReadFile(o.Map)
	if err != nil {
		return nil, nil, wrong("map", "%v", err)
	}
	m, err := ReadMap(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Map, err)
	}
	for _, name := range m.sets() {
		if _, ok := o.Set[name]; !ok {
			return nil, nil, wrong("set."+name, "%s wants a value for it", o.Map)
		}
	}
	for name := range o.Set {
		if !m.wants(name) {
			return nil, nil, wrong("set."+name, "%s takes no such value", o.Map)
		}
	}
	return o, m, nil
}
