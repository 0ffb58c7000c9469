// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/vnetradar/radar/cmd/bench/origin"
)

// Where the figures of a release are, and the pages that are made of them, in the tree's root. Sections of pages that are
// named as a benchmark have what it found, and those that are named as a template of summary.tmpl a text with figures. Other
// sections of README.md are not ours.
const (
	recordedFile = "docs/results/performance.json"
	readme       = "README.md"
)

var recordedPages = []string{"docs/performance.md", "docs/results/performance.md", readme}

//go:embed summary.tmpl
var summaryText string

// section of a page: everything between its two marks.
var section = regexp.MustCompile(`(?ms)^<!-- ([a-z0-9-]+) -->\n.*?^<!-- /([a-z0-9-]+) -->$`)

// Record makes a run the recorded one, and the pages anew. One that lacks a benchmark is none: text and tables would
// speak of different runs.
func Record(root, file string) error {
	r, err := Read(file)
	if err != nil {
		return err
	}
	wanted, err := Sections(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range wanted {
		switch m := r.measured(name); {
		case m == nil:
			errs = append(errs, fmt.Errorf("%s: %s was not measured", file, name))
		case m.Error != "":
			errs = append(errs, fmt.Errorf("%s: %s failed: %s", file, name, m.Error))
		}
	}
	if r.Short {
		errs = append(errs, fmt.Errorf("%s: a short run, its figures are rough", file))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := r.Save(filepath.Join(root, recordedFile)); err != nil {
		return err
	}
	return WritePages(root)
}

// Sections are the names of benchmarks that the pages have sections of.
func Sections(root string) (names []string, err error) {
	texts, err := template.New("").Funcs(new(Report).functions()).Parse(summaryText)
	if err != nil {
		return nil, err
	}
	for _, page := range recordedPages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, err
		}
		for _, marks := range section.FindAllSubmatch(text, -1) {
			if name := string(marks[1]); page != readme && name != targetsName && texts.Lookup(name) == nil {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// WritePages writes what the recorded run says into the pages.
func WritePages(root string) error {
	pages, err := madePages(root)
	if err != nil {
		return err
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// madePages are the pages as the recorded run makes them.
func madePages(root string) (map[string][]byte, error) {
	r, err := Read(filepath.Join(root, recordedFile))
	if err != nil {
		return nil, err
	}
	r.Compare()
	texts, err := template.New("").Funcs(r.functions()).Parse(summaryText)
	if err != nil {
		return nil, err
	}
	pages := make(map[string][]byte)
	for _, page := range recordedPages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, err
		}
		var errs []error
		pages[page] = section.ReplaceAllFunc(text, func(old []byte) []byte {
			marks := section.FindSubmatch(old)
			name, end := string(marks[1]), string(marks[2])
			if page == readme && texts.Lookup(name) == nil {
				return old
			}
			text, err := r.section(texts, name)
			if name != end {
				err = fmt.Errorf("section %s ends as %s", name, end)
			}
			if err != nil {
				errs = append(errs, err)
			}
			return fmt.Appendf(nil, "<!-- %s -->\n\n%s\n\n<!-- /%s -->", name, text, name)
		})
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
	}
	return pages, nil
}

// functions are what summary.tmpl calls.
func (r *Report) functions() template.FuncMap {
	return template.FuncMap{
		"figure": r.figure, "of": quotient, "median": medianOf, "targets": r.targets, "header": r.Header,
	}
}

// section is the text of a section of a page.
func (r *Report) section(texts *template.Template, name string) (string, error) {
	var b bytes.Buffer
	if t := texts.Lookup(name); t != nil {
		err := t.Execute(&b, nil)
		return wrapped(b.String()), err
	}
	m := r.measured(name)
	if m == nil {
		return fmt.Sprintf("Not in the recorded run: `make bench BENCH=%s` measures it.", name), nil
	}
	err := m.Write(&b)
	return fmt.Sprintf("%s:\n\n```\n%s```", r.Header(), b.String()), err
}

// wrapped breaks paragraphs and items of a list into lines of the pages' width: figures are of different lengths.
func wrapped(text string) string {
	const width = 116
	var out []string
	open := false // the last line goes on
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, "- ") {
			open = false
		}
		words := strings.Fields(line)
		if len(words) == 0 {
			out, open = append(out, ""), false
		}
		for _, word := range words {
			last := len(out) - 1
			switch {
			case !open:
				out, open = append(out, word), true
			case len(out[last])+1+len(word) <= width:
				out[last] += " " + word
			case out[last][0] == '-' || out[last][0] == ' ':
				out = append(out, "  "+word)
			default:
				out = append(out, word)
			}
		}
	}
	return strings.Join(out, "\n")
}

// measured is what a benchmark found; nil: it was not run.
func (r *Report) measured(name string) *Measured {
	for _, m := range r.Benchmarks {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// figure is the one of a benchmark's row and column, in the first table that has both.
func (r *Report) figure(bench, row, column string) (*Figure, error) {
	m := r.measured(bench)
	if m == nil {
		return nil, fmt.Errorf("no benchmark %s in the run", bench)
	}
	for _, t := range m.Tables {
		c := slices.Index(t.Columns, column) - 1
		for _, line := range t.Rows {
			if line.Name == row && c >= 0 && c < len(line.Cells) && line.Cells[c].Figure != nil {
				return line.Cells[c].Figure, nil
			}
		}
	}
	return nil, fmt.Errorf("benchmark %s has no figure in row %q, column %q", bench, row, column)
}

// quotient says how many times one figure another one is.
func quotient(a, b *Figure) string { return fmt.Sprintf("%.2fx", a.Median/b.Median) }

// medianOf is a figure without what the rounds around its median gave.
func medianOf(f *Figure) string { return Of(f.Unit, []float64{f.Median}).String() }

// reachedTargets are the numbers of targets, and what those are about that were not reached.
type reachedTargets struct {
	All, Missed int
	Names       []string
}

func (r *Report) targets() (t reachedTargets) {
	for _, target := range targets {
		f, _ := target.figure(r)
		if f == nil {
			continue
		}
		t.All++
		if !target.reached(f) {
			t.Missed++
			t.Names = append(t.Names, target.what)
		}
	}
	return t
}

// CheckRecorded fails if the recorded figures are of other programs than these objects have.
func CheckRecorded(root string, objects ...origin.Object) error {
	r, err := Read(filepath.Join(root, recordedFile))
	if err != nil {
		return err
	}
	ours, err := origin.Programs(objects...)
	if err != nil {
		return err
	}
	if r.Programs != ours {
		return fmt.Errorf("%s: figures are of the programs %s, not of these (%s)\nbpf/ has changed since its cost was measured: run make bench, then make bench-record", recordedFile, r.Programs, ours)
	}
	return nil
}
