// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

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

// section of a page that make bench-record writes: its name, and the line that says where
// the figures are from.
var section = regexp.MustCompile(`(?m)^<!-- ([a-z0-9-]+) -->\n\n(.*)$`)

// CheckRecorded fails if figures of pages are of other programs than these objects have.
func CheckRecorded(pages []string, objects ...Object) error {
	ours, err := Programs(objects...)
	if err != nil {
		return err
	}
	var errs []error
	for _, page := range pages {
		errs = append(errs, checkPage(page, ours))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nbpf/ has changed since its cost was measured: run make bench, then make bench-record", err)
	}
	return nil
}

// checkPage lists the sections whose head does not name the programs.
func checkPage(page, programs string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read recorded figures: %w", err)
	}
	found := section.FindAllStringSubmatch(string(text), -1)
	if len(found) == 0 {
		return fmt.Errorf("%s has no section with figures", page)
	}
	ours := regexp.MustCompile(`, programs ` + programs + `\b`)
	var others []string
	for _, s := range found {
		if !ours.MatchString(s[2]) {
			others = append(others, s[1])
		}
	}
	if others == nil {
		return nil
	}
	return fmt.Errorf("%s: figures are of other programs than these (%s): %s", page, programs, strings.Join(others, ", "))
}
