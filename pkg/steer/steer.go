// SPDX-License-Identifier: Apache-2.0

// Package steer is the management of INT domains, as all faces use it: what is wanted, what became of
// it, the drivers of devices, where topologies come from, and the service in the background.
// docs/design/0034-intents.md says how it works.
package steer

import (
	"context"
	"errors"

	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// Errors of a Management.
var (
	ErrNoIntent = errors.New("there is no such intent")
	ErrExists   = errors.New("there is an intent of that name")
)

var errNotYet = errors.New("not there yet")

// Management is that of one INT domain. It may be used concurrently, and by many processes.
type Management struct{ name string }

// List returns the names of the INT domains that are managed on this machine.
func List() ([]string, error) { return nil, errNotYet }

// Open opens that of an INT domain, which need not be there yet.
func Open(name string) (*Management, error) { return &Management{name}, nil }

// Name is that of the INT domain.
func (m *Management) Name() string { return m.name }

// Wanted is all that is wanted.
func (m *Management) Wanted() (control.Wanted, error) { return control.Wanted{}, errNotYet }

// Config holds for the whole domain.
func (m *Management) Config() (control.Config, error) { return control.Config{}, errNotYet }

// SetConfig replaces it.
func (m *Management) SetConfig(control.Config) error { return errNotYet }

// Intents are all of them, in their order of priority.
func (m *Management) Intents() ([]control.Intent, error) { return nil, errNotYet }

// Intent is the one of that name, or ErrNoIntent.
func (m *Management) Intent(string) (control.Intent, error) { return control.Intent{}, errNotYet }

// Add adds one, or returns ErrExists.
func (m *Management) Add(control.Intent) error { return errNotYet }

// Put adds one, or replaces the one of that name.
func (m *Management) Put(control.Intent) error { return errNotYet }

// Remove removes one, or returns ErrNoIntent.
func (m *Management) Remove(string) error { return errNotYet }

// Apply replaces all intents.
func (m *Management) Apply([]control.Intent) error { return errNotYet }

// Topology is what the domain is made of.
func (m *Management) Topology() (control.Topology, error) { return control.Topology{}, errNotYet }

// SetTopology replaces it.
func (m *Management) SetTopology(control.Topology) error { return errNotYet }

// DryRun says what devices would get if a change were made. It changes nothing.
func (m *Management) DryRun(context.Context, control.Change) ([]control.DevicePlan, error) {
	return nil, errNotYet
}

// Status is what the service has written last. A domain without one has the zero Status.
func (m *Management) Status() (control.Status, error) { return control.Status{}, errNotYet }

// Devices are those of the topology, with what the service says of them.
func (m *Management) Devices() ([]control.DeviceStatus, error) { return nil, errNotYet }

// Events are those since one of that number, which is not among them; 0: all that are kept.
func (m *Management) Events(uint64) ([]control.Event, error) { return nil, errNotYet }

// Service is the process in the background.
type Service struct {
	Running    bool   `json:"running"`    // it lives
	Wanted     bool   `json:"wanted"`     // and is to
	PID        int    `json:"pid"`        // 0: none
	Generation uint64 `json:"generation"` // of what is wanted
	Applied    uint64 `json:"applied"`    // and of what devices hold
}

// Service says whether it lives.
func (m *Management) Service() (Service, error) { return Service{}, errNotYet }

// Start makes INT wanted, and starts the service if it does not live. It returns when that works.
func (m *Management) Start(context.Context) (Service, error) { return Service{}, errNotYet }

// Stop takes INT off all devices, in the order in which no packet leaves with it, and ends the service.
// It returns when that is done. If ctx ends before, the service goes on with it.
func (m *Management) Stop(context.Context) error { return errNotYet }
