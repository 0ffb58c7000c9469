// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// speakFlags are packages and files of pkg in which flags are no message of radar's, and texts in
// which they are another program's. The list gets shorter only.
var speakFlags = map[string]bool{
	"pkg/vnet/rules/iptables.go": true, // reads rules of iptables
	"--net=":                     true, // of nsenter
	"--org %q --name":            true, // of influx
	"--pid=host --cgroupns":      true, // of docker
	"--privileged --pid=host":    true, // of docker
	"radar export int":           true, // what writes reports of a profile
}

// TestTextsOfLibraries: no library writes flags and commands as the command line does. Others use
// it, too, and name settings and commands in other ways: see pkg/fault.
func TestTextsOfLibraries(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/cli/radar_*.md"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages of commands (%v)", len(pages), err)
	}
	verbs := make([]string, len(pages))
	for i, page := range pages {
		verbs[i], _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSuffix(filepath.Base(page), ".md"), "radar_"), "_")
	}
	cli := regexp.MustCompile(`--[a-z]|\bradar (` + strings.Join(verbs, "|") + `)\b`)
	met := make(map[string]bool)
	for _, path := range sources(t) {
		if !strings.HasPrefix(path, "pkg/") || strings.HasPrefix(path, "pkg/cli/") || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, text := range literals(t, path) {
			if !cli.MatchString(text) {
				continue
			}
			excused := false
			for e := range speakFlags {
				if strings.HasPrefix(path, e) || strings.Contains(text, e) {
					met[e], excused = true, true
				}
			}
			if !excused {
				t.Errorf("%s: name settings as ‹slots› and commands as «lab list» (pkg/fault): %s", path, text)
			}
		}
	}
	for e := range speakFlags {
		if !met[e] {
			t.Errorf("%s: take it off the list", e)
		}
	}
}

// literals are the string literals of a Go file.
func literals(t *testing.T, path string) (texts []string) {
	t.Helper()
	code, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			texts = append(texts, l.Value)
		}
		return true
	})
	return texts
}
