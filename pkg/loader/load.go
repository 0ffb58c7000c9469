// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// Load loads an object into the kernel. Those of its maps that have the name of a shared one are that map, which stays
// its owner's; the others are new. The caller closes the collection. Error and WatchError say what a failure means.
func Load(spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map) (*ebpf.Collection, error) {
	if err := RaiseMemlock(); err != nil {
		return nil, err
	}
	used := make(map[string]*ebpf.Map)
	for name := range spec.Maps {
		if m := shared[name]; m != nil && !Own(name) {
			used[name] = m
		}
	}
	return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: used, Cache: kernel.Types()})
}

// Own reports whether each object has a map of this name for itself: the constants and variables of its programs.
func Own(name string) bool { return name != "" && name[0] == '.' }
