// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
)

// Object loads one that figures depend on.
type Object = func() (*ebpf.CollectionSpec, error)

// Programs names the programs of objects. The name changes with their instructions, maps
// and constants, and not with comments, whose place in the source is in the debug
// information.
func Programs(objects ...Object) (string, error) {
	sum := sha256.New()
	for _, load := range objects {
		spec, err := load()
		if err != nil {
			return "", fmt.Errorf("read the programs: %w", err)
		}
		addObject(sum, spec)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:4]), nil
}

func addObject(sum hash.Hash, spec *ebpf.CollectionSpec) {
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		p := spec.Programs[name]
		fmt.Fprintln(sum, name, p.Type, p.AttachType, p.AttachTo)
		for _, i := range p.Instructions {
			fmt.Fprintln(sum, i.OpCode, i.Dst, i.Src, i.Offset, i.Constant, i.Reference())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		m := spec.Maps[name]
		fmt.Fprintln(sum, name, m.Type, m.KeySize, m.ValueSize, m.MaxEntries, m.Flags, m.Contents)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Variables)) {
		fmt.Fprintln(sum, name, spec.Variables[name].Value)
	}
}
