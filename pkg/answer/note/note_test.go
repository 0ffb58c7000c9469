// SPDX-License-Identifier: Apache-2.0

package note

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"
)

// Kinds has every type that is a Note, and each has a name of its own.
func TestKinds(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "note.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	types := make(map[string]bool)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "Kind" {
			types[fn.Recv.List[0].Type.(*ast.Ident).Name] = true
		}
	}
	if len(types) == 0 {
		t.Fatal("note.go has no kinds")
	}
	names := make(map[string]bool)
	for _, n := range Kinds {
		name := reflect.TypeOf(n).Name()
		if !types[name] {
			t.Errorf("%s is in Kinds twice, or its Kind is not in note.go", name)
		}
		delete(types, name)
		if names[n.Kind()] || n.Kind() == "" {
			t.Errorf("%s is called %q, as another", name, n.Kind())
		}
		names[n.Kind()] = true
	}
	for name := range types {
		t.Errorf("Kinds lacks %s", name)
	}
}
