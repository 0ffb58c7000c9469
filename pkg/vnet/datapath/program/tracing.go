// SPDX-License-Identifier: Apache-2.0

package program

import (
	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// laterFeatures are those that programs ask which are loaded into a domain that is attached.
func laterFeatures() Features { return Features{Iterators: kernel.Iterators()} }

// QueueSpec is the program with the constants that the domain's other programs have, but
// for those about functions that free packets, which it does not ask.
func QueueSpec(stored domain.Options, keys HashKeys) (*ebpf.CollectionSpec, error) {
	o := optionsOf(stored)
	l, err := o.Layout()
	if err != nil {
		return nil, err
	}
	spec, err := loadTrace(bpfobj.TraceProgRadarQdiscDequeue)
	if err != nil {
		return nil, fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	if err := loader.SetConstants(spec, constantsOf(o, l, laterFeatures(), quietFuncs{}, keys), make(map[string]bool)); err != nil {
		return nil, err
	}
	return spec, sizeMaps(spec, o, l)
}

// PayloadSpec is the object of the program that captures payload, so many bytes of a packet, with the constants and
// the maps that the domain's other programs have.
func PayloadSpec(stored domain.Options, keys HashKeys, snapLen uint32) (*ebpf.CollectionSpec, error) {
	o := optionsOf(stored)
	l, err := o.Layout()
	if err != nil {
		return nil, err
	}
	spec, err := bpfobj.LoadPayload()
	if err != nil {
		return nil, fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	consts := constantsOf(o, l, laterFeatures(), quietFuncs{}, keys)
	consts["cfg_snaplen"] = snapLen
	if err := loader.SetConstants(spec, consts, make(map[string]bool)); err != nil {
		return nil, err
	}
	return spec, sizeMaps(spec, o, l)
}

// ChangeSpec is the object of the programs that see interfaces come and move. They use the other programs' maps.
func (b *Blueprint) ChangeSpec() (*ebpf.CollectionSpec, error) {
	spec, err := bpfobj.LoadChange()
	if err != nil {
		return nil, fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	return spec, sizeMaps(spec, b.Options, b.Layout)
}

func loadLosses() (*ebpf.CollectionSpec, error) { return loadTrace(bpfobj.TraceProgRadarKfreeSkb) }

// loadTrace returns the object of tracing programs with one of them.
func loadTrace(name string) (*ebpf.CollectionSpec, error) {
	spec, err := bpfobj.LoadTrace()
	if err != nil {
		return nil, err
	}
	for other := range spec.Programs {
		if other != name {
			delete(spec.Programs, other)
		}
	}
	return spec, nil
}
