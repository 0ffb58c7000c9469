// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/intwire"
)

const messagesFile = "testdata/messages.golden"

// TestMessages: what libraries say of settings and commands, as the command line shows it. Each is
// one that there is.
func TestMessages(t *testing.T) {
	root := newRootCmd(newApp(nil, nil, nil))
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
		line := face.Render(m.text)
		if strings.ContainsAny(line, "‹›«»") {
			t.Errorf("%s: marks that are none: %s", m.path, m.text)
		}
		lines = append(lines, strconv.Quote(line)+"\n")
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if *update {
		if err := os.WriteFile(messagesFile, []byte(strings.Join(lines, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(messagesFile)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Collect(strings.Lines(string(file)))
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("%s says otherwise (-), -update writes it anew:\n%s", messagesFile, diff)
	}
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
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "fault" {
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

// An error is shown as a whole, whatever it was wrapped into, and so is what came from another
// process, as an agent's reason not to start.
func TestErrorsAreRendered(t *testing.T) {
	usage := fault.Usage.Errorf("‹slots› %d: use fewer", 3)
	for _, c := range []struct {
		err  error
		want string
		code int
	}{
		{fmt.Errorf("attach: %w (finish with: «detach ‹domain› red»)", usage), "radar: attach: --slots 3: use fewer (finish with: radar detach --domain red)\nRun 'radar --help' for usage.\n", exitUsage},
		{errors.Join(errors.New("see «check»"), usage), "radar: see radar check\n--slots 3: use fewer\nRun 'radar --help' for usage.\n", exitUsage},
		{withCode(exitLoad, errors.New(usage.Error())), "radar: --slots 3: use fewer\n", exitLoad},
	} {
		var stdout, stderr strings.Builder
		a := newApp(nil, &stdout, &stderr)
		if code := a.finish(&cobra.Command{Use: "radar"}, c.err); code != c.code || stderr.String() != c.want || stdout.Len() > 0 {
			t.Errorf("%q: code %d, %q, want %d, %q", c.err, code, stderr.String(), c.code, c.want)
		}
	}
}

// Texts that go to standard output, as a table or as JSON, are rendered before.
func TestViewsAreRendered(t *testing.T) {
	const marked, want = "see «check», or use fewer ‹slots›", "see radar check, or use fewer --slots"
	counters := []datapath.Counter{{Name: "x", Value: 1, Help: marked}}
	for name, print := range map[string]func(*app) error{
		"attach": func(a *app) error {
			d := &domain.Domain{Nodes: []domain.Node{{Name: "n", Header: marked}}}
			return a.printAttached(newAttachView(&datapath.AttachResult{Domain: d, Warnings: []string{marked}}, true))
		},
		"check":    func(a *app) error { return a.check([]datapath.Check{{Detail: marked, Fix: marked}}) },
		"counters": func(a *app) error { return printJSON(a.out, counterViews(counters)) },
		"int": func(a *app) error {
			a.lookupEnv = os.LookupEnv
			m := &intwire.Message{Anomalies: []intwire.Anomaly{{Code: intwire.OtherUnits}}}
			return errors.Join(a.printINTJSON(m), a.printINT(m))
		},
		"summary": func(a *app) error {
			return a.printSummary(&agent.Summary{Warnings: []string{marked}, Counters: counters}, agent.Interrupted)
		},
	} {
		for _, format := range []outputFormat{formatTable, formatWide, formatJSON} {
			text := string(printed(t, format, print))
			if strings.ContainsAny(text, "‹›«»") {
				t.Errorf("%s, %s: not rendered: %s", name, format, text)
			}
			if name != "int" && !strings.Contains(text, want) {
				t.Errorf("%s, %s: no %q in %s", name, format, want, text)
			}
		}
	}
}
