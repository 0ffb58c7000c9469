// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a reader can still take in.
const (
	mostFileLines     = 500
	mostFunctionLines = 60
	mostFiles         = 30   // of a package, without tests
	mostPackageLines  = 4000 // the same
)

// over are files, functions and packages that are larger, with how much larger they may be. The
// list gets shorter only.
var over = map[string]int{
	"lab/test/e2e/intdecode.py lines":                 621,
	"cmd/bench/throughput.go throughput()":            61,
	"pkg/telemetry/collect/template_quote.go quote()": 81,
	"pkg/vnet/datapath/apply.go run()":                61,
	"pkg/vnet/datapath/plan.go prepare()":             62,
	"pkg/intwire lines":                               4300,
	"lab/test/oracle lines":                           4386,
	"pkg/vnet/rules/xt.go xtBits()":                   71,
}

// TestSizes: files, functions and packages stay so small that a reader can take them in.
func TestSizes(t *testing.T) {
	met := make(map[string]bool)
	check := func(what string, n, most int) {
		if n <= most {
			return
		}
		met[what] = true
		if n > over[what] {
			t.Errorf("%s: %d, at most %d (the list in this test says %d)", what, n, most, over[what])
		}
	}
	files, lines := make(map[string]int), make(map[string]int)
	for _, path := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		n := bytes.Count(text, []byte("\n"))
		check(path+" lines", n, mostFileLines)
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		if !strings.HasSuffix(path, "_test.go") {
			dir := filepath.Dir(path)
			files[dir]++
			lines[dir] += n
		}
		functions(t, path, text, check)
	}
	for dir := range files {
		check(dir+" files", files[dir], mostFiles)
		check(dir+" lines", lines[dir], mostPackageLines)
	}
	for what := range over {
		if !met[what] {
			t.Errorf("%s is small enough now: take it off the list", what)
		}
	}
}

// functions checks those of a Go file. Tests with a table may be long.
func functions(t *testing.T, path string, text []byte, check func(what string, n, most int)) {
	if strings.HasSuffix(path, "_test.go") {
		return
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1
			check(path+" "+fn.Name.Name+"()", n, mostFunctionLines)
		}
	}
}

// sources are the files in Go, C, Python, Lua and shell that somebody has written.
func sources(t *testing.T) (paths []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name == "testdata" || len(name) > 1 && name[0] == '.'):
			return fs.SkipDir
		case !d.IsDir() && slices.Contains(endings, filepath.Ext(name)) && !strings.HasSuffix(name, "_bpfel.go"):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

var endings = []string{".go", ".c", ".h", ".p4", ".py", ".lua", ".sh"}
