// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/loader"
)

// linkPrefix is what names of pinned links begin with; maps are pinned under their own names.
const linkPrefix = "link-"

// ErrNoPin: the domain has no such pin.
var ErrNoPin = errors.New("not pinned")

// Pin is the path of a domain's pin.
func (k Kind) Pin(domain, name string) string { return filepath.Join(k.PinDir(domain), name) }

// LinkPin is the path of the pin of a link that is not a port's, such as that of a tracing program.
func (k Kind) LinkPin(domain, name string) string { return k.Pin(domain, linkPrefix+name) }

// IsLink reports whether a pin is a link's.
func IsLink(pin string) bool { return strings.HasPrefix(filepath.Base(pin), linkPrefix) }

// HasPins reports whether the domain has any pin.
func (k Kind) HasPins(domain string) bool { return isThere(k.PinDir(domain)) }

// OpenMap opens a pinned map. ErrNoPin: there is none.
func (k Kind) OpenMap(domain, name string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(k.Pin(domain, name), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("map %s: %w", name, ErrNoPin)
	}
	if err != nil {
		return nil, loader.Error("open map "+name, err)
	}
	return m, nil
}

// MakeMap opens a pinned map as spec describes it, or makes and pins it. The kernel shows it as the kind's. A map of another size
// is made anew: what is in it is lost. Errors: ErrDamaged, if it is no such map.
func (k Kind) MakeMap(domain, name string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := k.OpenMap(domain, name)
	if err == nil {
		sized := spec.Copy()
		sized.MaxEntries = m.MaxEntries()
		if err := sized.Compatible(m); err != nil {
			m.Close()
			return nil, k.Damaged(domain, fmt.Errorf("map %s: %w", name, err))
		}
		if m.MaxEntries() == spec.MaxEntries {
			return m, nil
		}
		m.Close()
		err = hook.Detach(k.Pin(domain, name))
	}
	if err != nil && !errors.Is(err, ErrNoPin) {
		return nil, err
	}
	named := spec.Copy()
	named.Name = k.KernelName(spec.Name)
	if m, err = ebpf.NewMap(named); err != nil {
		return nil, loader.Error("make map "+name, err)
	}
	if err := m.Pin(k.Pin(domain, name)); err != nil {
		m.Close()
		return nil, loader.Error("pin map "+name, err)
	}
	return m, nil
}

// KernelName is what the kernel calls one of the kind's maps.
func (k Kind) KernelName(name string) string {
	const kept = 15 // characters
	name = k.Prefix + name
	return name[:min(len(name), kept)]
}

// Maps are the numbers of the domain's maps.
func (k Kind) Maps(domain string) []ebpf.MapID {
	list, err := hook.Pins(k.PinDir(domain), "")
	if err != nil {
		return nil
	}
	return hook.PinnedMaps(slices.DeleteFunc(list, IsLink))
}

// MakePins creates the domain's directory of pins, and those above it. One that is there already is taken if nobody else
// can put anything into it.
func (k Kind) MakePins(name string) error {
	dir := k.PinDir(name)
	for _, path := range []string{filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir), dir} {
		if err := statedir.Make(path); err != nil {
			return fmt.Errorf("pin directory: %w", err)
		}
	}
	return nil
}

// RemovePins removes every pin of a domain, links first, and the directories that are empty then. Sources must be off.
func (k Kind) RemovePins(name string) error { return k.RemovePinsIn(k.PinDir(name)) }

// RemovePinsIn is RemovePins of a directory where domains of another version have them.
func (k Kind) RemovePinsIn(dir string) error {
	if err := statedir.Check(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pin directory: %w", err) // whatever that is, we have not made it
	}
	list, err := hook.Pins(dir, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	first := "-" + Suffix(k.Layer.Gives)
	var errs []error
	for _, is := range []func(string) bool{ // what gives packets something first, what others need last
		func(pin string) bool { return IsLink(pin) && strings.HasSuffix(pin, first) },
		func(pin string) bool { return IsLink(pin) && !strings.HasSuffix(pin, first) },
		func(pin string) bool { return !IsLink(pin) },
	} {
		for _, pin := range list {
			if is(pin) {
				errs = append(errs, hook.Detach(pin))
			}
		}
	}
	return errors.Join(append(errs, hook.RemoveDir(dir))...)
}

// SweepFilters removes clsact filters of which names are chosen, from every interface of every namespace that can be
// reached, that of the machine too. Of their qdiscs nobody knows any more who made them: they go only if qdiscs says so, and
// nothing else is in them.
func SweepFilters(chosen func(name string) bool, qdiscs bool) error {
	var errs []error
	for file, err := range host.Namespaces() {
		if err != nil {
			errs = append(errs, fmt.Errorf("find network namespaces: %w", err))
			break
		}
		errs = append(errs, sweep(file, chosen, qdiscs))
	}
	return errors.Join(errs...)
}

func sweep(file host.NetnsFile, chosen func(name string) bool, qdiscs bool) error {
	ns, err := host.SameNetns(file.Path, file.Inum)
	if errors.Is(err, host.ErrNetnsGone) {
		return nil
	}
	if err == nil {
		defer ns.Close()
		err = host.InNetns(ns, func() error {
			filters, err := hook.Filters(chosen)
			errs := []error{err}
			for _, f := range filters {
				errs = append(errs, loader.HookError(f.Name, f.Direction.String(), f.Remove()))
				if qdiscs {
					errs = append(errs, hook.RemoveClsact(f.Ifindex))
				}
			}
			return errors.Join(errs...)
		})
	}
	if err != nil {
		return fmt.Errorf("namespace %s: %w", file.Path, err)
	}
	return nil
}
