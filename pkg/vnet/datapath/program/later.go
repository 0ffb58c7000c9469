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

// Programs that are loaded into a domain that exists, when they are needed. They use the maps of
// the domain's other programs, and have the same constants.

// laterObject is what laterSpec makes ready.
type laterObject struct {
	load     func() (*ebpf.CollectionSpec, error)
	features Features       // as far as its programs ask what the kernel can do
	more     map[string]any // constants that the other objects lack
}

// laterSpec is an object with the constants and the maps of a domain that exists, but for the constants
// about functions that free packets, which such programs do not ask.
func laterSpec(stored domain.Options, keys HashKeys, obj laterObject) (*ebpf.CollectionSpec, error) {
	o := optionsOf(stored)
	l, err := o.Layout()
	if err != nil {
		return nil, err
	}
	spec, err := obj.load()
	if err != nil {
		return nil, fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	obj.features.Iterators = kernel.Iterators()
	consts := constantsOf(o, l, obj.features, quietFuncs{}, keys)
	for name, value := range obj.more {
		consts[name] = value
	}
	if err := loader.SetConstants(spec, consts, make(map[string]bool)); err != nil {
		return nil, err
	}
	return spec, sizeMaps(spec, o, l)
}

// QueueSpec is the program that sees packets leave queues.
func QueueSpec(stored domain.Options, keys HashKeys) (*ebpf.CollectionSpec, error) {
	load := func() (*ebpf.CollectionSpec, error) { return loadTrace(bpfobj.TraceProgRadarQdiscDequeue) }
	return laterSpec(stored, keys, laterObject{load: load})
}

// DeliverSpec is the program that sees what a node delivers to itself.
func DeliverSpec(stored domain.Options, keys HashKeys) (*ebpf.CollectionSpec, error) {
	return laterSpec(stored, keys, laterObject{load: bpfobj.LoadDeliver})
}

// PayloadSpec is the object of the program that captures payload, so many bytes of a packet.
func PayloadSpec(stored domain.Options, keys HashKeys, snapLen uint32) (*ebpf.CollectionSpec, error) {
	return laterSpec(stored, keys, laterObject{load: bpfobj.LoadPayload, more: map[string]any{"cfg_snaplen": snapLen}})
}

// IPv6Jumps are the places of the programs for IPv6 in the program array, in the order in which they
// are to be filled.
var IPv6Jumps = []bpfobj.TcRdrProg{bpfobj.TcRdrProgRDR_PROG_INGRESS6, bpfobj.TcRdrProgRDR_PROG_EGRESS6}

// isIPv6 reports whether a program is one of them.
func isIPv6(name string) bool {
	for _, place := range IPv6Jumps {
		if Jumps[place] == name {
			return true
		}
	}
	return false
}

// keepPrograms removes the other programs from an object.
func keepPrograms(spec *ebpf.CollectionSpec, keep func(name string) bool) {
	for name := range spec.Programs {
		if !keep(name) {
			delete(spec.Programs, name)
		}
	}
}

// IPv6Spec is the object with the programs for IPv6 alone.
func IPv6Spec(stored domain.Options, keys HashKeys) (*ebpf.CollectionSpec, error) {
	f := Features{CoarseClock: hasCoarseClock(), redirects: findRedirects()}
	spec, err := laterSpec(stored, keys, laterObject{load: bpfobj.LoadTc, features: f})
	if err != nil {
		return nil, err
	}
	keepPrograms(spec, isIPv6)
	if len(stored.WatchProgram) > 0 {
		return spec, loader.SetWatch(spec, stored.WatchProgram)
	}
	return spec, nil
}

// HoldIPv6 leaves the programs for IPv6 out: they are loaded when they are needed. Until then sources mark
// no IPv6 packet.
func (b *Blueprint) HoldIPv6() {
	b.dropIPv6()
	b.ipv6Held = true
}

// dropIPv6 leaves them out for good.
func (b *Blueprint) dropIPv6() {
	keepPrograms(b.Specs[0], func(name string) bool { return !isIPv6(name) })
}

// ChangeSpec is the object of the programs that see interfaces come and move. They have no constants.
func (b *Blueprint) ChangeSpec() (*ebpf.CollectionSpec, error) {
	spec, err := bpfobj.LoadChange()
	if err != nil {
		return nil, fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	return spec, sizeMaps(spec, b.Options, b.Layout)
}
