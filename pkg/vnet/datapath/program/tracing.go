// SPDX-License-Identifier: Apache-2.0

package program

import (
	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

func loadLosses() (*ebpf.CollectionSpec, error) { return loadTrace(bpfobj.TraceProgRadarKfreeSkb) }

// loadTrace returns the object of tracing programs with one of them.
func loadTrace(name string) (*ebpf.CollectionSpec, error) {
	spec, err := bpfobj.LoadTrace()
	if err != nil {
		return nil, err
	}
	keepPrograms(spec, func(other string) bool { return other == name })
	return spec, nil
}
