// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestIndependence: the oracle shares no code with what it judges.
func TestIndependence(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source files: %v", err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if strings.Contains(path, "vnetradar/radar/") && !strings.HasSuffix(path, "/pkg/record") || strings.Contains(path, "cilium/ebpf") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}
