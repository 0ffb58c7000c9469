// SPDX-License-Identifier: Apache-2.0

package bpfobj_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

var update = flag.Bool("update", false, "write testdata/layout.txt anew")

// TestVersion: programs of one radar write maps that another one reads, as long as both
// have the same domain.Version. What a map and the description hold must not change without
// that number.
func TestVersion(t *testing.T) {
	const path = "testdata/layout.txt"
	got := fmt.Sprintf("version %d\n", domain.Version)
	for _, load := range []func() (*ebpf.CollectionSpec, error){bpfobj.LoadTc, bpfobj.LoadTrace, bpfobj.LoadDeliver, bpfobj.LoadChange} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for name, m := range spec.Maps {
			// Maps of constants are not pinned.
			if line := fmt.Sprintf("map %s: %s, key %d bytes, value %d bytes\n", name, m.Type, m.KeySize, m.ValueSize); name[0] != '.' && !strings.Contains(got, line) {
				lines = append(lines, line)
			}
		}
		for typ, err := range spec.Types.All() {
			if err != nil {
				t.Fatal(err)
			}
			if line := layout(typ); strings.HasPrefix(typ.TypeName(), "rdr_") && !strings.Contains(got, line) {
				lines = append(lines, line)
			}
		}
		slices.Sort(lines)
		got += strings.Join(lines, "")
	}
	got += "description\n" + fields(reflect.TypeFor[domain.Domain](), "\t")
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
			t.Fatalf("line %d of %s would be %q: raise domain.Version, unless that was done since the last release, "+
				"then run: go test ./pkg/bpfobj -update", i+1, path, now[i])
		}
	}
	t.Fatalf("%s has %d lines too many: raise domain.Version as above", path, len(before)-len(now))
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

// fields lists what a type is in JSON.
func fields(typ reflect.Type, indent string) string {
	for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[domain.Domain]().PkgPath() {
		return ""
	}
	var b strings.Builder
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fmt.Fprintf(&b, "%s%s: %s\n%s", indent, name, f.Type, fields(f.Type, indent+"\t"))
	}
	return b.String()
}
