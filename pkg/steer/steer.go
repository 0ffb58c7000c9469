// SPDX-License-Identifier: Apache-2.0

// Package steer is the management of INT domains, as all faces use it: what is wanted, what became of
// it, the drivers of devices, where topologies come from, and the service in the background.
// docs/design/0034-intents.md says how it works.
package steer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// Errors of a Management.
var (
	ErrNoIntent = errors.New("there is no such intent")
	ErrExists   = errors.New("there is an intent of that name")
)

// Management is that of one INT domain. It may be used concurrently, and by many processes.
type Management struct{ store *control.Store }

// List returns the names of the INT domains that are managed on this machine.
func List() ([]string, error) { return control.ListStores() }

// Open opens that of an INT domain, which need not be there yet.
func Open(name string) (*Management, error) {
	store, err := control.OpenStore(name)
	if err != nil {
		return nil, err
	}
	return &Management{store}, nil
}

// Name is that of the INT domain.
func (m *Management) Name() string { return m.store.Name() }

// Wanted is all that is wanted.
func (m *Management) Wanted() (control.Wanted, error) { return m.store.Wanted() }

// Config holds for the whole domain. What it does not say has the defaults.
func (m *Management) Config() (control.Config, error) {
	w, err := m.store.Wanted()
	return w.Config.Full(), err
}

// SetConfig replaces it. Devices without an id get one.
func (m *Management) SetConfig(c control.Config) error {
	return m.change(control.Change{Config: &c})
}

// PatchConfig changes those of its fields that b has, see control.PatchConfig. What another changes meanwhile stays.
func (m *Management) PatchConfig(b []byte) error {
	_, err := m.store.Change(func(w *control.Wanted) error {
		c, err := control.PatchConfig(b, w.Config)
		if err != nil {
			return err
		}
		return alter(w, control.Change{Config: &c}, time.Now())
	})
	return err
}

// Intents are all of them, in their order of priority.
func (m *Management) Intents() ([]control.Intent, error) {
	w, err := m.store.Wanted()
	return w.Intents, err
}

// Intent is the one of that name, or ErrNoIntent.
func (m *Management) Intent(name string) (control.Intent, error) {
	w, err := m.store.Wanted()
	if err != nil {
		return control.Intent{}, err
	}
	i := slices.IndexFunc(w.Intents, func(i control.Intent) bool { return i.Name == name })
	if i < 0 {
		return control.Intent{}, noIntent(name)
	}
	return w.Intents[i], nil
}

func noIntent(name string) error {
	return fmt.Errorf("%q: %w (see: «int intent list»)", name, ErrNoIntent)
}

// Add adds one, or returns ErrExists.
func (m *Management) Add(i control.Intent) error {
	_, err := m.store.Change(func(w *control.Wanted) error {
		if slices.ContainsFunc(w.Intents, func(o control.Intent) bool { return o.Name == i.Name }) {
			return fmt.Errorf("%q: %w", i.Name, ErrExists)
		}
		return alter(w, control.Change{Add: &i}, time.Now())
	})
	return err
}

// Put adds one, or replaces the one of that name.
func (m *Management) Put(i control.Intent) error { return m.change(control.Change{Add: &i}) }

// Remove removes one, or returns ErrNoIntent.
func (m *Management) Remove(name string) error { return m.change(control.Change{Remove: name}) }

// Apply replaces all intents.
func (m *Management) Apply(list []control.Intent) error {
	if list == nil {
		list = []control.Intent{}
	}
	return m.change(control.Change{Intents: list})
}

// Topology is what the domain is made of.
func (m *Management) Topology() (control.Topology, error) {
	w, err := m.store.Wanted()
	return w.Topology, err
}

// SetTopology replaces it.
func (m *Management) SetTopology(t control.Topology) error {
	return m.change(control.Change{Topology: &t})
}

func (m *Management) change(c control.Change) error {
	_, err := m.store.Change(func(w *control.Wanted) error { return alter(w, c, time.Now()) })
	return err
}

