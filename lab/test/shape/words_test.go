// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// worn are words that say less than the field's: path or route, report or say, check, fix, outcome; "reports whether" for
// "says whether". A sentence begins with its subject, not with "Of X".
var worn = regexp.MustCompile(`\b(?:[Ww]ays?|[Tt]old|[Tt]ells?|[Tt]elling|[Jj]udge[sd]?|[Mm]end(?:s|ed)?|[Ff]ates?|[Pp]assages?|says whether)\b|(?:^|[.:;] |// |\* )Of [a-z]`)

// plain are folders whose comments and pages have at most so many lines with them.
var plain = map[string]int{
	"bpf/backpack": 0, "bpf/bench": 0, "bpf/collect": 0, "bpf/dut": 0, "bpf/int": 0, "bpf/lib": 0, "docs": 5, "lab/test/oracle": 0, "lab/test/transparency": 0,
	"pkg/figure": 0, "pkg/filter": 0, "pkg/host": 0, "pkg/intwire": 1, "pkg/lab": 0, "pkg/packet": 0, "pkg/record": 0, "pkg/recorder": 0, "pkg/steer": 0,
	"pkg/store/recording": 0, "pkg/store/segments": 0, "pkg/telemetry/control": 0, "pkg/telemetry/metrics": 1, "pkg/telemetry/xdp": 0, "pkg/vnet/backpack": 0,
	"pkg/vnet/rules": 0, "pkg/vnet/selector": 0,
}

// TestWords: comments and pages use the field's words. Counts only fall, and more folders come.
func TestWords(t *testing.T) {
	found := make(map[string][]string)
	walk(t, func(name string) {
		folder, ok := longest(indexed(plain), name)
		if !ok {
			return
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(b), "\n") {
			if text := prose(name, line); worn.MatchString(text) {
				found[folder] = append(found[folder], name+": "+strings.TrimSpace(text))
			}
		}
	})
	for folder, most := range plain {
		if n := len(found[folder]); n > most {
			t.Errorf("%s has %d lines with words that say too little, at most %d may be:\n%s", folder, n, most, strings.Join(found[folder], "\n"))
		}
	}
}

// indexed gives each folder its own name, as longest finds values.
func indexed(of map[string]int) map[string]string {
	all := make(map[string]string)
	for folder := range of {
		all[folder] = folder
	}
	return all
}

// prose is what a line of a page, or the comment of a line of source, says beside code; "" of pages that programs write, in part or as a whole.
func prose(name, line string) string {
	switch filepath.Ext(name) {
	case ".go":
		_, line, _ = strings.Cut(line, "//")
		return "// " + strings.TrimSpace(line)
	case ".c", ".h":
		if i := strings.Index(line, "/*"); i >= 0 {
			return "// " + strings.Trim(line[i:], "/* ")
		}
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "* "); ok {
			return text
		}
	case ".md":
		made := []string{"docs/cli/", "docs/design/", "docs/results/", "docs/experiments.md", "docs/performance.md"}
		if !slices.ContainsFunc(made, func(of string) bool { return strings.HasPrefix(name, of) }) && !strings.HasPrefix(line, "    ") {
			return codeForm.ReplaceAllString(line, "")
		}
	}
	return ""
}
