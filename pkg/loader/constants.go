// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/fault"
)

// constPrefix is how the names of all constants begin that user space sets.
const constPrefix = "cfg_"

// SetConstants sets every constant of the object and notes it in used. One that
// is not in consts would silently keep its default: an error.
func SetConstants(spec *ebpf.CollectionSpec, consts map[string]any, used map[string]bool) error {
	for name, v := range spec.Variables {
		if !strings.HasPrefix(name, constPrefix) {
			continue
		}
		value, ok := consts[name]
		if !ok {
			return fault.NotLoaded.Errorf("the BPF object has a constant %s that radar does not set: rebuild radar", name)
		}
		if err := v.Set(value); err != nil {
			return fault.NotLoaded.Errorf("set constant %s: %w", name, err)
		}
		used[name] = true
	}
	return nil
}

// SetAll is SetConstants of a single object, which has all of consts.
func SetAll(spec *ebpf.CollectionSpec, consts map[string]any) error {
	used := make(map[string]bool)
	if err := SetConstants(spec, consts, used); err != nil {
		return err
	}
	return CheckUsed(consts, used)
}

// CheckUsed refuses constants that no object has: one was renamed.
func CheckUsed(consts map[string]any, used map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(consts)) {
		if !used[name] {
			return fault.NotLoaded.Errorf("no BPF object has the constant %s: rebuild radar", name)
		}
	}
	return nil
}