// alter does a change to what is wanted. An intent that is not new keeps its age.
func alter(w *control.Wanted, c control.Change, now time.Time) error {
	age := make(map[string]time.Time)
	for _, i := range w.Intents {
		age[i.Name] = i.Created
	}
	put := func(i control.Intent) control.Intent {
		if i.Created = age[i.Name]; i.Created.IsZero() {
			i.Created = now.UTC().Truncate(time.Microsecond)
		}
		return i
	}
	if c.Config != nil {
		if err := c.Config.CheckDevices(&w.Topology); err != nil {
			return err
		}
		w.Config = *c.Config
	}
	if c.Topology != nil {
		if err := checkTopology(c.Topology); err != nil {
			return err
		}
		w.Topology = *c.Topology
	}
	if c.Intents != nil {
		if err := control.CheckIntents(c.Intents, now); err != nil {
			return err
		}
		w.Intents = nil
		for n, i := range c.Intents {
			i.Created = age[i.Name]
			if i.Created.IsZero() { // those of one list are as old as it, and in its order
				i.Created = now.UTC().Truncate(time.Microsecond).Add(time.Duration(n) * time.Microsecond)
			}
			w.Intents = append(w.Intents, i)
		}
	}
	if c.Add != nil {
		if err := c.Add.Check("", now); err != nil {
			return err
		}
		one := put(*c.Add)
		w.Intents = slices.DeleteFunc(w.Intents, func(i control.Intent) bool { return i.Name == one.Name })
		w.Intents = append(w.Intents, one)
	}
	if c.Remove != "" {
		n := len(w.Intents)
		w.Intents = slices.DeleteFunc(w.Intents, func(i control.Intent) bool { return i.Name == c.Remove })
		if len(w.Intents) == n {
			return noIntent(c.Remove)
		}
	}
	return nil
}

// checkTopology refuses devices that their drivers cannot use.
func checkTopology(t *control.Topology) error {
	if err := t.Check(); err != nil {
		return err
	}
	var errs []error
	all := drivers("")
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if !n.IsDevice() {
			continue
		}
		driver, known := all[n.Driver]
		if !known {
			errs = append(errs, &control.FieldError{Field: fmt.Sprintf("nodes[%d].driver", i), Text: "this radar has no driver " + n.Driver})
			continue
		}
		if err := driver.Check(n.Device); err != nil {
			errs = append(errs, within(fmt.Sprintf("nodes[%d]", i), err))
		}
	}
	return errors.Join(errs...)
}

// within puts a path in front of fields.
func within(path string, err error) error {
	var errs []error
	for _, f := range control.FieldErrors(err) {
		errs = append(errs, &control.FieldError{Field: path + "." + f.Field, Text: f.Text})
	}
	if len(errs) == 0 {
		return &control.FieldError{Field: path, Text: err.Error()}
	}
	return errors.Join(errs...)
}

// Status is what the service has written last. A domain without one has the zero Status.
func (m *Management) Status() (control.Status, error) { return m.store.Status() }

// Devices are those of the topology, with what the service says of them.
func (m *Management) Devices() ([]control.DeviceStatus, error) {
	w, err := m.store.Wanted()
	if err != nil {
		return nil, err
	}
	st, err := m.store.Status()
	if err != nil {
		return nil, err
	}
	list := w.Topology.Devices(w.Config)
	for i := range list {
		k := slices.IndexFunc(st.Devices, func(d control.DeviceStatus) bool { return d.Name == list[i].Name && d.Driver == list[i].Driver })
		if k >= 0 {
			ports := list[i].Ports
			list[i] = st.Devices[k]
			list[i].Ports = ports
		}
	}
	for _, d := range st.Devices { // what leaves
		if !slices.ContainsFunc(list, func(o control.DeviceStatus) bool { return o.Name == d.Name && o.Driver == d.Driver }) {
			list = append(list, d)
		}
	}
	return list, nil
}

// Events are those since one of that number, which is not among them; 0: all that are kept.
func (m *Management) Events(since uint64) ([]control.Event, error) { return m.store.Events(since) }

// Forget removes all that is wanted, and the status. INT must be off all devices.
func (m *Management) Forget() error {
	err := m.store.Forget()
	if errors.Is(err, control.ErrInUse) {
		return fmt.Errorf("INT domain %s is managed: end that first («int stop ‹domain› %s»)", m.Name(), m.Name())
	}
	return err
}

// DryRun says what devices would get if a change were made. It changes nothing.
func (m *Management) DryRun(ctx context.Context, c control.Change) ([]control.DevicePlan, error) {
	w, err := m.store.Wanted()
	if err != nil {
		return nil, err
	}
	if err := alter(&w, c, time.Now()); err != nil {
		return nil, err
	}
	st, err := m.store.Status()
	if err != nil {
		return nil, err
	}
	service, err := m.Service()
	if err != nil {
		return nil, err
	}
	d := &control.DryRun{Wanted: w, Status: st, Drivers: drivers(m.Name()), Resolve: Resolve}
	if service.Running { // a switch has one controller
		d.Held = func(d control.Device) bool { return d.Driver != "ebpf" && d.Driver != "backpack" }
	}
	return d.Run(ctx)
}
