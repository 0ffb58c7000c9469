// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestMessages: what libraries say of settings and commands, as the command line shows it. Each is
// one that there is.
func TestMessages(t *testing.T) {
	root := newRootCmd(kit.New(nil, nil, nil))
	flags := make(map[string]bool)
	eachFlag(root, flags)
	setting, command := regexp.MustCompile(`‹(.*?)›`), regexp.MustCompile(`«([a-z ]*[a-z])`)
	var lines []string
	for _, m := range libraryTexts(t) {
		for _, s := range setting.FindAllStringSubmatch(m.text, -1) {
			if !flags[s[1]] {
				t.Errorf("%s: no flag is called %q: %s", m.path, s[1], m.text)
			}
		}
		for _, c := range command.FindAllStringSubmatch(m.text, -1) {
			if found, rest, err := root.Find(strings.Fields(c[1])); err != nil || len(rest) > 0 || found == root {
				t.Errorf("%s: there is no command %q: %s", m.path, c[1], m.text)
			}
		}
		line := kit.Face.Render(m.text)
		if strings.ContainsAny(line, "‹›«»") {
			t.Errorf("%s: marks that are none: %s", m.path, m.text)
		}
		lines = append(lines, strconv.Quote(line)+"\n")
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	clitest.Golden(t, "messages.golden", []byte(strings.Join(lines, "")))
}

func eachFlag(cmd *cobra.Command, names map[string]bool) {
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	}
	for _, child := range cmd.Commands() {
		eachFlag(child, names)
	}
}

type libraryText struct{ path, text string }

// libraryTexts are the string literals of libraries that name settings or commands.
func libraryTexts(t *testing.T) (texts []libraryText) {
	const libraries = "../../pkg"
	err := filepath.WalkDir(libraries, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "fault" ||
			strings.HasPrefix(path, libraries+"/cli/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		short, err := filepath.Rel(libraries, path)
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && strings.ContainsAny(l.Value, "‹«") && !strings.HasPrefix(l.Value, "`") {
				text, _ := strconv.Unquote(l.Value)
				texts = append(texts, libraryText{short, text})
			}
			return true
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
