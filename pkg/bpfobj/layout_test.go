// SPDX-License-Identifier: Apache-2.0

package bpfobj_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

var update = flag.Bool("update", false, "write the layouts in testdata anew")

// TestObjects: the table has every object that is built.
func TestObjects(t *testing.T) {
	built, err := filepath.Glob("*_x86_bpfel.o")
	if err != nil || len(built) == 0 {
		t.Fatalf("%v: %v", built, err)
	}
	var listed []string
	for _, o := range bpfobj.Objects {
		listed = append(listed, o.Name+"_x86_bpfel.o")
		source := filepath.Join("../../bpf", o.System)
		if _, err := os.Stat(source); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(listed)
	if !slices.Equal(listed, built) {
		t.Errorf("the table has %v, there are %v", listed, built)
	}
}

// TestVersion: programs of one radar write maps that another one reads, as long as both have the same version: that of
// the system's description. What a map and the description hold must not change without that number.
func TestVersion(t *testing.T) {
	for _, s := range []struct {
		name        string // as in Object.System
		file        string
		number      string // the constant
		version     int
		prefix      string // of its types
		description reflect.Type
	}{
		{"backpack", "layout.txt", "domain.Version", domain.Version, "rdr_", reflect.TypeFor[domain.Domain]()},
		{"int", "int.txt", "node.Version", node.Version, "int_", reflect.TypeFor[node.Domain]()},
	} {
		t.Run(s.name, func(t *testing.T) {
			got := fmt.Sprintf("version %d\n", s.version)
			for _, o := range bpfobj.Objects {
				if o.System == s.name && o.Pinned {
					got += layouts(t, o, s.prefix, got)
				}
			}
			got += "description\n" + fields(s.description, s.description.PkgPath(), "\t")
			compare(t, filepath.Join("testdata", s.file), got, s.number)
		})
	}
	for _, o := range bpfobj.Objects {
		if o.Pinned && o.System != "backpack" && o.System != "int" {
			t.Errorf("object %s has pinned maps, and nothing holds their layout", o.Name)
		}
	}
}

// layouts are the maps of an object, and its types with that prefix, that are not known.
func layouts(t *testing.T, o bpfobj.Object, prefix, known string) string {
	t.Helper()
	spec, err := o.Load()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for name, m := range spec.Maps {
		// Maps of constants are not pinned.
		if line := fmt.Sprintf("map %s: %s, key %d bytes, value %d bytes\n", name, m.Type, m.KeySize, m.ValueSize); name[0] != '.' && !strings.Contains(known, line) {
			lines = append(lines, line)
		}
	}
	for typ, err := range spec.Types.All() {
		if err != nil {
			t.Fatal(err)
		}
		if line := layout(typ); strings.HasPrefix(typ.TypeName(), prefix) && !strings.Contains(known, line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// compare fails if a layout is another one than the file says. number is the constant that is to be raised then.
func compare(t *testing.T, path, got, number string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	now, before := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range now {
		if i >= len(before) || now[i] != before[i] {
			t.Fatalf("line %d of %s would be %q: raise %s, unless that was done since the last release, "+
				"then run: go test ./pkg/bpfobj -update", i+1, path, now[i], number)
		}
	}
	t.Fatalf("%s has %d lines too many: raise %s as above", path, len(before)-len(now), number)
}

// layout lists members, with offset and size in bytes, or the values of an enum.
func layout(typ btf.Type) string {
	var b strings.Builder
	switch typ := typ.(type) {
	case *btf.Struct:
		fmt.Fprintf(&b, "struct %s, %d bytes\n", typ.Name, typ.Size)
		members(&b, typ.Members, "\t")
	case *btf.Enum:
		fmt.Fprintf(&b, "enum %s\n", typ.Name)
		for _, v := range typ.Values {
			fmt.Fprintf(&b, "\t%s = %d\n", v.Name, v.Value)
		}
	}
	return b.String()
}

func members(b *strings.Builder, list []btf.Member, indent string) {
	for _, m := range list {
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			size = -1
		}
		fmt.Fprintf(b, "%s%d: %s, %d bytes", indent, m.Offset.Bytes(), m.Name, size)
		if m.BitfieldSize > 0 {
			fmt.Fprintf(b, ", bits %d+%d", uint32(m.Offset)%8, m.BitfieldSize)
		}
		b.WriteString("\n")
		switch inner := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			members(b, inner.Members, indent+"\t")
		case *btf.Union:
			members(b, inner.Members, indent+"\t")
		}
	}
}

// fields lists what a type of that package is in JSON.
func fields(typ reflect.Type, pkg, indent string) string {
	for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != pkg {
		return ""
	}
	var b strings.Builder
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fmt.Fprintf(&b, "%s%s: %s\n%s", indent, name, f.Type, fields(f.Type, pkg, indent+"\t"))
	}
	return b.String()
}
