// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestPathsInDocs: the files and folders that docs/contributing.md names are there.
func TestPathsInDocs(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/contributing.md")
	if err != nil {
		t.Fatal(err)
	}
	paths := regexp.MustCompile("`((?:bpf|cmd|docs|lab|pkg)/[^`* ]+)`").FindAllStringSubmatch(string(text), -1)
	if len(paths) < 20 {
		t.Fatalf("only %d paths", len(paths))
	}
	for _, p := range paths {
		if _, err := os.Stat(filepath.Join(root, p[1])); err != nil {
			t.Errorf("docs/contributing.md: %v", err)
		}
	}
}
