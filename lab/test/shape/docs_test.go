// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestPathsInDocs: the files and folders that pages name are there. NAME and NN stand for any.
func TestPathsInDocs(t *testing.T) {
	form := regexp.MustCompile("`((?:bpf|cmd|docs|experiments|lab|p4|pkg)/[\\w./-]+)`")
	paths := 0
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range form.FindAllStringSubmatch(string(text), -1) {
			at := m[1]
			if strings.Contains(at, "NAME") || strings.Contains(at, "NN-") {
				continue
			}
			paths++
			if found, err := filepath.Glob(filepath.Join(root, at) + "*"); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", name, at)
			}
		}
	})
	if paths < 200 {
		t.Errorf("only %d paths: are they found?", paths)
	}
}

// TestDoors: what a row of docs/contributing.md names is where the row says. A path comes first; a bare file name is
// a file beside the path before it, a function is in one of the row's files.
func TestDoors(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/contributing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Where things are")
	table, _, _ = strings.Cut(table, "\n## ")
	folder := regexp.MustCompile(`^(bpf|cmd|docs|experiments|lab|p4|pkg)/`)
	rows := 0
	for _, row := range strings.Split(table, "\n") {
		rows++
		var dir string
		var source, functions []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row, -1) {
			name := m[1]
			switch {
			case strings.HasSuffix(name, "()"):
				functions = append(functions, name[strings.LastIndex(name, ".")+1:len(name)-1])
				continue
			case folder.MatchString(name):
				dir = path.Dir(name)
			case dir != "" && regexp.MustCompile(`^\w[\w.]*\.(c|h|go|js)$`).MatchString(name):
				name = path.Join(dir, name)
			default:
				continue
			}
			if b, err := os.ReadFile(filepath.Join(root, name)); err == nil {
				source = append(source, string(b))
			} else if info, err := os.Stat(filepath.Join(root, name)); err != nil || !info.IsDir() {
				t.Errorf("there is no %s: %s", name, row)
			}
		}
		for _, f := range functions {
			if len(source) > 0 && !strings.Contains(strings.Join(source, ""), f) {
				t.Errorf("%s) is in no file of its row: %s", f, row)
			}
		}
	}
	if rows < 60 {
		t.Errorf("only %d rows: are they found?", rows)
	}
}

// mostLines are pages that a reader should take in at once.
var mostLines = map[string]int{
	"README.md":      100,
	"docs/limits.md": 120,
}

// TestSizesOfDocs: the pages that everybody reads stay short.
func TestSizesOfDocs(t *testing.T) {
	pages := readPages(t)
	for name, most := range mostLines {
		p, ok := pages[name]
		if !ok {
			t.Errorf("%s is not there", name)
		} else if p.lines > most {
			t.Errorf("%s has %d lines, at most %d may be: move what is too fine to a page of its own", name, p.lines, most)
		}
	}
}

// TestLinksInDocs: whatever a Markdown page of the tree links to is there, and so is the
// heading behind "#".
func TestLinksInDocs(t *testing.T) {
	pages := readPages(t)
	links := 0
	for name, p := range pages {
		for _, link := range p.links {
			links++
			if err := p.follow(name, link, pages); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if len(pages) < 60 || links < 300 {
		t.Errorf("only %d links in %d pages: are they found?", links, len(pages))
	}
}

// TestEveryPageIsListed: docs/README.md leads to every page that is written by hand.
func TestEveryPageIsListed(t *testing.T) {
	pages := readPages(t)
	listed := make(map[string]bool)
	for _, link := range pages["docs/README.md"].links {
		file, _, _ := strings.Cut(link, "#")
		listed[path.Join("docs", file)] = true
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/cli/") && name != "docs/README.md" && !listed[name] {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}

// TestCountersInDocs: docs/reliability.md says of every counter what it counts.
func TestCountersInDocs(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	walk(t, func(name string) {
		if path.Base(name) != "counters.go" {
			return
		}
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\{Name: "(\w+)", (?:Help|Group):? `).FindAllSubmatch(source, -1) {
			names++
			if !bytes.Contains(page, []byte("`"+string(m[1])+"`")) {
				t.Errorf("docs/reliability.md does not say what the counter %s counts", m[1])
			}
		}
	})
	if names < 30 {
		t.Errorf("only %d counters: are they found?", names)
	}
}

// page is a Markdown file: its size, what it links to, and what links may name in it.
type page struct {
	lines   int
	links   []string
	anchors map[string]bool
}

var (
	linkForm   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	anchorForm = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	codeForm   = regexp.MustCompile("`[^`]*`")
	pageLink   = regexp.MustCompile(`\[([^\]]*)\]\([^()]*\)`)
)

// readPages reads all Markdown files of the tree, by their names.
func readPages(t *testing.T) map[string]page {
	pages := make(map[string]page)
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = parsePage(string(text))
	})
	return pages
}

// walk calls visit with each file of the tree that is no product of it.
func walk(t *testing.T, visit func(name string)) {
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch d.Name() {
		case ".git", ".cache", "bin", "__pycache__":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			name, err := filepath.Rel(root, at)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// parsePage finds links and anchors outside of code.
func parsePage(text string) page {
	p := page{lines: strings.Count(text, "\n"), anchors: make(map[string]bool)}
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if code {
			continue
		}
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			p.addAnchor(anchorOf(heading))
		}
		for _, m := range anchorForm.FindAllStringSubmatch(line, -1) {
			p.anchors[m[1]] = true
		}
		for _, m := range linkForm.FindAllStringSubmatch(codeForm.ReplaceAllString(line, "code"), -1) {
			p.links = append(p.links, m[1])
		}
	}
	return p
}

// addAnchor adds a heading's anchor; a second one of the same text has a number.
func (p *page) addAnchor(anchor string) {
	name := anchor
	for n := 1; p.anchors[name]; n++ {
		name = fmt.Sprintf("%s-%d", anchor, n)
	}
	p.anchors[name] = true
}

// anchorOf is what GitHub calls a heading in links: letters and digits in lower case, hyphens
// for spaces, nothing for all else.
func anchorOf(heading string) string {
	heading = pageLink.ReplaceAllString(strings.TrimSpace(heading), "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// follow says what is wrong with a link of the page of this name.
func (p page) follow(name, link string, pages map[string]page) error {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return nil
	}
	file, anchor, hasAnchor := strings.Cut(link, "#")
	target := name
	if file != "" {
		target = path.Join(path.Dir(name), file)
	}
	if _, err := os.Stat(filepath.Join(root, target)); err != nil {
		return fmt.Errorf("link %s: %s is not there", link, target)
	}
	if hasAnchor && !pages[target].anchors[anchor] {
		return fmt.Errorf("link %s: %s has no heading #%s", link, target, anchor)
	}
	return nil
}
