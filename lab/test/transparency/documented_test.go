// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumented: docs/transparency.md has a row for every case, with its result, and for no
// other (lab/test/transparency/table.sh writes it).
func TestDocumented(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "transparency.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\| \d+ \| (\S+) \| (.*) \|$`).FindAllStringSubmatch(string(b), -1) {
		rows[m[1]] = m[2]
	}
	for i := range cases {
		c := &cases[i]
		row, ok := rows[c.Name]
		delete(rows, c.Name)
		switch {
		case !ok:
			t.Errorf("docs/transparency.md has no row for %s: run lab/test/transparency/table.sh", c.Name)
		case !strings.Contains(row, "ok: ") || strings.Contains(row, "needs ") || strings.Contains(row, failed):
			t.Errorf("docs/transparency.md has no result for %s: %s", c.Name, row)
		}
		for _, l := range c.Limits {
			if ok && !strings.Contains(row, l.Text) {
				t.Errorf("docs/transparency.md: the row of %s does not say what is known: %s", c.Name, l.Text)
			}
		}
	}
	for name := range rows {
		t.Errorf("docs/transparency.md has a row for %s, which is no case", name)
	}
}
