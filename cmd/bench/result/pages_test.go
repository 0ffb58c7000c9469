// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// The pages say what the recorded run does, sentence by sentence.
func TestPagesAreCurrent(t *testing.T) {
	pages, err := madePages(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what %s makes (write it with: make bench-pages): %v", name, recordedFile, err)
		}
	}
}

// Another run makes other sentences and tables, and another number of targets that are not reached; a run that is not
// whole makes none.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	for _, name := range append(slices.Clone(recordedPages), recordedFile) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Read(filepath.Join(dir, recordedFile))
	if err != nil {
		t.Fatal(err)
	}
	save := func(change func(*Report)) string {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		other := new(Report)
		if err := json.Unmarshal(text, other); err != nil {
			t.Fatal(err)
		}
		change(other)
		file := filepath.Join(t.TempDir(), "bench.json")
		if err := other.Save(file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	wanted, err := Sections(root)
	if err != nil || len(wanted) < 15 {
		t.Fatal(wanted, err)
	}
	whole := func(other *Report) {
		for _, name := range wanted {
			if other.measured(name) == nil {
				other.Benchmarks = append(other.Benchmarks, &Measured{Name: name})
			}
		}
	}
	missed := r.targets().Missed
	if missed == 0 {
		t.Fatal("all targets are reached: this test makes one of them be so")
	}
	file := save(func(other *Report) {
		whole(other)
		other.Commit = "0123abcd"
		f, err := other.figure("gso", "of the floor's", "radar")
		if err != nil {
			t.Fatal(err)
		}
		*f = *Of(Times, []float64{1.23, 1.25, 1.27})
	})
	if err := Record(dir, file); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"docs/performance.md":         "train costs 1.25x (1.23-1.27)",
		"docs/results/performance.md": "commit 0123abcd",
		"README.md":                   fmt.Sprintf("**%d do not reach it**", missed-1),
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q: %v", name, want, err)
		}
	}
	for want, change := range map[string]func(*Report){
		"hooks was not measured": func(other *Report) {
			whole(other)
			other.Benchmarks = slices.DeleteFunc(other.Benchmarks, func(m *Measured) bool { return m.Name == "hooks" })
		},
		"gso failed: no": func(other *Report) { whole(other); other.measured("gso").Error = "no" },
		"short run":      func(other *Report) { whole(other); other.Short = true },
	} {
		if err := Record(dir, save(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}
