// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// loadLater loads an object into the domain, whose maps it uses. The caller closes it.
func (h *Handle) loadLater(spec *ebpf.CollectionSpec) (*ebpf.Collection, error) {
	shared := make(map[string]*ebpf.Map)
	for name := range spec.Maps {
		if loader.Own(name) {
			continue // the constants, its own
		}
		m, err := domain.Kind.OpenMap(h.Domain.Name, name)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		shared[name] = m
	}
	return loader.Load(spec, shared)
}
