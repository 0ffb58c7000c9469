// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"context"

	"github.com/vnetradar/radar/p4"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// Driver makes P4 switches with radar's program, or another one that includes int.p4, hold what is wanted
// (docs/int/drivers.md).
type Driver struct {
	// Find finds the network namespace of a switch whose address is inside one.
	Find FindNamespace
}

// Name implements control.Driver.
func (*Driver) Name() string { return "p4runtime" }

// Check implements control.Driver.
func (*Driver) Check(d control.Device) error {
	_, err := readOptions(d)
	return err
}

// Connect implements control.Driver.
func (v *Driver) Connect(ctx context.Context, d control.Device) (control.Conn, error) {
	o, err := readOptions(d)
	if err != nil {
		return nil, err
	}
	to, err := o.Target(ctx, d.Spec, v.Find)
	if err != nil {
		return nil, err
	}
	program, err := o.Program()
	if program == nil && err == nil {
		program, err = NewProgram(p4.Info, p4.JSON)
	}
	if err != nil {
		return nil, err
	}
	return Open(ctx, to, radarLayout{o}, program, o.Pipeline)
}
